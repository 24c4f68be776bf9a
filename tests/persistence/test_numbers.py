"""Ordinary models with large numbers in them: columns far to the right, seeds, many trials, large alphabets."""

import json
import warnings

import numpy as np
import pytest

import stratagp
from stratagp import GPRegressor
from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp.errors import ModelFileError
from stratagp.persistence import models, registry
from stratagp.persistence.description import checksum
from tests.persistence.estimators import COUNTS, WORDS, fitted

WIDE = np.random.default_rng(0).normal(size=(12, 1200))
PATHS = [np.cumsum(np.ones((4, 1)) * i, 0) * 1e-6 for i in range(1, 9)]
LETTERS = [word.upper() for word in WORDS]
BOOK = k.Codebook(3, random_state=123456).fit(PATHS)


def gp(kernel, X, y):
    return GPRegressor(kernel, n_restarts=0, max_iterations=0, random_state=0).fit(X, y)


def of_trials():
    model = stratagp.AutoGPRegressor(likelihood=lik.Binomial(5000), n_inducing=4, max_epochs=1, random_state=0)
    model.max_epochs = 3
    return model.fit(WIDE[:, :2], np.arange(12.0) * 100)


MODELS = {
    "a column of many": lambda: (gp(k.RBF().on(1100), WIDE, WIDE[:, 1100]), WIDE),
    "a slice of many columns": lambda: (gp(k.RBF().on(slice(1100, 1110)), WIDE, WIDE[:, 1100]), WIDE),
    "a change at a column of many": lambda: (
        gp(k.ChangePoint(k.RBF(), k.Linear(), column=1100), WIDE, WIDE[:, 0]),
        WIDE,
    ),
    "many trials": lambda: (of_trials(), WIDE[:, :2]),
    "a seed": lambda: (gp(k.Encoded(k.Spectrum(2), BOOK.encode), PATHS, np.arange(8.0)), PATHS),
    "all letters": lambda: (gp(k.Mismatch(2, 1, alphabet=0x110000), WORDS, COUNTS), WORDS),
    "many positions": lambda: (gp(k.Spectrum(2, positions=2000), WORDS, COUNTS), WORDS),
    "an attribute that has the name of a field": lambda: (gp(k.SimilarPairs(), LETTERS, COUNTS), LETTERS),
    "a large scale": lambda: (gp(k.Signature(2, scale=2e6), PATHS, np.arange(8.0)), PATHS),
}


@pytest.mark.parametrize("name", MODELS)
def test_large_numbers_that_cost_nothing_come_back(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that training was short
        model, X = MODELS[name]()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(stratagp.load(tmp_path / "model").predict(X), model.predict(X))


def older(folder, change):
    """Alter a file as if it were from before a change of the library."""
    config = json.loads((folder / "config.json").read_text())
    change(config["objects"])
    config["checksum"] = checksum(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_an_argument_that_a_file_does_not_know_has_its_default(tmp_path):
    model, X = fitted("exact")
    model.save(tmp_path / "model")
    loaded = stratagp.load(older(tmp_path / "model", lambda nodes: nodes[0]["state"].pop("device")))
    assert loaded.device == GPRegressor().device
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_an_argument_without_a_default_must_be_there(tmp_path):
    class Demanding(GPRegressor):
        def __init__(self, level):
            super().__init__()
            self.level = level

    model = Demanding(3)
    del model.level
    with pytest.raises(ModelFileError, match="the argument 'level' of Demanding is missing"):
        models._take_defaults(model)
    assert "level" not in vars(model)


def test_an_attribute_that_a_file_does_not_know_is_what_the_table_says(tmp_path, monkeypatch):
    fitted("exact").model.save(tmp_path / "model")
    older(tmp_path / "model", lambda nodes: [node["state"].pop("nu", None) for node in nodes if "state" in node])
    with pytest.raises(ModelFileError, match="'Matern' object has no attribute"):
        stratagp.load(tmp_path / "model")
    monkeypatch.setitem(registry.ADDED, ("stratagp.kernels.Matern", "nu"), 2.5)
    X = fitted("exact").X
    np.testing.assert_array_equal(stratagp.load(tmp_path / "model").predict(X), fitted("exact").model.predict(X))
