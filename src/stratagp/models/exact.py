"""The exact Gaussian process: a prior that, conditioned on data, is a process again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg import cholesky
from stratagp.means import Mean, Zero
from stratagp.objectives import log_evidence
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian


class ExactGP(Parameterised):
    """``f ~ GP(mean, kernel)``, observed as ``y = f(x) + ε`` with ``ε ~ N(0, noise)``.

    Arguments:
        kernel: the covariance function, bound to its columns.
        mean: the prior mean function.
        noise: the noise variance.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = ExactGP(k.RBF(), noise=1e-4).condition(x, x.sin().squeeze())
    >>> posterior.marginals(torch.tensor([[1.0]], dtype=torch.float64)).mean.item()  # sin 1 = 0.8415
    0.841...
    """

    def __init__(self, kernel: Kernel, mean: Mean | None = None, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        self.kernel = kernel
        self.mean = Zero() if mean is None else mean
        self.noise = positive(noise)

    def log_evidence(self, x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, ""]:
        """``log p(y | x)``: the score of the hyperparameters, exact at any size."""
        x, y = _check_data(x, y)
        return log_evidence(self.kernel, self.mean, self.noise, x, y)

    def condition(self, x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> ExactPosterior:
        """The process given the observations."""
        x, y = _check_data(x, y)
        with torch.no_grad():
            noisy = self.kernel(x)
            noisy = noisy + self.noise * torch.eye(len(x), dtype=noisy.dtype, device=noisy.device)
            factor = cholesky(noisy, f"the covariance of {self.kernel}")
            alpha = torch.cholesky_solve((y - self.mean(x))[:, None], factor).squeeze(-1)
        return ExactPosterior(self, x, factor, alpha)


@dataclass(frozen=True)
class ExactPosterior:
    """A Gaussian process given data: ``α = C⁻¹(y − m)`` and ``L Lᵀ = C = K + noise`` answer every question."""

    prior: ExactGP
    x: Float[Tensor, "n d"]
    factor: Float[Tensor, "n n"]
    alpha: Float[Tensor, " n"]

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance of the function at each row of ``x``, as ``n 1``; add ``prior.noise`` for observations."""
        return self._project(self.prior.kernel, self.prior.mean(x), x)

    def component(self, kernel: Kernel, x: Any) -> Gaussian:
        """The posterior of one additive part of the function, given by its kernel: an effect, a trend, a season."""
        return self._project(kernel, torch.zeros(len(x), dtype=self.alpha.dtype), x)

    def _project(self, kernel: Kernel, mean: Float[Tensor, " m"], x: Any) -> Gaussian:
        """``m + Kᵀα`` and ``k − |L⁻¹K|²`` for ``K = k(x_data, x)``."""
        with torch.no_grad():
            cross = kernel(self.x, x)
            half = torch.linalg.solve_triangular(self.factor, cross, upper=False)
            var = (kernel.diag(x) - half.square().sum(0)).clamp_min(0)
            return Gaussian((mean + cross.mT @ self.alpha)[:, None], var[:, None])


def _check_data(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if x.dim() != 2 or y.dim() != 1 or len(x) != len(y) or not len(y):
        raise InputError(f"x must be (n, d) and y (n,) with n ≥ 1; got {tuple(x.shape)} and {tuple(y.shape)}")
    for name, values in (("x", x), ("y", y)):
        bad = ~values.isfinite()
        if bad.any():
            raise InputError(f"{name} has NaN or infinite values, the first in row {int(bad.nonzero()[0, 0])}")
    return x, y
