"""The exact Gaussian process: a prior that, conditioned on data, is a process again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel, gradient_gradient, value_gradient
from stratagp.kernels.base import as_tensor
from stratagp.linalg import cholesky
from stratagp.means import Zero
from stratagp.models.inputs import check_data, check_points
from stratagp.models.process import Process
from stratagp.objectives import log_evidence, log_leave_one_out
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_CHUNK = 2**24  # numbers of a cross-covariance that are held at once when predicting


class ExactGP(Parameterised, Process):
    """``f ~ GP(mean, kernel)``, observed as ``y = f(x) + ε`` with ``ε ~ N(0, noise)``. Exact at any size.

    Arguments:
        kernel: the covariance function, bound to its columns.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance; 0 for observations without noise, which the posterior interpolates.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, x.sin().squeeze())
    >>> posterior.mean(torch.tensor([[1.0]], dtype=torch.float64)).item()  # sin 1 = 0.8415
    0.841...
    """

    def __init__(self, kernel: Any, mean: Any = None, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a kernel such as RBF(), got {kernel!r}")
        if mean is not None and not callable(mean):
            raise InputError(f"mean must be a function such as means.Constant(), got {mean!r}; write noise=… by name")
        self.kernel = kernel
        self.mean = Zero() if mean is None else mean
        if isinstance(noise, (int, float)) and noise == 0:
            self.register_buffer("noise", torch.zeros((), dtype=torch.float64))
        else:
            self.noise = positive(noise, name="noise")

    def covariance(self, x: Any, z: Any = None) -> Float[Tensor, "n m"]:
        """``k(x, z)``."""
        return self.kernel(x, z)

    def variance(self, x: Any) -> Float[Tensor, " n"]:
        """``k(x, x)`` at each row."""
        return self.kernel.diag(x)

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function from the prior: ``m(x) + φ(x)w`` with ``w ~ N(0, I)``; its first call fixes the columns."""
        return _PriorFunction(self, n_features, generator)

    def log_evidence(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``log p(y | x)``: the score of the hyperparameters. ``noise`` gives each row its own variance."""
        x, y = check_data(self.kernel, x, y)
        return log_evidence(self.kernel, self.mean, _noise(self, y, noise), x, y)

    def log_leave_one_out(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``Σ log p(yᵢ | y₋ᵢ)``: a score that depends less on the prior being right."""
        x, y = check_data(self.kernel, x, y)
        return log_leave_one_out(self.kernel, self.mean, _noise(self, y, noise), x, y)

    def log_posterior(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``log p(y | x, θ) + log p(θ)``: the score to maximise where parameters have priors (MAP)."""
        return self.log_evidence(x, y, noise) + self.log_prior()

    def condition(self, x: Any, y: Any, noise: Any = None) -> ExactPosterior:
        """The process given observations; ``noise`` gives each row its own variance.

        The posterior keeps a copy of the process, so later training does not change it.
        """
        x, y = check_data(self.kernel, x, y)
        with torch.no_grad():
            given = _noise(self, y, noise).expand(len(y))
            factor = cholesky(self.kernel(x) + torch.diag(given), f"the covariance of {self.kernel}")
            residual = y - self.mean(x)
            alpha = torch.cholesky_solve(residual[:, None], factor).squeeze(-1)
        return ExactPosterior(copy.deepcopy(self), x, residual, given, factor, alpha)


@dataclass(frozen=True)
class ExactPosterior(Process):
    """A Gaussian process given data: ``α = C⁻¹(y − m)`` and ``L Lᵀ = C = K + noise`` answer every question.

    Gradients with respect to points pass through where the points ask for them.
    """

    prior: ExactGP
    x: Any
    residual: Float[Tensor, " n"]
    noise: Float[Tensor, " n"]
    factor: Float[Tensor, "n n"] = field(repr=False)
    alpha: Float[Tensor, " n"] = field(repr=False)

    def mean(self, x: Any) -> Float[Tensor, " m"]:
        """``m(x) + k(x, X) α``."""
        return self._in_chunks(x, lambda rows: self.prior.mean(rows) + self.prior.kernel(rows, self.x) @ self.alpha)

    def variance(self, x: Any) -> Float[Tensor, " m"]:
        """``k(x, x) − |L⁻¹ k(X, x)|²`` at each row."""
        return self.marginals(x).var[:, 0]

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance at each row, as ``n 1``, from one cross-covariance."""
        belief = self.component(self.prior.kernel, x)
        return Gaussian(self._in_chunks(x, self.prior.mean)[:, None] + belief.mean, belief.var)

    def covariance(self, x: Any, z: Any = None) -> Float[Tensor, "m p"]:
        """``k(x, z) − (L⁻¹ k(X, x))ᵀ L⁻¹ k(X, z)``."""
        with torch.set_grad_enabled(_wants_gradient(x, z)):
            left = self._whiten(self.prior.kernel(self.x, x))
            right = left if z is None else self._whiten(self.prior.kernel(self.x, z))
            return self.prior.kernel(x, z) - left.mT @ right

    def component(self, kernel: Kernel, x: Any) -> Gaussian:
        """The posterior of one additive part of the function, given by its kernel: an effect, a trend, a season.

        ``kernel`` is one of the summands of the model's kernel (``gp.kernel.parts``), or an effect of an additive
        kernel (``gp.kernel.component(columns)``), as it was when the model was conditioned.
        """
        both = self._in_chunks(x, lambda rows: self._mean_and_variance(kernel, rows))
        return Gaussian(both[:, :1], both[:, 1:])

    def gradient(self, x: Float[Tensor, "m d"]) -> tuple[Float[Tensor, "m d"], Float[Tensor, "m d d"]]:
        """Mean and covariance of the gradient ``∇f`` at each row, for a differentiable kernel.

        The prior mean must not depend on the place.
        """
        with torch.no_grad():
            cross = value_gradient(self.prior.kernel, self.x, x)
            half = self._whiten(cross.flatten(1)).unflatten(1, x.shape)
            rows = [gradient_gradient(self.prior.kernel, row[None])[0, :, 0] for row in x]
            return torch.einsum("nmd,n->md", cross, self.alpha), torch.stack(rows) - torch.einsum(
                "nmd,nme->mde", half, half
            )

    def leave_one_out(self) -> Gaussian:
        """Each observation predicted from all others, noise included, in closed form: ``n 1``."""
        precision = torch.cholesky_inverse(self.factor).diagonal()
        with torch.no_grad():
            mean = self.prior.mean(self.x) + self.residual - self.alpha / precision
        return Gaussian(mean[:, None], 1 / precision[:, None])

    def log_evidence(self) -> Float[Tensor, ""]:
        """``log p(y)`` of the data this posterior has seen."""
        normal = torch.distributions.MultivariateNormal(torch.zeros_like(self.residual), scale_tril=self.factor)
        return normal.log_prob(self.residual)

    def condition(self, x: Any, y: Any, noise: Any = None) -> ExactPosterior:
        """The posterior with more data, from the factor at hand: only the new rows are factored.

        L ← [[L, 0], [L₂₁, L₂₂]],   L₂₁ = k(X₂, X) L⁻ᵀ,   L₂₂ L₂₂ᵀ = k(X₂, X₂) + noise − L₂₁ L₂₁ᵀ
        """
        x, y = check_data(self.prior.kernel, x, y)
        with torch.no_grad():
            given = _noise(self.prior, y, noise).expand(len(y))
            below = self._whiten(self.prior.kernel(self.x, x)).mT
            corner = self.prior.kernel(x) + torch.diag(given) - below @ below.mT
            corner = cholesky(corner, f"the covariance of {self.prior.kernel} at the new rows")
            top = torch.cat([self.factor, torch.zeros_like(below.mT)], 1)
            factor = torch.cat([top, torch.cat([below, corner], 1)])
            residual = torch.cat([self.residual, y - self.prior.mean(x)])
            alpha = torch.cholesky_solve(residual[:, None], factor).squeeze(-1)
        points = torch.cat([self.x, x]) if isinstance(x, Tensor) else [*self.x, *x]
        return ExactPosterior(self.prior, points, residual, torch.cat([self.noise, given]), factor, alpha)

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function by Matheron's rule: a prior draw ``g``, corrected to agree with the data.

        f(x) = g(x) + k(x, X) C⁻¹ (y − g(X) − ε),   ε ~ N(0, noise)
        """
        prior = self.prior.draw(n_features, generator)
        with torch.no_grad():
            epsilon = torch.randn(self.noise.shape, generator=generator, dtype=self.noise.dtype) * self.noise.sqrt()
            gap = self.residual + self.prior.mean(self.x) - prior(self.x) - epsilon
            weights = torch.cholesky_solve(gap[:, None], self.factor).squeeze(-1)
        return lambda x: prior(x) + self._in_chunks(x, lambda rows: self.prior.kernel(rows, self.x) @ weights)

    def _mean_and_variance(self, kernel: Kernel, x: Any) -> Float[Tensor, "m 2"]:
        cross = kernel(self.x, x)
        var = (kernel.diag(x) - self._whiten(cross).square().sum(0)).clamp_min(0)
        return torch.stack([cross.mT @ self.alpha, var], 1)

    def _whiten(self, cross: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        return torch.linalg.solve_triangular(self.factor, cross, upper=False)

    def _in_chunks(self, x: Any, answer: Callable[[Any], Tensor]) -> Tensor:
        """An answer a row at a time, for as many rows at once as a bounded cross-covariance allows."""
        x = check_points(self.prior.kernel, x)
        step = max(1, _CHUNK // max(1, len(self.alpha)))
        with torch.set_grad_enabled(_wants_gradient(x)):
            return torch.cat([answer(x[start : start + step]) for start in range(0, max(1, len(x)), step)])


class _PriorFunction:
    """A draw from the prior whose features are made when the number of columns is known, and then kept."""

    def __init__(self, prior: ExactGP, n_features: int, generator: torch.Generator | None) -> None:
        self.prior, self.n_features, self.generator = prior, n_features, generator
        self.features: Callable[[Tensor], Tensor] | None = None
        self.weights = torch.zeros(0)

    def __call__(self, x: Tensor) -> Float[Tensor, " n"]:
        with torch.set_grad_enabled(_wants_gradient(x)):
            if self.features is None:
                self.features = self.prior.kernel.random_features(self.n_features, x.shape[-1], self.generator)
                size = self.features(x[:1]).shape[-1]
                self.weights = torch.randn(size, generator=self.generator, dtype=torch.float64)
            return self.prior.mean(x) + self.features(x) @ self.weights


def _wants_gradient(*points: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in points)


def _noise(gp: ExactGP, y: Tensor, noise: Any) -> Tensor:
    if noise is None:
        return gp.noise
    given = as_tensor(noise, "noise").to(y)
    if given.shape != y.shape or not bool((given >= 0).all()):
        raise InputError(f"noise must be one variance ≥ 0 for each of {len(y)} rows, got shape {tuple(given.shape)}")
    return given
