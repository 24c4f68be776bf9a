"""Kernels of transformed inputs, and kernels scaled by a function of the inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels.algebra.arithmetic import parenthesise
from stratagp.kernels.base import Kernel
from stratagp.kernels.feature_maps import FeatureMap, Height, Rng, Times, WaveFeatures, composed, wave_terms


class Warped(Kernel):
    """``k(u(x), u(z))`` for a function or torch module ``u``; a module's weights are learnt with the kernel.

    A module is copied. The copy, ``kernel.function.module``, computes in float64 and stays in evaluation mode even
    while the kernel trains: a covariance must be a function, so dropout is off and batch normalisation uses its stored
    moments. Two kernels share a copy if one is warped by the ``function`` of the other.

    >>> from stratagp import kernels as k
    >>> k.RBF().warp(torch.log)(torch.tensor([[1.0]]), torch.tensor([[1.0]]))
    tensor([[1.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"warp needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, deterministic(function)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the warped points."""
        warped = self.function(x)
        return self.base(warped, warped if z is x else self.function(z))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel's diagonal at the warped points."""
        return self.base.diag(self.function(self._points(x, "x")))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The base kernel's features of the warped points."""
        return composed(self.base, self.function, n_features, dim, generator)

    def describe(self) -> str:
        """``base.warp(function)``."""
        return f"{parenthesise(self.base)}.warp({name_of(self.function)})"


class Rescaled(Kernel):
    """``g(x) k(x, z) g(z)`` for a function or torch module ``g`` that returns one number per row (``n 1``).

    A module is copied and stays in evaluation mode, as in :class:`Warped`.

    >>> from stratagp import kernels as k
    >>> Rescaled(k.RBF(), lambda x: 2 + 0 * x)(torch.zeros(1, 1)).item()
    4.0
    """

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"Rescaled needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, deterministic(function)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel scaled from both sides."""
        return self.function(x) * self.base(x, z) * self.function(z).mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``g(x)² k(x, x)``."""
        points = self._points(x, "x")
        return self.function(points).squeeze(-1).square() * self.base.diag(points)

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``g(x) φ(x)`` for the base kernel's φ."""
        base = self.base.random_features(n_features, dim, generator)
        return WaveFeatures(dim, [Times([term, Height(self.function)]) for term in wave_terms(base)])

    def describe(self) -> str:
        """``Rescaled(base, function)``."""
        return f"Rescaled({self.base.describe()}, {name_of(self.function)})"


class _Deterministic(nn.Module):
    """A module that stays in evaluation mode, even inside a kernel or its random features."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.eval()

    def forward(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n e"]:
        """The module's output."""
        found: Tensor = self.module(x)
        return found

    def train(self, mode: bool = True) -> _Deterministic:
        """Stay in evaluation mode."""
        return super().train(False)


def deterministic(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A float64 copy of a module in evaluation mode; plain functions and such copies are returned as they are."""
    if not isinstance(function, nn.Module) or isinstance(function, _Deterministic):
        return function
    return _Deterministic(copy.deepcopy(function).to(torch.float64))


def name_of(function: Callable[[Tensor], Tensor]) -> str:
    """The name of a function, or the class of a module."""
    own = function.module if isinstance(function, _Deterministic) else function
    return str(getattr(own, "__name__", type(own).__name__))
