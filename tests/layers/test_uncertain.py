"""Uncertain inputs as layers."""

import pytest
import torch

from stratagp.errors import InputError
from stratagp.layers import LatentRows, Measured, Noisy
from stratagp.types import Gaussian
from tests.kernels.case import points

X = points(5, 2)


def test_noise_adds_to_what_is_uncertain():
    layer = Noisy([0.5, 2.0])
    belief = layer(X)
    torch.testing.assert_close(belief.mean, X)
    torch.testing.assert_close(belief.var, torch.tensor([0.5, 2.0], dtype=torch.float64).expand(5, 2))
    torch.testing.assert_close(layer(Gaussian(X, torch.ones_like(X))).var, 1 + belief.var)
    assert layer.kl().item() == 0


def test_draws_of_noise_have_its_variance_and_stay():
    layer, generator = Noisy([0.5, 2.0]), torch.Generator().manual_seed(0)
    function = layer.draw(generator)
    assert torch.equal(function(X), function(X))
    draws = torch.stack([layer.draw(generator)(X) - X for _ in range(400)])
    torch.testing.assert_close(draws.var((0, 1)), torch.tensor([0.5, 2.0]).double(), rtol=0.15, atol=0)


def test_latent_rows():
    layer = LatentRows(X, 0.5)
    belief = layer([[3], [1]])
    torch.testing.assert_close(belief.mean, X[[3, 1]])
    torch.testing.assert_close(belief.var, torch.full((2, 2), 0.25, dtype=torch.float64))
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(X, 0.5), normal(0.0, 1.0)).sum()
    torch.testing.assert_close(layer.kl(), expected, atol=1e-12, rtol=0)
    draws = torch.stack([layer.draw(torch.Generator().manual_seed(i))([[3]]) for i in range(400)])
    torch.testing.assert_close(draws.mean(0), X[[3]], atol=0.1, rtol=0)


def test_measured_columns_are_a_conditional_of_normal_ones():
    """``b ~ N(1, 2)`` and ``x = b + N(0, 0.5)``: the conditional of their joint distribution; a known column stays."""
    joint = torch.tensor([[2.0, 2.0], [2.0, 2.5]]).double()
    x = torch.tensor([[3.0, 7.0]]).double()
    mean, var = 1 + joint[0, 1] / joint[1, 1] * (3 - 1), joint[0, 0] - joint[0, 1] ** 2 / joint[1, 1]
    known = torch.tensor([0.0, 1.0]).double()
    layer = Measured(torch.stack([var, known[0]]), known.new_tensor([1.0, 0.0]), known.new_tensor([0.8, 1.0]))
    belief = layer(x)
    torch.testing.assert_close(belief.mean, torch.stack([mean, x[0, 1]])[None])
    torch.testing.assert_close(belief.var, torch.stack([var, known[0]])[None])
    torch.testing.assert_close(layer(belief).var[0, 0], 0.8**2 * var + var)


def test_draws_of_measured_columns():
    layer = Measured(*(torch.tensor(each).double() for each in ([0.5, 2.0], [1.0, 0.0], [0.8, 1.0])))
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([layer.draw(generator)(X) for _ in range(400)])
    torch.testing.assert_close(draws.mean(0), layer(X).mean, atol=0.35, rtol=0)  # 5 standard errors
    torch.testing.assert_close((draws - layer(X).mean).var((0, 1)), layer.var, rtol=0.15, atol=0)


def test_rows_with_priors_of_their_own():
    prior = Gaussian(points(5, 2, seed=4), points(5, 2, seed=5).square() + 0.1)
    layer = LatentRows(X, 0.5, prior)
    belief, normal = layer(torch.arange(5)), torch.distributions.Normal
    cost = torch.distributions.kl_divergence(
        normal(belief.mean, belief.var.sqrt()), normal(prior.mean, prior.var.sqrt())
    )
    torch.testing.assert_close(layer.kl(), cost.sum(), atol=1e-12, rtol=0)
    unmoved = LatentRows(torch.zeros(5, 2), 1.0, prior)(torch.tensor([[3]]))
    torch.testing.assert_close(torch.stack(unmoved), torch.stack([part[[3]] for part in prior]))


def test_bad_arguments():
    with pytest.raises(InputError, match="mean"):
        LatentRows(X[:, 0])
    with pytest.raises(InputError, match="scale"):
        LatentRows(X, 0.0)
