"""Folders of files through the commands: dates in them, their scores, what is said where something is amiss."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stratagp
from stratagp.cli import many_files, output
from stratagp.cli.learning import Learnt
from stratagp.cli.many_files import SALT
from stratagp.data import Rules, open_source, source, survey
from stratagp.data.rules import Divided
from tests.cli.conftest import table

FIT = ("-t", "price", "--epochs", "2", "-o", "model")


def parts(files: int = 3, rows: int = 40, **columns) -> list[pd.DataFrame]:
    """Files of a folder, and the tables in them."""
    Path("parts").mkdir()
    frames = [table(rows, seed=i).drop(columns="id").assign(**columns) for i in range(files)]
    for i, frame in enumerate(frames):
        frame.to_csv(f"parts/{i}.csv", index=False)
    return frames


def days(rows: int = 40) -> list[str]:
    return pd.date_range("2020-11-08", periods=rows).strftime("%Y-%m-%d").tolist()


def test_dates_of_csv_files_are_dates_in_every_command(call, call_json, here):
    frame = parts(day=days())[0]
    said = call("fit", "parts", *FIT, "-v")
    assert "day     date      40" in said.stderr
    known = json.loads(Path("model/table.json").read_text())["columns"]
    assert {each["name"]: each["kind"] for each in known} == {"size": "number", "town": "category", "day": "date"}
    assert "day (date)" in call("info", "model").stdout
    effects = json.loads(Path("model/results.json").read_text())["effects"]["curves"]
    shown = next(each for each in effects if each["name"] == "day")
    assert (shown["kind"], shown["values"][0], shown["values"][-1]) == ("date", "2020-11-08", "2020-12-17")
    mean = call_json("predict", "model", "parts/0.csv")["predictions"]["mean"]
    model = stratagp.load("model")
    assert model.predict(frame.drop(columns="price")) == pytest.approx(mean)  # dates as texts
    rmse = call_json("evaluate", "model", "parts/0.csv")["metrics"]["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean((mean - frame["price"]) ** 2)))


def test_a_folder_is_evaluated_by_blocks(call, call_json, here, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_ROWS", 16)  # of three files of 40 rows
    frames = parts(more=1)
    call("fit", "parts", *FIT, "--no-report", "--as", "more=ignore")
    pd.concat(frames).to_csv("all.csv", index=False)
    whole, found = call_json("evaluate", "model", "all.csv"), call_json("evaluate", "model", "parts")
    assert found["rows"] == 120
    assert found["metrics"] == pytest.approx(whole["metrics"], rel=1e-6)
    frames[1].loc[[20, 30], "size"] = None
    frames[1].loc[35, "price"] = None
    frames[1].drop(columns="more").assign(colour="red").to_csv("parts/1.csv", index=False)
    for i in (0, 2):
        frames[i].drop(columns="more").assign(colour="red").to_csv(f"parts/{i}.csv", index=False)
    said = call("evaluate", "model", "parts", code=1).stderr
    assert "parts/1.csv has no value in column 'size', row 21, which the model has not learnt to fill" in said
    said = call("evaluate", "model", "parts", "--drop-missing")
    assert said.stdout.splitlines()[1].startswith("117 rows  ")
    assert said.stderr.count("the model does not use these columns: 'colour'") == 1
    assert "left out 1 of 120 rows, which have no target" in said.stderr
    assert (
        "left out 2 of 120 rows, which the model cannot predict; the first has no value in column 'size', row 21"
        in said.stderr
    )
    assert "--delimiter, --encoding" in call("evaluate", "model", "parts", "--decimal", ",", code=1).stderr


def test_answers_are_not_written_over_the_rows(call, here):
    parts()
    call("fit", "parts", *FIT, "--test", "0", "--epochs", "1")
    before = Path("parts/1.csv").read_bytes()
    assert (
        "among the files that X is read from" in call("predict", "model", "parts", "-o", "parts/1.csv", code=1).stderr
    )
    assert Path("parts/1.csv").read_bytes() == before


def test_messages_name_options_and_count_rows_from_1(call, here, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_ROWS", 16)
    frames = parts()
    frames[2].loc[20, "size"] = None
    frames[2].to_csv("parts/2.csv", index=False)
    said = call("fit", "parts", *FIT, "--test", "0", code=1).stderr
    assert "parts/2.csv: row 21 has missing or infinite values in column 'size': fill them, or --drop-missing" in said
    said = call("fit", "parts", *FIT, "--test", "0", "--drop-missing", "-v", "--epochs", "1").stderr
    assert "119 rows to train on, in 3 parts" in said
    assert "1 step in 1 epoch\n" in said
    assert "values in first 16  missing in first 16" in said
    said = call("predict", "model", "parts", "-o", "out.csv", code=1).stderr
    assert (
        "parts/2.csv has no value in column 'size', row 21, which the model has not learnt to fill: correct it" in said
    )
    assert not Path("out.csv").exists()
    frames[2].fillna(1.0).replace("Oslo", "Rome").to_csv("parts/2.csv", index=False)
    said = call("predict", "model", "parts", "-o", "out.csv").stderr
    assert said.count("the category 'Rome' in column 'town', which was not in the training data") == 1


def test_help_says_what_is_not_for_folders(call):
    said = " ".join(call("fit", "--help").stdout.split())
    assert "drawn at random; not for folders" in said
    assert "by fewer epochs, candidates or rows; not for folders" in said


def test_classes_that_are_truth_values_are_evaluated_from_a_file_and_a_folder(call, call_json, here):
    frames = parts(price=["true", "false"] * 20, new=["true", "true", "false", "false"] * 10)
    call("fit", "parts", *FIT, "--no-report")
    one, all_of_them = call_json("evaluate", "model", "parts/0.csv"), call_json("evaluate", "model", "parts")
    assert (one["rows"], all_of_them["rows"]) == (40, 120)
    assert call_json("predict", "model", "parts/0.csv")["rows"] == 40
    assert 0 <= one["metrics"]["accuracy"] <= 1
    frames[1].assign(price="maybe").to_csv("parts/1.csv", index=False)
    assert "the class 'maybe', which the model does not know" in call("evaluate", "model", "parts", code=1).stderr


def test_scores_that_are_not_numbers_are_not_shown_as_zero(call, here, monkeypatch):
    table().to_csv("houses.csv", index=False)
    bad = {"rmse": 1.0, "mae": 1.0, "r2": float("nan"), "nlpd": float("inf"), "coverage95": 0.5}
    compared = Learnt.compared
    monkeypatch.setattr(Learnt, "compared", lambda self: (compared(self)[0], {"boosting": bad}, {}))
    shown = call("fit", "houses.csv", "-t", "price", "-o", "model").stdout
    assert shown.splitlines()[2].split() == ["boosting", "1", "1", "–", "inf", "50", "%"]
    assert call("info", "model").stdout.splitlines()[-1].split() == ["boosting", "1", "1", "–", "–", "50", "%"]
    assert json.loads(Path("model/results.json").read_text())["performance"]["baselines"]["boosting"]["nlpd"] is None
    page = Path("model/report.html").read_text()
    assert re.search(r"boosting</t[hd]>\s*<td[^>]*>1</td>\s*<td[^>]*>1</td>\s*<td[^>]*>–</td>", page)


def test_dates_that_parquet_files_store_as_text_are_categories(call, here):
    Path("parts").mkdir()
    for i in range(2):
        table(40, seed=i).assign(day=days()[:5] * 8).to_parquet(f"parts/{i}.parquet")
    said = call("fit", "parts", *FIT, "--no-report").stderr
    assert "column 'day': dates stored as text are categories in files" in said
    assert "day (category)" in call("info", "model").stdout


def test_arrays_without_names_are_refused(call, houses, here):
    Path("parts").mkdir()
    np.save("parts/0.npy", np.ones((3, 2)))
    said = "parts holds arrays, whose columns have no names: use CSV or Parquet files"
    for command in (("fit", "parts", *FIT), ("evaluate", houses["model"], "parts")):
        assert said in call(*command, code=1).stderr


def test_other_processes_than_the_first_wait_before_they_tell_an_error(call, here, monkeypatch):
    parts()
    waited = list[float]()
    monkeypatch.setattr(output.time, "sleep", waited.append)
    monkeypatch.setenv("RANK", "1")
    said = call("fit", "parts", "-t", "prize", code=1).stderr
    assert said == "error in process 1: parts has no column 'prize'; did you mean 'price' or 'size'?\n"
    assert waited == [5.0]
    monkeypatch.setenv("RANK", "0")
    assert call("fit", "parts", "-t", "prize", code=1).stderr.startswith("error: parts has no column")
    assert waited == [5.0]


def test_a_kind_that_is_not_the_stored_one_is_refused(call, here):
    parts()
    said = call("fit", "parts", *FIT, "--as", "size=category", code=1).stderr
    assert "--as size=category: in batches a column is read as it is stored, here as a " in said


def test_a_report_that_fails_loses_neither_scores_nor_model(call, here, monkeypatch):
    def fails(*_, **__):
        raise TypeError("no such page")

    table().to_csv("houses.csv", index=False)
    monkeypatch.setattr(stratagp.report, "gather", fails)
    said = call("fit", "houses.csv", "-t", "price", "-o", "model")
    assert (
        "warning: the report failed, but the model is saved: TypeError no such page (--debug shows where)"
        in said.stderr
    )
    assert "StrataGP, exact" in said.stdout
    assert said.stdout.endswith("model: model\n")
    assert "Traceback" in call("fit", "houses.csv", "-t", "price", "-o", "model", "--overwrite", "--debug").stderr
    assert stratagp.load("model") is not None


def test_training_rows_are_not_read_again_for_the_report(call, here, monkeypatch):
    """Of 120 rows in three files the 40 of one are held out, and read once for the test."""
    parts()
    read, sampled = list[int](), many_files.sampled
    monkeypatch.setattr(many_files, "sampled", lambda held, seed: (read.append(held.rows), sampled(held, seed))[1])
    call("fit", "parts", *FIT)
    assert read == [40]
    assert json.loads(Path("model/results.json").read_text())["data"]["rows"] == 80


def test_the_sample_of_a_survey_is_that_of_another_pass(here):
    """Also with validation, whose rows are training rows as far as a report goes."""
    parts(price=["a", "b"] * 20, day=days())
    whole = open_source("parts", "price")
    seen = survey(whole, Rules(0.3, seed=5), of_classes=True)
    one, other = many_files.learnt_from(seen), many_files.sampled(whole, 5)
    pd.testing.assert_frame_equal(one.X, other.X)
    assert (one.y.tolist(), one.of) == (other.y.tolist(), 120)
    assert one.X["day"].dtype.kind == "M"
    assert one.X["town"].dtype == object


def test_rows_held_out_are_not_counted_among_those_of_training(call, here):
    frame = table(400).drop(columns="id")
    frame.to_csv("houses.csv", index=False)
    said = call("fit", "house*.csv", *FIT, "--no-report", "-v", "--test", "0.25").stderr
    assert "regression by autogp on about 0.75 of 400 rows in files" in said
    Path("houses.csv").unlink()
    parts()
    assert "regression by autogp on 80 rows in files" in call("fit", "parts", *FIT, "-v", "--overwrite").stderr


def test_rows_are_counted_in_their_file_also_where_some_are_held_out(call, here):
    frame = table(400).drop(columns="id")
    frame.loc[300:, "size"] = None
    frame.to_csv("houses.csv", index=False)
    source = open_source("houses.csv", "price", ["size", "town"])
    said = call("fit", "house*.csv", *FIT, "--test", "0.5", code=1).stderr
    rows = np.concatenate([block.X.index for block in Divided(source, 0.5, SALT, held=False).all_blocks()])
    assert f"houses.csv: row {rows[rows >= 300][0] + 1} has missing or infinite values in column 'size'" in said


def test_zones_in_names_of_folders_are_of_one_kind_whichever_are_held_out(call, call_json, here):
    for i, zone in enumerate(("1", "2", "A")):
        for j in range(2):
            Path(f"in/zone={zone}").mkdir(parents=True, exist_ok=True)
            table(30, seed=2 * i + j).drop(columns="id").to_parquet(f"in/zone={zone}/{j}.parquet")
    for seed, known in (("68", ["1", "2"]), ("1", ["1", "2", "A"])):  # the first holds both files of A out
        call("fit", "in", *FIT, "--test", "0.4", "--no-report", "--seed", seed, "--overwrite")
        assert stratagp.load("model").inputs_.encoder.categories["zone"] == known
        assert call_json("predict", "model", "in/zone=1", "-o", "out.csv")["rows"] == 60
        X = table(30, seed=1).assign(zone="1")[["size", "town", "zone"]]
        assert stratagp.load("model").predict(X) == pytest.approx(pd.read_csv("out.csv")["mean"][30:])
        assert call_json("evaluate", "model", "in/zone=2")["rows"] == 60
