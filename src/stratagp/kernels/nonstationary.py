"""Kernels whose behaviour depends on the place: Gibbs, change point, Brownian motion."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Column, Kernel
from stratagp.kernels.columns import column_position
from stratagp.kernels.stationary import constant_diag
from stratagp.kernels.warping import deterministic, name_of
from stratagp.parameters import OPEN, Parameter, Value, positive, real


class Gibbs(Kernel):
    """An RBF whose lengthscale is a function of the place.

        k = variance · Π_d √(2 ℓ_d(x) ℓ_d(z)/s_d) · exp(−Σ_d (x_d − z_d)²/s_d),   s_d = ℓ_d(x)² + ℓ_d(z)²

    Reference: Gibbs, Bayesian Gaussian processes for regression and classification, 1997.

    Arguments:
        lengthscale: a function or torch module from points ``n d`` to positive lengthscales, ``n 1`` or ``n d``.

    >>> kernel = Gibbs(lambda x: 0.1 + x.abs())
    >>> kernel(torch.tensor([[1.0]]), torch.tensor([[2.0]])).item()
    0.7588...
    """

    differentiable = math.inf

    def __init__(self, lengthscale: Any, variance: Value | Parameter = OPEN) -> None:
        super().__init__()
        if not callable(lengthscale):
            raise InputError(
                "Gibbs needs its lengthscale as a function of the points; for a constant one use RBF(lengthscale)"
            )
        self.lengthscale = deterministic(lengthscale)
        self.variance = positive(variance, name="variance")

    def _settings(self) -> str:
        return f"lengthscale={name_of(self.lengthscale)}"

    def _scales(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n d"]:
        scales = self.lengthscale(x)
        if not bool((scales > 0).all()):
            raise InputError("the lengthscale function of Gibbs returned values that are not positive")
        return scales.expand(x.shape)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The product over columns, summed in the exponent one column at a time."""
        lx, lz = self._scales(x), self._scales(z)
        exponent = torch.zeros((), dtype=x.dtype, device=x.device)
        for d in range(x.shape[-1]):
            a, b = lx[..., d, None], lz[..., None, :, d]
            s = a.square() + b.square()
            exponent = exponent + 0.5 * (2 * a * b / s).log() - (x[..., d, None] - z[..., None, :, d]).square() / s
        return self.variance * exponent.exp()

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance, at every row."""
        return constant_diag(self.variance, self._points(x, "x"))


class ChangePoint(Kernel):
    """One kernel before a place in one column and another after it, with a smooth change between.

        k = (1 − s(x)) k₁(x, z) (1 − s(z)) + s(x) k₂(x, z) s(z),   s(x) = 1/(1 + exp(−steepness (x_c − location)))

    >>> from stratagp import kernels as k
    >>> ChangePoint(k.RBF(), k.Linear(), location=2.0)
    ChangePoint(RBF(lengthscale=1, variance=1), Linear(variance=1), column=0, location=2, steepness=1)
    """

    def __init__(
        self,
        before: Kernel,
        after: Kernel,
        location: Value | Parameter = 0.0,
        steepness: Value | Parameter = 1.0,
        column: Column = 0,
    ) -> None:
        super().__init__()
        self._adopt([before, after])
        self.location = real(location, name="location")
        self.steepness = positive(steepness, name="steepness")
        self.column = column
        self.index: int | None = column if isinstance(column, int) else None

    def _settings(self) -> str:
        before, after = self.parts
        return f"{before.describe()}, {after.describe()}, column={self.column!r}"

    def _bind(self, names: list[str]) -> None:
        super()._bind(names)
        self.index = column_position(self.column, names)

    def _after(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n 1"]:
        if self.index is None:
            raise InputError(f"ChangePoint(column={self.column!r}) needs the order of the columns: kernel.bind(names)")
        return torch.sigmoid(self.steepness * (x[..., self.index, None] - self.location))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The two kernels, weighted by the place of both points."""
        before, after = self.parts
        sx, sz = self._after(x), self._after(z).mT
        return (1 - sx) * before(x, z) * (1 - sz) + sx * after(x, z) * sz

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The two diagonals, weighted by the squares."""
        points = self._points(x, "x")
        before, after = self.parts
        s = self._after(points).squeeze(-1)
        return (1 - s).square() * before.diag(points) + s.square() * after.diag(points)


class Brownian(Kernel):
    """Brownian motion that starts at zero, ``k(x, z) = variance · min(x, z)`` for positive inputs.

    Written ``½(|x| + |z| − |x − z|)`` it runs in both directions from the origin. On several columns it is the
    product over columns, the Brownian sheet. Functions are continuous and nowhere differentiable.

    >>> Brownian()(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0]]))
    tensor([[1.],
            [2.]], dtype=torch.float64, grad_fn=...)
    """

    differentiable = 0

    def __init__(self, variance: Value | Parameter = OPEN) -> None:
        super().__init__()
        self.variance = positive(variance, name="variance")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The product over columns."""
        sheet = self.variance
        for d in range(x.shape[-1]):
            a, b = x[..., d, None], z[..., None, :, d]
            sheet = sheet * 0.5 * (a.abs() + b.abs() - (a - b).abs())
        return sheet

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``variance · Π_d |x_d|``."""
        return (self.variance * self._points(x, "x").abs().prod(-1, keepdim=True)).squeeze(-1)
