"""What a layer is: it maps points to beliefs, knows its cost, and can draw one whole function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian, Mixture

Belief = Tensor | Gaussian | Mixture


class Layer(Parameterised, ABC):
    """One step of a chain ``f = f_L ∘ … ∘ f₁``.

    A deterministic layer returns a Tensor, never a Gaussian of zero variance: the square root has an infinite gradient
    there.
    """

    @abstractmethod
    def forward(self, x: Any) -> Belief:
        """The belief about the layer's outputs at points ``*s n d`` (or at a :class:`Gaussian` over them)."""

    @abstractmethod
    def kl(self) -> Float[Tensor, ""]:
        """What the variational bound subtracts for this layer."""

    @abstractmethod
    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One function drawn from the layer, the same wherever it is asked."""
