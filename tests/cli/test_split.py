"""Test rows are drawn at random, but for classes that only one row has, and draws of rows are parts of one another."""

import numpy as np
import pandas as pd
import pytest

from stratagp.cli import scores
from stratagp.cli.output import Console
from stratagp.cli.scores import baselines
from stratagp.cli.split import hold_out


def towns(n: int = 40) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"size": np.arange(n, dtype=float), "town": ["Bonn", "Oslo"] * (n // 2)}, index=range(1, n + 1)
    )
    frame.loc[[5, 9, 23], "town"] = ["Rome", "Kiel", "Lima"]
    return frame


def split(frame, y, task="regression", seed=0):
    return hold_out(frame, y, task, 0.5, seed, Console(silent=True))


@pytest.mark.parametrize("seed", range(5))
def test_half_of_the_rows_are_tested_whatever_their_categories(seed):
    parts = split(towns(), np.arange(40.0), seed=seed)
    assert len(parts.y_test) == 20
    assert sorted([*parts.X.index, *parts.X_test.index]) == list(range(1, 41))
    assert np.array_equal(parts.X["size"], parts.y)  # rows and targets stay together


@pytest.mark.parametrize("seed", range(5))
def test_a_class_of_one_row_is_trained_on(seed):
    y = np.array(["a", "b"] * 19 + ["c", "d"])
    parts = split(towns(), y, "classification", seed)
    assert set(parts.y) == {"a", "b", "c", "d"}


def test_fewer_rows_have_each_class_and_are_those_of_a_smaller_draw():
    parts = split(towns(), np.array(["a", "b"] * 18 + ["c"] * 2 + ["d"] * 2), "classification")
    twelve, eight = parts.some(12), parts.some(8)
    assert set(eight.y) == {"a", "b", "c", "d"}
    assert list(twelve.some(8).X.index) == list(eight.X.index)
    assert set(eight.X.index) <= set(twelve.X.index)


def test_what_too_few_rows_do_not_have_is_not_tested():
    parts = split(towns(), np.array(["a", "b"] * 20), "classification").some(1)
    assert set(parts.y_test) == set(parts.y)


def test_a_rare_category_does_not_end_a_fit(call, here):
    frame = towns().assign(price=lambda t: 2 * t["size"])
    frame.to_csv("t.csv", index=False)
    said = call("fit", "t.csv", "-t", "price", "--test", "0.5", "--no-report")
    assert "which was not in the training data: it counts as unlike all others" in said.stderr


def test_models_go_by_the_rows_that_are_trained_on(call_json, here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=4500)})
    frame.assign(y=np.sin(frame.x)).to_csv("t.csv", index=False)
    said = call_json("fit", "t.csv", "-t", "y", "--rows", "50", "--no-report", "--test", "0.01")
    assert said["model"] == "exact"
    assert said["reason"].startswith("50 rows are at most")


def test_boosting_of_many_rows_takes_a_class_of_one_row():
    n = 10_100
    X = pd.DataFrame({"x": np.arange(n, dtype=float)})
    y = np.where(np.arange(n) < n // 2, "a", "b")
    y[0] = "c"
    found = baselines(X, y, X.iloc[1:60], y[1:60], "classification", (), 0)
    assert found["gradient boosting"].scores()["accuracy"] == 1.0


def test_a_baseline_that_fails_is_a_warning(monkeypatch):
    def fails(*_):
        raise ValueError("no trees today")

    monkeypatch.setattr(scores, "_boosting", fails)
    X, y = towns()[["size"]], np.arange(40.0)
    with pytest.warns(UserWarning, match="gradient boosting failed and is left out of the comparison: no trees today"):
        assert set(baselines(X, y, X, y, "regression", (), 0)) == {"mean of the training rows"}
