"""Sparse regression: a Gaussian process that sees the data through inducing values, which are integrated out."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg import cholesky
from stratagp.linalg.gram import CHUNK, whiten
from stratagp.means import Mean, Zero
from stratagp.models.data_checks import check_data, check_points, row_noise, wants_gradient
from stratagp.objectives.collapsed import (
    Projection,
    check_inducing,
    fitc,
    fitc_noise,
    nystrom,
    project,
    sgpr,
    upper_bound,
)
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive, real
from stratagp.types import Gaussian, NumbersLike, PointsLike

_BOUNDS = {"sgpr": sgpr, "fitc": fitc, "nystrom": nystrom}
_ROUNDING = 1e-8  # of sums over rows, relative to the largest


class SparseGP(Parameterised):
    """``f ~ GP(mean, kernel)`` with Gaussian noise, by ``m`` inducing points: O(n m²) time, O(n + m²) memory.

    Arguments:
        kernel: the covariance function, bound to its columns.
        z: the inducing points in rows, learnt unless given as a fixed parameter;
            :mod:`stratagp.training.inducing_points` chooses them.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance.
        bound: "sgpr" for Titsias' lower bound on the evidence, "fitc" for the evidence of the FITC model,
            "nystrom" for that of the covariance by Nyström's method (predictions are those of projected processes).
        chunk: rows held at once; by default as many as fill a few megabytes.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 200, dtype=torch.float64)[:, None]
    >>> gp = SparseGP(k.RBF(), x[::20], noise=1e-2)
    >>> posterior = gp.condition(x, x.sin().squeeze())
    >>> round(posterior.marginals(torch.tensor([[1.0]], dtype=torch.float64)).mean.item(), 2)  # sin 1 = 0.8415
    0.84
    """

    def __init__(
        self,
        kernel: Kernel,
        z: Value | Parameter,
        mean: Mean | nn.Module | None = None,
        noise: Value | Parameter = 0.1,
        bound: str = "sgpr",
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if not kernel.takes_tensors:
            raise InputError("SparseGP needs a kernel over numeric columns: for objects use ExactGP")
        if bound not in _BOUNDS:
            raise InputError(f"bound must be one of {', '.join(_BOUNDS)}, got {bound!r}")
        if chunk is not None and chunk < 1:
            raise InputError(f"chunk must be at least 1 row, or None for an automatic choice, got {chunk}")
        self.kernel = kernel
        self.z = real(z, name="z")
        self.mean = Zero() if mean is None else mean
        self.noise = positive(noise, name="noise")
        self.bound, self.chunk = bound, chunk

    def log_evidence(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """The chosen score of hyperparameters and inducing points: a lower bound on ``log p(y | x)`` for "sgpr".

        ``noise`` gives each row its own variance.
        """
        x, y = self._check(x, y)
        return _BOUNDS[self.bound](self.kernel, self.z, self.mean, row_noise(self, y, noise), x, y, self.chunk)

    def upper_bound(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """An upper bound on the exact ``log p(y | x)``; if it is far above SGPR's bound, ``m`` is too small."""
        x, y = self._check(x, y)
        return upper_bound(self.kernel, self.z, self.mean, row_noise(self, y, noise), x, y, self.chunk)

    def condition(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> SparsePosterior:
        """The process given the observations, with the optimal Gaussian belief about the inducing values."""
        with torch.no_grad():
            seen = self.projection(x, y, noise)
            alpha = torch.linalg.solve_triangular(seen.inner, seen.b[:, None], upper=False).squeeze(-1)
            return SparsePosterior(copy.deepcopy(self), self.z.clone(), seen.factor, seen.inner, alpha)

    def projection(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Projection:
        """The observations as the inducing points see them."""
        x, y = self._check(x, y)
        level = row_noise(self, y, noise)
        if self.bound == "fitc":
            level = fitc_noise(self.kernel, self.z, level, x, self.chunk)
        return project(self.kernel, self.z, level, x, y - self.mean(x), self.chunk)

    def _check(self, x: Any, y: Any) -> tuple[Tensor, Tensor]:
        x, y = check_data(self.kernel, x, y)
        check_inducing(self.z, x)
        return x, y


@dataclass(frozen=True)
class SparsePosterior:
    """A sparse process given data: ``L Lᵀ = Kzz``, ``M Mᵀ = I + B`` and ``α = M⁻¹b`` answer every question.

    Gradients flow to points that require them.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 50, dtype=torch.float64)[:, None]
    >>> posterior = SparseGP(k.RBF(), x[::10], noise=1e-2).condition(x, x.sin().squeeze())
    >>> posterior.marginals(x[:3]).var.shape
    torch.Size([3, 1])

    Rows may come and go, each at O(m²), and O(m³) each time, however many there were before:

    >>> some = posterior.without(x[:20], x[:20].sin().squeeze())
    >>> again = some.condition(x[:20], x[:20].sin().squeeze())
    >>> bool((again.mean(x) - posterior.mean(x)).abs().max() < 1e-6)
    True
    """

    prior: SparseGP
    z: Float[Tensor, "m d"]
    factor: Float[Tensor, "m m"]
    inner: Float[Tensor, "m m"]
    alpha: Float[Tensor, " m"]

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance of the function at each row of ``x``, as ``n 1``; add ``prior.noise`` for observations.

        ``m + cᵀα`` and ``k − |a|² + |c|²`` with ``a = L⁻¹k(z, x)`` and ``c = M⁻¹a``, in chunks of rows.
        """
        x = check_points(self.prior.kernel, x)
        with torch.set_grad_enabled(wants_gradient(x)):
            parts = [self._chunk(rows) for rows in x.split(self.prior.chunk or max(1, CHUNK // len(self.z)))]
        return Gaussian(torch.cat([mean for mean, _ in parts]), torch.cat([var for _, var in parts]))

    def mean(self, x: Any) -> Float[Tensor, " n"]:
        """``m(x) + k(x, z) w`` with ``w = L⁻ᵀM⁻ᵀα``: one product per row, without the variance."""
        x = check_points(self.prior.kernel, x)
        with torch.set_grad_enabled(wants_gradient(x)):
            half = torch.linalg.solve_triangular(self.inner.mT, self.alpha[:, None], upper=True)
            weights = torch.linalg.solve_triangular(self.factor.mT, half, upper=True).squeeze(-1)
            rows = x.split(self.prior.chunk or max(1, CHUNK // len(self.z)))
            return torch.cat([self.prior.mean(part) + self.prior.kernel(part, self.z) @ weights for part in rows])

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n p"]:
        """``k(x, x') − aᵀa' + cᵀc'`` between all rows of ``x`` and ``z``, or of ``x`` with itself."""
        kernel = self.prior.kernel
        left = check_points(kernel, x)
        right = left if z is None else check_points(kernel, z)
        with torch.set_grad_enabled(wants_gradient(left, right)):
            a, b = (whiten(kernel(rows, self.z), self.factor) for rows in (left, right))
            return kernel(left, right) - a @ b.mT + whiten(a, self.inner) @ whiten(b, self.inner).mT

    def condition(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> SparsePosterior:
        """The process given more rows too: the same as conditioning on all rows at once."""
        return self._with(x, y, noise, 1)

    def without(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> SparsePosterior:
        """The process without some of the rows that it was given, with the same noise."""
        return self._with(x, y, noise, -1)

    def _with(self, x: Any, y: Any, noise: Any, sign: int) -> SparsePosterior:
        """The sums over all rows, with those of some rows added or taken away."""
        eye = torch.eye(len(self.z), dtype=self.inner.dtype, device=self.inner.device)
        with torch.no_grad():
            seen = self.prior.projection(x, y, noise)
            c = self.inner @ self.inner.mT + sign * (seen.inner @ seen.inner.mT - eye)
            least = float(torch.linalg.eigvalsh(c)[0]) if sign < 0 else 1.0
            if least < 1 - _ROUNDING * float(c.diagonal().max()):
                raise InputError("some of these rows were not given before: take away rows as they were given")
            inner = cholesky(c, "I + B")
            b = self.inner @ self.alpha + sign * seen.b
            alpha = torch.linalg.solve_triangular(inner, b[:, None], upper=False).squeeze(-1)
            return replace(self, inner=inner, alpha=alpha)

    def _chunk(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = whiten(self.prior.kernel(x, self.z), self.factor)
        c = whiten(a, self.inner)
        var = self.prior.kernel.diag(x) - a.square().sum(1) + c.square().sum(1)
        return (self.prior.mean(x) + c @ self.alpha)[:, None], var.clamp_min(0)[:, None]
