"""Categories and classes are the letters of the file, at the fit and afterwards."""

import numpy as np
import pandas as pd
import pytest

from stratagp.cli.model_folder import open_model


def coded(n: int = 40) -> pd.DataFrame:
    """Truth values, codes with a zero in front, and whole numbers of which one is missing, as texts."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"old": rng.choice(["true", "false"], n), "zip": rng.choice(["01234", "00234"], n)})
    frame["code"] = rng.choice(["1234", "77"], n)
    frame.loc[3, "code"] = ""
    frame["price"] = ((frame["old"] == "true") + 2 * (frame["zip"] == "01234") + rng.normal(0, 0.1, n)).round(4)
    return frame


@pytest.mark.parametrize("file", ["codes.csv", "-"])
def test_a_model_predicts_the_file_that_it_was_fitted_to(call, call_json, here, file):
    frame = coded()
    frame.to_csv("codes.csv", index=False)
    kinds = ["--as", "zip=category", "--as", "code=category"]
    given = frame.to_csv(index=False) if file == "-" else None
    call("fit", file, "-t", "price", *kinds, "-o", "model", "--no-report", given=given)
    learnt = open_model("model").schema.categories
    assert learnt == {"old": ["false", "true"], "zip": ["00234", "01234"], "code": ["1234", "77"]}
    assert call_json("predict", "model", "codes.csv")["rows"] == len(frame)
    frame.iloc[:3].to_csv("few.csv", index=False)
    assert call_json("evaluate", "model", "few.csv")["rows"] == 3


def test_whole_numbers_of_a_parquet_file_are_the_same_categories_beside_a_gap(call, call_json, here):
    frame = coded()
    frame["code"] = pd.to_numeric(frame["code"])
    frame.to_parquet("codes.parquet")
    call("fit", "codes.parquet", "-t", "price", "--as", "code=category", "-o", "model", "--no-report")
    assert open_model("model").schema.categories["code"] == ["1234", "77"]
    frame.dropna().astype({"code": int}).to_parquet("whole.parquet")
    assert call_json("predict", "model", "whole.parquet")["rows"] == len(frame) - 1


def test_settings_repeat_what_was_said_of_columns(call, call_json, here):
    coded().to_csv("codes.csv", index=False)
    said = ["--as", "zip=category", "--as", "code=ignore"]
    first = call_json("fit", "codes.csv", "-t", "price", *said, "-o", "model", "--no-report")
    again = call_json("fit", "codes.csv", "--config", "model/settings.toml", "-o", "again", "--no-report")
    assert again["metrics"] == first["metrics"]
    assert open_model("again").schema.fields == open_model("model").schema.fields
    with open("model/settings.toml", "a") as settings:
        settings.write("rows = 'many'\n")
    assert "Invalid value for '--rows'" in call("fit", "--config", "model/settings.toml", code=2).stderr


def test_classes_that_look_like_numbers_in_another_file_are_known(call, call_json, here):
    frame = coded()
    frame["kind"] = np.where(frame["old"] == "true", "7", "12a")
    frame[["price", "kind"]].to_csv("kinds.csv", index=False)
    call("fit", "kinds.csv", "-t", "kind", "-o", "model", "--no-report")
    frame.loc[frame["kind"] == "7", ["price", "kind"]].to_csv("sevens.csv", index=False)
    assert call_json("evaluate", "model", "sevens.csv")["rows"] == (frame["kind"] == "7").sum()


def test_classes_of_truth_values_are_known_again(call, call_json, here):
    coded()[["price", "old"]].to_csv("truths.csv", index=False)
    call("fit", "truths.csv", "-t", "old", "-o", "model", "--no-report")
    assert open_model("model").model.classes_.tolist() == ["false", "true"]
    assert call_json("evaluate", "model", "truths.csv")["rows"] == 40


def test_truth_values_of_a_parquet_file_are_known_in_a_text_file(call, call_json, here):
    frame = coded()[["old", "price"]]
    frame.assign(old=frame["old"] == "true").to_parquet("truths.parquet")
    frame.to_csv("truths.csv", index=False)
    call("fit", "truths.parquet", "-t", "price", "-o", "model", "--no-report")
    first, second = (call_json("predict", "model", f"truths.{kind}") for kind in ("parquet", "csv"))
    assert first == second
