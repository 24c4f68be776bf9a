"""Fits of rows that are read in batches: what is held out, scored, and reported."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stratagp
from stratagp.cli import many_files
from stratagp.cli.many_files import SALT
from stratagp.cli.output import Console
from stratagp.data import open_source
from stratagp.data.rules import Divided
from tests.cli.conftest import table

FIT = ("-t", "price", "--epochs", "2", "-o", "model")


def test_rows_of_one_file_are_held_out_by_their_values_and_reported(call_json, call, here, monkeypatch):
    monkeypatch.setattr(many_files, "SAMPLE_ROWS", 150)
    frame = table(400)
    frame.to_csv("houses.csv", index=False)
    said = call_json("fit", "house*.csv", *FIT, "--test", "0.5")
    source = open_source("houses.csv", "price", ["size", "town"])
    held = next(Divided(source, 0.5, SALT, held=True).blocks(0))
    assert said["rows"] == {"train": 400 - len(held), "test": len(held), "saved": 400 - len(held)}
    assert 150 < len(held) < 250
    mean = stratagp.load("model").predict(held.X.astype({"town": object}))
    rmse = np.sqrt(np.mean((mean - held.y) ** 2))
    assert said["metrics"]["rmse"] == pytest.approx(rmse, rel=0.2)  # of 150 of these rows
    assert set(said["baselines"]) == {"mean of the training rows", "gradient boosting"}
    results = json.loads(Path("model/results.json").read_text())
    assert results["data"]["rows"] == said["rows"]["train"]
    assert (results["performance"]["rows"], results["performance"]["of"]) == (150, len(held))
    page = Path("model/report.html").read_text()
    assert f"scores are about 150 of {len(held)} held-out rows" in page
    assert f"baselines are about 150 of {400 - len(held)} training rows" in page
    table(20, seed=1).to_csv("new.csv", index=False)
    assert "report:" in call("report", "model", "--data", "new.csv").stdout


def test_of_several_files_whole_ones_are_held_out(call_json, here):
    Path("parts").mkdir()
    for i in range(3):
        table(60, seed=i).to_csv(f"parts/{i}.csv", index=False)
    said = call_json("fit", "parts", *FIT, "--no-report")
    assert said["rows"] == {"train": 120, "test": 60, "saved": 120}
    held = int(np.random.default_rng(0).permutation(3)[0])
    frame = table(60, seed=held)
    mean = stratagp.load("model").predict(frame[["size", "town"]])
    assert said["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean((mean - frame["price"]) ** 2)))


def test_without_a_row_of_each_class_in_the_sample_there_are_no_baselines(call_json, here, monkeypatch):
    monkeypatch.setattr(many_files, "SAMPLE_ROWS", 5)
    table(120).assign(price=[f"class {i % 8}" for i in range(120)]).to_csv("houses.csv", index=False)
    said = call_json("fit", "house*.csv", *FIT, "--no-report", "--test", "0.5")
    assert set(said["metrics"]) == {"accuracy", "log_loss", "brier", "ece"}
    assert said["baselines"] == {}


def test_without_a_test_nothing_is_scored(call_json, here):
    table(60).to_csv("houses.csv", index=False)
    said = call_json("fit", "house*.csv", *FIT, "--test", "0")
    assert (said["rows"], said["metrics"], said["report"]) == (None, {}, None)


def test_a_file_with_a_class_that_no_other_has_is_trained_on(call, here):
    Path("parts").mkdir()
    order = np.random.default_rng(0).permutation(3)
    for i in range(3):
        frame = table(40, seed=i).assign(price=["a", "b"] * 20)
        frame.loc[3, "price"] = "c" if i == order[0] else "a"
        frame.to_csv(f"parts/{i}.csv", index=False)
    said = call("fit", "parts", *FIT, "--no-report", "-v").stderr
    assert "held out for the test: 1 of 3 files" in said
    assert "does not know" not in said
    assert stratagp.load("model").classes_.tolist() == ["a", "b", "c"]


def test_where_every_file_has_its_own_class_rows_are_held_out(call_json, here):
    Path("parts").mkdir()
    for i in range(2):
        table(60, seed=i).assign(price=f"class {i}").to_parquet(f"parts/{i}.parquet")
    said = call_json("fit", "parts", *FIT, "--no-report")
    assert said["rows"]["train"] + said["rows"]["test"] == 120
    assert stratagp.load("model").classes_.tolist() == ["class 0", "class 1"]


def test_classes_that_are_only_held_out_are_named(capsys):
    rows = many_files.Sampled(table(4), np.array(["a", "c", "b", "c"]), 4)
    model = SimpleNamespace(classes_=np.array(["a", "b"]))
    assert many_files._of_known_classes(rows, model.classes_, Console()).y.tolist() == ["a", "b"]
    said = "no training row has the class 'c': 2 of 4 held-out rows are not scored"
    assert said in capsys.readouterr().err


def test_a_category_that_is_only_held_out_does_not_lose_the_model(call, here):
    Path("parts").mkdir()
    held = int(np.random.default_rng(0).permutation(3)[0])
    for i in range(3):
        frame = table(40, seed=i).assign(price=["a", "b"] * 20)
        if i == held:
            frame.loc[5, "town"] = "Rome"
        frame.to_csv(f"parts/{i}.csv", index=False)
    said = call("fit", "parts", *FIT).stderr
    assert "the category 'Rome' in column 'town', which was not in the training data" in said
    assert stratagp.load("model").classes_.tolist() == ["a", "b"]
