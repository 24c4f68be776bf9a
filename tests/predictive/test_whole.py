"""Real numbers read as counts, against scipy's distribution functions and sums of probabilities."""

import numpy as np
import pytest
import torch
from scipy import stats

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.models.warps import Log
from stratagp.predictive import LocationScale, MixtureOf, Whole, narrowed
from stratagp.predictive.warped import Warped
from tests.predictive.test_mixture import point

MEAN, VAR = np.array([[0.4], [7.3], [-1.0]]), np.array([[0.6], [9.0], [0.04]])
GAUSSIAN = LocationScale(MEAN[None], VAR[None], np.zeros(1))
EVERY = np.arange(60)
CASES = {  # what is read as counts, and its truth in scipy
    "normal": (GAUSSIAN, stats.norm(MEAN, np.sqrt(VAR))),
    "t": (LocationScale(MEAN[None], VAR[None], np.zeros(1), 8.0), stats.t(8.0, MEAN, np.sqrt(VAR * 6 / 8))),
    "log-normal": (
        Warped(GAUSSIAN, Log(-0.5, 0.0, 0.25)),
        stats.lognorm(0.25 * np.sqrt(VAR), -0.5, np.exp(0.25 * MEAN)),
    ),
}


def probabilities(truth, every=EVERY):
    """``P(y)`` of each whole number, from the tail that has the digits."""
    upto, above = truth.cdf(every + 0.5), truth.sf(every - 0.5)
    both = np.where(upto < 0.5, upto - truth.cdf(every - 0.5), above - truth.sf(every + 0.5))
    return np.where(every == 0, truth.cdf(0.5), both)


@pytest.mark.parametrize("name", CASES)
def test_probabilities_are_differences_of_the_distribution_function(name):
    base, truth = CASES[name]
    found, p = Whole(base), probabilities(truth)
    assert found.discrete
    assert found.support == (0.0, np.inf)
    for y in EVERY[:30]:
        at = np.full((3, 1), float(y))
        np.testing.assert_allclose(found.cdf(at), truth.cdf(y + 0.5), atol=1e-10)
        np.testing.assert_allclose(found.cdf(at + 0.7), truth.cdf(y + 0.5), atol=1e-10)
        seen = p[:, [y]] > 1e-60
        np.testing.assert_allclose(found.log_density(at)[seen], np.log(p[:, [y]][seen]), rtol=2e-3, atol=1e-6)
    assert (found.cdf(np.full((3, 1), -1.0)) == 0).all()


@pytest.mark.parametrize("name", CASES)
def test_moments_quantiles_and_draws_are_those_of_the_probabilities(name):
    base, truth = CASES[name]
    found, every = Whole(base), np.arange(3000)
    p = probabilities(truth, every)
    mean = (p * every).sum(1, keepdims=True)
    var = (p * (every - mean) ** 2).sum(1, keepdims=True)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5)  # what lies beyond 1/100,000 counts less
    np.testing.assert_allclose(found.var, var, rtol={"normal": 1e-3, "t": 1e-2, "log-normal": 1e-2}[name], atol=1e-5)
    for level, values in zip((0.05, 0.5, 0.99), found.quantile([0.05, 0.5, 0.99]), strict=True):
        assert (values == np.array([[int((row.cumsum() < level).sum())] for row in p])).all()
    drawn = found.sample(20_000, torch.Generator().manual_seed(0))
    assert (drawn == np.floor(drawn)).all()
    for y in range(3):  # six standard errors
        np.testing.assert_allclose((drawn == y).mean(0)[:, 0], p[:, y], atol=6 * 0.5 / np.sqrt(20_000))


def test_far_tails_keep_their_digits():
    found = Whole(LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1)))
    for y in (9.0, 12.0, 30.0):
        truth = stats.norm.logsf(y - 0.5) + np.log1p(-np.exp(stats.norm.logsf(y + 0.5) - stats.norm.logsf(y - 0.5)))
        assert found.log_density(np.array([[y]])).item() == pytest.approx(truth, rel=1e-4)


def test_they_are_narrowed_before_they_are_rounded_and_other_counts_stay():
    found = narrowed(Whole(GAUSSIAN), 0.5)
    truth = stats.norm(MEAN, 0.5 * np.sqrt(VAR))
    np.testing.assert_allclose(found.cdf(np.full((3, 1), 2.0)), truth.cdf(2.5), atol=1e-12)
    count = point(lik.Poisson(), 1.0)
    assert narrowed(count, 0.5) is count


def test_they_mix_with_likelihoods_of_counts():
    five = Whole(LocationScale(np.full((1, 1, 1), 5.2), np.ones((1, 1, 1)), np.zeros(1)))
    both = MixtureOf([five, point(lik.Poisson(), 0.0)], np.log([0.3, 0.7]))
    p = 0.3 * probabilities(stats.norm(5.2), EVERY) + 0.7 * stats.poisson(1.0).pmf(EVERY)
    found = np.exp([both.log_density(np.array([[float(y)]])).item() for y in EVERY[:12]])
    np.testing.assert_allclose(found, p[:12], atol=1e-8)
    assert [value.item() for value in both.quantile([0.1, 0.5, 0.95])] == [
        int((p.cumsum() < level).sum()) for level in (0.1, 0.5, 0.95)
    ]
    assert both.mean.item() == pytest.approx((p * EVERY).sum(), abs=1e-3)


def test_fractions_are_refused():
    with pytest.raises(InputError, match=r"y must be counts 0, 1, 2, …, got 1\.5 in row 1"):
        Whole(GAUSSIAN).log_density(np.array([[1.0], [1.5], [2.0]]))


def test_moments_of_wide_predictions_are_summed_by_stretches():
    """More numbers than are summed one by one: the moments stay those of the normal distribution."""
    wide = Whole(LocationScale(np.array([[[2000.0], [3.0]]]), np.array([[[500.0**2], [1.0]]]), np.zeros(1)))
    np.testing.assert_allclose(wide.mean[:, 0], [2000.0, 3.0], rtol=1e-3)
    np.testing.assert_allclose(wide.var[:, 0], [500.0**2, 1 + 1 / 12], rtol=5e-3)
