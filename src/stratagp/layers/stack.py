"""Layers one after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Belief, Layer


class Stack(Layer):
    """``f = f_L ∘ … ∘ f₁``: what the last layer believes about the outputs of those before.

    All but the last layer must be deterministic.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Features, Inducing
    >>> stack = Stack(Features(nn.Linear(3, 2), outputs=2), Inducing(k.RBF(), torch.zeros(4, 2)))
    >>> stack(torch.rand(5, 3)).mean.shape
    torch.Size([5, 1])
    """

    def __init__(self, *layers: Layer) -> None:
        super().__init__()
        if not layers:
            raise InputError("a Stack needs at least one layer")
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Any) -> Belief:
        """The belief of the last layer."""
        for layer in self._each[:-1]:
            x = layer(x)
            if not isinstance(x, Tensor):
                raise InputError(f"{type(layer).__name__} is not the last layer, but gives a {type(x).__name__}")
        belief: Belief = self._each[-1](x)
        return belief

    def kl(self) -> Float[Tensor, ""]:
        """The sum over the layers."""
        return reduce(torch.add, [layer.kl() for layer in self._each])

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One function of each layer, one after another."""
        functions = [layer.draw(generator) for layer in self._each]
        return lambda x: reduce(lambda value, function: function(value), functions, x)

    @property
    def _each(self) -> list[Layer]:
        return [layer for layer in self.layers if isinstance(layer, Layer)]
