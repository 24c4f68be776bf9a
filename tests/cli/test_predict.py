"""Predictions, scores and descriptions of a model that is there."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import stratagp
from stratagp.cli.table import Format, TableFile
from tests.cli.conftest import table


def test_predictions_are_those_of_the_model_whatever_the_order_of_columns(call, houses, here):
    new = table(7, seed=1)
    new[["town", "size"]].to_csv("new.csv", index=False)
    found = pd.read_csv(io.StringIO(call("predict", houses["model"], "new.csv").stdout))
    model = stratagp.load(houses["model"])
    mean, std = model.predict(new[["size", "town"]], return_std=True)
    lower, upper = model.predict_interval(new[["size", "town"]])
    np.testing.assert_allclose(found, np.stack([mean, std, lower, upper], 1), rtol=1e-15)


def test_columns_that_are_not_known_are_ignored_with_a_warning(call, houses, here):
    table(3).assign(colour="red").to_csv("new.csv", index=False)
    run = call("predict", houses["model"], "new.csv", "-o", "out.parquet")
    assert run.stderr == "warning: the model does not use these columns: 'colour'\n"
    assert run.stdout == "3 predictions: out.parquet\n"
    assert list(pd.read_parquet("out.parquet")) == ["mean", "std", "lower", "upper"]


def test_one_row_and_another_level(call_json, houses, here):
    table(1).to_csv("new.csv", index=False)
    wide, narrow = (call_json("predict", houses["model"], "new.csv", "--level", level) for level in ("0.95", "0.5"))
    width = [each["predictions"]["upper"][0] - each["predictions"]["lower"][0] for each in (wide, narrow)]
    assert width[0] / width[1] == pytest.approx(1.959964 / 0.674490, rel=1e-5)


@pytest.mark.parametrize("out", ["new.csv", "./new.csv", "same.csv"])
def test_rows_are_not_written_over_by_their_predictions(call, houses, here, out):
    table(4).to_csv("new.csv", index=False)
    Path("same.csv").symlink_to("new.csv")
    before = Path("new.csv").read_bytes()
    said = call("predict", houses["model"], "new.csv", "-o", out, code=1).stderr
    assert said == f"error: --out: {out} is the file to predict: give another name\n"
    assert Path("new.csv").read_bytes() == before


def test_predictions_appear_whole_or_not_at_all(call, houses, here, monkeypatch):
    def dies(frame, path, **_):
        Path(path).write_text("half of")
        raise OSError("no space left")

    table(4).to_csv("new.csv", index=False)
    call("predict", houses["model"], "new.csv", "-o", "out.csv")
    before = Path("out.csv").read_bytes()
    monkeypatch.setattr(pd.DataFrame, "to_csv", dies)
    assert "no space left" in call("predict", houses["model"], "new.csv", "-o", "out.csv", code=1).stderr
    assert Path("out.csv").read_bytes() == before
    assert sorted(each.name for each in here.iterdir()) == ["new.csv", "out.csv"]


def test_a_folder_of_files_is_predicted_in_batches(call, houses, here):
    Path("many").mkdir()
    for i in range(2):
        table(4, seed=i)[["size", "town"]].to_parquet(f"many/{i}.parquet")
    call("predict", houses["model"], "many", "-o", "out.csv")
    model = stratagp.load(houses["model"])
    expected = np.concatenate([model.predict(table(4, seed=i)[["size", "town"]]) for i in range(2)])
    assert pd.read_csv("out.csv")["mean"].to_numpy() == pytest.approx(expected, rel=1e-12)


def test_rows_without_an_answer_are_skipped_when_asked(call, call_json, houses, here):
    new = table(6, seed=3)
    new.loc[[1, 4], "size"] = np.nan
    new.to_csv("new.csv", index=False)
    run = call("predict", houses["model"], "new.csv", "--skip", "-o", "out.csv")
    assert "2 of 6 rows have no prediction; the first has no value in column 'size', row 2" in run.stderr
    found, left = pd.read_csv("out.csv"), [0, 2, 3, 5]
    expected = stratagp.load(houses["model"]).predict(new[["size", "town"]].iloc[left])
    assert found.index[found["mean"].isna()].tolist() == [1, 4]
    assert found["mean"].to_numpy()[left] == pytest.approx(expected, rel=1e-12)
    assert call_json("predict", houses["model"], "new.csv", "--skip")["predictions"]["mean"][1] is None
    said = call_json("evaluate", houses["model"], "new.csv", "--drop-missing")
    assert said["metrics"]["mae"] == pytest.approx(np.abs(expected - new["price"].iloc[left]).mean(), rel=1e-12)


def test_an_empty_line_of_a_single_column_is_a_row(here):
    Path("t.csv").write_text("text\nab\n\ncd\n\n")
    assert TableFile("t.csv", Format()).read()["text"].isna().tolist() == [False, True, False]


def test_standard_input_is_read(call, houses):
    text = table(3).to_csv(index=False)
    assert len(call("predict", houses["model"], "-", given=text).stdout.splitlines()) == 4


def test_evaluation_by_hand(call_json, call, houses, here):
    new = table(9, seed=2)
    new.to_csv("new.csv", index=False)
    said = call_json("evaluate", houses["model"], "new.csv")
    error = new["price"] - stratagp.load(houses["model"]).predict(new[["size", "town"]])
    assert said["rows"] == 9
    assert said["metrics"]["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-12)
    assert said["metrics"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
    shown = call("evaluate", houses["model"], "new.csv").stdout.splitlines()
    assert shown[0].split()[:2] == ["RMSE", "MAE"]
    assert f"{said['metrics']['mae']:.4g}" in shown[1]


def test_one_row_has_no_r2(call_json, houses, here):
    table(1).to_csv("new.csv", index=False)
    assert call_json("evaluate", houses["model"], "new.csv")["metrics"]["r2"] is None


def test_classes_with_probabilities(call, here):
    frame = table(40).assign(dear=lambda t: t.price > 7).drop(columns=["price", "id"])
    frame.to_csv("kinds.csv", index=False)
    call("fit", "kinds.csv", "-t", "dear", "--no-report", "--test", "0")
    found = pd.read_csv(io.StringIO(call("predict", "kinds-model", "kinds.csv").stdout))
    assert list(found) == ["class", "p(False)", "p(True)"]
    assert found["p(True)"].to_numpy() + found["p(False)"].to_numpy() == pytest.approx(1, abs=1e-12)
    assert (found["class"] == frame["dear"]).mean() > 0.9


def test_information_needs_no_model_in_memory(call, call_json, houses):
    said = call_json("info", houses["model"])
    assert said["class"] == "GPRegressor"
    assert said["target"] == "price"
    assert said["metrics"] == houses["said"]["metrics"]
    shown = call("info", houses["model"]).stdout
    assert "size (number), town (category)" in shown
    assert "48 trained on, 12 held out" in shown
    assert "gradient boosting" in shown


def test_an_exported_model_says_what_the_model_says(call_json, call, houses, here):
    assert call_json("export", houses["model"], "-o", "houses.pt2") == {"out": "houses.pt2", "format": "torch"}
    said = {"stratagp.json": ""}
    program = torch.export.load("houses.pt2", extra_files=said).module()
    about = json.loads(said["stratagp.json"])
    frame = pd.read_csv(houses["file"])[about["columns"]]
    codes = frame.assign(town=frame["town"].map(about["categories"]["town"].index))
    mean, variance = program(torch.from_numpy(codes.to_numpy(dtype=float)))
    expected = stratagp.load(houses["model"]).predict(frame, return_std=True)
    np.testing.assert_allclose(mean[:, 0].detach(), expected[0], rtol=1e-7)
    np.testing.assert_allclose(variance[:, 0].detach().sqrt(), expected[1], rtol=1e-6)
    assert "must end with .onnx or .pt2" in call("export", houses["model"], "-o", "houses.pkl", code=1).stderr


def test_keys_are_carried_into_the_output_as_they_are_written(call, call_json, houses, here):
    new = table(4, seed=1).assign(key=["007", "01", "x,y", "2"])
    new.to_csv("new.csv", index=False)
    run = call("predict", houses["model"], "new.csv", "--keep", "key", "--keep", "town", "-o", "out.csv")
    assert run.stderr == ""
    found = pd.read_csv("out.csv", dtype={"key": str})
    assert list(found) == ["key", "town", "mean", "std", "lower", "upper"]
    assert found["key"].tolist() == ["007", "01", "x,y", "2"]
    assert found["town"].tolist() == new["town"].tolist()
    said = call_json("predict", houses["model"], "new.csv", "--keep", "key")["predictions"]
    assert said["key"] == ["007", "01", "x,y", "2"]
    assert said["mean"] == pytest.approx(found["mean"].tolist(), rel=1e-12)
    assert "did you mean 'key'?" in call("predict", houses["model"], "new.csv", "--keep", "kei", code=1).stderr
    new.assign(mean=1).to_csv("new.csv", index=False)
    told = call("predict", houses["model"], "new.csv", "--keep", "mean", code=1).stderr
    assert "predictions have a column of that name" in told


def test_information_has_the_kernel_and_its_values(call, call_json, houses):
    shown = call("info", houses["model"]).stdout
    found = {row.name: row.value for row in stratagp.load(houses["model"]).hyperparameters_}
    assert re.search(r"^kernel +\w+\(", shown, re.MULTILINE)
    for name, value in found.items():
        assert f"{name} = {value:.4g}" in shown
    told = call_json("info", houses["model"])["learnt"]["values"]
    assert {each["name"]: each["value"] for each in told} == pytest.approx(found, rel=1e-12)


def test_a_text_that_was_a_missing_value_of_the_fit_is_one_of_new_rows(call, call_json, here):
    frame = table(40).astype({"size": object})
    frame.loc[3, "size"] = frame.loc[7, "size"] = "?"
    frame.to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "price", "--missing", "?", "--no-report", "-o", "model")
    found = call_json("predict", "model", "t.csv")["predictions"]["mean"]
    assert found == call_json("predict", "model", "t.csv", "--missing", "?")["predictions"]["mean"]
    assert call_json("evaluate", "model", "t.csv")["rows"] == 40
