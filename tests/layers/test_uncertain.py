"""Uncertain inputs as layers."""

import pytest
import torch

from stratagp.errors import InputError
from stratagp.layers import LatentRows, Noisy
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


def test_bad_arguments():
    with pytest.raises(InputError, match="mean"):
        LatentRows(X[:, 0])
    with pytest.raises(InputError, match="scale"):
        LatentRows(X, 0.0)
