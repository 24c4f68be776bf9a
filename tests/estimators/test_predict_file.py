"""Predictions from files to a file: nothing is overwritten, rows stay in their places, messages name file and row."""

import logging

import numpy as np
import pandas as pd
import pytest

from stratagp import (
    AutoGPClassifier,
    AutoGPRegressor,
    ConformalRegressor,
    DFGPRegressor,
    DKLRegressor,
    GPClassifier,
    GPDRFRegressor,
    GPRegressor,
    StudentTProcessRegressor,
)
from stratagp.data import Frame, open_source
from stratagp.errors import InputError
from stratagp.estimators.prediction_files import predicted_columns


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=n)
    return pd.DataFrame({"id": np.arange(n), "x": x, "city": rng.choice(["Oslo", "Rome"], size=n), "price": np.sin(x)})


def quick(estimator):
    estimator.max_epochs = 5
    return estimator


@pytest.fixture(scope="module")
def model():
    frame = table()
    return quick(AutoGPRegressor(n_inducing=5, max_epochs=1, random_state=0)).fit(frame[["x", "city"]], frame["price"])


@pytest.fixture
def folder(tmp_path):
    """Files whose names do not come in the order they were written in, with row groups of 100."""
    (tmp_path / "in").mkdir()
    for i in (2, 0, 1):
        table(seed=i).to_parquet(tmp_path / "in" / f"{i}.parquet", row_group_size=100)
    return tmp_path / "in"


def change(path, row, column, value):
    frame = pd.read_parquet(path)
    frame.loc[row, column] = value
    frame.to_parquet(path, row_group_size=100)


def test_inputs_are_never_overwritten(model, folder, monkeypatch):
    before = (folder / "0.parquet").read_bytes()
    monkeypatch.chdir(folder)
    for X in (folder / "0.parquet", folder, str(folder / "*.parquet"), [folder / "1.parquet", folder / "0.parquet"]):
        for out in (folder / "0.parquet", "0.parquet"):
            with pytest.raises(InputError, match=r"out: .*0.parquet is among the files that X is read from: give anot"):
                model.predict_file(X, out)
    with pytest.raises(InputError, match="is among the files"):
        model.predict_file(open_source(folder), folder / "0.parquet")
    with pytest.raises(InputError, match=r"new.parquet is among the files"):
        model.predict_file(folder, folder / "new.parquet")
    assert (folder / "0.parquet").read_bytes() == before
    assert model.predict_file(folder / "0.parquet", folder / "new.parquet") == 300


def test_rows_are_in_the_order_of_files_by_name(model, folder, tmp_path):
    assert model.predict_file(folder, tmp_path / "out.parquet") == 900
    rows = pd.concat([table(seed=i) for i in range(3)])
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out.parquet")["mean"], model.predict(rows[["x", "city"]]))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_that_may_be_dropped_have_empty_predictions(model, folder, tmp_path, caplog, suffix):
    """Among others, and in a first row group where there are none."""
    change(folder / "0.parquet", slice(0, 99), "x", np.nan)
    change(folder / "1.parquet", 250, "city", None)
    change(folder / "1.parquet", 20, "price", np.nan)  # which is not asked for
    out = tmp_path / f"out.{suffix}"
    with caplog.at_level(logging.WARNING, logger="stratagp"):
        assert model.predict_file(open_source(folder, "price", missing="drop"), out) == 900
    assert f"predictions in {out} are empty for rows with missing values: 101 of 900" in caplog.text
    found = pd.read_parquet(out) if suffix == "parquet" else pd.read_csv(out)
    assert np.flatnonzero(found["mean"].isna()).tolist() == [*range(100), 550]
    assert found["upper"].isna().sum() == 101
    rows = table(seed=1)[["x", "city"]]
    np.testing.assert_allclose(found["mean"][551:600], model.predict(rows)[251:])


