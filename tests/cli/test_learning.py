"""Which rows a model is tested by, and which rows the saved one has learnt from."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, train_test_split

import stratagp
from stratagp import GPRegressor
from stratagp.cli import learning, model_folder
from stratagp.cli.scores import Said
from stratagp.recipes import search
from stratagp.report import words
from tests.cli.conftest import table

NEW = table(20, seed=1)[["size", "town"]]


def test_the_saved_model_has_learnt_from_all_rows(houses):
    frame = pd.read_csv(houses["file"])
    whole = GPRegressor(inference="exact", random_state=0).fit(frame[["size", "town"]], frame["price"].to_numpy())
    part = GPRegressor(inference="exact", random_state=0)
    X, _, y, _ = train_test_split(frame[["size", "town"]], frame["price"].to_numpy(), test_size=0.2, random_state=0)
    (mean, std), saved = whole.predict(NEW, return_std=True), stratagp.load(houses["model"])
    found = saved.predict(NEW, return_std=True)
    assert np.abs(found[0] - mean).max() < 0.01 * std.min()  # of the same optimum, from another start
    assert found[1] == pytest.approx(std, rel=0.01)
    assert np.abs(part.fit(X, y).predict(NEW) - mean).max() > 0.05 * std.min()
    assert len(saved.fitted_.points) == 60
    assert houses["said"]["said"] == (
        "scored: 12 held-out rows, by the model of the other 48; saved: the model learnt again from all 60 rows"
    )


def test_without_a_refit_the_tested_model_is_saved(houses, call, call_json, here):
    said = call_json("fit", houses["file"], "-t", "price", "-o", "a", "--no-refit", "--no-report")
    frame = pd.read_csv(houses["file"])
    X, _, y, _ = train_test_split(frame[["size", "town"]], frame["price"].to_numpy(), test_size=0.2, random_state=0)
    by_hand = GPRegressor(inference="exact", random_state=0).fit(X, y)
    assert np.array_equal(stratagp.load("a").predict(NEW), by_hand.predict(NEW))
    assert said["metrics"] == houses["said"]["metrics"]
    assert said["rows"] == {"train": 48, "test": 12, "saved": 48}
    assert said["said"].endswith("saved: the same model (--no-refit)")
    assert "refit = false" in Path("a/settings.toml").read_text()


def test_folds_score_every_row_once(houses, call_json, here):
    said = call_json("fit", houses["file"], "-t", "price", "-o", "a", "--folds", "3")
    frame = pd.read_csv(houses["file"])
    X, y = frame[["size", "town"]], frame["price"].to_numpy()
    error, density = np.zeros(60), np.zeros(60)
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        gp = GPRegressor(inference="exact", random_state=0).fit(X.iloc[train], y[train])
        error[test] = y[test] - gp.predict(X.iloc[test])
        density[test] = gp.log_density(X.iloc[test], y[test])
    assert said["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-9)
    assert said["metrics"]["nlpd"] == pytest.approx(-density.mean(), rel=1e-9)
    assert said["rows"] == {"train": 40, "test": 60, "saved": 60}
    results = json.loads(Path("a/results.json").read_text())
    assert results["performance"]["evidence"] == "cross-validated"
    assert results["performance"]["scores"]["rmse"]["value"] == pytest.approx(said["metrics"]["rmse"], rel=1e-9)
    first = results["worst"]["rows"][0]
    assert frame["price"].iloc[int(first["row"]) - 1] == pytest.approx(first["true"])
    assert "folds, each by a model that had not seen it" in Path("a/report.html").read_text("utf-8")
    again = call_json("fit", "--config", "a/settings.toml", "-o", "b", "--no-report")
    assert again["metrics"] == said["metrics"]
    assert np.array_equal(stratagp.load("a").predict(NEW), stratagp.load("b").predict(NEW))


def test_folds_of_classes_have_their_shares(call_json, here):
    frame = table(60).assign(kind=lambda t: np.where(t.price > 9, "dear", "cheap")).drop(columns=["price", "id"])
    frame.to_csv("kinds.csv", index=False)
    said = call_json("fit", "kinds.csv", "-t", "kind", "--folds", "2", "-o", "a")
    assert said["rows"]["test"] == 60
    results = json.loads(Path("a/results.json").read_text())
    assert np.sum(results["performance"]["confusion"]["counts"]) == 60


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--test", "0.3"), "--folds takes the place of --test 0.3"),
        (("--no-refit",), "leave --no-refit out"),
    ],
)
def test_folds_exclude_other_ways_to_test(houses, call, here, more, told):
    assert told in call("fit", houses["file"], "-t", "price", "--folds", "3", *more, code=1).stderr


def test_a_stack_learns_its_members_again(houses, call_json, here):
    options = ["--model", "best", "--plan", "squared exponential", "--plan", "extra trees", "--no-report"]
    call_json("fit", houses["file"], "-t", "price", "-o", "a", *options)
    call_json("fit", houses["file"], "-t", "price", "-o", "b", "--no-refit", *options)
    whole, part = stratagp.load("a").fitted_, stratagp.load("b").fitted_
    assert (len(whole.points), len(part.points)) == (60, 48)
    assert whole.weights.tolist() == part.weights.tolist()
    assert [each.name for each in whole.members] == [each.name for each in part.members]
    assert [len(each.fitted.points) for each in whole.members] == [60] * len(whole.members)


def test_baselines_see_all_training_rows(call_json, here):
    frame = table(300)
    frame.to_csv("t.csv", index=False)
    said = call_json("fit", "t.csv", "-t", "price", "--rows", "40", "--no-report", "-o", "a")
    X, X_test, y, y_test = train_test_split(
        frame[["size", "town"]].astype({"town": "category"}), frame["price"].to_numpy(), test_size=0.2, random_state=0
    )
    trees = HistGradientBoostingRegressor(random_state=0, categorical_features="from_dtype").fit(X, y)
    rmse = np.sqrt(np.mean((y_test - trees.predict(X_test)) ** 2))
    assert said["baselines"]["gradient boosting"]["rmse"] == pytest.approx(rmse, rel=1e-12)
    assert said["rows"] == {"train": 40, "test": 60, "saved": 40}
    assert "only 40 rows are drawn to train on" in said["said"]


def test_where_a_baseline_wins_the_program_says_so_first_and_the_report_agrees(call, call_json, here):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = np.where((20 * X[:, 0]).astype(int) % 2, 1.0, -1.0) + 0.01 * rng.standard_normal(300)
    pd.DataFrame({"x": X[:, 0], "y": y}).to_csv("steps.csv", index=False)
    run = call("fit", "steps.csv", "-t", "y", "-o", "a", "--kernel", "Linear")
    first = run.stdout.splitlines()[0]
    assert "for gradient boosting: the model is worse by" in first
    assert first.endswith("What next: try it without --kernel, or use the baseline.")
    results = json.loads(Path("a/results.json").read_text())
    assert words.compare(results).kind == "worse"
    assert words.compare(results).sentence in first
    assert 'class="verdict bad"' in Path("a/report.html").read_text("utf-8")
    said = call_json("fit", "steps.csv", "-t", "y", "-o", "b", "--kernel", "Linear", "--no-report")
    assert said["verdict"]["kind"] == "worse"


def test_log_losses_of_classes_said_to_be_impossible_are_finite():
    classes = np.array(["a", "b"])
    said = Said(np.array(["a", "c"]), (np.array([[0.0, 1.0], [0.5, 0.5]]),), classes)
    assert said.scores()["log_loss"] == pytest.approx(52 * np.log(2), rel=1e-12)  # both as 2⁻⁵²


def test_predictions_come_from_all_rows_where_values_come_from_few(call, call_json, here):
    frame = table(300)
    frame.to_csv("t.csv", index=False)
    options = ["-t", "price", "--model", "vecchia", "--search-rows", "60", "--no-report"]
    said = call_json("fit", "t.csv", *options, "-o", "a")
    saved = stratagp.load("a")
    assert (len(saved.fitted_.points), saved.inference_) == (300, "vecchia")
    assert said["rows"] == {"train": 240, "test": 60, "saved": 300}
    again = call_json("fit", "--config", "a/settings.toml", "-o", "b", "--no-report")
    assert again["metrics"] == said["metrics"]
    told = call("fit", "t.csv", "-t", "price", "--search-rows", "60", "-o", "c", code=1).stderr
    assert "--search-rows is for --model vecchia" in told


def test_a_time_limit_holds_for_the_test_and_the_report_too(call_json, here, monkeypatch):
    """Where predictions of a row take a second, few are tested, and there is no report."""
    table(2000).to_csv("t.csv", index=False)
    monkeypatch.setattr(learning, "_pace", lambda *_: 1.0)
    monkeypatch.setattr(model_folder, "_ANSWERS", 10**9)  # which a report asks for
    said = call_json("fit", "t.csv", "-t", "price", "--model", "exact", "--time-limit", "20", "--rows", "50", "-o", "a")
    assert said["rows"]["test"] == 200
    assert said["report"] is None
    assert set(said["baselines"]) == {"mean of the training rows", "gradient boosting"}


def test_ctrl_c_during_the_report_or_the_refit_keeps_the_model(houses, call, here, monkeypatch):
    def stops(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stratagp.report, "gather", stops)
    said = call("fit", houses["file"], "-t", "price", "-o", "a", code=130).stderr
    assert said.endswith("error: interrupted: the model is saved in a, the report is not\n")
    monkeypatch.setattr(GPRegressor, "refit", stops)
    said = call("fit", houses["file"], "-t", "price", "-o", "b", code=130).stderr
    assert said.endswith("saved: the same model (interrupted); in b\n")
    assert len(stratagp.load("a").fitted_.points) == 60
    assert len(stratagp.load("b").fitted_.points) == 48
    monkeypatch.setattr(GPRegressor, "fit", stops)
    assert call("fit", houses["file"], "-t", "price", "-o", "c", code=130).stderr.endswith("nothing was saved\n")
    assert not Path("c").exists()


def test_stages_are_counted_with_the_time_that_is_left(houses, call, here):
    said = call("fit", houses["file"], "-t", "price", "-o", "a", "-v", "--time-limit", "100", "--model", "exact").stderr
    stages = re.findall(r"^stage (\d) of (\d) \(\d+ s so far, \d+ s left\)", said, re.MULTILINE)
    assert stages == [(str(i), "5") for i in range(1, 6)]


def test_a_search_tells_how_far_it_has_come(monkeypatch):
    clock, said = iter([0.0, 1.0, 4.0, 4.0, 5.0]), list[str]()
    monkeypatch.setattr(search.time, "monotonic", lambda: next(clock))
    report = search._Report(lambda: torch.tensor(-2.5), said.append, 40)
    for _ in range(3):
        report()
    assert said == ["evaluation 2 of at most 40, 76 s left at most: score -2.500"]  # two took four seconds
