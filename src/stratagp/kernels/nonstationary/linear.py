"""Kernels of the inner product ``Σ_d v_d x_d z_d``: linear functions and polynomials."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term, row
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.parameters import UNSET, Parameter, Value, per_column, positive


class Linear(Kernel):
    """``k(x, z) = Σ_d v_d x_d z_d``: linear functions through the origin, Bayesian linear regression.

    Arguments:
        variance: ``v``, the prior variance of the slopes; a vector gives each column its own.
        ard: True, or a number of columns, for one variance per column (automatic relevance determination).

    >>> Linear(variance=0.5)(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])).item()
    5.5
    """

    differentiable = math.inf

    def __init__(self, variance: Value | Parameter = UNSET, ard: bool | int = False) -> None:
        super().__init__()
        self.variance = per_column(variance, ard, name="variance")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """One product, with ``z`` scaled."""
        return x @ (self.variance * z).mT

    plain = forward

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``Σ_d v_d x_d²``."""
        return (self.variance * self._points(x, "x").square()).sum(-1)

    def terms(self, dim: int) -> list[Term]:
        """One term with one slope."""
        slope = row(self.variance, dim)
        return [Term(slope.new_ones(()), torch.zeros_like(slope), (slope,))]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``√v_d x_d``: exact, one feature per column, nothing random."""
        check_request(self, n_features, dim)
        return drawn_features(self, dim, dim, oscillates=False)

    def wave(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        """``√(v_d D) x_d``, which the map averages over the ``D`` columns."""
        return Wave((self.variance * x.shape[-1]).sqrt() * x)


class Polynomial(Kernel):
    """``k(x, z) = (Σ_d v_d x_d z_d + offset)^degree``: polynomials up to a degree.

    Arguments:
        degree: a whole number, 1 or more.
        offset: the weight of lower powers relative to the highest; positive.
        variance: ``v``, the weight of each column; a vector gives each its own.
        ard: True, or a number of columns, for one variance per column.

    >>> Polynomial(degree=3)(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 1.0]])).item()
    42.875
    """

    differentiable = math.inf

    def __init__(
        self,
        degree: int = 2,
        offset: Value | Parameter = 1.0,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__()
        if not isinstance(degree, int) or isinstance(degree, bool) or degree < 1:
            raise InputError(f"degree must be a whole number ≥ 1, got {degree!r}")
        self.degree = degree
        self.offset = positive(offset, name="offset")
        self.variance = per_column(variance, ard, name="variance")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """One product and one power."""
        return (x @ (self.variance * z).mT + self.offset) ** self.degree

    plain = forward

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``(Σ_d v_d x_d² + offset)^degree``."""
        squares = (self.variance * self._points(x, "x").square()).sum(-1, keepdim=True)
        return ((squares + self.offset) ** self.degree).squeeze(-1)

    def _settings(self) -> str:
        return f"degree={self.degree}"
