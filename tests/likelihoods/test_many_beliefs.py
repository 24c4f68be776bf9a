"""Averages over many beliefs of a row take few nodes of each: the same answers within a stated error."""

from __future__ import annotations

import math

import pytest
import torch

from stratagp import likelihoods as lik
from stratagp.types import Gaussian, Mixture

MANY = 64


def mixture(functions: int) -> Mixture:
    generator = torch.Generator().manual_seed(0)
    shape = (MANY, 5, functions)
    mean = torch.randn(shape, generator=generator, dtype=torch.float64)
    var = 0.2 + torch.rand(shape, generator=generator, dtype=torch.float64)
    return Mixture(torch.full((MANY,), -math.log(MANY), dtype=torch.float64), Gaussian(mean, var))


def test_probabilities_of_classes() -> None:
    parts = mixture(4).parts
    together = lik.Softmax().predict(parts).mean.mean(0)
    alone = torch.stack([lik.Softmax().predict(Gaussian(*pair)).mean for pair in zip(*parts, strict=True)]).mean(0)
    torch.testing.assert_close(together, alone, rtol=0, atol=2e-3)


@pytest.mark.parametrize("functions", [5, 10])
def test_equal_beliefs_have_nodes_of_their_own(functions: int) -> None:
    one = Gaussian(*(part[:1] for part in mixture(functions).parts))
    wide = Gaussian(one.mean.expand(MANY, -1, -1), torch.full_like(one.mean, 4.0).expand(MANY, -1, -1))
    together = lik.Softmax().predict(wide).mean.mean(0)
    noise = torch.randn(200_000, functions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    truth = (one.mean[0, :, None] + 2 * noise).softmax(-1).mean(1)  # within 0.0007 by chance
    torch.testing.assert_close(together, truth, rtol=0, atol=3e-3)


@pytest.mark.parametrize("likelihood", [lik.Weibull(2.0), lik.Gamma(3.0), lik.Poisson()])
def test_quantiles(likelihood: lik.Likelihood) -> None:
    """Against the share of 100,000 draws below them: 0.0016 each by chance, more for steps of whole numbers."""
    belief, levels = mixture(1), [0.1, 0.5, 0.9]
    found = likelihood.quantiles(belief, levels)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(1600, *belief.parts.mean.shape, generator=generator, dtype=torch.float64)
    draws = likelihood.sample(belief.parts.sample(noise), generator).flatten(0, 1)
    for value, level in zip(found, levels, strict=True):
        below, at = (draws < value).double().mean(0), (draws == value).double().mean(0)
        assert bool((below <= level + 0.01).all())
        assert bool((below + at >= level - 0.01).all())
