"""Gross mistakes among targets: which rows are set apart, and what the stack says of clean rows."""

import numpy as np
import pytest
import torch

from stratagp import StrataRegressor, load
from stratagp import kernels as k
from stratagp.models.observations import Data
from stratagp.recipes.base import FitContext
from stratagp.recipes.candidates import of_numbers
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.outliers import OutliersRecipe, found_outliers, may_have_outliers
from stratagp.testing.recipe import toy_rows

PLAN = ("Matérn 5/2, noise varies", "boosted trees")
APART = ("outliers apart, Matérn 5/2", "outliers apart, boosted trees")


def table(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 3))
    return X, 5 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def fits():
    X, y = table(500)
    wrong = y.copy()
    wrong[[3, 77, 250]] *= [100, -100, 30]  # 1 % of 300 rows
    clean = StrataRegressor(plan=PLAN, random_state=0).fit(X[:300], y[:300])
    return X[300:], y[300:], clean, StrataRegressor(plan=[*APART, *PLAN], random_state=0).fit(X[:300], wrong[:300])


def test_mistakes_do_not_spoil_clean_rows(fits):
    X, y, clean, spoilt = fits
    errors = [np.sqrt(np.mean((model.predict(X) - y) ** 2)) for model in (clean, spoilt)]
    assert errors[1] < 1.15 * errors[0]
    assert spoilt.log_density(X, y).mean() > clean.log_density(X, y).mean() - 0.15
    assert "outliers apart" in spoilt.leaderboard_.candidate[0]


def test_intervals_are_those_of_clean_rows(fits):
    X, y, clean, spoilt = fits
    low, high = spoilt.predict_interval(X, 0.9)
    before = np.subtract(*clean.predict_interval(X, 0.9)[::-1])
    assert np.mean((low < y) & (y < high)) > 0.8
    assert np.median((high - low) / before) < 1.3


def test_candidates_for_outliers_are_offered_only_where_there_are_some():
    X, y = (torch.from_numpy(each) for each in table(300))
    wrong = y.clone()
    wrong[[3, 77, 250]] *= torch.tensor([100.0, -100, 30])
    assert not set(APART) & {each.name for each in of_numbers(X, y)}
    assert set(APART) < {each.name for each in of_numbers(X, wrong)}


def test_it_is_saved_and_loaded(fits, tmp_path):
    X, _, _, spoilt = fits
    spoilt.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == spoilt.predict(X)).all()


def test_what_is_found():
    X, y = table(700, seed=1)
    bad = [5, 650]
    y[bad] *= 50
    found = found_outliers(Data(torch.from_numpy(X), torch.from_numpy(y)[:, None]), seed=0)
    assert np.flatnonzero(found).tolist() == bad


@pytest.mark.parametrize("draw", ["normal", "exponential", "uniform"])
def test_ordinary_targets_do_not_ask_for_it(draw):
    assert not may_have_outliers(getattr(np.random.default_rng(0), draw)(size=1000))


def test_skewed_amounts_are_not_mistakes():
    random = np.random.default_rng(2)
    X = random.uniform(-1, 1, (300, 2))
    y = np.exp(2 * X[:, 0] + random.normal(size=300))
    assert found_outliers(Data(torch.from_numpy(X), torch.from_numpy(y)[:, None]), seed=0).sum() == 0


def test_density_quantiles_and_mean_agree():
    rows = toy_rows()
    rows.data.y[20] = 30.0
    model = OutliersRecipe(ExactRecipe(k.RBF(ard=2))).fit(rows, FitContext())
    found, y, h = model.predictive(rows.data.x[:7]), rows.data.y[:7].numpy(), 1e-5
    assert found.cdf(found.quantile([0.9])[0]) == pytest.approx(np.full((7, 1), 0.9), abs=1e-6)
    slope = (found.cdf(y + h) - found.cdf(y - h)) / (2 * h)
    assert np.exp(found.log_density(y)) == pytest.approx(slope, rel=1e-5)
    assert found.mean == pytest.approx(model.function(rows.data.x[:7]), abs=1e-12)  # mistakes do not move it
    assert (found.var > model.predictive(rows.data.x[:7], "f").var).all()


def test_draws_know_the_share_of_mistakes():
    rows = toy_rows()
    rows.data.y[20] = 1000.0
    model = OutliersRecipe(ExactRecipe(k.RBF(ard=2))).fit(rows, FitContext())
    drawn = model.draw(rows.data.x[:5], 4000, "y", torch.Generator().manual_seed(0))
    assert np.mean(np.abs(drawn) > 20) == pytest.approx(model.share, rel=0.3)


def test_a_plan_may_name_it_without_any_outlier():
    X, y = table(60)
    model = StrataRegressor(plan=["outliers apart, Matérn 5/2"], random_state=0).fit(X, y)
    assert np.isfinite(model.leaderboard_.density[0])
