"""Stochastic variational Gaussian processes: any likelihood, millions of rows, in batches."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.layers import Inducing
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain, table
from stratagp.parameters import Parameter, Value
from stratagp.posteriors import Posterior
from stratagp.training.loop import rows
from stratagp.types import PointsLike

JITTER = {torch.float32: 3e-5, torch.float64: 1e-6}
_NODES = 2**14  # functions × rows whose quadrature nodes are held at once
_CHUNK = 2**20  # entries of a cross-covariance held at once when predicting


class StochasticGP(Chain):
    """``f ~ GP(mean, kernel)`` observed through ``p(y | f)``, by a posterior at inducing points.

    A chain of one layer: ``Inducing(kernel, z, posterior) → likelihood``, trained by the bound of Hensman et al.
    (2013, 2015) or another objective. A step takes O(b m² + m³) for batches of ``b`` rows; memory does not depend on
    the number of rows.

    Arguments:
        kernel: the covariance function, bound to its columns; with a function axis, one for each latent function.
        z: the inducing points in rows, learnt unless given as a fixed parameter.
        likelihood: how observations come from the latent functions.
        mean: the prior mean of all functions.
        functions: the number of latent functions that the likelihood needs (outputs or classes); by default as many as
            the kernel has, or 1.
        posterior: the belief about the inducing values; by default a full Gaussian.
        dtype: the precision of inducing points, of the posterior, and of everything with a row for each data point. In
            float32 the inducing values have more jitter, 3e-5 of their variance instead of 1e-6, which keeps rounding
            errors out of the predictions.

    >>> from stratagp import kernels as k
    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.linspace(0, 6, 600)[:, None]
    >>> gp = StochasticGP(k.RBF(variance=1.0), x[::60], GaussianNoise(0.01))
    >>> history = gp.fit(x, x.sin(), batch_size=100, epochs=10)
    >>> round(gp.marginals(torch.tensor([[1.0]])).mean.item(), 1)  # sin 1 = 0.8415
    0.8
    """

    layer: Inducing

    def __init__(
        self,
        kernel: Kernel,
        z: Value | Parameter,
        likelihood: Likelihood,
        mean: Any = None,
        functions: int | None = None,
        posterior: Posterior | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(Inducing(kernel, z, posterior, mean, functions, JITTER[dtype]), likelihood, dtype)
        self.layer.posterior.to(dtype)
        self.layer.parameter("z").to(dtype)

    @property
    def kernel(self) -> Kernel:
        """The kernel of the latent functions."""
        return self.layer.kernel

    def covariance(self, x: PointsLike) -> Float[Tensor, "q n n"]:
        """The joint covariance of all rows, for each latent function."""
        x = rows(table(x, "x"), slice(None), torch.float64)
        with torch.no_grad():
            z = self.layer.z.double()
            a = torch.linalg.solve_triangular(self.layer.factor(), self.kernel(z, x), upper=False)
            return self.layer.posterior.covariance(a, self.kernel(x))

    def _ready(self) -> Any:
        """One factor that all rows share."""
        return self.layer.whitener()

    def _belief_at(self, x: Tensor, ready: Any = None, whole: bool = False) -> Any:
        with torch.no_grad():
            return self.layer(x, ready)

    def _rows_at_once(self, whole: bool) -> int:
        q, m = self.layer.posterior.shape
        return max(1, min(_CHUNK // (q * m), _NODES // q))
