"""What a layer is: it maps points to beliefs, has a cost, and can draw one whole function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian, Mixture

Belief = Tensor | Gaussian | Mixture


class CovarianceName:
    """The name of a covariance in errors; the kernel is described only when an error is raised."""

    def __init__(self, points: str, kernel: Kernel) -> None:
        self.points, self.kernel = points, kernel

    def __str__(self) -> str:
        return f"the covariance of {self.points} under {self.kernel}"


def with_jitter(k: Float[Tensor, "*q m m"], share: float) -> Float[Tensor, "*q m m"]:
    """``k`` with ``share`` times its mean diagonal added to the diagonal."""
    noise = share * k.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    raised = k.clone()
    raised.diagonal(dim1=-2, dim2=-1).add_(noise)
    return raised


class Layer(Parameterised, ABC):
    """One step of a chain ``f = f_L ∘ … ∘ f₁``.

    A deterministic layer returns a Tensor, never a Gaussian of zero variance: the square root has an infinite gradient
    there.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Inducing
    >>> layer = Inducing(k.RBF(variance=1.0), torch.zeros(1, 1))
    >>> layer(torch.zeros(3, 1)).mean.shape, layer.kl().item()
    (torch.Size([3, 1]), 0.0)
    """

    @abstractmethod
    def forward(self, x: Any) -> Belief:
        """The belief about the layer's outputs at points ``*s n d`` (or at a :class:`Gaussian` over them)."""

    @abstractmethod
    def kl(self) -> Float[Tensor, ""]:
        """What the variational bound subtracts for this layer."""

    @abstractmethod
    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One whole function drawn from the layer."""
