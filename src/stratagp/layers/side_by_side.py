"""Layers side by side: each sees the same rows, and their values are concatenated."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Layer
from stratagp.layers.inducing import Inducing
from stratagp.layers.random_features import RandomFeatures
from stratagp.types import Gaussian


class SideBySide(Layer):
    """``f(x) = [f₁(x), f₂(x), …]``: sparse processes or random features with priors of their own, as one layer.

    Processes may use different columns, or objects of different kinds.

    >>> from stratagp import kernels as k
    >>> z = torch.rand(5, 2)
    >>> both = SideBySide(Inducing(k.RBF().on(0), z, functions=2), Inducing(k.Linear().on(1), z))
    >>> both(torch.zeros(4, 2)).mean.shape
    torch.Size([4, 3])
    """

    def __init__(self, *layers: Inducing | RandomFeatures) -> None:
        super().__init__()
        if not layers:
            raise InputError("SideBySide needs at least one layer")
        if not all(isinstance(layer, (Inducing, RandomFeatures)) for layer in layers):
            raise InputError("SideBySide takes only sparse processes and random features: Inducing, RandomFeatures")
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Any) -> Gaussian:
        """The beliefs of all layers at points ``*s n d``, each part ``*s n q`` for the sum ``q`` of their functions."""
        return self._joined([layer(x) for layer in self.sequence])

    def at_nodes(self, x: Any, count: int) -> Gaussian:
        """The belief for predictions; resampled frequencies are ``count`` fixed draws."""
        return self._joined(
            [own.at_nodes(x, count) if isinstance(own, RandomFeatures) else own(x) for own in self.sequence]
        )

    def _joined(self, beliefs: list[Any]) -> Gaussian:
        for layer, belief in zip(self.sequence, beliefs, strict=True):
            if not isinstance(belief, Gaussian):
                raise InputError(f"SideBySide needs layers with one Gaussian as posterior, got {layer.posterior}")
        return Gaussian(*(torch.cat(part, -1) for part in zip(*beliefs, strict=True)))

    @property
    def functions(self) -> int:
        """The number of latent functions."""
        return sum(layer.functions for layer in self.sequence)

    @property
    def sequence(self) -> list[Inducing | RandomFeatures]:
        """The layers in order."""
        return [layer for layer in self.layers if isinstance(layer, (Inducing, RandomFeatures))]

    def kl(self) -> Float[Tensor, ""]:
        """The sum over the layers."""
        return reduce(torch.add, [layer.kl() for layer in self.sequence])

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """A function of each layer, side by side."""
        functions = [layer.draw(generator) for layer in self.sequence]
        return lambda x: torch.cat([function(x) for function in functions], -1)
