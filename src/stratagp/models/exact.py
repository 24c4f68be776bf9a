"""The exact Gaussian process: a prior that, conditioned on data, is a process again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Derivatives, Kernel
from stratagp.kernels.derivatives import slopes_of
from stratagp.linalg import cholesky
from stratagp.means import Zero
from stratagp.models.exact_posterior import DerivativeProcess as DerivativeProcess
from stratagp.models.exact_posterior import ExactPosterior as ExactPosterior
from stratagp.models.inputs import (
    check_column,
    check_data,
    check_points,
    refuse_contradictions,
    row_noise,
    wants_gradient,
)
from stratagp.models.memory import check_memory
from stratagp.models.process import Process
from stratagp.objectives.evidence import CovarianceOf, log_evidence, log_leave_one_out, residuals
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive


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

    def with_slopes(self) -> ExactGP:
        """The process and its slopes as one, with the same parameters.

        Its points have one more column: 0 for the value ``f(x)``, ``j = 1 … d`` for the slope along the ``j``-th
        column; :func:`~stratagp.kernels.with_derivatives` writes it.
        """
        noise = self.parameter("noise") if "noise" in self._modules else 0
        return ExactGP(Derivatives(self.kernel), _MeanWithSlopes(self.mean), noise)

    def derivative(self, column: Any) -> DerivativeProcess:
        """The process ``∂f/∂x_column``, columns being counted from 0, for a differentiable kernel.

        >>> from stratagp import kernels as k
        >>> ExactGP(k.RBF(lengthscale=0.5)).derivative(0).variance(torch.zeros(1, 1)).item()  # 1/ℓ²
        4.0
        """
        check_column(column)
        return DerivativeProcess(self, column)

    def log_evidence(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``log p(y | x)``: the score of the hyperparameters. ``noise`` gives each row its own variance.

        ``y`` is ``n``, or ``n q`` for independent functions that share kernel and noise: their sum, from one factor.
        """
        x, y, given = self._data(x, y, noise)
        check_memory(len(y), "the evidence", 2.2, y.element_size())
        return log_evidence(self.kernel, self.mean, given, x, y)

    def log_leave_one_out(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``Σ log p(yᵢ | y₋ᵢ)``: a score that depends less on the prior being right; ``y`` is ``n`` or ``n q``."""
        x, y, given = self._data(x, y, noise)
        check_memory(len(y), "the leave-one-out score", 7 if torch.is_grad_enabled() else 2, y.element_size())
        return log_leave_one_out(self.kernel, self.mean, given, x, y)

    def log_posterior(self, x: Any, y: Any, noise: Any = None) -> Float[Tensor, ""]:
        """``log p(y | x, θ) + log p(θ)``: the score to maximise where parameters have priors (MAP)."""
        return self.log_evidence(x, y, noise) + self.log_prior()

    def condition(self, x: Any, y: Any, noise: Any = None) -> ExactPosterior:
        """The process given observations; ``noise`` gives each row its own variance.

        The posterior keeps a copy of the process, so later training does not change it.
        """
        return self._posteriors(*self._data(x, y, noise, several=False))[0]

    def condition_each(self, x: Any, y: Any, noise: Any = None) -> list[ExactPosterior]:
        """A posterior for each column of ``y``, ``n q``: independent functions observed at the same places.

        The covariance is factored once, and the posteriors share the factor.
        """
        return self._posteriors(*self._data(x, y, noise))

    def _data(self, x: Any, y: Any, noise: Any, several: bool = True) -> tuple[Any, Float[Tensor, "n *q"], Tensor]:
        x, y = check_data(self.kernel, x, y, several=several)
        given = row_noise(self, y, noise)
        refuse_contradictions(x, y, given)
        return x, y, given

    def _posteriors(self, x: Any, y: Float[Tensor, "n *q"], noise: Tensor) -> list[ExactPosterior]:
        check_memory(len(y), "conditioning", 2, y.element_size())
        with torch.no_grad():
            given = noise.expand(len(y))
            factor = cholesky(_noisy(self.kernel(x), given), CovarianceOf(self.kernel))
            residual = residuals(self.mean, x, y)
            alpha = torch.cholesky_solve(residual, factor)
        prior, columns = copy.deepcopy(self), zip(residual.unbind(1), alpha.unbind(1), strict=True)
        return [ExactPosterior(prior, x, r, given, factor, a) for r, a in columns]

    def _points(self, x: Any) -> Any:
        return check_points(self.kernel, x)


def _noisy(covariance: Float[Tensor, "n n"], noise: Float[Tensor, " n"]) -> Float[Tensor, "n n"]:
    """``covariance + diag(noise)`` in one new matrix; a kernel may keep the one that it hands out."""
    covariance = covariance.clone()
    covariance.diagonal().add_(noise)
    return covariance


class _PriorFunction:
    """A draw from the prior whose features are made when the number of columns is known, and then kept."""

    def __init__(self, prior: ExactGP, n_features: int, generator: torch.Generator | None) -> None:
        self.prior, self.n_features, self.generator = prior, n_features, generator
        self.features: Callable[[Tensor], Tensor] | None = None
        self.weights = torch.zeros(0)

    def __call__(self, x: Tensor) -> Float[Tensor, " n"]:
        with torch.set_grad_enabled(wants_gradient(x)):
            if self.features is None:
                self.features = self.prior.kernel.random_features(self.n_features, x.shape[-1], self.generator)
                size = self.features(x[:1]).shape[-1]
                self.weights = torch.randn(size, generator=self.generator, dtype=torch.float64)
            return self.prior.mean(x) + self.features(x) @ self.weights


class _MeanWithSlopes(Parameterised):
    """``m(x)`` at rows of values and ``∂_j m(x)`` at rows of slopes, as :class:`Derivatives` labels them."""

    def __init__(self, mean: Any) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, x: Float[Tensor, "n columns"]) -> Float[Tensor, " n"]:
        """One entry of ``[m, ∂₁m, …, ∂_d m]`` for each row."""
        places, label = x[:, :-1], x[:, -1:].detach().long()
        return torch.cat([self.mean(places)[:, None], slopes_of(self.mean, places)], 1).gather(1, label)[:, 0]
