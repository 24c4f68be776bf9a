"""The exact Gaussian process given data, and the process of its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.kernels import Kernel, gradient_gradient, value_gradient, with_derivatives
from stratagp.kernels.multi_output.derivatives import slopes_of
from stratagp.linalg import blocked, cholesky
from stratagp.linalg.fewer_rows import factor_without
from stratagp.models.data_checks import check_column, check_data, check_points, row_noise, wants_gradient
from stratagp.models.memory import check_memory
from stratagp.models.noisy_covariance import NoisyCovariance
from stratagp.models.process import Process
from stratagp.types import Gaussian, PointsLike

_CHUNK = 2**24  # entries of a cross-covariance held at once when predicting


@dataclass(frozen=True)
class ExactPosterior(Process):
    """A Gaussian process given data: ``α = C⁻¹(y − m)`` and ``L Lᵀ = C = K + noise`` answer every question.

    ``prior`` is the :class:`~stratagp.ExactGP` as it was when conditioned. Gradients flow to points
    that require them. Of many rows, ``factor`` may be in single precision, and ``order`` tells where each row stood in
    the data (:mod:`stratagp.models.noisy_covariance`).

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, x.sin().squeeze())
    >>> posterior.covariance(x[:2]).shape, posterior.sample(x[:2], 5).shape
    (torch.Size([2, 2]), torch.Size([5, 2]))
    """

    prior: Any
    x: Any
    residual: Float[Tensor, " n"]
    noise: Float[Tensor, " n"]
    factor: Float[Tensor, "n n"] = field(repr=False)
    alpha: Float[Tensor, " n"] = field(repr=False)
    order: Int[Tensor, " n"] | None = field(default=None, repr=False)

    def mean(self, x: PointsLike) -> Float[Tensor, " m"]:
        """``m(x) + k(x, X) α``."""
        return self._in_chunks(x, lambda rows: self.prior.mean(rows) + self.prior.kernel(rows, self.x) @ self.alpha)

    def variance(self, x: PointsLike) -> Float[Tensor, " m"]:
        """``k(x, x) − |L⁻¹ k(X, x)|²`` at each row."""
        return self.marginals(x).var[:, 0]

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance at each row, as ``n 1``, from one cross-covariance."""
        belief = self.component(self.prior.kernel, x)
        return Gaussian(self._in_chunks(x, self.prior.mean)[:, None] + belief.mean, belief.var)

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "m p"]:
        """``k(x, z) − (L⁻¹ k(X, x))ᵀ L⁻¹ k(X, z)``."""
        x, z = self._points(x), None if z is None else self._points(z)
        with torch.set_grad_enabled(wants_gradient(x, z)):
            left = self._whiten(self.prior.kernel(self.x, x))
            right = left if z is None else self._whiten(self.prior.kernel(self.x, z))
            return self.prior.kernel(x, z) - left.mT @ right

    def component(self, kernel: Kernel, x: PointsLike) -> Gaussian:
        """The posterior of one additive part of the function, given by its kernel: an effect, a trend, a season.

        ``kernel`` is one of the summands of the model's kernel (``gp.kernel.parts``), or an effect of an additive
        kernel (``gp.kernel.component(columns)``), as it was when the model was conditioned.
        """
        both = self._in_chunks(x, lambda rows: self._mean_and_variance(kernel, rows))
        return Gaussian(both[:, :1], both[:, 1:])

    def gradient(self, x: Any) -> tuple[Float[Tensor, "m d"], Float[Tensor, "m d d"]]:
        """Mean and covariance of the gradient ``∇f`` at each row, for a differentiable kernel.

        ∇m(x) + ∇k(x, X) α,   ∇∇'k(x, x) − ∇k(x, X) C⁻¹ ∇'k(X, x)
        """
        x = self._points(x)
        with torch.no_grad():
            cross = value_gradient(self.prior.kernel, self.x, x)
            half = self._whiten(cross.flatten(1)).unflatten(1, x.shape)
            own = torch.cat([gradient_gradient(self.prior.kernel, row)[:, :, 0] for row in x.split(1)])
            mean = slopes_of(self.prior.mean, x) + torch.einsum("nmd,n->md", cross, self.alpha)
            return mean, own - torch.einsum("nmd,nme->mde", half, half)

    def with_slopes(self) -> ExactPosterior:
        """The process and its slopes as one, given the same data: see :meth:`ExactGP.with_slopes`.

        It answers about values and slopes together and can be conditioned on observed slopes.
        """
        return replace(self, prior=self.prior.with_slopes(), x=with_derivatives(self.x, 0))

    def derivative(self, column: Any) -> DerivativeProcess:
        """The process ``∂f/∂x_column`` given the data, for a differentiable kernel; columns count from 0."""
        check_column(column, self.x.shape[1] if isinstance(self.x, Tensor) else None)
        return DerivativeProcess(self, column)

    def leave_one_out(self) -> Gaussian:
        """Each observation predicted from all others, noise included, in closed form: ``n 1``."""
        precision = blocked.inverse_diagonal(self.factor.mT).to(self.alpha)
        with torch.no_grad():
            mean = self.prior.mean(self.x) + self.residual - self.alpha / precision
        found = torch.stack([mean, 1 / precision], 1)
        if self.order is not None:
            found[self.order] = found.clone()
        return Gaussian(found[:, :1], found[:, 1:])

    def log_evidence(self) -> Float[Tensor, ""]:
        """``log p(y)`` of the data this posterior has seen."""
        half_determinant = self.factor.diagonal().to(self.alpha).log().sum()
        return -0.5 * (self.residual @ self.alpha + len(self.alpha) * math.log(2 * math.pi)) - half_determinant

    def condition(self, x: Any, y: Any, noise: Any = None) -> ExactPosterior:
        """The posterior with more data, from the existing factor: only the new rows are factored.

        L ← [[L, 0], [L₂₁, L₂₂]],   L₂₁ = k(X₂, X) L⁻ᵀ,   L₂₂ L₂₂ᵀ = k(X₂, X₂) + noise − L₂₁ L₂₁ᵀ
        """
        x, y = check_data(self.prior.kernel, self._points(x), y)
        n = len(self.alpha)
        check_memory(n + len(y), "conditioning", 1, self.factor.element_size())
        with torch.no_grad():
            given = row_noise(self.prior, y, noise).expand(len(y))
            below = self._whiten(self.prior.kernel(self.x, x)).mT
            corner = self.prior.kernel(x) + torch.diag(given) - below @ below.mT
            factor = self.factor.new_zeros(n + len(y), n + len(y))
            factor[:n, :n], factor[n:, :n] = self.factor, below
            factor[n:, n:] = cholesky(corner, f"the covariance of {self.prior.kernel} at the new rows")
            residual, level = torch.cat([self.residual, y - self.prior.mean(x)]), torch.cat([self.noise, given])
            points = torch.cat([self.x, x]) if isinstance(x, Tensor) else [*self.x, *x]
            alpha = NoisyCovariance(self.prior.kernel, points, level).solve(factor, residual[:, None])[:, 0]
        own = torch.arange(n, n + len(y), device=y.device)
        order = None if self.order is None else torch.cat([self.order, own])
        return ExactPosterior(self.prior, points, residual, level, factor, alpha, order)

    def without(self, rows: Int[Tensor, " r"]) -> ExactPosterior:
        """The posterior without some of its data, given by their places: O(n²) for each, nothing is factored anew."""
        n = len(self.alpha)
        check_memory(n, "conditioning", 1, self.factor.element_size())
        places = torch.arange(n, device=rows.device) if self.order is None else self.order
        gone = torch.isin(places, rows)
        left = (~gone).nonzero()[:, 0]
        with torch.no_grad():
            factor, residual, noise = factor_without(self.factor, gone), self.residual[left], self.noise[left]
            x = self.x[left] if isinstance(self.x, Tensor) else [self.x[i] for i in left.tolist()]
            alpha = NoisyCovariance(self.prior.kernel, x, noise).solve(factor, residual[:, None])[:, 0]
        order = None if self.order is None else places[left].argsort().argsort()
        return ExactPosterior(self.prior, x, residual, noise, factor, alpha, order)

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function by Matheron's rule: a prior draw ``g``, corrected to agree with the data.

        f(x) = g(x) + k(x, X) C⁻¹ (y − g(X) − ε),   ε ~ N(0, noise)
        """
        prior = self.prior.draw(n_features, generator)
        with torch.no_grad():
            normal = torch.randn(self.noise.shape, generator=generator, dtype=self.noise.dtype).to(self.noise)
            gap = self.residual + self.prior.mean(self.x) - prior(self.x) - normal * self.noise.sqrt()
            weights = self._observed.solve(self.factor, gap[:, None])[:, 0]
        return lambda x: self._in_chunks(x, lambda rows: prior(rows) + self.prior.kernel(rows, self.x) @ weights)

    def _mean_and_variance(self, kernel: Kernel, x: PointsLike) -> Float[Tensor, "m 2"]:
        cross = kernel(self.x, x)
        var = (kernel.diag(x) - self._whiten(cross).square().sum(0)).clamp_min(0)
        return torch.stack([cross.mT @ self.alpha, var], 1)

    def _whiten(self, cross: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        return self._observed.whiten(self.factor, cross)

    @cached_property
    def _observed(self) -> NoisyCovariance:
        return NoisyCovariance(self.prior.kernel, self.x, self.noise)

    def _points(self, x: PointsLike) -> Any:
        return check_points(self.prior.kernel, x, self.x.shape[1] if isinstance(self.x, Tensor) else None)

    def _in_chunks(self, x: Any, answer: Callable[[Any], Tensor]) -> Tensor:
        """A row-wise answer, for as many rows at once as a bounded cross-covariance allows."""
        x = self._points(x)
        step = max(1, _CHUNK // max(1, len(self.alpha)))
        with torch.set_grad_enabled(wants_gradient(x)):
            return torch.cat([answer(x[start : start + step]) for start in range(0, max(1, len(x)), step)])


class DerivativeProcess(Process):
    """``∂f/∂x_column`` of an exact process, prior or posterior: a Gaussian process, like ``f``.

    It asks the process of values and slopes together (``with_slopes``) for its slopes.

    >>> from stratagp import ExactGP, kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> slope = ExactGP(k.RBF(), noise=1e-8).condition(x, x.sin().squeeze()).derivative(0)
    >>> slope.mean(torch.tensor([[1.0]])).item()  # cos 1 = 0.5403
    0.540...
    """

    def __init__(self, process: Any, column: int) -> None:
        self.process, self.column = process, column
        self.joint = process.with_slopes()

    def mean(self, x: PointsLike) -> Float[Tensor, " n"]:
        """``E ∂f(x)/∂x_column``, including the slope of the prior mean."""
        return self.joint.mean(self._label(x))

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n m"]:
        """``∂² cov(f(x), f(z)) / ∂x_column ∂z_column``."""
        return self.joint.covariance(self._label(x), None if z is None else self._label(z))

    def variance(self, x: PointsLike) -> Float[Tensor, " n"]:
        """``var ∂f(x)/∂x_column`` at each row."""
        return self.joint.variance(self._label(x))

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """The slope of one drawn function, by autograd."""
        function = self.process.draw(n_features, generator)
        return lambda x: slopes_of(function, self._checked(x))[:, self.column]

    def _label(self, x: PointsLike) -> Float[Tensor, "n columns"]:
        return with_derivatives(self._checked(x), self.column + 1)

    def _checked(self, x: PointsLike) -> Float[Tensor, "n d"]:
        points = self.process._points(x)
        check_column(self.column, points.shape[1])
        return points
