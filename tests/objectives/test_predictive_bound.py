"""The predictive objective against closed forms, quadrature, Monte Carlo and averages made by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from stratagp import kernels as k
from stratagp.layers import Inducing
from stratagp.likelihoods import Bernoulli, GaussianNoise, Poisson, Softmax
from stratagp.objectives import elbo, predictive_bound
from stratagp.objectives.elbo import expected_log_prob
from stratagp.objectives.predictive_bound import log_predictive_of
from stratagp.posteriors import MixturePosterior
from stratagp.types import Gaussian, Mixture
from tests.objectives.test_leave_one_out import BINARY, CLASSES, LABELS, belief, mixture, slopes
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = 3 * torch.rand(12, 1, generator=G, dtype=torch.float64)
Y = torch.sin(2 * X) + 0.2 * torch.randn(12, 1, generator=G, dtype=torch.float64)


def model(functions=1):
    return Inducing(k.RBF(0.7, variance=1.2), X[:4], moved(4, functions))


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_gaussian_is_its_closed_form(weight):
    layer, likelihood, y = model(2), GaussianNoise([0.3, 0.1]), torch.cat([Y, -Y], 1)
    bound = predictive_bound(layer, likelihood, X, y, kl_weight=weight)
    mean, var = (t.detach().numpy() for t in layer(X))
    fit = stats.norm.logpdf(y.numpy(), mean, np.sqrt(var + np.array([0.3, 0.1]))).sum()
    assert bound.fit.item() == pytest.approx(fit, rel=1e-12)
    assert bound.kl.item() == pytest.approx(layer.posterior.kl().item(), rel=1e-12)
    assert bound.value.item() == pytest.approx(fit - weight * layer.posterior.kl().item(), rel=1e-12)


def integral(density, mean, var):
    """``E density(f)`` by adaptive quadrature."""
    spread = math.sqrt(var)
    return quad(lambda f: density(f) * stats.norm.pdf(f, mean, spread), mean - 10 * spread, mean + 10 * spread)[0]


def test_one_function_is_that_of_adaptive_quadrature():
    q, counts = belief(scale=1.0), torch.tensor([0.0, 1.0, 4.0, 0.0, 12.0, 2.0], dtype=torch.float64)[:, None]
    rows = list(zip(q.mean[:, 0].tolist(), q.var[:, 0].tolist(), strict=True))
    sides, numbers = (2 * BINARY[:, 0] - 1).tolist(), counts[:, 0].tolist()
    logistic = [integral(lambda f, s=s: 1 / (1 + math.exp(-s * f)), *row) for s, row in zip(sides, rows, strict=True)]
    poisson = [
        integral(lambda f, c=c: stats.poisson.pmf(c, math.exp(f)), *row) for c, row in zip(numbers, rows, strict=True)
    ]
    np.testing.assert_allclose(log_predictive_of(Bernoulli(), BINARY, q), np.log(logistic), rtol=0, atol=1e-5)
    np.testing.assert_allclose(log_predictive_of(Poisson(), counts, q), np.log(poisson), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_softmax_agrees_with_monte_carlo(kind):
    n, g = 200_000, torch.Generator().manual_seed(1)
    q = belief(q=3) if kind == "gaussian" else mixture(3)
    which = torch.multinomial(mixture(3).log_weights.exp(), n, replacement=True, generator=g)
    mean, var = q if kind == "gaussian" else (q.parts.mean[which], q.parts.var[which])
    f = mean + var.sqrt() * torch.randn(n, 6, 3, generator=g, dtype=torch.float64)
    draws = f.softmax(-1).gather(-1, LABELS.long().expand(n, 6, 1)).squeeze(-1)
    error = (log_predictive_of(Softmax(), LABELS, q).exp() - draws.mean(0)).abs()
    assert error.le(4.5 * draws.std(0) / n**0.5 + 1e-5).all()


@pytest.mark.parametrize("name", [*CLASSES, "gaussian"])
def test_components_and_samples_are_averaged_by_hand(name):
    gaussian = GaussianNoise(0.3), torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None], 1
    likelihood, y, functions = {**CLASSES, "gaussian": gaussian}[name]
    q = mixture(functions)
    weights, parts = q.log_weights.exp()[:, None], [Gaussian(*part) for part in zip(*q.parts, strict=True)]
    densities = torch.stack([likelihood.log_predictive(y, part).exp() for part in parts])
    expected = torch.stack([likelihood.expected_log_prob(y, part) for part in parts])
    close = {"rtol": 1e-12, "atol": 0}
    torch.testing.assert_close(log_predictive_of(likelihood, y, q), (weights * densities).sum(0).log(), **close)
    torch.testing.assert_close(expected_log_prob(likelihood, y, q), (weights * expected).sum(0), **close)
    # the leading axis of a plain Gaussian is one of samples: an even mixture
    torch.testing.assert_close(log_predictive_of(likelihood, y, q.parts), densities.mean(0).log(), **close)
    torch.testing.assert_close(expected_log_prob(likelihood, y, q.parts), expected.mean(0), **close)
    values = likelihood.log_prob(y, q.parts.mean)
    torch.testing.assert_close(log_predictive_of(likelihood, y, q.parts.mean), values.exp().mean(0).log(), **close)


def test_a_mixture_with_sample_axes_averages_both():
    likelihood, y, functions = CLASSES["softmax"]
    q = mixture(functions)
    shifts = torch.tensor([0.0, 0.4, -0.7], dtype=torch.float64)[:, None, None] * torch.tensor([1.0, 0.0, -1.0])
    parts = Gaussian(q.parts.mean[:, None] + shifts, q.parts.var[:, None].expand(3, 3, 6, 3))
    single = [Mixture(q.log_weights, Gaussian(q.parts.mean + shift, q.parts.var)) for shift in shifts]
    several = Mixture(q.log_weights, parts)
    densities = torch.stack([log_predictive_of(likelihood, y, each).exp() for each in single])
    expected = torch.stack([expected_log_prob(likelihood, y, each) for each in single])
    torch.testing.assert_close(log_predictive_of(likelihood, y, several), densities.mean(0).log(), rtol=1e-12, atol=0)
    torch.testing.assert_close(expected_log_prob(likelihood, y, several), expected.mean(0), rtol=1e-12, atol=0)


def test_samples_of_the_inputs_reach_the_objective():
    layer, likelihood = model(), GaussianNoise(0.3)
    inputs = X + torch.tensor([0.0, 0.2, -0.3], dtype=torch.float64)[:, None, None]
    each = torch.stack([likelihood.log_predictive(Y, layer(x)).exp() for x in inputs])
    bound = predictive_bound(layer, likelihood, inputs, Y)
    assert bound.fit.item() == pytest.approx(each.mean(0).log().sum().item(), rel=1e-12)


def test_batches_are_unbiased_and_the_fit_is_above_that_of_the_bound():
    layer, likelihood = model(), GaussianNoise(0.3)
    whole = predictive_bound(layer, likelihood, X, Y)
    parts = [predictive_bound(layer, likelihood, X[i : i + 3], Y[i : i + 3], num_data=12).value for i in (0, 3, 6, 9)]
    assert torch.stack(parts).mean().item() == pytest.approx(whole.value.item(), rel=1e-12)
    assert whole.fit > elbo(layer, likelihood, X, Y).fit


@pytest.mark.parametrize("components", [1, 2])
def test_gradient_is_that_of_differences(components):
    posterior = moved(4, 1) if components == 1 else MixturePosterior(4, 1, components, generator=G)
    layer, likelihood = Inducing(k.RBF(0.7, variance=1.2), X[:4], posterior), GaussianNoise(0.3)
    leaves = [*layer.parameters(), *likelihood.parameters()]
    slope, difference = slopes(lambda: predictive_bound(layer, likelihood, X, Y).value, leaves)
    assert slope == pytest.approx(difference, rel=1e-6)
