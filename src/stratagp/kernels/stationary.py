"""Kernels of the scaled distance ``r² = Σ_d (x_d − z_d)²/ℓ_d²`` between two points."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.linalg import gaussian_kernel, scaled_sqdist
from stratagp.parameters import Parameter, Value, per_column, positive


class Stationary(Kernel):
    """``k(x, z) = variance · ρ(r²)``; a subclass gives the correlation ``ρ`` as :meth:`profile`.

    Arguments:
        lengthscale: the distance over which the function changes; a vector gives each column its own.
        variance: ``k(x, x)``, the square of the typical size of the function.
        ard: True, or a number of columns, for one lengthscale a column (automatic relevance determination).
    """

    def __init__(
        self, lengthscale: Value | Parameter = 1.0, variance: Value | Parameter = 1.0, ard: bool | int = False
    ) -> None:
        super().__init__()
        self.lengthscale = per_column(lengthscale, ard)
        self.variance = positive(variance)

    @abstractmethod
    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The correlation as a function of the squared scaled distance, with ``ρ(0) = 1``."""

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """``variance · ρ(r²)``."""
        return self.variance * self.profile(scaled_sqdist(x, z, 1 / self.lengthscale))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance, at every row."""
        return constant_diag(self.variance, self._points(x, "x"))


def constant_diag(variance: Float[Tensor, "..."], x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n"]:
    """The same variance for each row of ``x``, with the function axes of both."""
    value = variance.squeeze(-1) if variance.dim() else variance
    return value.expand(*torch.broadcast_shapes(value.shape[:-1], x.shape[:-2]), x.shape[-2])


def distance(r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """``√r²`` with gradient zero, not infinity, where points coincide."""
    return torch.where(r2 > 0, r2, torch.ones_like(r2)).sqrt() * (r2 > 0)


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


class Exponential(Stationary):
    """The Ornstein-Uhlenbeck kernel, ``k(x, z) = variance · exp(−r)``: continuous, nowhere differentiable functions."""

    differentiable = 0

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``exp(−r)``."""
        return torch.exp(-distance(r2))


class RationalQuadratic(Stationary):
    """``k(x, z) = variance · (1 + r²/(2α))^(−α)``: a mixture of RBF kernels over lengthscales.

    ``alpha`` sets how wide the mixture is; for large ``alpha`` the kernel is the RBF.
    """

    differentiable = math.inf

    def __init__(
        self,
        lengthscale: Value | Parameter = 1.0,
        alpha: Value | Parameter = 1.0,
        variance: Value | Parameter = 1.0,
        ard: bool | int = False,
    ) -> None:
        super().__init__(lengthscale, variance, ard)
        self.alpha = positive(alpha)

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``(1 + r²/(2α))^(−α)``."""
        return torch.exp(-self.alpha * torch.log1p(r2 / (2 * self.alpha)))


class PiecewisePolynomial(Stationary):
    """Wendland's kernels of compact support: zero beyond ``r = 1``, so matrices are sparse.

    With ``j = ⌊D/2⌋ + q + 1`` for ``D`` columns and ``(·)₊ = max(0, ·)``,

        q = 0:  ρ = (1 − r)₊ʲ
        q = 1:  ρ = (1 − r)₊^(j+1) ((j + 1) r + 1)
        q = 2:  ρ = (1 − r)₊^(j+2) ((j² + 4j + 3) r² + (3j + 6) r + 3)/3
        q = 3:  ρ = (1 − r)₊^(j+3) ((j³ + 9j² + 23j + 15) r³ + (6j² + 36j + 45) r² + (15j + 45) r + 15)/15

    (Rasmussen and Williams 2006, equation 4.21). The process is ``q`` times mean-square differentiable.

    Arguments:
        smoothness: ``q`` in 0, 1, 2, 3.
        dim: the number of columns ``D`` up to which the kernel must be positive definite.
    """

    def __init__(
        self,
        smoothness: int = 2,
        dim: int = 1,
        lengthscale: Value | Parameter = 1.0,
        variance: Value | Parameter = 1.0,
        ard: bool | int = False,
    ) -> None:
        super().__init__(lengthscale, variance, ard)
        if smoothness not in (0, 1, 2, 3):
            raise InputError(f"smoothness must be 0, 1, 2 or 3, got {smoothness!r}")
        if dim < 1:
            raise InputError(f"dim must be at least 1, got {dim}")
        self.smoothness, self.dim = smoothness, dim
        self.differentiable = smoothness

    def _settings(self) -> str:
        return f"smoothness={self.smoothness}, dim={self.dim}"

    def _bind(self, names: list[str]) -> None:
        super()._bind(names)
        self.dim = max(self.dim, len(names))

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        if columns > self.dim:
            raise InputError(
                f"PiecewisePolynomial(dim={self.dim}) is positive definite for at most {self.dim} columns, but the "
                f"points have {columns}: write dim={columns} or more"
            )

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The polynomial of the class docstring."""
        r = distance(r2)
        j = self.dim // 2 + self.smoothness + 1
        polynomial = {
            0: lambda: torch.ones_like(r),
            1: lambda: (j + 1) * r + 1,
            2: lambda: ((j * j + 4 * j + 3) * r2 + (3 * j + 6) * r + 3) / 3,
            3: lambda: (
                (j**3 + 9 * j**2 + 23 * j + 15) * r2 * r
                + (6 * j**2 + 36 * j + 45) * r2
                + (15 * j + 45) * r
                + 15
            )
            / 15,
        }[self.smoothness]()
        return (1 - r).clamp_min(0) ** (j + self.smoothness) * polynomial
