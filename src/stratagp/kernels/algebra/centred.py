"""Kernels of functions with mean zero, which split a function into effects that do not overlap.

Each one-column kernel is centred with respect to the distribution of its input. Then in

    f(x) = f₀ + Σᵢ fᵢ(xᵢ) + Σᵢⱼ fᵢⱼ(xᵢ, xⱼ) + …

every effect averages to zero over each of its columns, so the effects are uncorrelated and their variances add up to
the variance of ``f``: the functional analysis of variance.

Reference: Durrande, Ginsbourger, Roustant and Carraro, ANOVA kernels and RKHS of zero mean functions, 2013.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.additive import Additive
from stratagp.kernels.base import Kernel, as_tensor
from stratagp.kernels.stationary.constant import Constant
from stratagp.kernels.stationary.scaled_distance import RBF
from stratagp.parameters import Parameter


class Measure(NamedTuple):
    """A distribution of one input column as points and weights: ``E g(s) = Σⱼ weightsⱼ g(pointsⱼ)``.

    >>> points, weights = Measure.uniform(0, 1)
    >>> round((weights * points**2).sum().item(), 12)  # ∫₀¹ s² ds
    0.333333333333
    """

    points: Float[Tensor, " r"]
    weights: Float[Tensor, " r"]

    @classmethod
    def uniform(cls, low: float = 0.0, high: float = 1.0, n_points: int = 32) -> Measure:
        """The uniform distribution between ``low`` and ``high``, by Gauss-Legendre."""
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"low must be below high, both finite; got {low} and {high}")
        points, weights = np.polynomial.legendre.leggauss(_count(n_points))
        return cls(torch.as_tensor(low + (high - low) * (points + 1) / 2), torch.as_tensor(weights / 2))

    @classmethod
    def normal(cls, mean: float = 0.0, std: float = 1.0, n_points: int = 32) -> Measure:
        """The normal distribution, by Gauss-Hermite."""
        if not (np.isfinite([mean, std]).all() and std > 0):
            raise InputError(f"std must be positive and mean finite; got mean={mean} and std={std}")
        points, weights = np.polynomial.hermite_e.hermegauss(_count(n_points))
        return cls(torch.as_tensor(mean + std * points), torch.as_tensor(weights / weights.sum()))

    @classmethod
    def sample(cls, values: Any, weights: Any = None) -> Measure:
        """The values of a column as they are, each with the same weight unless ``weights`` says otherwise."""
        points = as_tensor(values, "values").detach().to(torch.float64).clone()
        if points.dim() != 1 or not len(points) or not bool(points.isfinite().all()):
            raise InputError(f"values must be finite numbers of one column, shape (r,), got {tuple(points.shape)}")
        given = torch.ones_like(points) if weights is None else as_tensor(weights, "weights").detach().to(points)
        if given.shape != points.shape or not bool((given >= 0).all() and given.isfinite().all() and given.sum() > 0):
            raise InputError(f"weights must be ≥ 0, not all zero, one for each of {len(points)} points")
        return cls(points, given / given.sum())


class Centred(Kernel):
    """The functions of ``base`` that have mean zero under a distribution of their one input column.

    With points ``sⱼ`` and weights ``wⱼ`` of the distribution,

        k(x, z) = k_b(x, z) − μ(x) μ(z)/ν,   μ(x) = Σⱼ wⱼ k_b(x, sⱼ),   ν = Σᵢⱼ wᵢ wⱼ k_b(sᵢ, sⱼ),

    the covariance of ``f`` given ``Σⱼ wⱼ f(sⱼ) = 0``. If ν vanishes, the functions are centred already.

    Arguments:
        base: a kernel on one column.
        points: the points ``s`` (``r``), for example of a :class:`Measure`: ``Centred(RBF(), *Measure.uniform(0, 1))``.
        weights: ``w ≥ 0``, scaled to sum to one; equal if None.

    >>> measure = Measure.uniform(0, 1)
    >>> values = Centred(RBF(0.3), *measure)(measure.points[:, None])
    >>> bool((measure.weights @ values).abs().max() < 1e-12)
    True
    """

    points: Tensor
    weights: Tensor

    def __init__(self, base: Any, points: Any, weights: Any = None) -> None:
        super().__init__()
        if not isinstance(base, Kernel) or not base.takes_tensors:
            raise InputError(f"base must be a kernel on a column of numbers, such as RBF(), got {base!r}")
        measure = Measure.sample(points, weights)
        self.base = base
        self.register_buffer("points", measure.points[:, None])
        self.register_buffer("weights", measure.weights)

    @property
    def measure(self) -> Measure:
        """The distribution under which the functions have mean zero."""
        return Measure(self.points[:, 0], self.weights)

    def forward(self, x: Float[Tensor, "*qx n 1"], z: Float[Tensor, "*qz m 1"]) -> Float[Tensor, "*q n m"]:
        """The base kernel minus ``μ(x) μ(z)/ν``."""
        left = self._mean_embedding(x)
        right = left if z is x else self._mean_embedding(z)
        return self.base(x, z) - self._inverse_variance() * left * right.mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``k_b(x, x) − μ(x)²/ν``."""
        x = self._points(x, "x")
        self._check_columns(x.shape[-1])
        explained = self._inverse_variance() * self._mean_embedding(x).square()
        return self.base.diag(x) - explained.squeeze(-1)

    def _mean_embedding(self, x: Float[Tensor, "*qx n 1"]) -> Float[Tensor, "*q n 1"]:
        return self.base(x, self.points) @ self.weights[:, None]

    def _inverse_variance(self) -> Float[Tensor, "*q 1 1"]:
        """``1/ν``, or zero if ν is mere rounding relative to the variance of the functions."""
        nu = self.weights @ self._mean_embedding(self.points)
        variance = self.base.diag(self.points) @ self.weights
        tiny = nu <= 100 * torch.finfo(nu.dtype).eps * variance.unsqueeze(-1)
        return torch.where(tiny, 0.0, 1 / torch.where(tiny, 1.0, nu)).unsqueeze(-1)

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        if columns != 1:
            raise InputError(f"Centred acts on one column, but the points have {columns}: use Centred(…).on(column)")

    def describe(self) -> str:
        """``Centred(base, … points)``."""
        return f"Centred({self.base.describe()}, {len(self.weights)} points)"


