"""What must not matter to an estimator: order, units, copies of columns that say nothing, types, and sizes of requests.

Closed forms give the same answer within 1e-3 of a standard deviation of the targets (a climb may end elsewhere within
its tolerance), the same rows asked in other ways within 1e-9. Models that learn by mini-batches draw other batches from
rows in another order, so they are only asked about what leaves the order alone.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stratagp as s
from stratagp import kernels as k

few = settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 10**6)
NEW = np.random.default_rng(9).uniform(-2, 2, (30, 2))
CLOSED = {
    "exact": lambda: s.GPRegressor(random_state=0),
    "sparse": lambda: s.GPRegressor(inference="sparse", n_inducing=40, random_state=0),
    "vecchia": lambda: s.GPRegressor(inference="vecchia", n_neighbours=39, random_state=0),
    "student": lambda: s.StudentTProcessRegressor(random_state=0),
    "laplace": lambda: s.GPClassifier(random_state=0),
}
BATCHES = {
    "autogp": lambda: s.AutoGPRegressor(n_inducing=10, max_epochs=20, random_state=0),
    "dkl": lambda: s.DKLRegressor(network=[8, 2], grid_size=8, max_epochs=3, pretrain_epochs=5, random_state=0),
    "drf": lambda: s.DRFRegressor(n_features=10, max_epochs=5, random_state=0),
    "autogp classes": lambda: s.AutoGPClassifier(n_inducing=10, max_epochs=20, random_state=0),
}
ALL = CLOSED | BATCHES


@cache
def rows(seed, n=40, classes=False):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * random.normal(size=n)
    return X, (y > 0).astype(int) if classes else y


def of_classes(name):
    return name in ("laplace", "autogp classes")


def learnt(name, change=lambda X: X, y=lambda y: y, seed=0):
    """What a model says about the new rows (changed alike) when it has learnt from changed rows."""
    X, target = rows(seed, classes=of_classes(name))
    return said(ALL[name]().fit(change(X), y(target)), change(NEW))


def said(model, new):
    if hasattr(model, "predict_proba"):
        return [model.predict_proba(new)[:, 1]]
    return list(model.predict(new, return_std=True))


@cache
def plain(name, seed=0):
    return learnt(name, seed=seed)


def same(found, expected, tolerance=1e-3):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", [name for name in CLOSED if name != "vecchia"])
@few
@given(seed=seeds)
def test_the_order_of_rows(name, seed):
    order = np.random.default_rng(seed).permutation(40)
    X, y = rows(0, classes=of_classes(name))
    same(said(CLOSED[name]().fit(X[order], y[order]), NEW), plain(name))


@few
@given(seed=seeds)
def test_the_order_of_rows_behind_all_neighbours(seed):
    """The order of rows decides what Vecchia's process learns values from; with given ones it does not matter."""
    order, (X, y) = np.random.default_rng(seed).permutation(40), rows(0)
    gp = s.GPRegressor(
        k.RBF(1.0, variance=1.0), noise=0.1, inference="vecchia", n_neighbours=40, max_iterations=0, random_state=0
    )
    expected = said(gp.fit(X, y), NEW)
    same(said(gp.fit(X[order], y[order]), NEW), expected, 1e-6)


@pytest.mark.parametrize("name", CLOSED)
def test_the_order_of_columns(name):
    same(learnt(name, lambda X: X[:, ::-1].copy()), plain(name), 2e-2 if name == "vecchia" else 1e-3)


@pytest.mark.parametrize("name", ALL)
@few
@given(powers=st.tuples(st.integers(-20, 20), st.integers(-20, 20)))
def test_units_of_columns(name, powers):
    """By powers of two, so that no digit is lost; starts, priors and steps are in the units of columns."""
    same(learnt(name, lambda X: X * 2.0 ** np.array(powers)), plain(name), 1e-3)


@pytest.mark.parametrize("name", [name for name in ALL if not of_classes(name)])
@few
@given(power=st.integers(-40, 40), shift=st.sampled_from([0.0, 1.0, -64.0]))
def test_units_of_targets(name, power, shift):
    scale = 2.0**power
    mean, std = learnt(name, y=lambda y: (y + shift) * scale)
    same([mean / scale - shift, std / scale], plain(name), 1e-3)


def test_duplicated_rows_halve_the_noise_of_their_average():
    """Two equal rows with a noise of 2σ² each are one row with σ²: exact with values that are given."""
    X, y = rows(0)
    once, twice = (
        s.GPRegressor(k.RBF(1.0, variance=1.0), noise=noise, standardise="none", max_iterations=0)
        for noise in (0.1, 0.2)
    )
    once.fit(X, y)
    twice.fit(np.tile(X, (2, 1)), np.tile(y, 2))
    same(once.predict(NEW, return_std=True, of="f"), twice.predict(NEW, return_std=True, of="f"), 1e-10)


@pytest.mark.parametrize("name", CLOSED)
def test_an_idle_column(name):
    """One value in all rows: nothing to tell them apart by."""
    same(learnt(name, lambda X: np.column_stack([X, np.full(len(X), 3.0)])), plain(name), 2e-2)


@pytest.mark.parametrize("name", ALL)
@few
@given(data=st.data())
def test_types_and_frames(name, data):
    """Numbers that single precision holds, in any type and order of memory, as an array, a frame or a list."""
    kind = data.draw(st.sampled_from(["float32", "fortran", "frame", "list", "view"]))
    X, y = rows(0, classes=of_classes(name))
    X, new = X.astype(np.float32).astype(float), NEW.astype(np.float32).astype(float)
    ways = {
        "float32": lambda X: X.astype(np.float32),
        "fortran": np.asfortranarray,
        "frame": lambda X: pd.DataFrame(X, columns=["a", "b"]),
        "list": lambda X: X.tolist(),
        "view": lambda X: np.repeat(X, 2, 0)[::2],
    }
    same(said(ALL[name]().fit(ways[kind](X), y), ways[kind](new)), _in_single(name), 1e-9)


@cache
def _in_single(name):
    X, y = rows(0, classes=of_classes(name))
    return said(ALL[name]().fit(X.astype(np.float32).astype(float), y), NEW.astype(np.float32).astype(float))


@cache
def fitted(name):
    X, y = rows(0, classes=of_classes(name))
    return ALL[name]().fit(X, y)


@pytest.mark.parametrize("name", ALL)
@few
@given(seed=seeds, count=st.integers(1, 29))
def test_which_rows_are_asked_about_together(name, seed, count):
    chosen = np.random.default_rng(seed).choice(30, count)  # in any order, some of them more than once
    same(said(fitted(name), NEW[chosen]), [values[chosen] for values in plain(name)], 1e-9)
