"""A chain of layers and a likelihood, trained in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import as_tensor
from stratagp.layers import Layer, Stack
from stratagp.likelihoods import Likelihood, Sampled
from stratagp.objectives.elbo import Bound, expected_log_prob
from stratagp.objectives.elbo import elbo as lower_bound  # the class has a method of that name
from stratagp.objectives.predictive_bound import log_predictive_of
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter
from stratagp.posteriors import FullGaussian, MixturePosterior
from stratagp.predictive import Observed
from stratagp.training.batches import Streamed
from stratagp.training.loop import History, rows, train
from stratagp.types import Gaussian, Mixture, NumbersLike, PointsLike

_ROWS = 1024  # predicted at once
_DEEP_ROWS = 128 * 64  # rows and hidden values of each that a stack predicts at once


class Chain(Parameterised):
    """``layer → likelihood``: beliefs about latent functions, and how observations come from them.

    Every model trained by mini-batches is a chain; deep ones have a :class:`~stratagp.layers.Stack` as their layer.

    Arguments:
        layer: maps points to beliefs.
        likelihood: how observations come from the latent functions.
        dtype: the precision of batches.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Features, Inducing, Stack
    >>> from stratagp.likelihoods import GaussianNoise
    >>> network = torch.nn.Linear(3, 2)
    >>> model = Chain(Stack(Features(network, 2), Inducing(k.RBF(), torch.randn(5, 2))), GaussianNoise())
    >>> model.predict(torch.zeros(4, 3)).mean.shape
    torch.Size([4, 1])
    """

    def __init__(self, layer: Layer, likelihood: Likelihood, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.layer = layer
        self.likelihood = likelihood
        self.dtype = dtype

    @property
    def observed(self) -> Likelihood:
        """The likelihood itself, even if ``likelihood`` is a sampler of it."""
        return self.likelihood.given if isinstance(self.likelihood, Sampled) else self.likelihood

    @property
    def noise_parameter(self) -> Parameter | None:
        """The noise variance of the targets, if the likelihood has one."""
        return self.likelihood.noise_parameter

    def elbo(self, x: PointsLike, y: NumbersLike, num_data: int | None = None) -> Bound:
        """The lower bound on ``log p(y | x)`` and its terms; with ``num_data``, estimated for that many rows."""
        x, y = (rows(table(part, name), slice(None), self.dtype) for part, name in ((x, "x"), (y, "y")))
        return lower_bound(self.layer, self.likelihood, x, columns(y), num_data)

    def fit(
        self,
        x: Any,
        y: Any = None,
        objective: Callable[..., Any] = lower_bound,
        natural: bool | Sequence[FullGaussian] | None = None,
        penalty: Callable[[], Tensor] | None = None,
        **options: Any,
    ) -> History:
        """Train all parameters on rows of tensors, arrays or memory maps; a second call continues from the first.

        Arguments:
            x: points; or rows with targets that form their own batches (:class:`stratagp.data.Stream`), without ``y``.
            objective: a function of (layer, likelihood, x, y, num_data) with a ``value``: ``elbo``, ``leave_one_out``
                or ``predictive_bound`` of :mod:`stratagp.objectives`.
            natural: whether Gaussian posteriors move by natural gradients, or which of them. These take fewer steps but
                need the bound without sampling noise. The default is to use them if the objective is ``elbo``, nothing
                is sampled and the likelihood is not :class:`RobustMax`, where they stop at the most frequent class.
            penalty: a term to add to the objective, such as the ``log_prior`` of parameters with priors.
            options: those of :func:`stratagp.training.loop.train`: batch_size, epochs, steps, rate, natural_rate,
                generator, progress, ….
        """
        data = x if isinstance(x, Streamed) else self._checked(x, y)
        num_data = data.rows if isinstance(data, Streamed) else len(data[0])
        if natural is None:
            sampled = isinstance(self.layer, Stack) and self.layer.is_uncertain and self.layer.propagate == "samples"
            natural = objective is lower_bound and not sampled and not _is_noisy(self.likelihood)
        posteriors = (_gaussians(self.layer) if natural else []) if isinstance(natural, bool) else list(natural)

        def value(x: Tensor, y: Tensor) -> Tensor:
            found: Tensor = objective(self.layer, self.likelihood, x, columns(y), num_data).value
            return found if penalty is None else found + penalty()

        self.train()
        try:
            return train(value, self, data, natural=posteriors, dtype=self.dtype, **options)
        finally:
            self.eval()

    def _checked(self, x: PointsLike, y: NumbersLike) -> tuple[Any, Any]:
        data = table(x, "x"), table(y, "y")
        for part, name in zip(data, ("x", "y"), strict=True):
            for _ in self._chunks(part, name):
                pass
        return data

    def belief(self, x: PointsLike) -> Gaussian | Mixture:
        """The belief about the latent functions at each row, as ``n q``, or ``k n q`` for the parts of a mixture."""
        return joined(list(self._beliefs(x)))

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance of the latent functions at each row, as ``n q``."""
        found = self.belief(x)
        return found if isinstance(found, Gaussian) else found.moments()

    def predict(self, x: PointsLike) -> Gaussian:
        """Mean and variance of observations at each row: of targets, or of labels, whose means are probabilities."""
        with torch.no_grad():
            return joined([predict(self.likelihood, belief) for belief in self._beliefs(x, self._by_samples)])

    def observations(self, x: PointsLike) -> Iterator[Observed]:
        """The distribution of observations, a chunk of rows at a time."""
        ready = self._ready()
        for chunk in self._chunks(table(x, "x"), "x", self._by_samples):
            by_moments = isinstance(self.layer, Stack) and self.layer.propagate == "moments" and not self._by_samples
            moments = partial(self._belief_at, chunk, ready) if by_moments else None
            yield Observed(self.observed, len(chunk), partial(self._whole, chunk, ready), moments)

    def quantiles(self, x: PointsLike, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """The values below which observations fall with the given probabilities, at each row."""
        return torch.cat([torch.from_numpy(part.quantile(levels)) for part in self.observations(x)], 1)

    def log_predictive(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, " n"]:
        """``log p(yₙ | xₙ)`` of each row: the score of predictions."""
        targets = self._chunks(table(y, "y"), "y", whole=True)
        with torch.no_grad():
            pairs = zip(self._beliefs(x, whole=True), targets, strict=True)
            return torch.cat([log_predictive_of(self.likelihood, columns(part), belief) for belief, part in pairs])

    def bound(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, ""]:
        """The lower bound on ``log p(y | x)`` of all rows, by quadrature, in chunks and without a gradient."""
        targets = self._chunks(table(y, "y"), "y", self._by_samples)
        with torch.no_grad():
            pairs = zip(self._beliefs(x, self._by_samples), targets, strict=True)
            fits = [expected_log_prob(self.observed, columns(part), belief).double().sum() for belief, part in pairs]
            return torch.stack(fits).sum() - self.layer.kl()

    @property
    def _by_samples(self) -> bool:
        """Whether moments of observations need the whole belief about hidden values, not just its moments."""
        return not self.observed.is_gaussian

    def _ready(self) -> Any:
        """What all chunks of rows share."""
        return None

    def _beliefs(self, x: PointsLike, whole: bool = False) -> Iterator[Any]:
        """The belief at each chunk of rows in turn, in evaluation mode.

        ``whole`` asks for the distribution, not just its moments, if hidden layers are uncertain.
        """
        ready = self._ready()
        for chunk in self._chunks(table(x, "x"), "x", whole):
            yield self._belief_at(chunk, ready, whole)

    def _whole(self, x: Tensor, ready: Any) -> Any:
        """The whole belief at rows, with the hidden values of a few at a time."""
        return joined([self._belief_at(part, ready, whole=True) for part in x.split(self._rows_at_once(whole=True))])

    def _belief_at(self, x: Tensor, ready: Any = None, whole: bool = False) -> Any:
        layer, training = self.layer, self.training
        self.eval()
        try:
            with torch.no_grad():
                sampled = isinstance(layer, Stack) and (whole or layer.propagate == "samples")
                return layer.predictive(x) if sampled else layer(x)
        finally:
            self.train(training)

    def _rows_at_once(self, whole: bool) -> int:
        if not (isinstance(self.layer, Stack) and self.layer.is_uncertain):
            return _ROWS
        by_samples = whole or self.layer.propagate == "samples"
        return min(_ROWS, max(1, _DEEP_ROWS // self.layer.n_nodes)) if by_samples else _ROWS

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device

    def _chunks(self, data: Any, name: str, whole: bool = False) -> Iterator[Tensor]:
        """Rows in order, a bounded number at a time; the error about a missing value names its row."""
        size = self._rows_at_once(whole)
        for start in range(0, max(1, len(data)), size):
            chunk = rows(data, slice(start, start + size), self.dtype).to(self._device)
            if not bool(chunk.isfinite().all()):
                row = start + int((~chunk.isfinite()).nonzero()[0, 0])
                raise InputError(f"{name} has NaN or infinite values, the first in row {row}: remove or fill them")
            yield chunk


def _gaussians(layer: Layer) -> list[FullGaussian]:
    """Posteriors that natural gradients can move: Gaussians, but not as parts of a mixture."""
    mixtures = [part.components for part in layer.modules() if isinstance(part, MixturePosterior)]
    found = [part for part in layer.modules() if isinstance(part, FullGaussian)]
    return [part for part in found if not any(part is each for each in mixtures)]


def _is_noisy(likelihood: Likelihood) -> bool:
    """Whether natural gradients, which also use the curvature, are unsuitable for a likelihood."""
    return not likelihood.smooth or (isinstance(likelihood, Sampled) and likelihood.what != "reciprocal")


def table(data: Any, name: str) -> Any:
    """Tensors, arrays and memory maps unchanged; other containers of numbers as tensors."""
    return data if isinstance(data, (Tensor, np.ndarray)) else as_tensor(data, name)


def columns(y: Float[Tensor, "..."]) -> Float[Tensor, "n p"]:
    """Targets with an axis of outputs."""
    return y[:, None] if y.dim() == 1 else y


def predict(likelihood: Likelihood, belief: Gaussian | Mixture) -> Gaussian:
    """Mean and variance of observations under a Gaussian or mixture belief."""
    if isinstance(belief, Gaussian):
        return likelihood.predict(belief)
    return Mixture(belief.log_weights, likelihood.predict(belief.parts)).moments()


def joined(parts: list[Any]) -> Any:
    """The rows of several beliefs as one."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Mixture):
        return Mixture(parts[0].log_weights, _joined_at([part.parts for part in parts], 1))
    return _joined_at(parts, 0)


def _joined_at(parts: list[Gaussian], axis: int) -> Gaussian:
    return Gaussian(torch.cat([part.mean for part in parts], axis), torch.cat([part.var for part in parts], axis))
