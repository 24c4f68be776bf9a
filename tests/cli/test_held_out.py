"""Rows held out by time and by groups, and copies across the split, against plain counting."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stratagp import load
from stratagp.cli.held_out import Split, copies, held_rows
from tests.cli.conftest import table


def test_the_latest_rows_are_held_out_and_rows_of_one_date_stay_together():
    rng = np.random.default_rng(0)
    days = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30, 100), unit="D"))
    held = held_rows(Split("time", "day"), days, 0.2, 0)
    assert days[held].min() > days[~held].max()
    assert 10 <= held.sum() <= 20
    gaps = days.where(days.index % 7 != 0)
    held = held_rows(Split("time", "day"), gaps, 0.2, 0)
    assert not (held & gaps.isna()).any()
    assert gaps[held].min() > gaps[~held].max()


def test_one_last_date_is_held_out_whole():
    days = pd.Series(pd.to_datetime(["2024-01-01"] * 5 + ["2024-01-02"] * 15))
    assert held_rows(Split("time", "day"), days, 0.2, 0).tolist() == [False] * 5 + [True] * 15


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_together(seed):
    who = pd.Series(np.random.default_rng(seed).integers(0, 12, 90)).astype(str)
    held = held_rows(Split("groups", "who"), who, 0.25, seed)
    assert not set(who[held]) & set(who[~held])
    assert 0.15 < held.mean() < 0.5


def test_copies_are_counted_as_by_hand():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 3, 60), "b": rng.choice(["u", "v"], 60)})
    y = rng.integers(0, 2, 60).astype(float)
    rows = [(*row, target) for row, target in zip(X.itertuples(index=False, name=None), y, strict=True)]
    expected = sum(row in rows[:40] for row in rows[40:])
    assert 0 < copies(X[:40], y[:40], X[40:], y[40:]) == expected


def test_a_date_in_another_format_is_learnt_saved_and_predicted(call, call_json, here):
    frame = table(40).drop(columns="id")
    frame["sold"] = pd.date_range("2023-01-01", periods=40, freq="9D").strftime("%d.%m.%Y")
    frame.to_csv("t.csv", index=False)
    said = call_json("fit", "t.csv", "-t", "price", "--no-report", "--no-refit", "-o", "model")
    assert said["rows"] == {"train": 32, "test": 8, "saved": 32}
    again = call_json("fit", "--config", "model/settings.toml", "-o", "again", "--no-report")
    assert again["metrics"] == said["metrics"]
    frame[-8:].to_csv("new.csv", index=False)
    assert call_json("evaluate", "model", "new.csv")["metrics"] == pytest.approx(said["metrics"])


def test_folds_keep_groups_together(call_json, call, here):
    """Rows of a town have one price: folds by rows know it, folds by towns do not."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=12)
    frame = pd.DataFrame({"town": np.repeat([f"t{i}" for i in range(12)], 5), "size": rng.normal(size=60)})
    frame.assign(price=np.repeat(level, 5) + 0.01 * rng.normal(size=60)).to_csv("t.csv", index=False)
    fit = ("fit", "t.csv", "-t", "price", "--model", "exact", "--no-report", "--folds", "3")
    by_rows, by_towns = (
        call_json(*fit, "-o", way[:3], "--split", way)["metrics"]["rmse"] for way in ("random", "groups:town")
    )
    assert by_rows < 0.2
    assert by_towns > 0.5
    assert "more than the 12 groups" in call(*fit[:-1], "13", "-o", "x", "--split", "groups:town", code=1).stderr
    assert "--folds tests rows of all times" in call(*fit, "-o", "x", "--split", "time", code=1).stderr


def test_a_stack_is_judged_as_it_is_tested(call, here):
    """A level that wanders, and towns with a level of their own: random rows would promise too much."""
    rng = np.random.default_rng(0)
    dates = pd.date_range("2020-01-01", periods=60, freq="MS")
    frame = pd.DataFrame(
        {"date": dates, "town": np.repeat([f"t{i}" for i in range(12)], 5), "size": rng.normal(size=60)}
    )
    frame.assign(price=np.cumsum(rng.normal(size=60))).to_csv("t.csv", index=False)
    fit = ("fit", "t.csv", "-t", "price", "--no-report", "--model", "best", "--plan", "extra trees")
    said = {}
    for way in ("time", "groups:town", "random"):
        call(*fit, "-o", way[:4], "--split", way)
        said[way] = json.loads((Path(way[:4]) / "table.json").read_text())["about"]["assumptions"][-1]
    assert said["time"] == "candidates are judged, by 'date', on rows that are later than those that they learn from"
    assert said["groups:town"] == "candidates are judged, by 'town', on groups other than those that they learn from"
    assert "judged" not in said["random"]
    assert load("time").order == "date"


def test_numbers_with_marks_are_read_again_by_predict(call, call_json, here):
    frame = table(40).drop(columns="id")
    frame.to_csv("plain.csv", index=False)
    marked = frame.assign(size=[f"{1000 * v:,.0f} m" for v in frame["size"]])
    marked.to_csv("marked.csv", index=False)
    said = call_json("fit", "marked.csv", "-t", "price", "--no-report", "-o", "model")
    frame.assign(size=(1000 * frame["size"]).round()).to_csv("plain.csv", index=False)
    marked.iloc[:1].to_csv("one.csv", index=False)
    whole = call_json("predict", "model", "plain.csv")["predictions"]["mean"]
    assert call_json("predict", "model", "one.csv")["predictions"]["mean"] == pytest.approx(whole[:1])
    assert said["task"] == "regression"


def test_a_new_category_is_predicted_with_a_warning(call, houses, here):
    new = table(12, seed=3)
    new.replace("Oslo", "Rome").to_csv("new.csv", index=False)
    run = call("predict", houses["model"], "new.csv", "-o", "out.csv")
    assert "the category 'Rome' in column 'town', which was not in the training data" in run.stderr
    found, strange = pd.read_csv("out.csv"), (new["town"] == "Oslo").to_numpy()
    assert found["std"][strange].min() > 2 * found["std"][~strange].max()


def test_gaps_are_filled_where_logarithms_and_texts_are_learnt(call, call_json, here):
    frame = table(40).drop(columns="id")
    frame.loc[[3, 9], "size"] = np.nan
    frame["price"] = np.exp(frame["price"] / 8)
    frame.to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "price", "--log", "--epochs", "20", "--no-report", "-o", "model")
    found = call_json("predict", "model", "t.csv")["predictions"]
    assert np.isfinite(found["std"]).all()
    rng = np.random.default_rng(0)
    frame["note"] = [" ".join(rng.choice(["old", "new", "fine", "dull", "red"], 6)) for _ in range(40)]
    frame.loc[5, "note"] = None
    frame.to_csv("u.csv", index=False)
    call("fit", "u.csv", "-t", "price", "--model", "gp-drf", "--epochs", "2", "--no-report", "-o", "texts")
    assert np.isfinite(call_json("predict", "texts", "u.csv")["predictions"]["std"]).all()
