"""Frames with columns of objects, and with kernels for some of their columns."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import DFGPRegressor, GPDRFRegressor, GPRegressor
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abcd"), size=8)) for _ in range(120)]
SHARE = np.array([word.count("a") / 8 for word in WORDS])
FRAME = pd.DataFrame({"size": RNG.normal(size=120), "word": WORDS, "area": RNG.normal(size=120)})
Y = 4 * SHARE + np.sin(FRAME["area"].to_numpy())


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys need no thousands of steps."""
    make_steps(monkeypatch, 80)


def small(view_kernels: Any, **given: Any) -> GPDRFRegressor:
    options = {"n_processes": 2, "n_inducing": 30, "n_layers": 1, "n_features": 20, "max_epochs": 40, "random_state": 0}
    return GPDRFRegressor(view_kernels=view_kernels, **{**options, **given})


@pytest.fixture(scope="module")
def fitted() -> GPDRFRegressor:
    model = small({"word": k.Spectrum(1)})
    model.max_epochs = 200  # as a fixture of the module it is made before steps are few
    return model.fit(FRAME, Y)


def test_columns_of_objects_are_columns(fitted: GPDRFRegressor) -> None:
    assert fitted.n_features_in_ == 3
    assert list(fitted.feature_names_in_) == ["size", "word", "area"]
    assert list(fitted.inputs_.views) == ["word", "columns"]


def test_each_column_has_its_share_of_the_relevance(fitted: GPDRFRegressor) -> None:
    """The target does not depend on the size; the variances of the two other terms are the shares."""
    size, word, area = fitted.relevance_
    terms = np.var(4 * SHARE), np.var(np.sin(FRAME["area"]))
    assert size < 0.05
    assert word == pytest.approx(terms[0] / sum(terms), abs=0.1)
    assert area == pytest.approx(terms[1] / sum(terms), abs=0.1)


def test_names_are_matched_in_any_order(fitted: GPDRFRegressor) -> None:
    found = fitted.predict(FRAME)
    assert fitted.score(FRAME, Y) > 0.9
    for order in (["area", "size", "word"], ["word", "area", "size"]):
        np.testing.assert_allclose(fitted.predict(FRAME[order]), found, rtol=1e-10)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(fitted)).predict(FRAME), found)
    by_view = {"word": WORDS, "columns": FRAME[["size", "area"]]}
    np.testing.assert_allclose(fitted.predict(by_view), found, rtol=1e-10)


def test_columns_that_are_new_or_gone_are_named(fitted: GPDRFRegressor) -> None:
    with pytest.raises(InputError, match=r"(?s)yet now missing:\n- area\n- word\n"):
        fitted.predict(FRAME[["size"]])
    with pytest.raises(InputError, match=r"(?s)unseen at fit time:\n- colour\n.*now missing:\n- size\n"):
        fitted.predict(FRAME.rename(columns={"size": "colour"}))


@pytest.mark.parametrize("rest", [True, False])
def test_a_column_of_numbers_may_have_its_own_kernel(rest: bool) -> None:
    frame = FRAME if rest else FRAME[["word", "area"]]
    kernels = {"word": k.Spectrum(1), "area": k.Matern(nu=1.5)}
    model = small(kernels).fit(frame, Y)
    assert list(model.inputs_.views) == ["word", "area", *(["columns"] if rest else [])]
    assert "Matern" in repr(model.kernel_[1])
    assert model.score(frame, Y) > 0.9
    assert model.relevance_[list(frame.columns).index("area")] > 0.2


def test_a_column_of_categories_may_have_its_own_kernel() -> None:
    frame = FRAME.assign(town=np.where(SHARE > 0.2, "Bonn", "Oslo"))
    model = small({"town": k.RBF(), "columns": k.RBF(ard=True)}, max_epochs=5).fit(frame.drop(columns="word"), SHARE)
    assert model.inputs_.source == [2, 2, 0, 1]
    assert model.inputs_.views == {"town": [0, 1], "columns": [2, 3]}
    assert model.relevance_.argmax() == 2


def test_frames_of_objects_alone() -> None:
    frame = pd.DataFrame({"word": WORDS, "mirror": [word[::-1] + "b" for word in WORDS[::-1]]})
    model = small({"word": k.Spectrum(1), "mirror": k.Spectrum(1)}).fit(frame, SHARE)
    assert model.relevance_[0] > 0.9
    deep = DFGPRegressor(view_kernels={"word": k.Spectrum(1)}, n_inducing=10, max_iterations=5, random_state=0)
    assert deep.fit(frame[["word"]], SHARE).relevance_ == [1.0]


def test_kernels_for_what_is_no_column() -> None:
    with pytest.raises(InputError, match=r"no column 'text'.*its columns are size, word, area.*the view 'columns'"):
        small({"text": k.Spectrum(1)}).fit(FRAME, Y)
    with pytest.raises(InputError, match=r"leave out views, and let view_kernels=\{'text': kernel\} name the column"):
        small({"t": k.Spectrum(1)}, views={"t": ["word"], "n": ["size", "area"]}).fit(FRAME, Y)
    with pytest.raises(InputError, match="more than one column named 'word'"):
        small({"word": k.Spectrum(1)}).fit(pd.concat([FRAME, FRAME[["word"]]], axis=1), Y)


def test_a_text_taken_for_a_category_is_mentioned() -> None:
    message = r"column 'word' is taken for a category, but most of its 1\d\d different values"
    with pytest.warns(UserWarning, match=rf"{message}.*: drop it; categorical=\['word'\]"):
        GPRegressor(max_iterations=0).fit(FRAME, Y)
    with pytest.warns(UserWarning, match=rf"{message}.*view_kernels=\{{'word': kernels\.Spectrum\(3\)\}} compares"):
        small(None, max_epochs=1).fit(FRAME, Y)
    GPRegressor(max_iterations=0, categorical=["word"]).fit(FRAME, Y)
    GPRegressor(max_iterations=0).fit(FRAME.astype({"word": "category"}), Y)
    GPRegressor(max_iterations=0).fit(FRAME.assign(word=[word[:2] for word in WORDS]), Y)
