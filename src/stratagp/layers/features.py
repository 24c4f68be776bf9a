"""Features from a neural network, as a layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Layer


class Features(Layer):
    """``h(x)`` by any torch module, standardised over the data and bounded, so that a grid can carry them.

    The features pass a batch normalisation without free parameters and ``b tanh(h / b)``, which is the identity for
    most of them and never leaves ``±b``. In training mode the batch's own moments are used, in evaluation mode
    running averages.

    Arguments:
        network: a module from rows to ``outputs`` features.
        outputs: how many features.
        bound: ``b``, in standard deviations; None leaves the features as they are.

    >>> layer = Features(nn.Linear(3, 2), outputs=2).eval()
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, network: nn.Module, outputs: int, bound: float | None = 3.0) -> None:
        super().__init__()
        if bound is not None and not bound > 0:
            raise InputError(f"bound must be positive, or None for features as they are, got {bound}")
        self.network, self.outputs, self.bound = network, outputs, bound
        self.moments = nn.Identity() if bound is None else nn.BatchNorm1d(outputs, affine=False)

    def forward(self, x: Any) -> Float[Tensor, "n q"]:
        """The features of rows ``n …``: points, images, or whatever the network takes."""
        features = self.network(x)
        if features.dim() != 2 or features.shape[1] != self.outputs:
            raise InputError(
                f"the network must give {self.outputs} features for each row, (n, {self.outputs}), got "
                f"{tuple(features.shape)}"
            )
        if self.bound is None:
            return features
        scaled: Tensor = self.bound * torch.tanh(self.moments(features) / self.bound)
        return scaled

    def kl(self) -> Float[Tensor, ""]:
        """Zero: the network is a point."""
        return torch.zeros(())

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """A copy of the layer in evaluation mode."""
        frozen: Callable[[Tensor], Tensor] = copy.deepcopy(self).eval().requires_grad_(False)
        return frozen