def anova_kernel(measures: Sequence[Measure], base: Any = None, order: int | None = None) -> Kernel:
    """The kernel of a functional analysis of variance: a constant plus effects of every order up to ``order``.

        k(x, z) = variance₀ + Σₙ varianceₙ Σ_{i₁<…<iₙ} k_{i₁}(x, z) ⋯ k_{iₙ}(x, z)

    with a :class:`Centred` copy ``kᵢ`` of ``base`` for each column. One variance for each order is learnt, as are the
    parameters of the base kernels except their own ``variance``, which stays fixed.

    Arguments:
        measures: the distribution of each column, such as ``[Measure.uniform(0, 1), Measure.normal(5, 2)]``.
        base: a kernel on one column, or a list with one for each; if None an RBF, whose lengthscale starts at the
            standard deviation of the column.
        order: the highest order of interaction; None for all.

    >>> anova_kernel([Measure.uniform(0, 1)] * 3, RBF(0.3), order=2)(torch.rand(5, 3)).shape
    torch.Size([5, 5])
    """
    measures = list(measures)
    if not measures or not all(isinstance(measure, Measure) for measure in measures):
        raise InputError("measures must be a list with a Measure for each column, such as [Measure.uniform(0, 1)] * 3")
    bases = [RBF(_std(m)) for m in measures] if base is None else base
    bases = [copy.deepcopy(bases) for _ in measures] if isinstance(bases, Kernel) else list(bases)
    if len(bases) != len(measures):
        raise InputError(f"base must be one kernel or one for each of {len(measures)} columns, got {len(bases)}")
    for kernel in bases:
        if isinstance(kernel, Kernel) and isinstance(kernel._modules.get("variance"), Parameter):
            kernel.fix("variance")
    effects = Additive([Centred(b, *m) for b, m in zip(bases, measures, strict=True)], max_order=order)
    return effects + Constant()


def _std(measure: Measure) -> float:
    centre = (measure.weights * measure.points).sum()
    std = (measure.weights * (measure.points - centre).square()).sum().sqrt().item()
    if not std > 0:
        raise InputError("each measure must cover more than one point: leave out constant columns")
    return std


def _count(n_points: int) -> int:
    if n_points < 1:
        raise InputError(f"n_points must be at least 1, got {n_points}")
    return n_points
