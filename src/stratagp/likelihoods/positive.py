"""Positive amounts: costs, rainfall, waiting times."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.scale import exp_moments, finite_exp
from stratagp.likelihoods.single import OneFunction, number, refuse, single_column
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian


class Gamma(OneFunction, Likelihood):
    """``y ~ Gamma`` with mean ``e^f`` and the learnt ``shape`` ``a``: the standard deviation is ``e^f/√a``.

    >>> Gamma(shape=4.0).moments(torch.zeros(1, 1)).var.item()
    0.25
    """

    support = (0.0, math.inf)

    def __init__(self, shape: Value | Parameter = 2.0) -> None:
        super().__init__()
        self.shape = number(shape, "shape")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``a log a − a − log Γ(a) − log y + a (1 + d − e^d)`` with ``d = log y − f``."""
        return self._log_density(_logs(y), f, f)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """The same, with ``E e^d = exp(log y − mean + var/2)``."""
        return self._log_density(_logs(y), q.mean, q.mean - 0.5 * q.var)

    def _log_density(self, log_y: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
        """The log density for ``E f = mean`` and ``E e^−f = exp(−inverse)``."""
        a = self.shape.double()
        constant = a * (a.log() - 1) - torch.lgamma(a)
        bell = 1 + (log_y - mean) - finite_exp(log_y - inverse)
        return (constant - log_y + self.shape * bell).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``e^f`` and ``e^{2f}/a``."""
        mean = finite_exp(f)
        return Gaussian(mean, mean.square() / self.shape)

    def predict(self, q: Gaussian) -> Gaussian:
        """``E e^f`` and ``E e^{2f}/a + Var e^f``."""
        mean, var = exp_moments(q)
        return Gaussian(mean, (var + mean.square()) / self.shape + var)

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """The lower incomplete gamma function of ``a`` at ``a y e^−f``."""
        a = self.shape.detach().to(f)
        return torch.special.gammainc(a.expand(f.shape), a * y.clamp_min(0) * finite_exp(-f))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Amounts; those that would round to 0 become the smallest positive number."""
        a = self.shape.detach().to(f)
        drawn = torch._standard_gamma(a.expand(f.shape), generator=generator) / a * finite_exp(f)
        return drawn.clamp_min(torch.finfo(f.dtype).tiny)


class Exponential(OneFunction, Likelihood):
    """``p(y | f) = e^−f exp(−y e^−f)``: waiting times with mean ``e^f`` that do not age.

    >>> Exponential().moments(torch.zeros(1, 1))
    Gaussian(mean=tensor([[1.]]), var=tensor([[1.]]))
    """

    support = (0.0, math.inf)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``−f − y e^−f``."""
        return (-f - finite_exp(_logs(y) - f)).squeeze(-1)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``−mean − y exp(−mean + var/2)``."""
        return (-q.mean - finite_exp(_logs(y) - q.mean + 0.5 * q.var)).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``e^f`` and ``e^{2f}``."""
        mean = finite_exp(f)
        return Gaussian(mean, mean.square())

    def predict(self, q: Gaussian) -> Gaussian:
        """``E e^f`` and ``E e^{2f} + Var e^f``."""
        mean, var = exp_moments(q)
        return Gaussian(mean, mean.square() + 2 * var)

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``1 − exp(−y e^−f)``."""
        return -torch.expm1(-y.clamp_min(0) * finite_exp(-f))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Waiting times."""
        return torch.empty_like(f).exponential_(generator=generator) * finite_exp(f)


def _logs(y: Float[Tensor, "n p"]) -> Float[Tensor, "n 1"]:
    y = single_column(y)
    refuse(y, (y > 0) & y.isfinite(), "y must be positive")
    return y.log()
