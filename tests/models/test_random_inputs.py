"""Processes on uncertain inputs: each member of the family against its neighbour, predictions against sampling."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.layers import Inducing, LatentRows, Noisy
from stratagp.likelihoods import GaussianNoise
from stratagp.means import Polynomial
from stratagp.models import SparseGP
from stratagp.models.random_inputs import RandomInputGP
from stratagp.objectives import elbo
from stratagp.posteriors import Delta
from tests.kernels.case import points

N, D, M = 15, 2, 6
X, Z = points(N, D), points(M, D, seed=1)
Y = torch.sin(2 * X[:, :1]) * X[:, 1:]


def rbf(variance=1.0):
    return k.RBF([0.8, 1.3], variance=variance)


def hidden(functions=2):
    layer = Inducing(k.RBF(1.0, variance=1.0), points(4, D, seed=3), functions=functions)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.posterior.mean.copy_(torch.randn(functions, 4, generator=generator, dtype=torch.float64))
        layer.posterior.scale.mul_(0.4)
    return layer


def sgpr(x):
    return SparseGP(rbf(), Z, noise=0.1).log_evidence(x, Y[:, 0])


def test_inputs_without_noise_are_those_of_the_sparse_process():
    gp = RandomInputGP(Noisy(1e-12), rbf(), Z)
    torch.testing.assert_close(gp.log_evidence(X, Y), sgpr(X), atol=2e-3, rtol=0)  # it has a jitter of 1e-6


def test_more_noise_of_the_inputs_explains_less():
    values = [RandomInputGP(Noisy(level), rbf(), Z).log_evidence(X, Y).item() for level in (1e-6, 0.01, 0.1, 1.0)]
    assert values == sorted(values, reverse=True)


def test_latent_rows_that_are_certain_pay_their_divergence_only():
    rows = LatentRows(X, 1e-6)
    gp = RandomInputGP(rows, rbf(), Z)
    value = gp.log_evidence(torch.arange(N)[:, None], Y) + rows.kl()
    torch.testing.assert_close(value, sgpr(X), atol=2e-3, rtol=0)


def test_a_deep_process_with_the_identity_below_is_shallow():
    """A linear hidden process whose weights are known to be one is ``b = x``."""
    layer = Inducing(k.Linear(1.0), torch.eye(D), Delta(D, D), jitter=0.0)
    with torch.no_grad():
        layer.posterior.mean.copy_(torch.eye(D))
    belief = layer(X)
    torch.testing.assert_close(belief.mean, X, atol=1e-12, rtol=0)
    gp = RandomInputGP(layer, rbf(), Z)
    torch.testing.assert_close(gp.log_evidence(X, Y) + layer.kl(), sgpr(X), atol=2e-3, rtol=0)


def test_a_warp_that_is_the_identity_leaves_the_hidden_process():
    """With ``f = b + g(b)`` and ``g`` of no variance, the bound is that of the process below."""
    layer = hidden(1)
    gp = RandomInputGP(layer, k.RBF(1.0, variance=1e-10), points(3, 1), Polynomial([1.0]), noise=0.1)
    below = elbo(layer, GaussianNoise(0.1), X, Y).value
    torch.testing.assert_close(gp.log_evidence(X, Y), below, atol=1e-5, rtol=0)


def test_a_linear_process_in_weight_space():
    """``f = b·w`` with ``w ~ N(0, v)`` and certain ``b``: the evidence of Bayesian linear regression."""
    gp = RandomInputGP(Noisy(1e-14), k.Linear(0.5), torch.eye(D), noise=0.1)
    cov = 0.5 * X @ X.mT + 0.1 * torch.eye(N)
    exact = torch.distributions.MultivariateNormal(torch.zeros(N).double(), cov).log_prob(Y[:, 0])
    torch.testing.assert_close(gp.log_evidence(X, Y), exact, atol=1e-4, rtol=0)


def test_predictions_against_sampled_inputs():
    gp = RandomInputGP(hidden(), rbf(), Z)
    chain = gp.condition(X, Y)
    new = points(3, D, seed=9)
    found = chain.predict(new)
    belief, layer = gp.inputs(new), chain.layer.layers[1]
    noise = torch.randn(100_000, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        parts = layer(belief.sample(noise))
        mean = parts.mean.mean(0)
        var = (parts.var + parts.mean.square()).mean(0) - mean.square() + 0.1
        y = torch.tensor([[0.3], [-0.5], [0.1]], dtype=torch.float64)
        normal = torch.distributions.Normal(parts.mean, (parts.var + 0.1).sqrt())
        density = normal.log_prob(y).squeeze(-1).logsumexp(0) - torch.tensor(100_000.0).log()
    torch.testing.assert_close(found.mean, mean, atol=6e-3, rtol=0)
    torch.testing.assert_close(found.var, var, atol=6e-3, rtol=0)
    torch.testing.assert_close(chain.log_predictive(new, y), density, atol=0.02, rtol=0)
    low, high = chain.quantiles(new, [0.05, 0.95])
    drawn = normal.sample()
    inside = ((low < drawn) & (drawn < high)).double().mean()
    assert abs(inside - 0.9) < 0.02


def test_several_outputs_share_the_process():
    both = torch.cat([Y, 2 * Y], 1)
    chain = RandomInputGP(hidden(), rbf(), Z).condition(X, both)
    mean = chain.predict(X).mean
    torch.testing.assert_close(mean[:, 1], 2 * mean[:, 0], atol=1e-9, rtol=0)


def test_bad_arguments():
    with pytest.raises(InputError, match="one kernel"):
        RandomInputGP(Noisy(0.1), rbf().replicate(2), Z)
    with pytest.raises(InputError, match="equally many rows"):
        RandomInputGP(Noisy(0.1), rbf(), Z).log_evidence(X, Y[:3])
    with pytest.raises(UnsupportedError, match="Matern"):
        RandomInputGP(Noisy(0.1), k.Matern(), Z).log_evidence(X, Y)
