"""One kernel before a point and another after it."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.on_columns import column_position
from stratagp.kernels.base import Kernel
from stratagp.parameters import Parameter, Value, positive, real


class ChangePoint(Kernel):
    """One kernel before a point in one column and another after it, with a smooth change between.

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
        column: int | str = 0,
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
            raise InputError(f"ChangePoint(column={self.column!r}) needs the columns' order: call kernel.bind(names)")
        return torch.sigmoid(self.steepness * (x[..., self.index, None] - self.location))

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The two kernels, weighted by the position of both points."""
        before, after = self.parts
        sx, sz = self._after(x), self._after(z).mT
        return (1 - sx) * before(x, z) * (1 - sz) + sx * after(x, z) * sz

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The two diagonals, weighted by the squares."""
        points = self._points(x, "x")
        before, after = self.parts
        s = self._after(points).squeeze(-1)
        return (1 - s).square() * before.diag(points) + s.square() * after.diag(points)
