"""Processes after a smoothing function: ``g(x) = ∫ h(a) f(x + a) da``.

Sensors average, pixels have a size, moving averages blur. If ``f`` is a Gaussian process then so is ``g``,
jointly with it: the kernels here are those of ``g``, and ``kernel.cross`` is its covariance with ``f``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels.algebra.arithmetic import Sum
from stratagp.kernels.algebra.warped import deterministic
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term, row
from stratagp.kernels.feature_maps import FeatureMap, Rng, Wave, WaveFeatures, WaveTerm, check_request
from stratagp.kernels.spectral import normal
from stratagp.kernels.stationary.constant import Constant
from stratagp.kernels.stationary.scaled_distance import RBF, constant_diag
from stratagp.linalg import gaussian_kernel
from stratagp.parameterised import describe_parameters
from stratagp.parameters import Parameter, Value, per_column

_DIAG_POINTS = 256


class Smoothed(Kernel):
    """An RBF process smoothed by a normalised Gaussian of standard deviation ``width``, in closed form.

    With ``L_d = ℓ_d² + 2 width_d²``,

        k(x, z) = variance · Π_d √(ℓ_d²/L_d) · exp(−½ Σ_d (x_d − z_d)²/L_d).

    Smoothing leaves a :class:`Constant` as it is, and a sum of such kernels is smoothed part by part.

    Arguments:
        base: the kernel of the process before smoothing: an RBF, a Constant or a sum of them.
        width: the standard deviation of the smoothing Gaussian, learnt; a vector gives each column its own.
        ard: True, or a number of columns, for one width per column.

    >>> Smoothed(RBF(lengthscale=1.0), width=2.0).diag(torch.zeros(1, 1)).item()  # √(1/(1 + 2·4))
    0.3333333333333333
    """

    def __init__(self, base: Kernel, width: Value | Parameter = 1.0, ard: bool | int = False) -> None:
        super().__init__()
        for part in _summands(base):
            if not isinstance(part, (RBF, Constant)):
                raise UnsupportedError(
                    f"{type(part).__name__} has no closed form under Gaussian smoothing: use "
                    "Convolved(base, offsets, weights) with a quadrature rule of the smoothing function"
                )
        self.base = base
        self.width = per_column(width, ard, name="width")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The covariance of ``g(x)`` and ``g(z)``."""
        return _evaluate(self.terms(x.shape[-1]), x, z)

    def cross(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The covariance of ``g(x)`` and ``f(z)``: the same formula with ``L_d = ℓ_d² + width_d²``."""
        x, z = self._points(x, "x"), self._points(z, "z")
        for points in (x, z):
            self._check_columns(points.shape[-1])
        return _evaluate(self._bells(x.shape[-1], 1), x, z)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The height of the bells, the same at every row."""
        x = self._points(x, "x")
        self._check_columns(x.shape[-1])
        return reduce(torch.add, [constant_diag(bell.scale, x) for bell in self.terms(x.shape[-1])])

    def terms(self, dim: int) -> list[Term]:
        """One bell for each part, wider and lower than before."""
        return self._bells(dim, 2)

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        for part in _summands(self.base):
            part._check_columns(columns)

    def _bells(self, dim: int, times: int) -> list[Term]:
        return [_widen(part, times * self.width.square(), dim) for part in _summands(self.base)]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The features of the widened bells, with ``n_features`` draws for each part."""
        check_request(self, n_features, dim)
        draws = [normal(n_features, dim, generator) for _ in _summands(self.base)]
        return WaveFeatures(dim, [_BellTerm(self, i, frequency) for i, frequency in enumerate(draws)])

    def describe(self) -> str:
        """``Smoothed(base, width)``."""
        return f"Smoothed({self.base.describe()}, {describe_parameters(self)})"


class Convolved(Kernel):
    """Any process after a smoothing function with finitely many offsets: ``g(x) = Σ_i w_i f(x + a_i)``.

        k(x, z) = Σ_ij w_i(x) w_j(z) k_f(x + a_i, z + a_j)

    Offsets and weights are a filter with finitely many taps, or a quadrature rule of a smoothing function:
    nodes and weights with ``∫ h(a) f(x + a) da ≈ Σ_i w_i f(x + a_i)``. Weights that depend on ``x`` make a smoothing
    that is not the same everywhere, ``∫ h(x, z) f(z) dz``: ``w_i(x)`` is ``h(x, x + a_i)`` times the node's weight.

    Arguments:
        base: the kernel of ``f``.
        offsets: ``a``, one per row (``r d``).
        weights: ``w``, one for each offset (``r``); or a function or torch module from points ``n d`` to ``n r`` of
            them. A module's weights are learnt with the kernel; it is copied, as in :class:`~stratagp.kernels.Warped`.

    >>> slope = Convolved(RBF(), offsets=[[-0.05], [0.05]], weights=[-10.0, 10.0])  # a difference quotient
    >>> slope.diag(torch.zeros(1, 1)).item()  # close to 1, the variance of the derivative
    0.9975...
    >>> fading = Convolved(RBF(), offsets=[[0.0], [1.0]], weights=lambda x: torch.cat([x, 1 - x], -1))
    >>> fading.diag(torch.ones(1, 1)).item()
    1.0
    """

    def __init__(
        self,
        base: Kernel,
        offsets: Sequence[Sequence[float]] | np.ndarray | Tensor,
        weights: Sequence[float] | np.ndarray | Tensor | Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        if not base.takes_tensors:
            raise InputError(f"Convolved shifts points, but the inputs of {type(base).__name__} are not numbers")
        self.base = base
        self.register_buffer("offsets", torch.as_tensor(offsets, dtype=torch.float64).clone())
        if self.offsets.dim() != 2:
            raise InputError(
                f"offsets must have one row for each weight, shape (r, d), got {tuple(self.offsets.shape)}"
            )
        if callable(weights):
            self.weights = deterministic(weights)
            return
        taps = torch.as_tensor(weights, dtype=torch.float64).clone()
        if taps.shape != self.offsets.shape[:1]:
            raise InputError(
                "offsets must have one row for each weight, shapes (r, d) and (r,), got "
                f"{tuple(self.offsets.shape)} and {tuple(taps.shape)}"
            )
        self.register_buffer("weights", taps)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel at all shifted points, and a weighted sum over both shifts."""
        shifted = self._shift(x)
        k = self.base(shifted, shifted if z is x else self._shift(z))
        return self._weigh(self._weigh(k.mT, z).mT, x)

    def cross(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The covariance of ``g(x)`` and ``f(z)``: ``Σ_i w_i(x) k_f(x + a_i, z)``."""
        x = self._points(x, "x")
        self._check_columns(x.shape[-1])
        return self._weigh(self.base(self._shift(x), z), x)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``k(x, x)`` for each row, a few rows at a time, because each row becomes ``r`` points."""
        rows = max(1, _DIAG_POINTS // len(self.offsets))
        blocks = [self(chunk).diagonal(dim1=-2, dim2=-1) for chunk in self._points(x, "x").split(rows, -2)]
        return torch.cat(blocks, -1)

    def _shift(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q nr d"]:
        return (x.unsqueeze(-2) + self.offsets).flatten(-3, -2)

    def _weigh(self, k: Float[Tensor, "*q nr m"], x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n m"]:
        """The sum over the shifts of the rows ``x``."""
        shifted = k.unflatten(-2, (-1, len(self.offsets)))
        if isinstance(self.weights, Tensor):
            return self.weights @ shifted
        w = self.weights(x)
        wanted = (*x.shape[:-1], len(self.offsets))
        if w.shape != wanted:
            raise InputError(
                f"Convolved: weights(points) must have the shape {wanted}, one for each row and offset, "
                f"got {tuple(w.shape)}"
            )
        return (w.unsqueeze(-2) @ shifted).squeeze(-2)

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        if columns != self.offsets.shape[-1]:
            raise InputError(
                f"Convolved has offsets of {self.offsets.shape[-1]} columns, but the points have {columns}"
            )

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``Σ_i w_i φ(x + a_i)`` for the base kernel's φ."""
        check_request(self, n_features, dim)
        return _ConvolvedFeatures(self, self.base.random_features(n_features, dim, generator))

    def describe(self) -> str:
        """``Convolved(base, … offsets)``."""
        return f"Convolved({self.base.describe()}, {len(self.offsets)} offsets)"


class _BellTerm(WaveTerm):
    """The waves of one bell of a smoothed kernel."""

    frequency: Tensor

    def __init__(self, kernel: Smoothed, index: int, frequency: Float[Tensor, "f d"]) -> None:
        super().__init__(len(frequency), True)
        self.kernel, self.index = kernel, index
        self.register_buffer("frequency", frequency.to(next(kernel.parameters())))

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Wave:
        bell = self.kernel.terms(x.shape[-1])[self.index]
        return Wave(bell.scale.sqrt(), x @ (self.frequency * bell.precision.sqrt()).mT)


class _ConvolvedFeatures(FeatureMap):
    """Features of the shifted points, in a weighted sum."""

    def __init__(self, kernel: Convolved, base: FeatureMap) -> None:
        super().__init__(base.dim, base.size)
        self.kernel, self.base = kernel, base

    def forward(self, x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n f"]:
        return self.kernel._weigh(self.base(self.kernel._shift(x)), x)


def _summands(kernel: Kernel) -> list[Kernel]:
    return kernel.parts if isinstance(kernel, Sum) else [kernel]


def _widen(part: Kernel, blur: Float[Tensor, "..."], dim: int) -> Term:
    """The bell of an RBF whose squared lengthscales grow by ``blur``; a constant is an infinitely wide bell."""
    if isinstance(part, Constant):
        return Term(part.variance, part.variance.new_zeros(1, dim))
    square = part.lengthscale.square()
    wide = square + blur
    shrink = row((square / wide).log(), dim).sum(-1, keepdim=True)
    return Term(part.variance * torch.exp(0.5 * shrink), row(1 / wide, dim))


def _evaluate(bells: list[Term], x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
    return reduce(torch.add, [gaussian_kernel(x, z, bell.precision.sqrt(), bell.scale) for bell in bells])
