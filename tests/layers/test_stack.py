"""Layers in a chain: samples and moments of hidden layers."""

import pytest
import torch
from torch import nn

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Features, Inducing, Noisy, Stack
from stratagp.likelihoods import GaussianNoise
from stratagp.objectives import elbo
from stratagp.posteriors import MixturePosterior
from stratagp.types import Gaussian, Mixture
from tests.kernels.case import points

X = points(6, 2)


def hidden(functions=2, columns=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    layer = Inducing(k.RBF(1.0, variance=1.0), points(4, columns, seed=seed), functions=functions)
    with torch.no_grad():
        layer.posterior.mean.copy_(torch.randn(functions, 4, generator=generator, dtype=torch.float64))
        layer.posterior.scale.mul_(0.4)
    return layer


def deep(propagate, n_samples=1):
    generator = torch.Generator().manual_seed(0)
    return Stack(hidden(), hidden(1, seed=3), propagate=propagate, n_samples=n_samples, generator=generator)


def test_both_ways_estimate_one_bound():
    y = points(6, 1, seed=7)
    with torch.no_grad():
        exact = elbo(deep("moments"), GaussianNoise(0.3), X, y).fit
        sampled = elbo(deep("samples", 20_000), GaussianNoise(0.3), X, y).fit
    torch.testing.assert_close(sampled, exact, atol=0, rtol=5e-3)


def test_hidden_layers_are_sampled_for_each_row():
    stack = deep("samples", 3)
    assert stack.hidden(X).shape == (3, 6, 2)
    same = stack.hidden(X[:1].expand(6, -1))
    assert same.std(1).min() > 0


def test_predictions_are_mixtures_that_do_not_change():
    stack = deep("moments")
    found = stack.predictive(X)
    assert isinstance(found, Mixture)
    torch.testing.assert_close(found.parts.mean, stack.predictive(X).parts.mean, atol=0, rtol=0)
    moments, exact = found.moments(), stack(X)
    torch.testing.assert_close(moments.mean, exact.mean, atol=0.03, rtol=0)
    torch.testing.assert_close(moments.var, exact.var, atol=0.06, rtol=0)
    torch.testing.assert_close(found.log_weights.exp().sum(), torch.ones((), dtype=torch.float64))


def test_three_layers():
    for propagate, shape in (("moments", (6, 1)), ("samples", (2, 6, 1))):
        stack = Stack(hidden(3), hidden(2, 3), hidden(1, seed=3), propagate=propagate, n_samples=2)
        belief = stack(X)
        assert belief.mean.shape == shape
        assert bool((belief.var > 0).all())
        torch.testing.assert_close(stack.kl(), sum(layer.kl() for layer in stack.layers))
        assert stack.draw(torch.Generator().manual_seed(0))(X).shape == (6, 1)


def test_the_nodes_of_layers_are_not_correlated():
    """Three layers, and noise between two: predictive moments against plain sampling."""
    for layers in ((hidden(2), hidden(2, seed=1), hidden(1, seed=3)), (hidden(2), Noisy(0.3), hidden(1, seed=3))):
        stack = Stack(*layers, propagate="samples", n_samples=50_000, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            parts = stack(X[:2])
            found = stack.predictive(X[:2]).moments()
        mean = parts.mean.mean(0)
        torch.testing.assert_close(found.mean, mean, atol=0.04, rtol=0)
        torch.testing.assert_close(found.var, parts.var.mean(0) + parts.mean.var(0), atol=0.04, rtol=0)


def test_a_mixture_on_top():
    last = Inducing(k.RBF(1.0, variance=1.0), points(4, 2, seed=3), MixturePosterior(4, 1, 2))
    found = Stack(hidden(), last).predictive(X)
    assert found.parts.mean.shape == (128, 6, 1)
    torch.testing.assert_close(found.log_weights.exp().sum(), torch.ones((), dtype=torch.float64))


def test_known_hidden_layers_need_no_samples():
    stack = Stack(Features(nn.Linear(2, 2), 2).double(), hidden(1))
    assert isinstance(stack(X), Gaussian)
    assert isinstance(stack.predictive(X), Gaussian)


def test_bad_arguments():
    with pytest.raises(InputError, match="at least one layer"):
        Stack()
    with pytest.raises(InputError, match="propagate must be one of samples, moments, got 'both'"):
        Stack(hidden(), propagate="both")
    with pytest.raises(InputError, match="n_samples"):
        Stack(hidden(), n_samples=0)
    first = Inducing(k.RBF(), points(4, 2), MixturePosterior(4, 2))
    with pytest.raises(InputError, match="mixture"):
        Stack(first, hidden(1))(X)
