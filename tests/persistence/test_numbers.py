"""Ordinary models with large numbers in them: columns far to the right, seeds, many trials, large alphabets."""

import warnings

import numpy as np
import pytest

import stratagp
from stratagp import GPRegressor
from stratagp import kernels as k
from stratagp import likelihoods as lik
from tests.persistence.estimators import COUNTS, WORDS

WIDE = np.random.default_rng(0).normal(size=(12, 1200))
PATHS = [np.cumsum(np.ones((4, 1)) * i, 0) * 1e-6 for i in range(1, 9)]
LETTERS = [word.upper() for word in WORDS]
BOOK = k.Codebook(3, random_state=123456).fit(PATHS)


def gp(kernel, X, y):
    return GPRegressor(kernel, n_restarts=0, max_iterations=0, random_state=0).fit(X, y)


def of_trials():
    model = stratagp.AutoGPRegressor(likelihood=lik.Binomial(5000), n_inducing=4, max_epochs=3, random_state=0)
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
