"""Stochastic variational Gaussian processes: any likelihood, millions of rows, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing
from stratagp.likelihoods import Likelihood
from stratagp.objectives.elbo import Bound, elbo
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value
from stratagp.posteriors import FullGaussian
from stratagp.training.loop import History, rows, train
from stratagp.types import Gaussian

_CHUNK = 2**20  # numbers of a cross-covariance that are held at once when predicting


class StochasticGP(Parameterised):
    """``f ~ GP(mean, kernel)`` observed through ``p(y | f)``, by a Gaussian posterior at inducing points.

    A chain of one layer: ``Inducing(kernel, z, FullGaussian) → likelihood``, trained by the bound of Hensman et al.
    (2013, 2015). Time a step is O(b m² + m³) for batches of ``b`` rows, memory does not depend on the number of rows.

    Arguments:
        kernel: the covariance function, bound to its columns; with a function axis, one for each latent function.
        z: the inducing points in rows, learnt unless given as a parameter that is not trainable.
        likelihood: how observations come from the latent functions.
        mean: the prior mean of all functions.
        functions: the number of latent functions the likelihood asks for: outputs, or classes; as many as the kernel
            has, or 1, where it is left out.
        dtype: the precision of all that has a row for each point; m × m algebra is in float64.

    >>> from stratagp import kernels as k
    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.linspace(0, 6, 600)[:, None]
    >>> gp = StochasticGP(k.RBF(variance=1.0), x[::60], GaussianNoise(0.01))
    >>> history = gp.fit(x, x.sin(), batch_size=100, epochs=10)
    >>> round(gp.marginals(torch.tensor([[1.0]])).mean.item(), 1)  # sin 1 = 0.8415
    0.8
    """

    def __init__(
        self,
        kernel: Kernel,
        z: Value | Parameter,
        likelihood: Likelihood,
        mean: Any = None,
        functions: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.layer = Inducing(kernel, z, mean=mean, functions=functions)
        self.likelihood = likelihood
        self.dtype = dtype

    def elbo(self, x: Any, y: Any, num_data: int | None = None) -> Bound:
        """The lower bound on ``log p(y | x)`` and its terms; with ``num_data``, estimated from a batch of that many."""
        x, y = (rows(_table(part, name), slice(None), self.dtype) for part, name in ((x, "x"), (y, "y")))
        return elbo(self.layer, self.likelihood, x, _columns(y), num_data)

    def fit(
        self, x: Any, y: Any, natural: bool = True, penalty: Callable[[], Tensor] | None = None, **options: Any
    ) -> History:
        """Train all parameters on rows of tensors, arrays or memory maps; again from where it stands, if called again.

        The posterior moves by natural gradients (``natural``), all else by Adam. ``penalty()`` is added to the bound,
        such as the ``log_prior`` of parameters with priors. ``options`` are those of
        :func:`stratagp.training.loop.train`: batch_size, epochs, steps, rate, natural_rate, generator, progress, ….
        """
        data = _table(x, "x"), _table(y, "y")
        for part, name in zip(data, ("x", "y"), strict=True):
            for _ in self._chunks(part, name):
                pass
        posteriors = [m for m in self.modules() if isinstance(m, FullGaussian)] if natural else []

        def bound(x: Tensor, y: Tensor) -> Tensor:
            value = elbo(self.layer, self.likelihood, x, _columns(y), len(data[0])).value
            return value if penalty is None else value + penalty()

        return train(bound, self, data, natural=posteriors, dtype=self.dtype, **options)

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance of the latent functions at each row, as ``n q``."""
        return _joined(list(self._beliefs(x)))

    @property
    def kernel(self) -> Kernel:
        """The kernel of the latent functions."""
        return self.layer.kernel

    def covariance(self, x: Any) -> Float[Tensor, "q n n"]:
        """The joint covariance of all rows, for each latent function."""
        x = rows(_table(x, "x"), slice(None), torch.float64)
        with torch.no_grad():
            z = self.layer.z.double()
            a = torch.linalg.solve_triangular(self.layer.factor(), self.kernel(z, x), upper=False)
            return self.layer.posterior.covariance(a, self.kernel(x))

    def predict(self, x: Any) -> Gaussian:
        """Mean and variance of observations at each row: of targets, or of labels (whose means are probabilities)."""
        with torch.no_grad():
            return _joined([self.likelihood.predict(belief) for belief in self._beliefs(x)])

    def log_predictive(self, x: Any, y: Any) -> Float[Tensor, " n"]:
        """``log p(yₙ | xₙ)`` of each row: the score of predictions."""
        targets = self._chunks(_table(y, "y"), "y")
        with torch.no_grad():
            pairs = zip(self._beliefs(x), targets, strict=True)
            return torch.cat([self.likelihood.log_predictive(_columns(part), belief) for belief, part in pairs])

    def _beliefs(self, x: Any) -> Iterator[Gaussian]:
        """The belief at one chunk of rows after another, with one factor for all."""
        with torch.no_grad():
            factor = self.layer.factor()
        for chunk in self._chunks(_table(x, "x"), "x"):
            with torch.no_grad():
                belief = self.layer(chunk, factor)
            yield belief

    def _chunks(self, data: Any, name: str) -> Iterator[Tensor]:
        """Rows in order, a bounded number at a time; missing values are refused by their row."""
        q, m = self.layer.posterior.shape
        size = max(1, _CHUNK // (q * m))
        for start in range(0, max(1, len(data)), size):
            chunk = rows(data, slice(start, start + size), self.dtype)
            if not bool(chunk.isfinite().all()):
                row = start + int((~chunk.isfinite()).nonzero()[0, 0])
                raise InputError(f"{name} has NaN or infinite values, the first in row {row}: remove or fill such rows")
            yield chunk


def _table(data: Any, name: str) -> Any:
    """Tensors, arrays and memory maps as they are; other containers of numbers as tensors."""
    return data if isinstance(data, (Tensor, np.ndarray)) else as_tensor(data, name)


def _columns(y: Float[Tensor, "..."]) -> Float[Tensor, "n p"]:
    return y[:, None] if y.dim() == 1 else y


def _joined(parts: list[Gaussian]) -> Gaussian:
    return Gaussian(torch.cat([part.mean for part in parts]), torch.cat([part.var for part in parts]))
