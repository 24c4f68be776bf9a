"""Kernels of different kinds for several latent functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.feature_maps import FeatureMap, Rng, StackedFeatures


class Separate(Kernel):
    """Kernels of different kinds side by side, one for each latent function: ``q n m``.

    For functions with kernels of one form, ``kernel.replicate(q)`` is faster: one batched product.

    >>> from stratagp import kernels as k
    >>> import torch
    >>> Separate([k.RBF(), k.Linear()])(torch.zeros(4, 1)).shape
    torch.Size([2, 4, 4])
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        if not kernels or not all(isinstance(k, Kernel) and k.functions is None for k in kernels):
            raise InputError("Separate needs a list of kernels, each for one function")
        self._adopt(kernels)

    @property
    def functions(self) -> int | None:
        """One function for each part."""
        return len(self.parts)

    def forward(self, x: Any, z: Any) -> Float[Tensor, "q n m"]:
        """The parts' matrices, stacked; points with a function axis go to their own part."""
        return torch.stack([part(_own(x, i), _own(z, i)) for i, part in enumerate(self.parts)])

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "q n m"]:
        """The parts' formulas, stacked."""
        return torch.stack([part.plain(_own(x, i), _own(z, i)) for i, part in enumerate(self.parts)])

    def diag(self, x: Any) -> Float[Tensor, "q n"]:
        """The parts' diagonals, stacked."""
        return torch.stack([part.diag(_own(x, i)) for i, part in enumerate(self.parts)])

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """A map for each part, stacked."""
        return StackedFeatures([part.random_features(n_features, dim, generator) for part in self.parts])

    def describe(self) -> str:
        """``Separate([…])``."""
        return f"Separate([{', '.join(part.describe() for part in self.parts)}])"


def _own(points: Any, i: int) -> Any:
    return points[i] if isinstance(points, Tensor) and points.dim() == 3 else points
