"""What columns are taken as, which task and model follow, and kernels from text."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stratagp import kernels as k
from stratagp import load
from stratagp.cli import table as tables
from stratagp.cli.kernel_text import parse_kernel
from stratagp.cli.models import Choice, build, choose
from stratagp.cli.settings import Settings
from stratagp.cli.table import examine
from stratagp.cli.target import find_task
from tests.cli.conftest import table

SETTINGS = Settings("t.csv", "y")


def mixed(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "row_id": [f"r{i}" for i in range(n)],
            "when": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "gene": ["".join(rng.choice(list("ACGT"), 9)) for _ in range(n)],
            "town": rng.choice(["Bonn", "Oslo"], n),
            "sold": rng.choice([True, False], n),
            "width": rng.normal(size=n),
            "count": np.arange(n),
            "empty": np.nan,
            "y": rng.normal(size=n),
        }
    )


def test_kinds_of_columns():
    kinds = {each.name: each.kind for each in examine(mixed(), "y", {"count": "ignore"})}
    assert kinds == {
        "row_id": "ignore",
        "when": "date",
        "gene": "text",
        "town": "category",
        "sold": "category",
        "width": "number",
        "count": "ignore",
        "empty": "ignore",
    }


def test_texts_of_one_length_are_told_that_places_are_not_compared():
    remarks = {each.name: each.remark for each in examine(mixed(), "y", {})}
    assert remarks["gene"].startswith("all have 9 letters")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        ([1.5, 2.5, 3.5], "regression"),
        ([0, 1, 2] * 3, "classification"),
        ([3, 4, 5, 6] * 5, "regression"),
        (list(range(30)), "regression"),
    ],
)
def test_tasks(values, task):
    assert find_task(pd.Series(values, name="y"), "auto")[0] == task


@pytest.mark.parametrize(
    ("rows", "classes", "model"),
    [
        (4000, 0, "exact"),
        (4001, 0, "vecchia"),
        (200_001, 0, "vecchia"),
        (3000, 2, "exact"),
        (1001, 3, "vecchia"),
    ],
)
def test_single_models_go_by_size(rows, classes, model):
    columns = examine(mixed().drop(columns="gene"), "y", {})
    assert choose(replace(SETTINGS, model="single"), columns, rows, classes).model == model


@pytest.mark.parametrize(
    ("rows", "given", "model", "seconds"),
    [
        (400, {}, "best", "60 s"),
        (40_000, {}, "best", "180 s"),
        (40_000, {"time_limit": 30.0}, "best", "30 s"),
        (19, {}, "exact", ""),
        (50_001, {}, "vecchia", ""),
        (400, {"kernel": "RBF"}, "exact", ""),
        (400, {"log": True}, "autogp", ""),
        (400, {"likelihood": "poisson"}, "autogp", "--likelihood poisson"),
        (400, {"device": "cuda"}, "exact", ""),
    ],
)
def test_the_best_mixture_is_the_default_where_there_is_one(rows, given, model, seconds):
    columns = examine(mixed().drop(columns="gene"), "y", {})
    found = choose(replace(SETTINGS, **given), columns, rows, 0)
    assert found.model == model
    assert seconds in found.reason


def test_texts_ask_for_processes_over_texts():
    single, mixture = replace(SETTINGS, model="single"), choose(SETTINGS, examine(mixed(), "y", {}), 40, 0)
    assert (mixture.model, mixture.texts) == ("best", ("gene",))
    assert choose(single, examine(mixed(), "y", {}), 40, 0).model == "gp-drf"
    alone = examine(mixed()[["gene", "y"]], "y", {})
    assert choose(single, alone, 40, 0).model == "exact"
    assert not choose(SETTINGS, alone, 40, 0).alone


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("RBF", k.RBF()),
        ("2 * RBF(lengthscale=0.5) + Linear ** 2", 2 * k.RBF(lengthscale=0.5) + k.Linear() ** 2),
        ("RBF(on=0)*Periodic(period=1).on([1])", k.RBF().on(0) * k.Periodic(period=1).on([1])),
        ("Matern(nu=1.5, lengthscale=[1, 2])", k.Matern(nu=1.5, lengthscale=[1, 2])),
    ],
)
def test_a_kernel_from_text_has_the_values_of_the_one_from_python(text, kernel):
    x = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(parse_kernel(text)(x), kernel(x))


def test_a_fixed_value_of_a_kernel_from_text_stays(call, here):
    frame = pd.DataFrame({"t": np.arange(60.0)})
    frame.assign(y=np.sin(2 * np.pi * frame.t / 7.3)).to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "y", "-o", "m", "--kernel", "Periodic(period=7.25).fix('period')", "--no-report")
    assert load("m").kernel_.period.item() == pytest.approx(7.25, rel=1e-12)
    call("fit", "t.csv", "-t", "y", "-o", "n", "--kernel", "Periodic(period=7.25)", "--no-report")
    assert abs(load("n").kernel_.period.item() - 7.3) < 0.01
    assert (
        "there is no parameter 'period' of RBF"
        in call("fit", "t.csv", "-t", "y", "--kernel", "RBF.fix('period')", code=1).stderr
    )


@pytest.mark.parametrize("more", [("autogp", "--epochs", "1"), ("exact",), ("sparse",)])
def test_a_device_goes_to_every_model_and_into_the_settings(call, here, more):
    table(30).to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "price", "-o", "model", "--no-report", "--device", "cpu", "--model", *more)
    assert load("model").get_params()["device"] == "cpu"
    assert 'device = "cpu"' in Path("model/settings.toml").read_text()
    settings = replace(SETTINGS, device="meta")
    assert build(Choice(more[0], ""), "regression", settings, 40).device == "meta"


def test_epochs_go_to_classes_of_a_sparse_model():
    made = build(Choice("sparse", ""), "classification", replace(SETTINGS, epochs=3), 40)
    assert (made.inference, made.max_epochs) == ("stochastic", 3)


@pytest.mark.parametrize("name", ["id", "ID", "row_id", "userId", "userID", "Id_of", "Unnamed: 0", "station.key"])
def test_names_of_identifiers(name):
    frame = pd.DataFrame({name: np.arange(30), "x": 0.5, "y": 0.5})
    assert examine(frame, "y", {})[0].kind == "ignore"


@pytest.mark.parametrize("name", ["paid", "grid", "amount_paid", "PAID", "Madrid", "idea", "keys"])
def test_names_that_only_end_like_identifiers(name):
    frame = pd.DataFrame({name: np.arange(30) ** 2, "x": 0.5, "y": 0.5})
    assert examine(frame, "y", {})[0].kind == "number"


def test_memory_that_only_keeps_files_at_hand_can_be_had(tmp_path, monkeypatch):
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n")
    monkeypatch.setattr(tables, "_MEMORY", told)
    (tmp_path / "a.csv").write_bytes(b"1\n" * 1000)
    assert tables._memory() == 8000 * 1024
    assert not tables.is_many(str(tmp_path / "a.csv"))
    monkeypatch.setattr(tables, "_MEMORY", tmp_path / "none")
    assert tables._memory() > 0
