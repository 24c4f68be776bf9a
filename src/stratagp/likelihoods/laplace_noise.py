"""Double-exponential noise: errors count in proportion to their size, not its square."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import erfcx, log_ndtr

from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.function_per_output import FunctionPerOutput
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian


class LaplaceNoise(FunctionPerOutput, Likelihood):
    """``p(y | f) = exp(−|y − f|/scale)/(2 scale)``, with every integral in closed form.

    Arguments:
        scale: one for all outputs or one for each; the variance of the noise is ``2 scale²``.

    >>> likelihood = LaplaceNoise(1.0)
    >>> certain = Gaussian(torch.zeros(1, 1), torch.zeros(1, 1))
    >>> likelihood.expected_log_prob(torch.ones(1, 1), certain).item()  # −1 − log 2
    -1.6931...
    """

    scalable = direct = True

    scale: Any

    closed_reciprocal = True

    def __init__(self, scale: Value | Parameter = 0.3) -> None:
        super().__init__()
        self.scale = positive(scale, name="scale")

    def log_density(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``−|y − f|/scale − log(2 scale)``."""
        return -(y - f).abs() / self.scale - torch.log(2 * self.scale)

    def moments(self, f: Float[Tensor, "*s n p"]) -> Gaussian:
        """``f`` and ``2 scale²``."""
        return Gaussian(f, (2 * self.scale.square()).to(f).expand(f.shape))

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n p"]) -> Float[Tensor, "*s n p"]:
        """``½ exp(−|t|)`` below ``f`` and ``1 − ½ exp(−|t|)`` above, ``t = (y − f)/scale``."""
        t = (y - f) / self.scale.to(f)
        tail = 0.5 * (-t.abs()).exp()
        return torch.where(t < 0, tail, 1 - tail)

    def sample(self, f: Float[Tensor, "*s n p"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """``f`` plus ``scale`` times the difference of two exponential draws."""
        draws = torch.empty(2, *f.shape, dtype=f.dtype).exponential_(generator=generator).to(f)
        return f + self.scale.to(f) * (draws[0] - draws[1])

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``−E|d|/scale − log(2 scale)``, ``E|d| = μ erf(μ/√(2v)) + √(2v/π) exp(−μ²/2v)`` for ``d ~ N(μ, v)``."""
        z, spread = _standardised(y, q)
        average = spread * (z * torch.erf(z / math.sqrt(2)) + math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp())
        return -(average / self.scale + torch.log(2 * self.scale)).sum(-1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log Σ± exp(½r² ± rz) Φ(−r ∓ z) − log(2 scale)`` with ``r = √v/scale`` and ``z = μ/√v``."""
        z, spread = _standardised(y, q)
        r = spread / self.scale
        return (torch.logaddexp(_log_side(r, z), _log_side(r, -z)) - torch.log(2 * self.scale)).sum(-1)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log Σ± exp(½r² ± rz) Φ(r ± z) + log(2 scale)``, finite for every belief."""
        z, spread = _standardised(y, q)
        r = spread / self.scale
        sides = torch.logaddexp(r * z + log_ndtr(r + z), -r * z + log_ndtr(r - z))
        return (0.5 * r.square() + sides + torch.log(2 * self.scale)).sum(-1)

    def predict(self, q: Gaussian) -> Gaussian:
        """The mean, and the variance plus that of the noise."""
        return Gaussian(q.mean, q.var + (2 * self.scale.square()).to(q.var))


def _standardised(y: Tensor, q: Gaussian) -> tuple[Float[Tensor, "*s n p"], Float[Tensor, "*s n p"]]:
    """``(y − mean)/√var`` and ``√var``, which stays just above zero so that the first is finite."""
    spread = q.var.clamp_min(math.sqrt(torch.finfo(q.var.dtype).tiny)).sqrt()
    return (y - q.mean) / spread, spread


def _log_side(r: Tensor, z: Tensor) -> Tensor:
    """``½r² + rz + log Φ(−r − z)``, as ``−½z² + log ½erfcx((r + z)/√2)`` where that keeps all digits."""
    above = r + z > 0
    high, low = torch.where(above, r + z, 0.0), torch.where(above, 0.0, r + z)
    scaled = torch.log(0.5 * erfcx(high / math.sqrt(2))) - 0.5 * z.square()
    return torch.where(above, scaled, r * (0.5 * r + z) + log_ndtr(-low))
