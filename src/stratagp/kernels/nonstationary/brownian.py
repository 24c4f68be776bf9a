"""Brownian motion, and the Brownian sheet on several columns."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from stratagp.kernels.base import Kernel
from stratagp.parameters import UNSET, Parameter, Value, positive


class Brownian(Kernel):
    """Brownian motion that starts at zero, ``k(x, z) = variance · min(x, z)`` for positive inputs.

    Written ``½(|x| + |z| − |x − z|)`` it runs in both directions from the origin. On several columns it is the
    product over columns, the Brownian sheet. Functions are continuous and nowhere differentiable.

    >>> import torch
    >>> Brownian()(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0]]))
    tensor([[1.],
            [2.]], dtype=torch.float64, grad_fn=...)
    """

    differentiable = 0

    def __init__(self, variance: Value | Parameter = UNSET) -> None:
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
