"""The RBF kernel under a full metric: directions of fast change need not be the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, check_request, drawn_features
from stratagp.kernels.spectral import normal
from stratagp.kernels.stationary.scaled_distance import constant_diag
from stratagp.linalg import gaussian_kernel
from stratagp.parameters import UNSET, Parameter, Value, lower_cholesky, positive


class MetricRBF(Kernel):
    """``k(x, z) = variance · exp(−½ (x−z)ᵀ J⁻¹ (x−z))`` with a full symmetric positive definite metric ``J``.

    The parameter is the lower triangular factor ``W`` of ``J⁻¹ = W Wᵀ``, so the kernel is the RBF of ``Wᵀx``,
    a learnt linear map of the points. A diagonal ``W`` is the RBF with lengthscales ``1/W_dd``.

    Arguments:
        factor: the number of columns ``d``, for ``W = I``; or ``W`` itself, ``d d`` with a positive diagonal.
        variance: ``k(x, x)``.

    >>> MetricRBF(factor=[[2.0, 0.0], [1.0, 1.0]]).metric
    tensor([[ 0.5000, -0.5000],
            [-0.5000,  1.0000]], dtype=torch.float64, grad_fn=...)
    """

    differentiable = math.inf

    def __init__(
        self, factor: int | Value | Sequence[Sequence[float]] | Parameter, variance: Value | Parameter = UNSET
    ) -> None:
        super().__init__()
        self.factor = lower_cholesky(factor if isinstance(factor, Parameter) else _square(factor))
        self.variance = positive(variance, name="variance")

    @property
    def metric(self) -> Float[Tensor, "*q d d"]:
        """``J = (W Wᵀ)⁻¹``, in squared units of the points."""
        return torch.cholesky_inverse(self.factor)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The Gaussian kernel of the mapped points."""
        mapped = x @ self.factor
        one = self.variance.new_ones(())
        return gaussian_kernel(mapped, mapped if z is x else z @ self.factor, one, self.variance)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The variance at every row."""
        return constant_diag(self.variance, self._points(x, "x"))

    def terms(self, dim: int) -> list[Term]:
        """One bell, with the precision ``W Wᵀ``."""
        return [Term(self.variance, self.factor @ self.factor.mT)]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The RBF's features of ``Wᵀx``."""
        check_request(self, n_features, dim)
        return drawn_features(self, dim, n_features, frequency=normal(n_features, dim, generator))

    def wave(self, x: Float[Tensor, "*qx n d"], frequency: Float[Tensor, "f d"]) -> Wave:
        """Phases ``ω·Wᵀx`` with standard normal ``ω``."""
        return Wave(self.variance.sqrt(), (x @ self.factor) @ frequency.mT)

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        size = self.factor.shape[-1]
        if size != columns:
            raise InputError(f"MetricRBF has a metric of {size} columns, but the points have {columns}")


def _square(factor: int | Value | Sequence[Sequence[float]]) -> Float[Tensor, "d d"]:
    if isinstance(factor, int):
        return torch.eye(factor, dtype=torch.float64)
    matrix = torch.as_tensor(factor, dtype=torch.float64)
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"factor must be a number of columns or a square matrix, got shape {tuple(matrix.shape)}")
    return matrix
