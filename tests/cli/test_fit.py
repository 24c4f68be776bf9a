"""What ``fit`` prints, saves and repeats."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict, train_test_split

import stratagp
from stratagp import GPRegressor
from tests.cli.conftest import table


def test_scores_are_those_of_the_same_fit_by_hand(houses):
    frame = pd.read_csv(houses["file"])
    X, X_test, y, y_test = train_test_split(
        frame[["size", "town"]], frame["price"].to_numpy(), test_size=0.2, random_state=0
    )
    gp = GPRegressor(inference="exact", random_state=0).fit(X, y)
    mean, std = gp.predict(X_test, return_std=True)
    expected = {
        "rmse": np.sqrt(np.mean((y_test - mean) ** 2)),
        "mae": np.mean(np.abs(y_test - mean)),
        "r2": 1 - np.sum((y_test - mean) ** 2) / np.sum((y_test - y_test.mean()) ** 2),
        "nlpd": np.mean(0.5 * ((y_test - mean) / std) ** 2 + np.log(std * np.sqrt(2 * np.pi))),
        "coverage95": np.mean(np.abs(y_test - mean) <= 1.959964 * std),
    }
    assert houses["said"]["metrics"] == pytest.approx(expected, rel=1e-9)
    assert houses["said"]["rows"] == {"train": 48, "test": 12, "saved": 60}


def test_baselines_are_the_mean_and_boosting_with_its_residuals(houses):
    frame = pd.read_csv(houses["file"], dtype={"town": "category"})
    X, X_test, y, y_test = train_test_split(
        frame[["size", "town"]], frame["price"].to_numpy(), test_size=0.2, random_state=0
    )
    said = houses["said"]["baselines"]
    z = (y_test - y.mean()) / y.std()
    trivial = np.mean(0.5 * z**2 + np.log(y.std() * np.sqrt(2 * np.pi)))
    assert said["mean of the training rows"]["nlpd"] == pytest.approx(trivial, rel=1e-12)
    trees = HistGradientBoostingRegressor(random_state=0, categorical_features="from_dtype")
    apart = y - cross_val_predict(trees, X, y, cv=KFold(3, shuffle=True, random_state=0))
    std, error = np.sqrt(np.mean(apart**2)), y_test - trees.fit(X, y).predict(X_test)
    assert said["gradient boosting"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
    density = np.mean(0.5 * (error / std) ** 2 + np.log(std * np.sqrt(2 * np.pi)))
    assert said["gradient boosting"]["nlpd"] == pytest.approx(density, rel=1e-12)


def test_the_saved_settings_repeat_the_fit_bit_for_bit(houses, call_json, here):
    again = call_json("fit", "--config", houses["model"] / "settings.toml", "-o", "again", "--no-report")
    assert again["metrics"] == houses["said"]["metrics"]
    X = pd.read_csv(houses["file"])[["size", "town"]]
    first, second = (stratagp.load(folder).predict(X, return_std=True) for folder in (houses["model"], "again"))
    assert np.array_equal(first, second)


def test_the_command_line_wins_over_the_settings(houses, call_json, here):
    said = call_json("fit", "--config", houses["model"] / "settings.toml", "-o", "b", "--no-report", "--test", "0.5")
    assert said["rows"] == {"train": 30, "test": 30, "saved": 60}


def test_settings_with_a_strange_name_are_refused(call, here):
    Path("s.toml").write_text('targt = "price"\n')
    assert "did you mean 'target'?" in call("fit", "x.csv", "--config", "s.toml", code=1).stderr


def test_the_identifier_is_left_out_aloud_and_can_be_kept(houses, call, here):
    run = call(
        "fit", houses["file"], "-t", "price", "-o", "a", "--no-report", "-v", "--test", "0", "--as", "town=ignore"
    )
    assert (
        run.stderr.count("an identifier by its name: left out; --as id=number takes it as a number") == 1
    )  # in the table
    assert "warning" not in run.stderr
    about = json.loads(Path("a/table.json").read_text())
    assert {each["name"]: each["kind"] for each in about["columns"]} == {
        "id": "ignore",
        "size": "number",
        "town": "ignore",
    }
    assert "exact: 60 rows are at most 4,000" in run.stderr


def test_where_nobody_watches_a_column_that_is_left_out_is_a_warning(houses, call, here):
    run = call("fit", houses["file"], "-t", "price", "-o", "a", "--no-report", "--test", "0", "--as", "town=ignore")
    assert (
        run.stderr == "warning: column 'id': an identifier by its name: left out; --as id=number takes it as a number\n"
    )


def test_no_model_is_overwritten_without_asking(houses, call):
    run = call("fit", houses["file"], "-t", "price", "-o", houses["model"], code=1)
    assert "add --overwrite" in run.stderr
    assert call("fit", houses["file"], "-t", "price", "-o", houses["folder"], code=1).stderr.count("other files") == 1


def test_a_folder_of_another_program_is_never_replaced(houses, call, here):
    Path("bert").mkdir()
    Path("bert/config.json").write_text('{"model_type": "bert"}')
    for more in ((), ("--overwrite",)):
        said = call("fit", houses["file"], "-t", "price", "-o", "bert", *more, code=1).stderr
        assert said == "error: --out: the folder bert holds other files: give another\n"
    assert Path("bert/config.json").read_text() == '{"model_type": "bert"}'


def test_a_repetition_trains_anew_where_states_were_left(houses, call, call_json, here):
    options = ("--model", "autogp", "--epochs", "2", "--checkpoint", "states", "--no-report")
    said = call_json("fit", houses["file"], "-t", "price", "-o", "a", *options)
    assert "checkpoint" not in Path("a/settings.toml").read_text()
    kept = {each.name: each.stat().st_mtime_ns for each in Path("states").iterdir()}
    again = call_json("fit", "--config", "a/settings.toml", "-o", "b", "--no-report")
    assert again["metrics"] == said["metrics"]
    assert {each.name: each.stat().st_mtime_ns for each in Path("states").iterdir()} == kept


def test_classes_are_scored_by_hand(call_json, here):
    frame = table(50).assign(kind=lambda t: np.where(t.price > 7, "dear", "cheap")).drop(columns=["price", "id"])
    frame.to_csv("kinds.csv", index=False)
    said = call_json("fit", "kinds.csv", "-t", "kind", "--no-report", "--no-refit")
    X, y = frame[["size", "town"]], frame["kind"].to_numpy(dtype=str)
    _, X_test, _, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    model = stratagp.load("kinds-model")
    p = model.predict_proba(X_test)
    right = p[np.arange(10), np.searchsorted(model.classes_, y_test)]
    assert said["metrics"]["log_loss"] == pytest.approx(-np.mean(np.log(right)), rel=1e-12)
    truth = model.classes_ == y_test[:, None]
    assert said["metrics"]["brier"] == pytest.approx(np.mean(np.sum((p - truth) ** 2, 1)), rel=1e-12)
    assert said["metrics"]["accuracy"] == np.mean(model.classes_[p.argmax(1)] == y_test)
    assert said["task"] == "classification"


def test_missing_targets_are_refused_and_dropped_when_asked(call, call_json, here):
    frame = table(40)
    frame.loc[[3, 7], "price"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    run = call("fit", "gaps.csv", "-t", "price", code=1)
    assert "missing in 2 of 40 rows, first in row 4" in run.stderr
    said = call_json("fit", "gaps.csv", "-t", "price", "--drop-missing", "--test", "0", "--no-report")
    assert said["rows"] == {"train": 38, "test": 0, "saved": 38}
    assert said["metrics"] == {}


@pytest.mark.parametrize("more", [(), ("--model", "autogp", "--epochs", "2")])
def test_missing_inputs_are_filled(call, here, more):
    frame = table(40)
    frame.loc[5, "size"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    said = call("fit", "gaps.csv", "-t", "price", "--no-report", "--test", "0", *more).stderr
    assert "1 of 40 rows lack inputs ('size'): the model averages over what these may be" in said


def test_mini_batches_by_epochs_repeat_from_their_settings(houses, call_json, here):
    options = ("--model", "autogp", "--epochs", "3", "--no-report")
    said = call_json("fit", houses["file"], "-t", "price", "-o", "a", *options)
    again = call_json("fit", "--config", "a/settings.toml", "-o", "b", "--no-report")
    assert said["metrics"] == again["metrics"]


def test_a_kernel_is_what_the_text_says(houses, call, here):
    kernel = "RBF(on='size') + Linear(on='size') + RBF(on='town')"
    call("fit", houses["file"], "-t", "price", "-o", "a", "--kernel", kernel, "--no-report", "--test", "0")
    assert [type(part).__name__ for part in stratagp.load("a").kernel_.parts] == ["OnColumns"] * 3


def test_a_time_limit_settles_rows_that_repeat(call_json, call, here):
    table(900).to_csv("many.csv", index=False)
    run = call("fit", "many.csv", "-t", "price", "--model", "exact", "--time-limit", "0.05", "-o", "a", "--no-report")
    assert "fit into the time limit of 0.05 s" in run.stderr
    settings = Path("a/settings.toml").read_text()
    assert "time-limit" not in settings
    assert "rows = " in settings
    again = call_json("fit", "--config", "a/settings.toml", "-o", "b", "--no-report")
    X = table(20, seed=1)[["size", "town"]]
    assert np.array_equal(stratagp.load("a").predict(X), stratagp.load("b").predict(X))
    assert again["rows"]["train"] < 720


def test_the_best_mixture_repeats_by_its_plan(houses, call_json, here):
    options = ["--model", "auto", "--plan", "squared exponential", "--plan", "extra trees"]
    first = call_json("fit", houses["file"], "--target", "price", "--out", "best", *options)
    assert "The candidates" in Path("best/report.html").read_text("utf-8")
    assert "of the weight" in first["reason"]
    again = call_json("fit", "--config", "best/settings.toml", "--out", "again", "--no-report")
    assert again["metrics"] == first["metrics"]


def test_a_plan_is_for_the_best_mixture(houses, call, here):
    options = ["--target", "price", "--out", "other", "--model", "exact", "--plan", "extra trees"]
    found = call("fit", houses["file"], *options, code=1)
    assert "--plan is for --model best" in found.stderr


def test_the_best_mixture_reads_texts_beside_numbers(call, call_json, here):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("CNO"), rng.integers(4, 14))) for _ in range(90)]
    frame = pd.DataFrame({"formula": texts, "size": rng.normal(size=90), "town": ["Bonn", "Oslo", "Rome"] * 30})
    frame["y"] = frame.formula.str.count("O") + frame["size"]
    frame.to_csv("f.csv", index=False)
    said = call_json("fit", "f.csv", "-t", "y", "--model", "best", "--plan", "Matérn 5/2, noise varies", "-o", "m")
    assert said["metrics"]["rmse"] < 0.6 * frame.y.std()
    assert "formula" in Path("m/report.html").read_text("utf-8")
    assert call("predict", "m", "f.csv", "--out", "p.csv").exit_code == 0
    assert len(pd.read_csv("p.csv")) == 90
