"""A Gaussian in place of the likelihood of each row: Laplace's method, expectation propagation, a variational bound.

A site is ``c exp(ν f − ½ τ f²)``: an observation ``z = ν/τ`` with noise ``1/τ``. Laplace's method matches the first two
derivatives of ``log p(y | f)`` at the mode. Expectation propagation matches the moments of its product with the cavity
``N(m, v)``, the belief about ``f`` from all other rows: with ``Z(m) = ∫ p(y | f) N(f; m, v) df``,

    g = ∂ log Z/∂m,   ρ = −∂² log Z/∂m²,   τ = ρ/(1 − vρ),   ν = (g + mρ)/(1 − vρ).

The variational bound is highest where sites have the derivatives of ``E log p(y | f)`` under the belief ``N(m, v)``, as
Laplace's have those of ``log p`` at a point (Khan and Lin 2017).

Derivatives are by autograd, so any likelihood of one function will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.types import Gaussian

LEAST = 1e-10  # precision of a site: rows that say nothing, and those where the likelihood is not log-concave


class RowSites(NamedTuple):
    """Precisions ``τ``, shifts ``ν`` and ``log c`` such that ``p(y | f) ≈ c N(ν/τ; f, 1/τ)``.

    >>> RowSites(torch.ones(1), 2 * torch.ones(1), torch.zeros(1)).observed
    tensor([2.])
    """

    precision: Float[Tensor, " n"]
    shift: Float[Tensor, " n"]
    log_scale: Float[Tensor, " n"]

    @property
    def observed(self) -> Float[Tensor, " n"]:
        """``z = ν/τ``."""
        return self.shift / self.precision


def laplace_sites(likelihood: Likelihood, y: Float[Tensor, "n p"], f: Float[Tensor, " n"]) -> RowSites:
    """The sites with the derivatives of ``log p(y | f)``.

    >>> from stratagp.likelihoods import Bernoulli
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> laplace_sites(Bernoulli(), one[:, None], 0 * one).observed  # slope ½, curvature ¼
    tensor([2.], dtype=torch.float64)
    """
    value, slope, curvature = _derivatives(lambda at: likelihood.log_prob(y, at[:, None]), f)
    precision = curvature.clamp_min(LEAST)
    gap = slope / precision
    return RowSites(precision, precision * f + slope, value - _log_normal(gap, 1 / precision))


def matched_sites(likelihood: Likelihood, y: Float[Tensor, "n p"], cavity: Gaussian) -> RowSites:
    """The sites that give their product with the cavity the moments of that with the likelihood.

    >>> from stratagp.likelihoods import GaussianNoise
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> matched_sites(GaussianNoise(0.5), 3 * one, Gaussian(one, one)).observed.round(decimals=6)  # as observed
    tensor([3.], dtype=torch.float64)
    """
    mean, var = cavity.mean[:, 0], cavity.var[:, 0]
    value, slope, curvature = _derivatives(
        lambda at: likelihood.log_predictive(y, Gaussian(at[:, None], cavity.var)), mean
    )
    rest = (1 - var * curvature).clamp_min(LEAST)
    precision, shift = (curvature / rest).clamp_min(LEAST), (slope + mean * curvature) / rest
    return RowSites(precision, shift, value - _log_normal(shift / precision - mean, var + 1 / precision))


def expected_sites(likelihood: Likelihood, y: Float[Tensor, "n p"], belief: Gaussian) -> RowSites:
    """The sites with the derivatives of ``E log p(y | f)`` by the mean of the belief.

    Their ``log c`` lacks ``E log p(y | f)``; with it, the evidence of the sites is the variational bound.

    >>> from stratagp.likelihoods import Poisson
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> expected_sites(Poisson(), one, Gaussian(-one, 2 * one)).precision  # exp(m + v/2)
    tensor([1.], dtype=torch.float64)
    """
    mean, var = belief.mean[:, 0], belief.var[:, 0]
    _, slope, curvature = _derivatives(
        lambda at: likelihood.expected_log_prob(y, Gaussian(at[:, None], belief.var)), mean
    )
    precision = curvature.clamp_min(LEAST)
    log_scale = 0.5 * precision * var - _log_normal(slope / precision, 1 / precision)
    return RowSites(precision, precision * mean + slope, log_scale)


def _derivatives(function: Callable[[Tensor], Tensor], at: Float[Tensor, " n"]) -> tuple[Tensor, Tensor, Tensor]:
    """The values of a function of each entry, their first derivatives, and minus their second."""
    with torch.enable_grad():
        point = at.detach().requires_grad_()
        value = function(point)
        (slope,) = torch.autograd.grad(value.sum(), point, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), point)
    return value.detach(), slope.detach(), -second


def _log_normal(gap: Tensor, var: Tensor) -> Tensor:
    return -0.5 * (gap.square() / var + (2 * math.pi * var).log())
