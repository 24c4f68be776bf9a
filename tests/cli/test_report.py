"""The page about other rows, which rows it names, and descriptions that are not to be trusted."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stratagp.cli.commands import report
from stratagp.cli.commands.fit import prepare
from stratagp.cli.output import Console
from stratagp.cli.settings import Settings
from stratagp.cli.table import Format
from stratagp.recipes import choose
from tests.cli.conftest import table


def judged(data: str) -> dict:
    return report.judged(Console(silent=True), "model", data, False, Format())


def test_other_rows_are_judged_without_the_training_file(call, here):
    frame = table(45)
    frame.loc[[0, 3], "price"] = np.nan
    call("fit", "-", "-t", "price", "-o", "model", "--drop-missing", given=frame.to_csv(index=False))
    left = json.loads(Path("model/results.json").read_text())
    for each in left["worst"]["rows"]:  # as the file has them, from 1
        row = frame.iloc[int(each["row"]) - 1]
        assert row["price"] == pytest.approx(each["true"])
    table(20, seed=1).to_csv("new.csv", index=False)
    found = judged("new.csv")
    assert found["data"] == {**left["data"], "test_rows": 20}
    assert found["effects"] == left["effects"]
    assert found["performance"]["of"] == 20
    assert {int(each["row"]) for each in found["worst"]["rows"]} <= set(range(1, 21))
    Path("model/results.json").unlink()
    assert judged("new.csv")["repeat"]["assumptions"][-1].startswith("the fit stored no summary of its rows")
    Path("model/results.json").write_text('{"data": 3}')
    assert "results.json is damaged" in call("report", "model", "--data", "new.csv", code=1).stderr


@pytest.mark.parametrize(("test", "model"), [(0.5, "exact"), (0.2, "vecchia")])
def test_the_model_is_chosen_by_the_rows_that_are_trained_on(here, monkeypatch, test, model):
    monkeypatch.setattr(choose, "EXACT_ROWS", 40)
    table(60).to_csv("t.csv", index=False)
    ready = prepare(Console(silent=True), Settings("t.csv", "price", model="single", test=test))
    assert (ready.choice.model, len(ready.parts.y)) == (model, 60 - 60 * test)
    assert f"{len(ready.parts.y)} rows" in ready.choice.reason


@pytest.mark.parametrize(
    "strange",
    [
        {"text": ["size"]},
        {"text": "colour"},
        {"task": "foo"},
        {"task": ["regression"]},
        {"columns": [{"name": 5, "kind": "number", "distinct": 1, "missing": 0}]},
        {"columns": [{"name": "size", "kind": "colour", "distinct": 1, "missing": 0}]},
        {"columns": [{"name": "size", "kind": ["number"], "distinct": 1, "missing": 0}]},
        {"columns": [{"name": "size"}]},
        {"columns": 3},
        {"about": [1]},
    ],
)
def test_a_damaged_table_file_is_told(call, houses, here, strange):
    shutil.copytree(houses["model"], "model")
    path = Path("model/table.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **strange}))
    for command in (("info", "model"), ("predict", "model", houses["file"])):
        assert call(*command, code=1).stderr.startswith("error: model/table.json is damaged: ")


def test_foreign_descriptions_do_not_reach_the_terminal_raw(call, houses, here):
    shutil.copytree(houses["model"], "model")
    path = Path("model/table.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "target": "pri\x1b[2Jce\n"}))
    assert "target     pri\ufffd[2Jce\n" in call("info", "model").stdout
    for strange in ({"rows": {"train": "x"}}, {"metrics": 3}, {"metrics": {"rmse": "x"}}):
        path.write_text(json.dumps({**found, "about": {**found["about"], **strange}}))
        assert "error: model is damaged: its description" in call("info", "model", code=1).stderr


@pytest.mark.parametrize("first", ["review", "kind"])
def test_texts_beside_categories_have_a_report(call, here, first):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "review": [" ".join(rng.choice(["good", "bad", "fine"], 6)) + f" {i}" for i in range(60)],
            "kind": rng.choice(["Test", "Train"], 60),
        }
    )
    frame["y"] = frame.review.str.count("good") + (frame.kind == "Test")
    frame[[first, *frame.columns.drop(first)]].to_csv("t.csv", index=False)
    said = call("fit", "t.csv", "-t", "y", "--model", "gp-drf", "--epochs", "1", "-o", "m")
    assert "the report failed" not in said.stderr
    curves = json.loads(Path("m/results.json").read_text())["effects"]["curves"]
    assert {each["name"]: each["values"] for each in curves}["kind"] in (["Test", "Train"], ["Train", "Test"])


def test_a_model_that_fills_gaps_is_not_exported(call, here):
    frame = table(40)
    frame.loc[5, "size"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    call("fit", "gaps.csv", "-t", "price", "--no-report", "--test", "0", "-o", "m")
    told = call("export", "m", "-o", "m.pt2", code=1).stderr
    assert told.startswith("error: export: this model fills missing inputs and averages over what they may be")
