"""Mixtures of unlike distributions: moments, quantiles and densities against quadrature and scipy."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.predictive import Averaged, InUnits, LocationScale, MixtureOf, Observed, Spliced, mixture
from stratagp.types import Gaussian

LEVELS = [0.01, 0.3, 0.5, 0.9, 0.999]


def point(likelihood, f):
    """Observations of a likelihood at a function that is known."""
    mean = torch.tensor([[f]], dtype=torch.float64)
    return Observed(likelihood, 1, lambda: Gaussian(mean, torch.full_like(mean, 1e-14)))


def unlike():
    """A Gaussian, a Student-t in units, and a log-normal (a warped Gaussian), with their truths in scipy."""
    gaussian = LocationScale(np.full((1, 1, 1), 0.5), np.full((1, 1, 1), 0.04), np.zeros(1))
    heavy = InUnits(
        LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), dof=5.0), *map(np.array, ([2.0], [3.0]))
    )
    warped = point(lik.LogNormal(0.5), 0.2)
    spread = 3 * np.sqrt(3 / 5)
    truths = [stats.norm(0.5, 0.2), stats.t(5, 2.0, spread), stats.lognorm(np.sqrt(0.5), scale=np.exp(0.2))]
    return [gaussian, heavy, warped], truths, np.array([0.2, 0.3, 0.5])


def test_unlike_parts_have_the_density_and_distribution_of_their_sum():
    parts, truths, weights = unlike()
    both = MixtureOf(parts, np.log(weights))
    for y in (-3.0, 0.4, 0.5, 1.3, 6.0):
        at = np.array([[y]])
        density = sum(w * truth.pdf(y) for w, truth in zip(weights, truths, strict=True))
        below = sum(w * truth.cdf(y) for w, truth in zip(weights, truths, strict=True))
        assert np.exp(both.log_density(at)).item() == pytest.approx(density, rel=1e-6)
        assert both.cdf(at).item() == pytest.approx(below, abs=1e-7)
    mean = sum(w * truth.mean() for w, truth in zip(weights, truths, strict=True))
    second = sum(w * (truth.var() + truth.mean() ** 2) for w, truth in zip(weights, truths, strict=True))
    assert both.mean.item() == pytest.approx(mean, rel=1e-6)
    assert both.var.item() == pytest.approx(second - mean**2, rel=1e-5)


def test_quantiles_of_unlike_parts_are_the_inverse_of_the_distribution():
    parts, truths, weights = unlike()
    both = MixtureOf(parts, np.log(weights))
    for level, value in zip(LEVELS, both.quantile(LEVELS), strict=True):
        below = sum(w * truth.cdf(value.item()) for w, truth in zip(weights, truths, strict=True))
        assert below == pytest.approx(level, abs=1e-7)


def test_draws_of_unlike_parts():
    parts, _, weights = unlike()
    both = MixtureOf(parts, np.log(weights))
    drawn = both.sample(40_000, torch.Generator().manual_seed(0))[:, 0, 0]
    for level, value in zip(LEVELS, both.quantile(LEVELS), strict=True):
        assert np.mean(drawn <= value.item()) == pytest.approx(level, abs=6 * np.sqrt(level * (1 - level) / 40_000))


def test_counts_are_mixed_with_counts_alone():
    few, many = point(lik.Poisson(), 0.0), point(lik.Poisson(), 2.0)
    both, truths = MixtureOf([few, many], np.log([0.5, 0.5])), [stats.poisson(1.0), stats.poisson(np.exp(2.0))]
    for level in (0.1, 0.5, 0.9):
        value = both.quantile([level]).item()
        below = [0.5 * sum(truth.cdf(v) for truth in truths) for v in (value, value - 1)]
        assert below[0] >= level > below[1]
    with pytest.raises(InputError, match="whole numbers"):
        MixtureOf([few, unlike()[0][0]], np.log([0.5, 0.5]))


def test_the_mass_of_a_mixture_is_one():
    parts, _, weights = unlike()
    both = MixtureOf(parts, np.log(weights))
    total, _ = integrate.quad(
        lambda y: np.exp(both.log_density(np.array([[y]]))).item(), -60, 80, points=[0.5, 1.0], limit=400
    )
    assert total == pytest.approx(1, abs=1e-4)


def test_like_parts_become_one_set_of_components():
    rng = np.random.default_rng(0)
    parts = [
        LocationScale(rng.normal(size=(2, 3, 1)), rng.uniform(1, 2, (2, 3, 1)), np.log([0.3, 0.7])) for _ in range(2)
    ]
    simple, plain = mixture(parts, np.log([0.4, 0.6])), MixtureOf(parts, np.log([0.4, 0.6]))
    assert isinstance(simple, LocationScale)
    y = rng.normal(size=(3, 1))
    for a, b in ((simple.cdf(y), plain.cdf(y)), (simple.log_density(y), plain.log_density(y)), (simple.var, plain.var)):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(simple.quantile(LEVELS), plain.quantile(LEVELS), rtol=1e-9, atol=1e-9)


def test_rows_of_two_distributions_in_one():
    rng = np.random.default_rng(0)
    whole, part = (LocationScale(rng.normal(size=(1, n, 1)), rng.uniform(1, 2, (1, n, 1)), np.zeros(1)) for n in (4, 2))
    both, where, y = Spliced(whole, part, np.array([False, True, False, True])), [1, 3], rng.normal(size=(4, 1))
    np.testing.assert_array_equal(both.mean[where], part.mean)
    np.testing.assert_array_equal(both.mean[[0, 2]], whole.mean[[0, 2]])
    np.testing.assert_array_equal(both.cdf(y)[where], part.cdf(y[where]))
    np.testing.assert_array_equal(both.log_density(y)[where], part.log_density(y[where]))
    np.testing.assert_array_equal(both.quantile(LEVELS)[:, where], part.quantile(LEVELS))


def test_versions_of_rows_are_a_mixture():
    rng = np.random.default_rng(3)
    means, variances, y = rng.normal(size=(2, 12, 1)), rng.uniform(0.1, 2, size=(2, 12, 1)), rng.normal(size=(4, 1))
    weights = np.log([0.3, 0.7])
    found = Averaged(LocationScale(means, variances, weights), 3)
    parts = [LocationScale(means[:, i : i + 4], variances[:, i : i + 4], weights) for i in (0, 4, 8)]
    truth = MixtureOf(parts, np.full(3, -np.log(3)))
    assert len(found) == 4
    np.testing.assert_allclose(found.mean, truth.mean)
    np.testing.assert_allclose(found.var, truth.var)
    np.testing.assert_allclose(found.cdf(y), truth.cdf(y))
    np.testing.assert_allclose(found.log_density(y), truth.log_density(y))
    np.testing.assert_allclose(found.quantile(LEVELS), truth.quantile(LEVELS), rtol=1e-9, atol=1e-9)
    drawn = found.sample(20_000, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(drawn.mean(0), truth.mean, atol=6 * np.sqrt(truth.var.max() / 20_000))
