"""Kernels of the scaled distance ``r² = Σ_d (x_d − z_d)²/ℓ_d²`` between two points."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term, row
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.kernels.spectral import (
    gamma_scale,
    normal,
    student_frequencies,
    uniform,
)
from stratagp.linalg import distance as distance
from stratagp.linalg import gaussian_kernel, matern_correlation, matern_kernel, scaled_sqdist
from stratagp.linalg.shapes import broadcast_shapes
from stratagp.parameters import UNSET, Parameter, Value, per_column, positive


class Stationary(Kernel):
    """``k(x, z) = variance · ρ(r²)``; a subclass provides the correlation ``ρ`` as :meth:`profile`.

    Arguments:
        lengthscale: the distance over which the function changes; a vector gives each column its own.
        variance: ``k(x, x)``, the square of the typical size of the function.
        ard: True, or a number of columns, for one lengthscale per column (automatic relevance determination).

    >>> RBF(lengthscale=[1.0, 10.0])(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]])).item()  # exp(−½ 0.1²)
    0.995012...
    """

    def __init__(
        self, lengthscale: Value | Parameter = UNSET, variance: Value | Parameter = UNSET, ard: bool | int = False
    ) -> None:
        super().__init__()
        self.lengthscale = per_column(lengthscale, ard, name="lengthscale")
        self.variance = positive(variance, name="variance")

    @abstractmethod
    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The correlation as a function of the squared scaled distance, with ``ρ(0) = 1``."""

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """``variance · ρ(r²)``."""
        return self.variance * self.profile(scaled_sqdist(x, z, 1 / self.lengthscale))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def _plain(self, profile: Callable[[Tensor], Tensor], x: Tensor, z: Tensor) -> Float[Tensor, "*q n m"]:
        """``variance · ρ(r²)``, with a correlation that torch can trace."""
        return self.variance * profile(plain_sqdist(x, z, 1 / self.lengthscale))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``√(variance/M) [cos(xω), sin(xω)]`` with ``M = n_features`` draws from the spectral density."""
        check_request(self, n_features, dim)
        frequency = self._draw_frequencies(n_features, dim, generator)
        u = uniform(n_features, generator)
        return drawn_features(self, dim, n_features, frequency=frequency, uniform=u)

    def wave(self, x: Float[Tensor, "*qx n d"], frequency: Float[Tensor, "f d"], uniform: Float[Tensor, "f 1"]) -> Wave:
        """Phases ``ω·x``, with ``frequency`` and ``uniform`` the draws for unit lengthscale."""
        omega = frequency * self._spread(uniform) / self.lengthscale
        return Wave(self.variance.sqrt(), x @ omega.mT)

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        """Draws from the spectral density at unit lengthscale, without the factor :meth:`_spread`."""
        raise UnsupportedError(self._no("random features, because its spectral density is not known"))

    def _spread(self, uniform: Float[Tensor, "f 1"]) -> Float[Tensor, "..."]:
        """A factor on the frequencies that depends on a learnt shape, from uniform draws; usually 1."""
        return torch.ones_like(uniform)


def plain_sqdist(
    x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"], weight: Float[Tensor, "..."]
) -> Float[Tensor, "*q n m"]:
    """``Σ w² (x − z)²`` from the norms of centred points.

    >>> plain_sqdist(torch.tensor([[1.0], [4.0]]), torch.tensor([[2.0]]), torch.tensor(2.0)).tolist()
    [[4.0], [16.0]]
    """
    centre = z.mean(-2, keepdim=True)
    a, b = (x - centre) * weight, (z - centre) * weight
    norms = a.square().sum(-1, keepdim=True) + b.square().sum(-1, keepdim=True).mT
    return (norms - 2 * (a @ b.mT)).clamp_min(0)


def constant_diag(variance: Float[Tensor, "..."], x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n"]:
    """The same variance for each row of ``x``, with the function axes of both."""
    value = variance.squeeze(-1) if variance.dim() else variance
    return value.expand(*broadcast_shapes(value.shape[:-1], x.shape[:-2]), x.shape[-2])


class RBF(Stationary):
    """The squared exponential, ``k(x, z) = variance · exp(−½ r²)``: infinitely smooth functions.

    >>> RBF(lengthscale=0.5)(torch.tensor([[0.0]]), torch.tensor([[1.0]])).item()
    0.1353352832366127
    """

    differentiable = math.inf

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``exp(−r²/2)``."""
        return torch.exp(-0.5 * r2)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The same formula as one fused operation: the hot path of every model."""
        return gaussian_kernel(x, z, 1 / self.lengthscale, self.variance)

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The formula."""
        return self._plain(self.profile, x, z)

    def terms(self, dim: int) -> list[Term]:
        """One bell, with the precision ``1/ℓ²``."""
        return [Term(self.variance, row(self.lengthscale.pow(-2), dim))]

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        return normal(n, dim, generator)


class Exponential(Stationary):
    """The Ornstein-Uhlenbeck kernel, ``k(x, z) = variance · exp(−r)``: continuous, nowhere differentiable functions.

    >>> Exponential()(torch.tensor([[0.0]]), torch.tensor([[1.0]])).item()  # 1/e
    0.367879...
    """

    differentiable = 0

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``exp(−r)``."""
        return matern_correlation(r2, 0)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The same formula as one fused operation."""
        return matern_kernel(x, z, 1 / self.lengthscale, self.variance, 0)

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The formula."""
        return self._plain(lambda r2: torch.exp(-r2.sqrt()), x, z)

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        return student_frequencies(0.5, n, dim, generator)


class RationalQuadratic(Stationary):
    """``k(x, z) = variance · (1 + r²/(2α))^(−α)``: a mixture of RBF kernels over lengthscales.

    ``alpha`` sets how wide the mixture is; for large ``alpha`` the kernel is the RBF.

    >>> RationalQuadratic(alpha=0.5)(torch.tensor([[0.0]]), torch.tensor([[1.0]])).item()  # 1/√2
    0.707106...
    """

    differentiable = math.inf

    def __init__(
        self,
        lengthscale: Value | Parameter = UNSET,
        alpha: Value | Parameter = 1.0,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__(lengthscale, variance, ard)
        self.alpha = positive(alpha, name="alpha")

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``(1 + r²/(2α))^(−α)``."""
        return torch.exp(-self.alpha * torch.log1p(r2 / (2 * self.alpha)))

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The formula."""
        return self._plain(self.profile, x, z)

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        return normal(n, dim, generator)

    def _spread(self, uniform: Float[Tensor, "f 1"]) -> Float[Tensor, "..."]:
        return gamma_scale(uniform, self.alpha)
