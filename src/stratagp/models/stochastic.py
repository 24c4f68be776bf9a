"""Stochastic variational Gaussian processes: any likelihood, millions of rows, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing
from stratagp.likelihoods import Likelihood, RobustMax, Sampled
from stratagp.objectives.elbo import Bound
from stratagp.objectives.elbo import elbo as lower_bound  # the class has a method of that name
from stratagp.objectives.predictive import log_predictive_of
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value
from stratagp.posteriors import FullGaussian, Posterior
from stratagp.training.loop import History, rows, train
from stratagp.types import Gaussian, Mixture

_JITTER = {torch.float32: 3e-5, torch.float64: 1e-6}
_BY_ADAM = (Sampled, RobustMax)  # likelihoods that natural gradients do not suit
_NODES = 2**14  # functions times rows at whose quadrature nodes values are held at once
_CHUNK = 2**20  # numbers of a cross-covariance that are held at once when predicting


class StochasticGP(Parameterised):
    """``f ~ GP(mean, kernel)`` observed through ``p(y | f)``, by a posterior at inducing points.

    A chain of one layer: ``Inducing(kernel, z, posterior) → likelihood``, trained by the bound of Hensman et al.
    (2013, 2015) or another objective. Time a step is O(b m² + m³) for batches of ``b`` rows, memory does not depend on
    the number of rows.

    Arguments:
        kernel: the covariance function, bound to its columns; with a function axis, one for each latent function.
        z: the inducing points in rows, learnt unless given as a parameter that is not trainable.
        likelihood: how observations come from the latent functions.
        mean: the prior mean of all functions.
        functions: the number of latent functions the likelihood asks for: outputs, or classes; as many as the kernel
            has, or 1, where it is left out.
        posterior: the belief about the inducing values, a full Gaussian where it is left out.
        dtype: the precision of inducing points, of the posterior, and of all that has a row for each data point. In
            float32 the inducing values have more jitter, 3e-5 of their variance instead of 1e-6, which keeps rounding
            out of the predictions.

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
        posterior: Posterior | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.layer = Inducing(kernel, z, posterior, mean, functions, _JITTER[dtype])
        self.likelihood = likelihood
        self.dtype = dtype
        self.layer.posterior.to(dtype)
        self.layer.parameter("z").to(dtype)

    def elbo(self, x: Any, y: Any, num_data: int | None = None) -> Bound:
        """The lower bound on ``log p(y | x)`` and its terms; with ``num_data``, estimated from a batch of that many."""
        x, y = (rows(_table(part, name), slice(None), self.dtype) for part, name in ((x, "x"), (y, "y")))
        return lower_bound(self.layer, self.likelihood, x, _columns(y), num_data)

    def fit(
        self,
        x: Any,
        y: Any,
        objective: Callable[..., Any] = lower_bound,
        natural: bool | None = None,
        penalty: Callable[[], Tensor] | None = None,
        **options: Any,
    ) -> History:
        """Train all parameters on rows of tensors, arrays or memory maps; again from where it stands, if called again.

        Arguments:
            objective: a function of (layer, likelihood, x, y, num_data) with a ``value``: ``elbo``, ``leave_one_out``
                or ``predictive_bound`` of :mod:`stratagp.objectives`.
            natural: whether a Gaussian posterior moves by natural gradients, which take fewer steps but need the bound
                itself without sampling noise; by default where the objective is ``elbo``, nothing is sampled and the
                likelihood is not :class:`RobustMax`, whose steps lead them to the most frequent class and no further.
            penalty: what is added to the objective, such as the ``log_prior`` of parameters with priors.
            options: those of :func:`stratagp.training.loop.train`: batch_size, epochs, steps, rate, natural_rate,
                generator, progress, ….
        """
        data = _table(x, "x"), _table(y, "y")
        for part, name in zip(data, ("x", "y"), strict=True):
            for _ in self._chunks(part, name):
                pass
        if natural is None:
            natural = objective is lower_bound and not isinstance(self.likelihood, _BY_ADAM)
        posteriors = [p for p in (self.layer.posterior,) if natural and isinstance(p, FullGaussian)]

        def value(x: Tensor, y: Tensor) -> Tensor:
            found: Tensor = objective(self.layer, self.likelihood, x, _columns(y), len(data[0])).value
            return found if penalty is None else found + penalty()

        return train(value, self, data, natural=posteriors, dtype=self.dtype, **options)

    def belief(self, x: Any) -> Gaussian | Mixture:
        """The belief about the latent functions at each row, as ``n q``, or ``k n q`` for the parts of a mixture."""
        parts = list(self._beliefs(x))
        if isinstance(parts[0], Gaussian):
            return _joined(parts)
        return Mixture(parts[0].log_weights, _joined([part.parts for part in parts], 1))

    def marginals(self, x: Any) -> Gaussian:
        """Mean and variance of the latent functions at each row, as ``n q``."""
        found = self.belief(x)
        return found if isinstance(found, Gaussian) else found.moments()

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
            return _joined([predict(self.likelihood, belief) for belief in self._beliefs(x)])

    def quantiles(self, x: Any, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """The values that observations stay below with the given probabilities, at each row."""
        with torch.no_grad():
            return torch.cat([self.likelihood.quantiles(_double(belief), levels) for belief in self._beliefs(x)], 1)

    def log_predictive(self, x: Any, y: Any) -> Float[Tensor, " n"]:
        """``log p(yₙ | xₙ)`` of each row: the score of predictions."""
        targets = self._chunks(_table(y, "y"), "y")
        with torch.no_grad():
            pairs = zip(self._beliefs(x), targets, strict=True)
            return torch.cat([log_predictive_of(self.likelihood, _columns(part), belief) for belief, part in pairs])

    def _beliefs(self, x: Any) -> Iterator[Any]:
        """The belief at one chunk of rows after another, with one factor for all."""
        whitener = self.layer.whitener()
        for chunk in self._chunks(_table(x, "x"), "x"):
            with torch.no_grad():
                belief = self.layer(chunk, whitener)
            yield belief

    def _chunks(self, data: Any, name: str) -> Iterator[Tensor]:
        """Rows in order, a bounded number at a time; missing values are refused by their row."""
        q, m = self.layer.posterior.shape
        size = max(1, min(_CHUNK // (q * m), _NODES // q))
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


def predict(likelihood: Likelihood, belief: Gaussian | Mixture) -> Gaussian:
    """Mean and variance of observations under a belief of either kind."""
    if isinstance(belief, Gaussian):
        return likelihood.predict(belief)
    return Mixture(belief.log_weights, likelihood.predict(belief.parts)).moments()


def _double(belief: Gaussian | Mixture) -> Gaussian | Mixture:
    if isinstance(belief, Gaussian):
        return Gaussian(belief.mean.double(), belief.var.double())
    return Mixture(belief.log_weights.double(), Gaussian(*(part.double() for part in belief.parts)))


def _joined(parts: list[Gaussian], axis: int = 0) -> Gaussian:
    return Gaussian(torch.cat([part.mean for part in parts], axis), torch.cat([part.var for part in parts], axis))
