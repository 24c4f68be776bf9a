"""Texts as points: against counts by hand, and the singular vectors of dense algebra."""

from __future__ import annotations

import zlib

import numpy as np
import pandas as pd
import pytest

from stratagp.data import TableEncoder
from stratagp.data.ngrams import _BUCKETS, Ngrams

rng = np.random.default_rng(0)
TEXTS = ["".join(rng.choice(list("CNO=()c1"), rng.integers(1, 12))) for _ in range(30)] + ["two Words", ""]


def counted(text: str) -> np.ndarray:
    """The counts of one text, written out."""
    found = np.zeros(_BUCKETS)
    grams = [text[i : i + n] for n in (1, 2, 3) for i in range(len(text)) if i + n <= len(text)]
    grams += [" two", " words"] if text == "two Words" else []
    for gram in grams:
        found[zlib.crc32(gram.encode()) % _BUCKETS] += 1
    return np.log(1 + found)


def test_points_are_the_principal_directions_of_log_counts():
    dense = np.stack([counted(text) for text in TEXTS])
    s = np.linalg.svd(dense, compute_uv=False)
    points = Ngrams.learnt(TEXTS)(TEXTS)
    np.testing.assert_array_equal(points[:, 0], [len(text) for text in TEXTS])
    np.testing.assert_allclose(np.linalg.norm(points[:, 1:], axis=0)[:10], s[:10], rtol=1e-4)  # in single precision
    np.testing.assert_allclose(points[:, 1:] @ points[:, 1:].T, dense @ dense.T, atol=1e-3)  # all 31 that there are


def test_a_new_text_is_the_same_point_in_any_company():
    ngrams = Ngrams.learnt(TEXTS)
    np.testing.assert_allclose(ngrams(["CCO", "unseen ü"])[1], ngrams(["unseen ü"])[0], atol=1e-12)


def test_a_lone_surrogate_is_a_letter_like_others():
    assert np.isfinite(Ngrams.learnt(TEXTS)(["a\ud800b"])).all()


def frame() -> pd.DataFrame:
    return pd.DataFrame({"size": np.arange(32.0), "note": TEXTS, "town": ["Bonn", "Oslo"] * 16})


def test_the_encoder_puts_points_where_the_column_of_texts_stands():
    encoder = TableEncoder(texts=["note"]).fit(frame())
    values = encoder.transform(frame()).values
    np.testing.assert_allclose(values[:, 1:-2], Ngrams.learnt(TEXTS)(TEXTS), atol=1e-12)
    assert encoder.is_categorical == [False, False, True]
    assert encoder.source == [0, *[1] * 32, 2, 2]
    assert encoder.nearly_unique == {}


def test_texts_are_recognised_by_how_many_differ():
    assert list(TableEncoder(texts="auto").fit(frame()).ngrams) == ["note"]
    assert list(TableEncoder(texts="auto", categorical=["note", "town"]).fit(frame()).ngrams) == []


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_a_missing_text_is_an_empty_one(gap):
    encoder = TableEncoder(texts=["note"]).fit(frame())
    new = frame().iloc[:2].assign(note=[gap, ""])
    first, second = encoder.transform(new.assign(size=0.0, town="Bonn")).values
    np.testing.assert_array_equal(first, second)
