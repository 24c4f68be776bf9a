"""Kernels of compact support."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.spectral import Rng, compact_frequencies
from stratagp.kernels.stationary.scaled_distance import Stationary, distance
from stratagp.parameters import UNSET, Parameter, Value


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

    >>> PiecewisePolynomial(smoothness=0)(torch.tensor([[0.0]]), torch.tensor([[0.5], [1.5]])).tolist()
    [[0.5, 0.0]]
    """

    def __init__(
        self,
        smoothness: int = 2,
        dim: int = 1,
        lengthscale: Value | Parameter = UNSET,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__(lengthscale, variance, ard)
        if smoothness not in (0, 1, 2, 3):
            raise InputError(f"smoothness must be 0, 1, 2 or 3, got {smoothness!r}")
        if dim < 1:
            raise InputError(f"dim must be at least 1, got {dim}")
        self.smoothness, self.dim = smoothness, dim

    @property
    def differentiable(self) -> float:
        """As many derivatives as ``smoothness``."""
        return self.smoothness

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
                f"points have {columns}: pass dim={columns} or more"
            )

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The polynomial of the class docstring."""
        return _polynomial(r2, self.dim // 2 + self.smoothness + 1, self.smoothness)

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        return compact_frequencies(self.profile, 2 * self.smoothness + 1, n, dim, generator)


def _polynomial(r2: Float[Tensor, "..."], j: int, q: int) -> Float[Tensor, "..."]:
    """Wendland's polynomial ``P(j, q)`` of the distance, as a function of its square."""
    return _Wendland.apply(r2, j, q) if q else (1 - distance(r2)).clamp_min(0) ** j


class _Wendland(torch.autograd.Function):
    """``dP(j, q)/dr² = −(j+2q−1)(j+2q)/(2(2q−1)) · P(j, q−1)``.

    No square root of a vanishing distance is differentiated, so second derivatives at coincident points are correct.
    """

    @staticmethod
    def forward(ctx: Any, r2: Tensor, j: int, q: int) -> Tensor:
        ctx.save_for_backward(r2)
        ctx.j, ctx.q = j, q
        r = r2.sqrt()
        if q == 1:
            factor = (j + 1) * r + 1
        elif q == 2:
            factor = ((j * j + 4 * j + 3) * r2 + (3 * j + 6) * r + 3) / 3
        else:
            cubic, square = j**3 + 9 * j**2 + 23 * j + 15, 6 * j**2 + 36 * j + 45
            factor = (cubic * r2 * r + square * r2 + (15 * j + 45) * r + 15) / 15
        return (1 - r).clamp_min(0) ** (j + q) * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (r2,) = ctx.saved_tensors
        j, q = ctx.j, ctx.q
        slope = -(j + 2 * q - 1) * (j + 2 * q) / (2 * (2 * q - 1))
        return grad * slope * _polynomial(r2, j, q - 1), None, None
