"""Kernels of periodic functions."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels.base import Kernel
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.kernels.spectral import normal
from stratagp.kernels.stationary.scaled_distance import RBF, constant_diag, plain_sqdist
from stratagp.linalg import gaussian_kernel
from stratagp.parameters import UNSET, Parameter, Unset, Value, per_column, positive


class Cosine(Kernel):
    """``k(x, z) = variance · cos(2π Σ_d (x_d − z_d)/p_d)``: plane waves, all of the same frequency.

    Arguments:
        period: the wavelength ``p`` along every column; a vector gives each column its own.
        ard: True, or a number of columns, for one period per column.

    >>> Cosine(period=2.0)(torch.tensor([[0.0]]), torch.tensor([[1.0]])).item()
    -1.0
    """

    differentiable = math.inf

    def __init__(
        self, period: Value | Parameter = UNSET, variance: Value | Parameter = UNSET, ard: bool | int = False
    ) -> None:
        super().__init__()
        self.period = per_column(period, ard, name="period")
        self.variance = positive(variance, name="variance")

    def _phase(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        return 2 * math.pi * (x / self.period).sum(-1, keepdim=True)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The cosine of the difference of the phases."""
        return self.variance * torch.cos(self._phase(x) - self._phase(z).mT)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The wave and its quadrature: two features, which are exact."""
        check_request(self, n_features, dim)
        return drawn_features(self, dim, draws=1)

    def wave(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """The single frequency."""
        return Wave(self.variance.sqrt(), self._phase(x))


class Periodic(Kernel):
    """``k(x, z) = variance · exp(−2 Σ_d sin²(π (x_d − z_d)/p_d)/ℓ_d²)``: exact repetition after ``p``.

    Each column is wrapped around its own circle; the kernel is the RBF of the points ``(cos,
    sin)(2πx/p)`` on the circles. (With the Euclidean distance in place of the sum it would not be positive
    definite.)

    Arguments:
        lengthscale: how fast the function changes within a period, on circles of radius 1.
        period: the distance after which it repeats; a vector gives each column its own.
        ard: True, or a number of columns, for one lengthscale per column.

    >>> Periodic(period=2.0)(torch.tensor([[0.25]]), torch.tensor([[2.25]])).item()
    1.0
    """

    differentiable = math.inf

    def __init__(
        self,
        lengthscale: Value | Parameter = UNSET,
        period: Value | Parameter = UNSET,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        self.lengthscale = per_column(lengthscale, ard, name="lengthscale")
        self.period = per_column(period, name="period")
        self.variance = positive(variance, name="variance")

    def _on_circles(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n c"]:
        angle = 2 * math.pi * (x / self.period)
        return torch.cat([angle.cos(), angle.sin()], -1)

    def _weight(self) -> Float[Tensor, "..."]:
        weight = 1 / self.lengthscale
        return torch.cat([weight, weight], -1) if weight.dim() and weight.shape[-1] > 1 else weight

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The RBF on the circles."""
        left = self._on_circles(x)
        right = left if z is x else self._on_circles(z)
        return gaussian_kernel(left, right, self._weight(), self.variance)

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The formula, on the circles."""
        r2 = plain_sqdist(self._on_circles(x), self._on_circles(z), self._weight())
        return self.variance * torch.exp(-0.5 * r2)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The features of the RBF on the circles: periodic, and smooth in the lengthscale and the period.

        (Harmonics drawn from the line spectrum would give the lengthscale no gradient.)
        """
        check_request(self, n_features, dim)
        return drawn_features(self, dim, n_features, frequency=normal(n_features, 2 * dim, generator))

    def wave(self, x: Float[Tensor, "*qx n d"], frequency: Float[Tensor, "f c"]) -> Wave:
        """Phases ``ω·(cos, sin)(2πx/p)``."""
        return Wave(self.variance.sqrt(), self._on_circles(x) @ (frequency * self._weight()).mT)


_DRIFT = Unset(10.0)


def locally_periodic(
    period: Value | Parameter = UNSET,
    lengthscale: Value | Parameter = UNSET,
    decay: Value | Parameter = _DRIFT,
    variance: Value | Parameter = UNSET,
    ard: bool | int = False,
) -> Kernel:
    """``RBF · Periodic``: functions that repeat, with a shape that drifts over distances of ``decay``.

    The RBF's variance stays fixed at 1, so that ``variance`` is the whole kernel's.

    >>> locally_periodic(period=12.0, decay=60.0)
    RBF(lengthscale=60, variance=1 (fixed)) * Periodic(lengthscale=1, period=12, variance=1)
    """
    drift = RBF(decay, positive(1.0, trainable=False), ard)
    return drift * Periodic(lengthscale, period, variance, ard)
