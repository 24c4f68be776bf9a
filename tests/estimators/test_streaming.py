"""Estimators that learn from files: as well as from memory, whatever the files hold, and broken off or not."""

import logging

import numpy as np
import pandas as pd
import pytest

from stratagp import (
    AutoGPClassifier,
    AutoGPRegressor,
    DFGPRegressor,
    DKLClassifier,
    DKLRegressor,
    DRFRegressor,
    GPDRFRegressor,
)
from stratagp import kernels as k
from stratagp.data import Arrays, Frame, open_source
from stratagp.data.rules import Divided
from stratagp.errors import InputError
from stratagp.training.run import Run
from tests.training.test_world import together

FAST = {"max_epochs": 4, "random_state": 0}


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    city = rng.choice(["Oslo", "Rome"], size=n)
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + (city == "Rome") + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "city": city, "price": 100 + 20 * y})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for i in range(3):
        table(seed=i).to_parquet(folder / f"part-{i}.parquet", row_group_size=100)
    return folder


def quick(estimator, steps=150):
    estimator.max_epochs = -(-steps * min(estimator.batch_size, 900) // 900)
    return estimator


ESTIMATORS = {
    "AutoGP": lambda: AutoGPRegressor(n_inducing=30, batch_size=200, standardise="both", **FAST),
    "leave-one-out": lambda: AutoGPRegressor(
        n_inducing=30, batch_size=200, objective="loo", standardise="both", **FAST
    ),
    "DKL": lambda: DKLRegressor(network=[16, 4], pretrain_epochs=2, batch_size=200, validation=0.0, **FAST),
    "DFGP": lambda: DFGPRegressor(n_inducing=20, batch_size=200, inference="batches", **FAST),
    "DRF": lambda: DRFRegressor(n_features=30, width=2, n_samples=2, **FAST),
    "GP-DRF": lambda: GPDRFRegressor(n_inducing=20, n_processes=2, n_layers=1, n_features=30, n_samples=2, **FAST),
}


def test_files_are_learnt_from_as_well_as_memory(files):
    new, frame = table(500, seed=9), pd.concat([table(seed=i) for i in range(3)])
    by_file = quick(ESTIMATORS["AutoGP"]()).fit(str(files), "price")
    in_memory = quick(ESTIMATORS["AutoGP"]()).fit(frame.drop(columns="price"), frame["price"])
    scores = [model.score(new.drop(columns="price"), new["price"]) for model in (by_file, in_memory)]
    assert scores[0] > 0.95
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert by_file.scale_.mean[0] == pytest.approx(frame["price"].mean(), rel=1e-12)
    assert by_file.scale_.scale[0] == pytest.approx(frame["price"].std(ddof=0), rel=1e-12)
    assert [h.steps for h in by_file.histories_] == [h.steps for h in in_memory.histories_]


class Break(BaseException):
    """The process ends here, as far as the fit can tell."""


def break_after(monkeypatch, steps):
    """Let training end as if it were killed, after so many steps."""
    climb, left = Run._climb, [steps]

    def broken(self, batch):
        left[0] -= 1
        if left[0] < 0:
            raise Break
        return climb(self, batch)

    monkeypatch.setattr(Run, "_climb", broken)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_broken_fit_goes_on_to_the_same_bits(files, tmp_path, monkeypatch, name):
    from stratagp.training.checkpoint import Checkpoint

    def fit(folder):
        kept = None if folder is None else Checkpoint(folder, every=0.0)
        return quick(ESTIMATORS[name](), 45).fit(str(files), "price", checkpoint=kept)

    whole = fit(None)
    assert whole.score(table(200, seed=8).drop(columns="price"), table(200, seed=8)["price"]) > 0.5
    for after in (13, 20):
        with monkeypatch.context() as patched:
            break_after(patched, after)
            with pytest.raises(Break):
                fit(tmp_path)
    found, new = fit(tmp_path), table(50, seed=9).drop(columns="price")
    assert found.predict(new).tolist() == whole.predict(new).tolist()


def test_a_fit_with_other_arguments_does_not_go_on(files, tmp_path):
    fast = quick(DRFRegressor(n_features=10, width=1, n_layers=1, **FAST), 5)
    fast.fit(str(files), "price", checkpoint=tmp_path)
    with pytest.raises(InputError, match="holds another fit, which differs in n_features"):
        quick(DRFRegressor(n_features=11, width=1, n_layers=1, **FAST), 5).fit(str(files), "price", checkpoint=tmp_path)
    with pytest.raises(InputError, match="checkpoint must be a folder"):
        fast.fit(str(files), "price", checkpoint=5)


def test_a_fit_of_other_data_does_not_go_on(tmp_path):
    frame = table(200)
    fast = quick(DRFRegressor(n_features=10, width=1, n_layers=1, **FAST), 5)
    for X, y in ((frame.drop(columns="price"), frame["price"]), (Frame(frame, "price"), None)):
        folder = tmp_path / str(y is None)
        fast.fit(X, y, checkpoint=folder)
        other = (X, -y) if y is not None else (Frame(frame.assign(price=-frame["price"]), "price"), None)
        with pytest.raises(InputError, match="holds another fit, which differs in data"):
            fast.fit(*other, checkpoint=folder)


def test_a_fit_without_a_seed_goes_on_with_that_of_its_start(files, tmp_path, monkeypatch):
    def fit():
        model = AutoGPRegressor(n_inducing=10, batch_size=200, standardise="both", validation=0.2, max_epochs=1)
        return quick(model, 20).fit(str(files), "price", checkpoint=tmp_path)

    with monkeypatch.context() as patched:
        break_after(patched, 5)
        with pytest.raises(Break):
            fit()
    new = table(5, seed=9).drop(columns="price")
    assert fit().predict(new).tolist() == fit().predict(new).tolist()


def test_constant_targets_of_a_source_are_not_scaled_by_their_rounding():
    frame = table(300).assign(price=0.1)
    model = quick(DRFRegressor(n_features=5, width=1, n_layers=1, **FAST), 2).fit(Frame(frame, "price"))
    assert model.scale_.scale.tolist() == [1.0]


def test_a_class_and_a_category_of_one_shard_alone(tmp_path):
    """20,000 rows are the sample; a class and a category of one row in 22,000 are known all the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(22_000, 2))
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(city="Oslo", kind=np.where(x[:, 0] > 0, "up", "down"))
    frame.loc[21_999, ["city", "kind"]] = ["Rome", "zero"]
    for i, part in enumerate((frame[:11_000], frame[11_000:])):
        part.to_parquet(tmp_path / f"{i}.parquet")
    model = quick(
        AutoGPClassifier(n_inducing=10, batch_size=1000, standardise="both", max_epochs=2, random_state=0), 10
    )
    model.fit(tmp_path, "kind")
    assert model.classes_.tolist() == ["down", "up", "zero"]
    assert model.inputs_.encoder.categories == {"city": ["Oslo", "Rome"]}
    assert model.score(frame[["a", "b", "city"]][:500], frame["kind"][:500]) > 0.9
    assert model.predict_proba(frame[["a", "b", "city"]][:5]).shape == (5, 3)


def test_validation_that_holds_out_nothing_is_refused(files):
    with pytest.raises(InputError, match="validation=1e-09 holds out none of"):
        quick(AutoGPRegressor(n_inducing=5, validation=1e-9, **FAST), 2).fit(str(files), "price")


def test_validation_rows_are_held_out_by_their_hash(files):
    model = quick(AutoGPRegressor(n_inducing=20, validation=0.2, patience=3, standardise="both", **FAST), 40)
    model.fit(files, "price")
    assert all(np.isfinite(model.histories_[0].scores))
    assert len(model.histories_[0].scores) >= 2


def test_images_in_memory_maps(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(400, 12, 12)).astype(np.float32)
    labels = (images[:, :6].mean((1, 2)) > images[:, 6:].mean((1, 2))).astype(int)
    np.save(tmp_path / "x.npy", images)
    source = Arrays(np.load(tmp_path / "x.npy", mmap_mode="r"), labels)
    model = quick(DKLClassifier(network="lenet", pretrain_epochs=3, max_epochs=1, batch_size=100, random_state=0), 10)
    assert model.fit(source).predict_proba(images[:3]).shape == (3, 2)


def test_texts_in_a_column_of_files(tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("ab"), size=12)) for _ in range(200)]
    share = [word.count("aa") for word in words]
    pd.DataFrame({"text": words, "size": 1.0, "share": share}).to_parquet(tmp_path / "t.parquet")
    options = {"view_kernels": {"text": k.Spectrum(2)}, "n_inducing": 30, "n_processes": 2, "n_layers": 1}
    model = quick(GPDRFRegressor(**options, n_features=30, n_samples=2, **FAST), 50).fit(tmp_path, "share")
    assert model.score(pd.DataFrame({"text": words, "size": 1.0}), share) > 0.6


def test_texts_that_nobody_gave_a_kernel(tmp_path):
    pd.DataFrame({"note": [f"n{i}" for i in range(10_001)], "y": 1.0}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="column 'note' has more than 10,000 categories: leave it out"):
        AutoGPRegressor().fit(tmp_path, "y")


def test_predictions_from_files_to_files(files, tmp_path):
    frame = table(seed=1)
    model = quick(AutoGPRegressor(n_inducing=20, standardise="both", **FAST), 50).fit(files, "price")
    for suffix, read in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        assert model.predict_file(files / "part-1.parquet", tmp_path / f"out{suffix}", level=0.8) == 300
        found = read(tmp_path / f"out{suffix}")
        mean, std = model.predict(frame.drop(columns="price"), return_std=True)
        lower, upper = model.predict_interval(frame.drop(columns="price"), 0.8)
        for name, values in (("mean", mean), ("std", std), ("lower", lower), ("upper", upper)):
            np.testing.assert_allclose(found[name], values, rtol=1e-12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.parquet"]
    labels = frame.assign(price=np.where(frame["price"] > 110, "dear", "cheap"))
    classes = quick(AutoGPClassifier(n_inducing=10, standardise="both", **FAST), 20).fit(Frame(labels, "price"))
    classes.predict_file(files / "part-1.parquet", tmp_path / "classes.parquet")
    found = pd.read_parquet(tmp_path / "classes.parquet")
    assert list(found.columns) == ["class", "p(cheap)", "p(dear)"]
    np.testing.assert_allclose(found["p(dear)"], classes.predict_proba(frame.drop(columns="price"))[:, 1])
    with pytest.raises(InputError, match=r"out must end with .parquet or .csv"):
        model.predict_file(files, tmp_path / "out.txt")
    with pytest.raises(InputError, match="does not exist"):
        model.predict_file(files, tmp_path / "nowhere" / "out.csv")


def test_bad_calls_are_refused_before_any_work(files):
    model = AutoGPRegressor()
    with pytest.raises(InputError, match="y must be the name of the column to predict"):
        model.fit(str(files))
    with pytest.raises(InputError, match="y must be left out where X is a Source"):
        model.fit(open_source(files, "price"), [1.0])
    with pytest.raises(InputError, match="X has no targets"):
        model.fit(open_source(files))
    with pytest.raises(InputError, match="no column 'cost'"):
        model.fit(str(files), "cost")
    with pytest.raises(InputError, match=r"y must hold numbers, got '(Rome|Oslo)'"):
        model.fit(str(files), "city")


SCRIPT = """
import json
from stratagp.training.world import World
from tests.estimators.test_streaming import precise, table
model = precise().fit({files!r}, "price")
if World().is_first:
    print(json.dumps([model.predict(table(5, seed=9).drop(columns="price")).tolist(), model.histories_[0].steps]))
"""


def precise():
    options = {"n_inducing": 20, "batch_size": 200, "standardise": "both", "max_epochs": 2, "precision": "float64"}
    return quick(AutoGPRegressor(**options, random_state=0), 30)


def test_processes_of_torchrun_fit_what_one_does(files, tmp_path):
    (found,) = together(SCRIPT.format(files=str(files)), folder=tmp_path)
    alone = precise().fit(str(files), "price")
    assert found[1] == alone.histories_[0].steps
    np.testing.assert_allclose(found[0], alone.predict(table(5, seed=9).drop(columns="price")), rtol=1e-6)


def test_targets_without_a_density_are_found_before_training_by_file_and_row(tmp_path):
    """A count below zero in the third file, among more rows than the sample has."""
    for i in range(3):
        counts = np.random.default_rng(i).poisson(3.0, size=9000).astype(float)
        counts[7000] = -2.0 if i == 2 else 1.0
        frame = pd.DataFrame({"a": np.linspace(0, 1, 9000), "visits": counts})
        frame.to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=4000)
    gp = AutoGPRegressor(n_inducing=5, likelihood="poisson", **FAST)
    with pytest.raises(InputError, match=r"part-2.parquet: row 7000: .*count"):
        gp.fit(str(tmp_path), "visits")


def test_classes_of_two_kinds_are_refused_by_file_and_row(tmp_path):
    for i, labels in enumerate(([0, 1] * 20, ["no", "yes"] * 20)):
        pd.DataFrame({"a": np.linspace(0, 1, 40), "y": labels}).to_parquet(tmp_path / f"{i}.parquet")
    said = (
        r"1.parquet: the target holds values of kind 'text' \('(no' in row 0|yes' in row 1)\), but of kind 'number' in"
    )
    with pytest.raises(InputError, match=said):
        AutoGPClassifier(n_inducing=5, **FAST).fit(tmp_path, "y")


def test_the_number_of_rows_left_out_is_of_the_rows_that_were_read(tmp_path, caplog):
    """Of a side of the rows, too, which does not count those of the other."""
    frame = table(400)
    frame.loc[::4, "a"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    side = Divided(open_source(tmp_path, "price", missing="drop"), 0.5, 0, held=False)
    rows = sum(len(block) for block in side.all_blocks())
    gaps = sum(int(block.X["a"].isna().sum()) for block in side.all_blocks())
    with caplog.at_level(logging.WARNING, logger="stratagp"):
        quick(AutoGPRegressor(n_inducing=5, validation=0.3, **FAST), 2).fit(side)
    assert 100 < rows < 300
    assert f"rows with missing values are left out: {gaps} of {rows}" in caplog.text
