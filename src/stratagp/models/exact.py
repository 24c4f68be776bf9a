"""The exact Gaussian process: a prior which, conditioned on data, is again a process."""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Derivatives
from stratagp.kernels.multi_output.derivatives import slopes_of
from stratagp.linalg import cholesky
from stratagp.models.data_checks import (
    check_column,
)
from stratagp.models.exact_posterior import DerivativeProcess as DerivativeProcess
from stratagp.models.exact_posterior import ExactPosterior as ExactPosterior
from stratagp.models.memory import check_memory
from stratagp.models.noisy_covariance import LARGE_ROWS, NoisyCovariance
from stratagp.models.observed import ObservedProcess
from stratagp.objectives.evidence import CovarianceOf, log_evidence, log_leave_one_out, residuals
from stratagp.parameterised import Parameterised
from stratagp.types import NumbersLike, PointsLike


class ExactGP(ObservedProcess):
    """``f ~ GP(mean, kernel)``, observed as ``y = f(x) + ε`` with ``ε ~ N(0, noise)``, by a Cholesky factor: O(n³).

    Arguments:
        kernel: the covariance function, bound to its columns.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance; 0 for noiseless observations, which the posterior interpolates.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, x.sin().squeeze())
    >>> posterior.mean(torch.tensor([[1.0]], dtype=torch.float64)).item()  # sin 1 = 0.8415
    0.841...
    """

    def with_slopes(self) -> ExactGP:
        """The process and its slopes as one, with the same parameters.

        Its points have one more column: 0 for the value ``f(x)``, ``j = 1 … d`` for the slope along column ``j``;
        :func:`~stratagp.kernels.with_derivatives` adds it.
        """
        noise = self.parameter("noise") if "noise" in self._modules else 0
        return ExactGP(Derivatives(self.kernel), _MeanWithSlopes(self.mean), noise)

    def derivative(self, column: Any) -> DerivativeProcess:
        """The process ``∂f/∂x_column``, for a differentiable kernel; columns count from 0.

        >>> from stratagp import kernels as k
        >>> ExactGP(k.RBF(lengthscale=0.5)).derivative(0).variance(torch.zeros(1, 1)).item()  # 1/ℓ²
        4.0
        """
        check_column(column)
        return DerivativeProcess(self, column)

    def log_evidence(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """``log p(y | x)``: the score of the hyperparameters. ``noise`` gives each row its own variance.

        ``y`` is ``n``, or ``n q`` for independent functions that share kernel and noise: the sum, from one factor.
        """
        x, y, given = self._data(x, y, noise)
        check_memory(len(y), "the evidence", 2.2, y.element_size())
        return log_evidence(self.kernel, self.mean, given, x, y)

    def log_leave_one_out(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """``Σ log p(yᵢ | y₋ᵢ)``: a score that is less sensitive to a wrong prior; ``y`` is ``n`` or ``n q``."""
        x, y, given = self._data(x, y, noise)
        check_memory(len(y), "the leave-one-out score", 7 if torch.is_grad_enabled() else 2, y.element_size())
        return log_leave_one_out(self.kernel, self.mean, given, x, y)

    def log_posterior(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> Float[Tensor, ""]:
        """``log p(y | x, θ) + log p(θ)``: the score to maximise if parameters have priors (MAP)."""
        return self.log_evidence(x, y, noise) + self.log_prior()

    def condition(
        self, x: Any, y: NumbersLike, noise: NumbersLike | None = None, progress: bool = False
    ) -> ExactPosterior:
        """The process given observations; ``noise`` gives each row its own variance.

        The posterior keeps a copy of the process, so later training does not change it. ``progress`` shows how far the
        factor of many rows is.
        """
        return self._posteriors(*self._data(x, y, noise, several=False), progress)[0]

    def condition_each(self, x: PointsLike, y: NumbersLike, noise: NumbersLike | None = None) -> list[ExactPosterior]:
        """A posterior for each column of ``y``, ``n q``: independent functions observed at the same points.

        The covariance is factored once, and the posteriors share the factor.
        """
        return self._posteriors(*self._data(x, y, noise))

    def _posteriors(
        self, x: Any, y: Float[Tensor, " n *q"], noise: Tensor, progress: bool = False
    ) -> list[ExactPosterior]:
        large = len(y) > LARGE_ROWS and isinstance(x, Tensor) and x.dtype == torch.float64
        if not large:
            check_memory(len(y), "conditioning", 2, y.element_size())
        prior, order = copy.deepcopy(self), None
        with torch.no_grad():
            given, residual = noise.expand(len(y)), residuals(self.mean, x, y)
            if large:
                order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(y.device)
                x, given, residual = x[order], given[order], residual[order]
                factor, alpha = NoisyCovariance(prior.kernel, x, given).factor(residual, progress)
            else:
                factor = cholesky(_noisy(self.kernel(x), given), CovarianceOf(self.kernel))
                alpha = torch.cholesky_solve(residual, factor)
        columns = zip(residual.unbind(1), alpha.unbind(1), strict=True)
        return [ExactPosterior(prior, x, r, given, factor, a, order) for r, a in columns]


def _noisy(covariance: Float[Tensor, "n n"], noise: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """``covariance + diag(noise)`` in one new matrix; a kernel may keep the one that it returned."""
    covariance = covariance.clone()
    covariance.diagonal().add_(noise)
    return covariance


class _MeanWithSlopes(Parameterised):
    """``m(x)`` at rows of values and ``∂_j m(x)`` at rows of slopes, as :class:`Derivatives` labels them."""

    def __init__(self, mean: Any) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, x: Float[Tensor, "n columns"]) -> Float[Tensor, " n"]:
        """One entry of ``[m, ∂₁m, …, ∂_d m]`` for each row."""
        places, label = x[:, :-1], x[:, -1:].detach().long()
        return torch.cat([self.mean(places)[:, None], slopes_of(self.mean, places)], 1).gather(1, label)[:, 0]
