"""Kernels without a lengthscale: a constant offset and white noise."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.kernels.stationary.scaled_distance import constant_diag
from stratagp.linalg.shapes import broadcast_shapes
from stratagp.parameters import UNSET, Parameter, Value, positive


class Constant(Kernel):
    """``k(x, z) = variance``: functions that are constant, at an unknown height.

    >>> import torch
    >>> Constant(2.0)(torch.tensor([[0.0], [1.0]])).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    differentiable = math.inf

    def __init__(self, variance: Value | Parameter = UNSET) -> None:
        super().__init__()
        self.variance = positive(variance, name="variance")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The variance everywhere."""
        batch = broadcast_shapes(x.shape[:-2], z.shape[:-2], self.variance.shape[:-2])
        return self.variance.expand(*batch, x.shape[-2], z.shape[-2])

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The variance everywhere."""
        return self.variance + 0 * (x[..., :1] + z[..., :1].mT)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def _points(self, x: Any, name: str) -> Float[Tensor, "*q n d"]:
        """Points, or one empty row for each object of a list: this kernel ignores their content."""
        if isinstance(x, (list, tuple)) and x and not isinstance(x[0], (int, float, list, tuple, Tensor)):
            return self.variance.detach().new_zeros(len(x), 1)
        return super()._points(x, name)

    def terms(self, dim: int) -> list[Term]:
        """One term that is just a scale."""
        return [Term(self.variance, self.variance.new_zeros(1, dim))]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The single feature ``√variance``, which is exact."""
        check_request(self, n_features, dim)
        return drawn_features(self, dim, draws=1, oscillates=False)

    def wave(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """``√variance`` at every point."""
        return Wave(self.variance.sqrt().expand(*self.variance.shape[:-2], x.shape[-2], 1))


class White(Kernel):
    """``k(x, z) = variance`` where ``x = z`` and 0 elsewhere: an independent value at each point.

    Rows with the same inputs share that value; noise that differs between repeated measurements belongs to the
    model's ``noise``.

    >>> import torch
    >>> White(2.0)(torch.tensor([[0.0], [1.0]])).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    differentiable = -1

    def __init__(self, variance: Value | Parameter = UNSET) -> None:
        super().__init__()
        self.variance = positive(variance, name="variance")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The variance where two rows are equal."""
        rows = torch.cat([x.detach().flatten(0, -2), z.detach().flatten(0, -2)])
        label = rows.unique(dim=0, return_inverse=True)[1]  # equal rows get equal labels
        left, right = label[: x[..., 0].numel()].reshape(x.shape[:-1]), label[x[..., 0].numel() :].reshape(z.shape[:-1])
        return self.variance * (left[..., :, None] == right[..., None, :])

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """Raises: white noise is not a finite sum of functions."""
        raise UnsupportedError(
            "White has no random features, because no finite sum of functions is independent at all points: leave it "
            "out and use the model's noise instead"
        )
