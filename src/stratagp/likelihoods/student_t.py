"""Student-t noise: outliers are part of the model, and pull less the further out they are.

With ``d = y − f ~ N(μ, v)`` and ``c = ν scale²`` both integrals over a Gaussian belief become integrals over ``t`` that
the trapezoidal rule computes to many digits, for any ratio of ``v`` to the scale:

    E log(1 + d²/c) = ∫ exp(−eᵗ) [1 − (1 + 2v eᵗ/c)^(−½) exp(−μ² eᵗ/(c + 2v eᵗ))] dt,
    E p(y | f) = ∫ Gamma(λ; ν/2, ν/2) N(μ; 0, v + scale²/λ) λ dt,    λ = eᵗ,

the first from ``log(1 + x) = ∫ (1 − e^(−xu)) e^(−u)/u du``, the second because a t is a normal of uncertain precision.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from scipy.special import stdtr
from torch import Tensor
from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.function_per_output import FunctionPerOutput
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_NODES = 96
_DROP = 28.0  # what is cut off is below e^−28 of the whole


class StudentT(FunctionPerOutput, Likelihood):
    """``y = f + scale · t`` with ``t`` of ``dof`` degrees of freedom, above two so that the variance is finite.

    Arguments:
        scale: one for all outputs or one for each; the variance of the noise is ``scale² dof/(dof − 2)``.
        dof: degrees of freedom ν > 2, one number, learnt with the rest; ``fix("dof")`` keeps it. Large ν is Gaussian.

    >>> likelihood = StudentT(scale=1.0, dof=4.0)
    >>> likelihood.predict(Gaussian(torch.zeros(1, 1), torch.ones(1, 1))).var.item()  # 1 + 4/(4 − 2)
    3.0
    """

    scalable = direct = True

    scale: Any
    dof: Any

    def __init__(self, scale: Value | Parameter = 0.3, dof: float | Parameter = 4.0) -> None:
        super().__init__()
        self.scale = positive(scale, name="scale")
        if not isinstance(dof, Parameter):
            if not dof > 2:
                raise InputError(f"dof must be above 2, so that the variance is finite, got {dof!r}")
            dof = Parameter(dof, constraints.greater_than(2.0), name="dof")
        self.dof = dof

    def log_density(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``log Γ(½(ν+1)) − log Γ(½ν) − ½ log πν scale² − ½(ν+1) log(1 + (y − f)²/(ν scale²))``."""
        c = self.dof * self.scale.square()
        return self._log_norm() - 0.5 * (self.dof + 1) * torch.log1p((y - f).square() / c)

    def _log_norm(self) -> Tensor:
        dof = self.dof
        return torch.lgamma(0.5 * (dof + 1)) - torch.lgamma(0.5 * dof) - 0.5 * torch.log(math.pi * dof * self.scale**2)

    def moments(self, f: Float[Tensor, "*s n p"]) -> Gaussian:
        """``f`` and ``scale² ν/(ν − 2)``."""
        return Gaussian(f, self._variance().to(f).expand(f.shape))

    def _variance(self) -> Tensor:
        return self.scale.square() * self.dof / (self.dof - 2)

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """The distribution function of t at ``(y − f)/scale``, without derivatives."""
        t = ((y - f) / self.scale.to(f)).detach()
        return torch.as_tensor(stdtr(float(self.dof.detach()), t.cpu().numpy())).to(t)

    def sample(self, f: Float[Tensor, "*s n p"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """``f + scale ε/√g`` with ``ε`` normal and ``g ~ Gamma(ν/2, ν/2)``."""
        half = (0.5 * self.dof).detach().to(f)
        g = torch._standard_gamma(half.expand(f.shape).cpu(), generator=generator).to(f) / half
        return f + self.scale.to(f) * torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f) / g.sqrt()

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """The density's formula with ``E log(1 + d²/c)`` by the first integral above."""
        c = self.dof * self.scale.square()
        square, var = (y - q.mean).square() / c, q.var / c
        low = -torch.log1p(square + var).detach() - _DROP
        t, step = _grid(low, torch.full_like(low, math.log(_DROP)))
        u = t.exp()
        inner = torch.log1p(2 * var * u).mul(-0.5) - square * u / (1 + 2 * var * u)
        average = -((-u).exp() * torch.expm1(inner)).sum(0) * step
        return (self._log_norm() - 0.5 * (self.dof + 1) * average).sum(-1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(y | f)`` by the second integral above."""
        half, square = 0.5 * self.dof, (y - q.mean).square()
        # from the peak without variance to that of the Gamma density, extended by their widths
        with torch.no_grad():
            peak = torch.log((half + 0.5) / (half + 0.5 * square / self.scale.square())).clamp_max(0)
            t, step = _grid(peak - _reach(half + 0.5), torch.log1p(_reach(half)).expand_as(peak))
        total = q.var + self.scale.square() * (-t).exp()
        log_gamma = half * half.log() - torch.lgamma(half) + half * (t - t.exp())
        logs = log_gamma - 0.5 * (square / total + torch.log(2 * math.pi * total))
        return (logs.logsumexp(0) + step.log()).sum(-1)

    def predict(self, q: Gaussian) -> Gaussian:
        """The mean, and the variance plus that of the noise."""
        return Gaussian(q.mean, q.var + self._variance().to(q.var))


def _reach(a: Tensor) -> Tensor:
    """A distance beyond which ``a (t + 1 − eᵗ)`` is below ``−_DROP``: Gaussian for large ``a``, linear for small."""
    return _DROP / a + (2 * _DROP / a).sqrt()


def _grid(low: Tensor, high: Tensor) -> tuple[Float[Tensor, "k *s n p"], Float[Tensor, "*s n p"]]:
    """Equally spaced points from ``low`` to ``high`` in a new first axis, and their distance."""
    step = (high - low) / (_NODES - 1)
    return low + step * torch.arange(_NODES).to(low).reshape(-1, *[1] * low.dim()), step
