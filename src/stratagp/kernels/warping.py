"""Kernels of transformed inputs, and kernels scaled by a function of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import features
from stratagp.kernels.algebra import parenthesise
from stratagp.kernels.base import Kernel


class Warped(Kernel):
    """``k(u(x), u(z))`` for a function or torch module ``u``; a module's weights are learnt with the kernel.

    >>> from stratagp import kernels as k
    >>> k.RBF().warp(torch.log)(torch.tensor([[1.0]]), torch.tensor([[1.0]]))
    tensor([[1.]], dtype=torch.float64, grad_fn=...)
    """

    random_features = features.features_of_warped

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"warp needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, function
        if isinstance(function, nn.Module):
            function.to(torch.float64)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the warped points."""
        warped = self.function(x)
        return self.base(warped, warped if z is x else self.function(z))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel's diagonal at the warped points."""
        return self.base.diag(self.function(self._points(x, "x")))

    def describe(self) -> str:
        """``base.warp(function)``."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{parenthesise(self.base)}.warp({name})"


class Rescaled(Kernel):
    """``g(x) k(x, z) g(z)`` for a function or torch module ``g`` that returns one number a row (``n 1``)."""

    random_features = features.features_of_rescaled

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"Rescaled needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, function
        if isinstance(function, nn.Module):
            function.to(torch.float64)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel scaled from both sides."""
        return self.function(x) * self.base(x, z) * self.function(z).mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``g(x)² k(x, x)``."""
        points = self._points(x, "x")
        return self.function(points).squeeze(-1).square() * self.base.diag(points)

    def describe(self) -> str:
        """``Rescaled(base, function)``."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Rescaled({self.base.describe()}, {name})"
