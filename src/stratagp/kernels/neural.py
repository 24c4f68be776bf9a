"""Infinitely wide Bayesian networks with one hidden layer, as covariance functions (Neal; Williams 1998)."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.linalg import scaled_sqdist
from stratagp.parameters import OPEN, Parameter, Value, per_column, positive


class ArcSine(Kernel):
    """The infinite network with sigmoidal units.

    With ``s(x, z) = bias + Σ_d weight_d x_d z_d``, the prior covariance of the units' inputs,

        units="erf":     k = variance · (2/π) arcsin( 2 s(x, z) / √((1 + 2 s(x, x)) (1 + 2 s(z, z))) )
        units="probit":  k = variance · (¼ + (1/2π) arcsin( s(x, z) / √((1 + s(x, x)) (1 + s(z, z))) ))

    Reference: Williams, Computation with infinite neural networks, 1998.

    >>> ArcSine(weight=1.0, bias=1.0)(torch.tensor([[0.0]])).item()  # (2/π) arcsin(2/3)
    0.46455...
    """

    differentiable = math.inf

    def __init__(
        self,
        weight: Value | Parameter = 1.0,
        bias: Value | Parameter = 1.0,
        variance: Value | Parameter = OPEN,
        units: str = "erf",
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        if units not in ("erf", "probit"):
            raise InputError(f"units must be 'erf' or 'probit', got {units!r}")
        self.units = units
        self.weight = per_column(weight, ard, name="weight")
        self.bias = positive(bias, name="bias")
        self.variance = positive(variance, name="variance")

    def _settings(self) -> str:
        return f"units={self.units!r}"

    def _norm(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        return self.bias + (self.weight * x.square()).sum(-1, keepdim=True)

    def _link(self, s: Tensor, left: Tensor, right: Tensor) -> Tensor:
        c = 2 if self.units == "erf" else 1
        excess = (left * right - s.square()).clamp_min(0)  # ≥ 0 but for rounding, by Cauchy and Schwarz
        angle = torch.atan2(c * s, (1 + c * left + c * right + c * c * excess).sqrt())  # the arcsine, safe near 1
        if self.units == "erf":
            return self.variance * (2 / math.pi) * angle
        return self.variance * (0.25 + angle / (2 * math.pi))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The arcsine of the units' correlations."""
        return self._link(self.bias + (self.weight * x) @ z.mT, self._norm(x), self._norm(z).mT)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The same with ``z = x``."""
        norm = self._norm(self._points(x, "x"))
        return self._link(norm, norm, norm).squeeze(-1)


class GaussianUnits(Kernel):
    """The infinite network of Gaussian bumps ``exp(−|x − u|²/2g²)`` with centres ``u ~ N(0, s²)``.

    For each column, with width ``g`` and spread ``s``,

        k = (e/s) exp(−x²/2m²) exp(−(x − z)²/2t²) exp(−z²/2m²),
        1/e² = 2/g² + 1/s²,   t² = 2g² + g⁴/s²,   m² = 2s² + g²,

    and over columns the product, times ``variance``. Near the origin it is an RBF; far away it fades.

    >>> near, far = GaussianUnits().diag(torch.tensor([[0.0], [3.0]])).tolist()
    >>> round(near, 3), round(far, 3)  # it fades away from the origin
    (0.577, 0.029)
    """

    differentiable = math.inf

    def __init__(
        self,
        width: Value | Parameter = 1.0,
        spread: Value | Parameter = 1.0,
        variance: Value | Parameter = OPEN,
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        self.width = per_column(width, ard, name="width")
        self.spread = per_column(spread, ard, name="spread")
        self.variance = positive(variance, name="variance")

    def _amplitude(self, columns: int) -> Float[Tensor, "..."]:
        """``Π_d (e_d/s_d)``, with the function axis of a matrix."""
        ratio = 1 / (2 * self.spread.square() / self.width.square() + 1)
        ratio = ratio.expand(*ratio.shape[:-1], columns) if ratio.dim() else ratio.expand(columns)
        return ratio.log().sum(-1, keepdim=ratio.dim() > 1).mul(0.5).exp()

    def _fade(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        m2 = 2 * self.spread.square() + self.width.square()
        return torch.exp(-0.5 * (x.square() / m2).sum(-1, keepdim=True))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """A Gaussian of the difference, faded by both points."""
        t2 = 2 * self.width.square() + self.width**4 / self.spread.square()
        near = torch.exp(-0.5 * scaled_sqdist(x, z, t2.rsqrt()))
        return self.variance * self._amplitude(x.shape[-1]) * self._fade(x) * near * self._fade(z).mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``variance · Π_d (e_d/s_d) · exp(−Σ x²/m²)``."""
        points = self._points(x, "x")
        return (self.variance * self._amplitude(points.shape[-1]) * self._fade(points).square()).squeeze(-1)