def test_empty_predictions_of_classes(tmp_path):
    frame = table(60)
    labels = np.where(frame["x"] > 0, "up", "down")
    classes = quick(AutoGPClassifier(n_inducing=5, max_epochs=1, random_state=0)).fit(frame[["x"]], labels)
    rows = frame.assign(x=frame["x"].where(frame.index != 7))
    classes.predict_file(Frame(rows, missing="drop"), tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert np.flatnonzero(found["class"].isna()).tolist() == [7] == np.flatnonzero(found["p(up)"].isna()).tolist()
    assert found["class"][8:].tolist() == classes.predict(frame[["x"]])[8:].tolist()


def test_rows_that_cannot_be_predicted_are_named_by_file_and_row(model, folder, tmp_path):
    change(folder / "1.parquet", 220, "x", np.nan)
    with pytest.raises(InputError, match=r"1.parquet: row 220 has missing or infinite values in column 'x': fill them"):
        model.predict_file(folder, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    change(folder / "1.parquet", 250, "city", "Bonn")
    with pytest.warns(UserWarning, match="the category 'Bonn' in column 'city', which was not in the training data"):
        model.predict_file(open_source(folder, missing="drop"), tmp_path / "out.parquet")


def test_a_missing_input_column_is_none_of_y(model, folder, tmp_path):
    table().drop(columns="x").to_parquet(tmp_path / "t.parquet")
    for X in (tmp_path / "t.parquet", open_source(tmp_path / "t.parquet", "price")):
        with pytest.raises(InputError, match=r"^X: .*t.parquet has no column 'x'; its columns are 'id', 'city'"):
            model.predict_file(X, tmp_path / "out.csv")


def test_rows_in_memory_are_refused_with_what_to_give(model, tmp_path):
    with pytest.raises(
        InputError, match=r"X must be a path or a Source, got DataFrame: for rows in memory use data.Frame\(frame"
    ):
        model.predict_file(table(), tmp_path / "out.csv")


def test_paths_are_pointed_to_what_reads_files(model, folder):
    for ask in (model.predict, model.predict_interval, lambda X: model.score(X, "price")):
        for X in (str(folder), folder, open_source(folder)):
            with pytest.raises(
                InputError, match=r"X must be an array or a data frame, got \w+: predict_file\(X, out\)"
            ):
                ask(X)
    for estimator in (GPRegressor(), GPClassifier()):
        with pytest.raises(
            InputError, match=r"GP\w+ learns from rows in memory; AutoGPRegressor, AutoGPClassifier and"
        ):
            estimator.fit(str(folder), "price")


def test_dates_are_no_targets_in_memory():
    days = pd.date_range("2020-01-01", periods=5)
    for y in (days, list(days.date), days - days[0]):
        with pytest.raises(InputError, match=r"y must hold numbers, got .*: convert times to numbers"):
            GPRegressor().fit(np.arange(5.0)[:, None], y)


def zoned(folder, zones):
    """A folder for each zone, which the target depends on."""
    for i, zone in enumerate(zones):
        (folder / f"zone={zone}").mkdir(parents=True)
        frame = table(100, seed=i)[["x", "price"]]
        frame.assign(price=frame["price"] + 3 * i).to_parquet(folder / f"zone={zone}" / "0.parquet")
    return folder


def test_one_of_the_folders_that_were_learnt_from_is_predicted(tmp_path):
    """Zones are texts, as one of them is no number; 1 is such a text also where it is predicted alone."""
    folder = zoned(tmp_path / "in", ["1", "2", "A"])
    gp = quick(AutoGPRegressor(n_inducing=5, max_epochs=1, random_state=0)).fit(folder, "price")
    assert gp.inputs_.encoder.categories == {"zone": ["1", "2", "A"]}
    for X in (
        folder / "zone=2",
        folder / "zone=2" / "0.parquet",
        open_source(folder / "zone=2", columns=["x", "zone"]),
    ):
        assert gp.predict_file(X, tmp_path / "out.parquet") == 100
        mean = gp.predict(table(100, seed=1)[["x"]].assign(zone="2"))
        assert pd.read_parquet(tmp_path / "out.parquet")["mean"].tolist() == mean.tolist()
    zoned(tmp_path / "new", ["3"])
    with pytest.warns(UserWarning, match="the category '3' in column 'zone', which was not in the training data"):
        gp.predict_file(tmp_path / "new" / "zone=3", tmp_path / "out.parquet")


def test_zones_that_are_numbers_stay_numbers(tmp_path):
    folder = zoned(tmp_path / "in", ["1", "2", "3"])
    gp = quick(AutoGPRegressor(n_inducing=5, max_epochs=1, random_state=0)).fit(folder, "price")
    gp.predict_file(folder / "zone=2", tmp_path / "out.parquet")
    mean = gp.predict(table(100, seed=1)[["x"]].assign(zone=2.0))
    assert pd.read_parquet(tmp_path / "out.parquet")["mean"].tolist() == mean.tolist()


def test_a_model_does_not_depend_on_folders_above_its_files(tmp_path, monkeypatch):
    folder = zoned(tmp_path / "rate=0.1" / "in", ["1", "2"])
    monkeypatch.chdir(folder.parent)
    for where in (folder, "in"):
        gp = quick(AutoGPRegressor(n_inducing=5, max_epochs=1, random_state=0)).fit(where, "price")
        assert gp.feature_names_in_.tolist() == ["x", "zone"]


SHORT = {"max_epochs": 1, "random_state": 0}
REGRESSORS = {
    "exact": lambda: GPRegressor(random_state=0),
    "mixtures": lambda: GPRegressor(noise="heteroscedastic", max_iterations=0),
    "Student-t": lambda: StudentTProcessRegressor(random_state=0),
    "AutoGP": lambda: AutoGPRegressor(n_inducing=5, **SHORT),
    "AutoGP of heavy tails": lambda: AutoGPRegressor(n_inducing=5, likelihood="student-t", **SHORT),
    "DKL": lambda: DKLRegressor(network=[4, 2], pretrain_epochs=1, **SHORT),
    "DFGP": lambda: DFGPRegressor(n_inducing=5, inference="batches", **SHORT),
    "GP-DRF": lambda: GPDRFRegressor(n_inducing=5, n_processes=2, n_layers=1, n_features=10, n_samples=2, **SHORT),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_columns_are_what_the_methods_say_but_rows_are_encoded_once(name, monkeypatch):
    frame, new = table(40), table(30, seed=1)[["x", "city"]]
    gp = quick(REGRESSORS[name]()).fit(frame[["x", "city"]], frame["price"])
    mean, std = gp.predict(new, return_std=True)
    lower, upper = gp.predict_interval(new, 0.8)
    calls, points = [], type(gp.inputs_).points
    monkeypatch.setattr(type(gp.inputs_), "points", lambda *args: (calls.append(1), points(*args))[1])
    found = predicted_columns(gp, new, 0.8)
    assert len(calls) == 1
    for key, values in {"mean": mean, "std": std, "lower": lower, "upper": upper}.items():
        assert found[key].tolist() == values.tolist()
    with pytest.raises(InputError, match="level must"):
        predicted_columns(gp, new, 1.0)


def test_columns_of_several_targets_are_what_the_methods_say():
    frame = table(40)
    targets = np.column_stack([frame["price"], 10 + frame["price"] ** 2])
    for gp in (GPRegressor(random_state=0), quick(AutoGPRegressor(n_inducing=5, **SHORT))):
        gp.fit(frame[["x"]], targets)
        found, (lower, upper) = predicted_columns(gp, frame[["x"]], 0.9), gp.predict_interval(frame[["x"]], 0.9)
        assert list(found) == [f"{name} {i}" for name in ("mean", "std", "lower", "upper") for i in range(2)]
        assert found["lower 1"].tolist() == lower[:, 1].tolist()
        assert found["upper 0"].tolist() == upper[:, 0].tolist()


@pytest.mark.parametrize("name", ["AutoGP", "DKL", "AutoGP of heavy tails"])
def test_beliefs_are_computed_once(name, monkeypatch):
    frame = table(40)
    gp = quick(REGRESSORS[name]()).fit(frame[["x"]], frame["price"])
    calls, model = [], type(gp.model_)
    belief = model._belief_at
    monkeypatch.setattr(model, "_belief_at", lambda *args, **kwargs: (calls.append(1), belief(*args, **kwargs))[1])
    predicted_columns(gp, frame[["x"]], 0.95)
    assert len(calls) == 1


def test_an_estimator_around_another_is_asked_for_both():
    frame = table(60)
    around = ConformalRegressor(GPRegressor().fit(frame[["x"]], frame["price"])).fit(frame[["x"]], frame["price"])
    found, (lower, upper) = predicted_columns(around, frame[["x"]], 0.8), around.predict_interval(frame[["x"]], 0.8)
    assert found["lower"].tolist() == lower.tolist()
    assert found["upper"].tolist() == upper.tolist()
