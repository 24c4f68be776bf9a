"""Processes of numbers and of classes by mini-batches, for more rows than closed forms can handle."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods import Bernoulli, GaussianNoise, Sampled, Softmax
from stratagp.models import ExactGP, StochasticGP
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.fitted_classes import class_model
from stratagp.parameters import Parameter, real
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.classes import LATENT_VARIANCE
from stratagp.recipes.exact import noise_of
from stratagp.recipes.search import Search, train
from stratagp.recipes.sparse import inducing_points, learn_from_some
from stratagp.training.criterion import Centres, Criterion
from stratagp.training.start import spreads, start_from_data

_BATCH, _SMALLEST_BATCH = 1024, 64  # rows of a step: a tenth of the data between these
_LEAST_STEPS = 500
_EPOCHS = 10
_RATE = 0.02  # of Adam
_SMALL = 1000  # rows of the closed form from whose values mini-batches start; over the number of classes
_SAMPLES = 16  # of the latent functions of several classes, a step


@dataclass(frozen=True)
class StochasticRecipe(Recipe):
    """Learn a process by mini-batches, from the values of a closed form on some rows.

    Arguments:
        kernel: bound to its columns.
        n_inducing: how many inducing points.
        mean: the prior mean of numbers; zero if left out.
        link: of two classes, "logit" or "probit".
        search: how the closed form learns.
        max_epochs: how often to go over the rows; None for 10 times, and 500 steps at least.
    """

    kernel: Kernel
    n_inducing: int
    mean: Any = None
    link: str | None = None
    search: Search = field(default_factory=Search)
    max_epochs: int | None = None

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Start values, inducing points that suit them, and steps."""
        data, centres = rows.data, Centres()
        chain = self._of_classes(rows, context, centres) if rows.n_classes else self._of_numbers(rows, context, centres)
        chain, data = chain.to(context.device), data.to(context.device)
        criterion = Criterion(self.search.criterion, chain, lambda _: chain.bound(data.x, data.y), centres)
        n = len(data)
        size = min(n, max(_SMALLEST_BATCH, min(_BATCH, n // 10)))
        least = max(_LEAST_STEPS, _EPOCHS * (n // size))
        history = chain.fit(
            data.x,
            data.y,
            natural=not isinstance(chain.likelihood, Sampled),  # samples are too noisy for steps by the curvature
            batch_size=size,
            steps=least if self.max_epochs is None else self.max_epochs * (n // size),
            rate=_RATE,
            generator=context.generator(),
            progress=context.progress,
            penalty=criterion.log_prior if self.search.criterion == "map" else None,
            checkpoint=context.checkpoint,
        )
        return ChainModel(chain, data, [history], history, independent=not rows.n_classes)

    def _of_numbers(self, rows: Rows, context: FitContext, centres: Centres) -> StochasticGP:
        data = rows.data
        _refuse_rows_of_their_own(data, rows.filled is not None)
        kernel = start_from_data(self.kernel, data.x, data.y.mean(1))
        mean, noise = copy.deepcopy(self.mean), noise_of(data, "stochastic")
        learn_from_some(ExactGP(kernel, mean, noise), data, _SMALL, self.search, context, centres)
        points = self._points(kernel, data, context)
        return StochasticGP(kernel, points, GaussianNoise(noise), mean, data.y.shape[1], dtype=torch.float64)

    def _of_classes(self, rows: Rows, context: FitContext, centres: Centres) -> StochasticGP:
        data, n_classes = rows.data, rows.n_classes
        first = (data.codes == 0).double()
        kernel = start_from_data(self.kernel, data.x, first - first.mean(), variance=LATENT_VARIANCE)
        small = data.some(_SMALL // n_classes, context.seed)
        if len(small.codes.unique()) == n_classes:
            model = class_model(kernel, small, n_classes, "laplace", self.link)
            train(Criterion("map", model.module, model.score, centres), self.search, context)
        points = self._points(kernel, data, context)
        if n_classes == 2:
            return StochasticGP(kernel, points, Bernoulli(self.link or "logit"), dtype=torch.float64)
        likelihood = Sampled(Softmax(), _SAMPLES, context.generator())
        return StochasticGP(kernel, points, likelihood, functions=n_classes, dtype=torch.float64)

    def _points(self, kernel: Kernel, data: Data, context: FitContext) -> Parameter:
        """Inducing points that move in units of their columns."""
        points = inducing_points(kernel, data.x, self.n_inducing, context.seed)
        return real(points, name="z", unit=spreads(points))


def _refuse_rows_of_their_own(data: Data, incomplete: bool) -> None:
    """Mini-batches know one noise for all rows."""
    if data.weights is not None or incomplete:
        raise InputError("inference='stochastic' takes no sample weights and no missing inputs; use inference='sparse'")
    if data.noise is not None and not bool((data.noise == data.noise[0]).all()):
        raise InputError("inference='stochastic' takes one noise variance for all rows; use inference='sparse'")
