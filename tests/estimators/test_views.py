"""Views of one object: tables, arrays and lists of objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import DFGPClassifier, DFGPRegressor, WishartProcessRegressor
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
TEXTS = ["".join(RNG.choice(list("abcd"), size=8)) for _ in range(120)]
SHARE = np.array([text.count("a") / 8 for text in TEXTS])
NUMBERS = RNG.normal(size=(120, 2))


def common(a: str, b: str) -> float:
    return float(sum(a.count(letter) * b.count(letter) for letter in "abcd"))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys need no hundreds of steps."""
    make_steps(monkeypatch, 12)


def regressor(**options: Any) -> DFGPRegressor:
    return DFGPRegressor(n_inducing=15, max_iterations=60, random_state=0, **options)


def test_texts_beside_an_array() -> None:
    """The target is the share of one letter plus a wave of one column: both views are needed, and both are found."""
    y = 3 * SHARE + np.sin(2 * NUMBERS[:, 0])
    X = {"texts": TEXTS, "numbers": NUMBERS}
    model = regressor(view_kernels={"texts": k.PairFunction(common)}).fit(X, y)
    assert model.score(X, y) > 0.95
    alone = model.predict({"numbers": NUMBERS[:5], "texts": TEXTS[:5]})  # in another order, and fewer
    np.testing.assert_allclose(alone, model.predict(X)[:5], rtol=1e-9)
    shares = model.influence(X)
    assert list(shares) == ["texts", "numbers"]
    assert min(shares.values()) > 0.05
    assert model.transform(X).shape == (120, 2)


def test_held_out_rows_take_no_anchors_away() -> None:
    X = {"texts": TEXTS, "numbers": NUMBERS}
    options = {"validation": 0.5, "max_epochs": 2, "view_kernels": {"texts": k.PairFunction(common)}}
    model = regressor(**options).fit(X, SHARE)
    assert model.inference_ == "batches"
    assert model.model_.layer.layers[0].z.shape[:2] == (2, 15)


def test_few_texts_leave_the_other_views_their_inducing_points() -> None:
    few = [text[:1] for text in TEXTS]  # four letters
    model = regressor(view_kernels=[k.PairFunction(common), None]).fit([few, NUMBERS], np.sin(2 * NUMBERS[:, 0]))
    assert len(np.unique(model.model_.layer.layers[0].z[1].detach().numpy(), axis=0)) == 15
    assert model.score([few, NUMBERS], np.sin(2 * NUMBERS[:, 0])) > 0.95


def test_kernels_in_the_order_of_fit() -> None:
    X = {"texts": TEXTS, "numbers": NUMBERS}
    model = regressor(view_kernels=[k.PairFunction(common), None]).fit(X, SHARE)
    np.testing.assert_allclose(model.predict({"numbers": NUMBERS, "texts": TEXTS}), model.predict(X), rtol=1e-12)
    assert model.relevance_.shape == (2,)


def test_shares_of_views_in_three_layers() -> None:
    shares = regressor(n_layers=3, views={"first": [0], "second": [1]}).fit(NUMBERS, np.sin(2 * NUMBERS[:, 0]))
    assert shares.influence(NUMBERS)["first"] > 0.9


def test_a_list_of_views() -> None:
    y = 3 * SHARE
    model = regressor(view_kernels=[None, k.PairFunction(common)]).fit([NUMBERS, TEXTS], y)
    assert model.score([NUMBERS, TEXTS], y) > 0.95
    assert model.influence([NUMBERS, TEXTS])["view 1"] > 0.9


def test_frames_keep_names_and_categories() -> None:
    colours = np.where(NUMBERS[:, 1] > 0, "red", "blue")
    X = {"one": pd.DataFrame({"size": NUMBERS[:, 0]}), "other": pd.DataFrame({"colour": colours, "size": SHARE})}
    y = np.sin(2 * NUMBERS[:, 0]) + (colours == "red")
    model = regressor().fit(X, y)
    assert list(model.feature_names_in_) == ["one: size", "colour", "other: size"]
    assert model.score(X, y) > 0.95
    assert list(model.influence(X)) == ["one", "other"]
    by_name = regressor(categorical=["colour"]).fit(X, y)
    np.testing.assert_allclose(by_name.predict(X), model.predict(X))


def test_a_single_column_is_a_view() -> None:
    y = np.sin(2 * NUMBERS[:, 0])
    flat = regressor().fit([NUMBERS[:, :1], NUMBERS[:, 1:]], y)
    table = regressor().fit({"a": NUMBERS[:, 0], "b": pd.Series(NUMBERS[:, 1])}, y)
    np.testing.assert_allclose(
        table.predict({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}), flat.predict([NUMBERS[:, :1], NUMBERS[:, 1:]])
    )


def test_texts_alone() -> None:
    y = np.where(SHARE > 0.25, "many", "few")
    kernel = k.PairFunction(common) + k.PairFunction(common, lengthscale=1.0)
    model = DFGPClassifier(n_inducing=15, max_epochs=150, rate=0.1, random_state=0, view_kernels=[kernel]).fit(
        [TEXTS], y
    )
    assert model.score([TEXTS], y) > 0.9


@pytest.mark.parametrize(
    ("options", "X", "match"),
    [
        ({}, {"texts": TEXTS, "numbers": NUMBERS}, "need a kernel over objects in view_kernels"),
        ({"view_kernels": {"words": k.PairFunction(common)}}, {"texts": TEXTS}, "view_kernels must be a kernel for"),
        (
            {"view_kernels": [k.PairFunction(common)]},
            {"texts": "abc"},
            "must be a list of objects, one for each row, got str",
        ),
        ({"view_kernels": [k.PairFunction(common), None]}, [TEXTS, NUMBERS[:50]], "the same rows in each view"),
        ({}, {}, "got none"),
    ],
)
def test_bad_views(options: dict[str, Any], X: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        regressor(**options).fit(X, SHARE)


def test_views_that_are_not_those_of_fit() -> None:
    model = regressor(view_kernels={"texts": k.PairFunction(common)}).fit({"texts": TEXTS, "numbers": NUMBERS}, SHARE)
    for wrong in ({"texts": TEXTS}, {"texts": TEXTS, "numbers": NUMBERS[:, :1]}, NUMBERS):
        with pytest.raises(InputError, match="texts with objects, numbers with 2 columns"):
            model.predict(wrong)


def test_a_number_of_hidden_processes_does_not_go_with_views() -> None:
    with pytest.raises(InputError, match="n_hidden is for one table"):
        regressor(n_hidden=5, views=[[0], [1]]).fit(NUMBERS, SHARE)
    with pytest.raises(InputError, match="dof is for one table"):
        WishartProcessRegressor(dof=5).fit([NUMBERS, NUMBERS], SHARE)
