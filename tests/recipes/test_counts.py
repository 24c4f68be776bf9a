"""Counts: what counts are, processes and trees of them, against simulated rows and scipy."""

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.models.fitted_counts import log_share
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.candidates import are_counts, has_many_zeros
from stratagp.recipes.count_trees import CountTreesRecipe, law_of
from stratagp.recipes.counts import CountRecipe
from stratagp.testing import check_recipe
from stratagp.testing.recipe import toy_rows

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, (220, 2))
LOGS = 0.7 + np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1]
DRAWS = {
    "Poisson": RANDOM.poisson(np.exp(LOGS)),
    "clustered": RANDOM.poisson(np.exp(LOGS) * RANDOM.gamma(2.0, 0.5, 220)),
    "zeros": RANDOM.poisson(np.exp(LOGS + 1)) * (RANDOM.uniform(size=220) < 0.6),
}
RECIPES = {
    "Poisson": lambda: CountRecipe(k.Matern(2.5, ard=2), lik.Poisson()),
    "clustered": lambda: CountRecipe(k.Matern(2.5, ard=2), lik.NegativeBinomial()),
    "zeros": lambda: CountRecipe(k.Matern(2.5, ard=2), lik.ZeroInflated(lik.NegativeBinomial())),
    "trees": CountTreesRecipe,
}


def rows_of(y, x=X):
    return Rows(Data(torch.from_numpy(x), torch.from_numpy(np.asarray(y, dtype=float)[:, None])))


@pytest.fixture(scope="module")
def processes():
    return {name: RECIPES[name]().fit(rows_of(y), FitContext()) for name, y in DRAWS.items()}


@pytest.mark.parametrize("name", RECIPES)
def test_the_contract(name):
    rows = toy_rows()
    rows.data.y = (0.5 + rows.data.y).exp().round()
    model = check_recipe(RECIPES[name](), rows)
    x = rows.data.x[:4]
    found, function = model.predictive(x), model.predictive(x, of="f")
    assert found.discrete
    every = np.arange(400.0)
    p = np.exp(np.stack([found.log_density(np.full((4, 1), y)) for y in every]))
    np.testing.assert_allclose(p.sum(0), 1, atol=1e-4)
    np.testing.assert_allclose((p * every[:, None, None]).sum(0), found.mean, rtol=2e-3)
    np.testing.assert_allclose(function.mean, found.mean, rtol=0.02)
    drawn = model.draw(x, 3000, "y", torch.Generator().manual_seed(0))
    np.testing.assert_allclose(drawn.mean(0), found.mean, atol=6 * np.sqrt(found.var.max() / 3000))


@pytest.mark.parametrize("name", DRAWS)
def test_processes_find_the_expected_count_and_the_law(processes, name):
    model = processes[name]
    found = model.function(torch.from_numpy(X))[:, 0]
    truth = np.exp(LOGS) * (0.6 * np.e if name == "zeros" else 1)
    assert np.mean((np.log(found) - np.log(truth)) ** 2) ** 0.5 < 0.3
    if name == "clustered":
        assert model.prior.likelihood.dispersion.item() == pytest.approx(0.5, abs=0.25)
    if name == "zeros":
        assert model.prior.likelihood.share.item() == pytest.approx(0.4, abs=0.12)


def test_a_fit_goes_on_where_it_was(processes):
    before = processes["Poisson"]
    kept = before.prior.kernel.lengthscale.clone()
    y = DRAWS["Poisson"]
    again = RECIPES["Poisson"]().again(before, rows_of(y[:180], X[:180]), FitContext())
    assert torch.equal(before.prior.kernel.lengthscale, kept)
    found = again.predictive(torch.from_numpy(X[180:])).log_density(y[180:, None].astype(float)).mean()
    assert found > stats.poisson(np.exp(LOGS[180:])).logpmf(y[180:]).mean() - 0.15


def test_the_law_around_trees_is_the_most_probable_one():
    y, mean = DRAWS["clustered"], np.exp(LOGS)

    def cost(log_dispersion):
        r = np.exp(-log_dispersion)
        return -stats.nbinom(r, r / (r + mean)).logpmf(y).sum()

    best = np.exp(optimize.minimize_scalar(cost, bounds=(-12, 4), method="bounded").x)
    found = law_of(*(torch.from_numpy(np.asarray(each, dtype=float)[:, None]) for each in (y, LOGS)))
    assert isinstance(found, lik.NegativeBinomial)
    assert found.dispersion.item() == pytest.approx(best, rel=1e-3)


def test_rows_that_are_always_zero_are_found_around_trees():
    y = torch.from_numpy(DRAWS["zeros"][:, None].astype(float))
    found = law_of(y, torch.from_numpy(LOGS[:, None] + 1 + np.log(0.6)))
    assert isinstance(found, lik.ZeroInflated)
    assert found.share.item() == pytest.approx(0.4, abs=0.08)
    assert np.exp(log_share(found)) == pytest.approx(1 - found.share.item(), rel=1e-9)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (RANDOM.poisson(0.3, 100), True),
        (RANDOM.poisson(12.0, 100), True),
        (RANDOM.negative_binomial(0.3, 0.02, 300), True),
        (RANDOM.integers(1, 11, 100), True),  # marks
        (RANDOM.integers(0, 2, 100), False),  # two values
        (np.zeros(50), False),
        (RANDOM.integers(1995, 2005, 100), False),  # years
        (RANDOM.integers(70, 83, 100), False),
        (np.arange(100), False),  # ids
        (RANDOM.choice([99, 199, 299, 999], 100), False),  # cents
        (RANDOM.choice([5, 10, 20, 25], 100), False),  # prices
        (RANDOM.integers(-2, 5, 100), False),
        (RANDOM.poisson(3.0, 100) + 0.5, False),
        (RANDOM.normal(size=100), False),
    ],
)
def test_what_counts_are(y, expected):
    assert are_counts(np.asarray(y, dtype=float)) == expected


def test_many_zeros_are_more_than_a_negative_binomial_has():
    assert has_many_zeros(DRAWS["zeros"].astype(float))
    assert not has_many_zeros(RANDOM.negative_binomial(0.5, 0.2, 2000).astype(float))
    assert not has_many_zeros(RANDOM.poisson(1.0, 2000).astype(float))


@pytest.mark.parametrize("likelihood", [lik.Hurdle(lik.Poisson()), lik.GaussianNoise()])
def test_other_likelihoods_are_refused(likelihood):
    with pytest.raises(InputError, match="likelihood must be Poisson, NegativeBinomial or ZeroInflated"):
        CountRecipe(k.Matern(2.5, ard=2), likelihood).fit(rows_of(DRAWS["Poisson"]), FitContext())
