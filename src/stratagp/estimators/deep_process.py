"""What the estimators of deep feed-forward processes share: options, views, the start, training in closed form."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batch_options import check_batch_options
from stratagp.estimators.batched import Batched
from stratagp.estimators.deep_training import Start, train_batches, train_collapsed
from stratagp.estimators.engines import Data, some_rows
from stratagp.estimators.inputs import Points, name_categories, seed_of
from stratagp.estimators.likelihood_checks import refuse_bad_targets
from stratagp.estimators.variational import AutoGPEngine
from stratagp.estimators.views import ViewInputs
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Layer, Stack
from stratagp.likelihoods import Bernoulli, GaussianNoise, Likelihood
from stratagp.models.dfgp import hidden_layer, linear_targets, output_kernel, principal_targets, relevant_stretch
from stratagp.training.devices import as_numpy
from stratagp.training.lbfgs import Result
from stratagp.training.loop import History
from stratagp.training.progress import log
from stratagp.types import Gaussian

_MOST_HIDDEN = 8  # processes, where their number is left out
_CLOSED_ROWS, _CLOSED_INDUCING = 20_000, 50  # up to which the collapsed bound is taken
_STARTS = 2  # in closed form
_NEARLY_LINEAR = 3.0  # the stretch of lengthscales that makes functions so
_LATENT_ROWS = 4096  # at once
_START_ROWS = 10_000  # that a start is made from


class DeepProcessEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Batched):
    """Hidden processes, an output process that sees them, and a likelihood."""

    least_steps = 500
    start_noise = 0.3
    _classifier = "DFGPClassifier"
    _for_texts = "give X=[texts] and view_kernels=[kernels.Spectrum(3)], for example"
    _hidden_option = "n_hidden"
    inputs_: ViewInputs
    histories_: list[History]
    result_: Result
    bounds_: list[float]

    def __init__(
        self,
        n_hidden: Any = None,
        output_kernel: Any = "ard",
        kernel: Any = None,
        views: Any = None,
        view_kernels: Any = None,
        n_inducing: Any = 50,
        n_layers: Any = 2,
        hidden: Any = "gaussian",
        n_starts: Any = None,
        likelihood: Any = "auto",
        inference: Any = "auto",
        propagate: Any = "auto",
        n_samples: Any = 5,
        max_iterations: Any = 400,
        max_epochs: Any = 100,
        batch_size: Any = 1000,
        rate: Any = 0.02,
        validation: Any = 0.0,
        patience: Any = None,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.n_hidden = n_hidden
        self.output_kernel = output_kernel
        self.kernel = kernel
        self.views = views
        self.view_kernels = view_kernels
        self.n_inducing = n_inducing
        self.n_layers = n_layers
        self.hidden = hidden
        self.n_starts = n_starts
        self.likelihood = likelihood
        self.inference = inference
        self.propagate = propagate
        self.n_samples = n_samples
        self.max_iterations = max_iterations
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.rate = rate
        self.validation = validation
        self.patience = patience
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """The latent coordinates of rows, one for each hidden process or view; with standard deviations if asked."""
        belief = self._latent(X)
        mean = as_numpy(belief.mean)
        return (mean, np.sqrt(as_numpy(belief.var))) if return_std else mean

    def influence(self, X: Any) -> dict[str, float]:
        """The share of each view, or process of the first layer, in what is predicted for rows; they sum to one.

        It is the mean square change of the expected functions with a coordinate of that layer set to its average.
        """
        h, above, changes = self._latent(X, 1).mean, list(self.model_.layer.layers)[1:], []
        with torch.no_grad():
            before = _expected(above, h)
            for r in range(h.shape[1]):
                other = h.clone()
                other[:, r] = h[:, r].mean()
                changes.append(float((_expected(above, other) - before).square().mean()))
        total, views = sum(changes) or 1.0, self.inputs_.views
        names = [f"hidden {r}" for r in range(len(changes))] if views is None else list(views)
        return {name: change / total for name, change in zip(names, changes, strict=True)}

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("hidden", ("gaussian", "point"))
        self._restrict("inference", ("auto", "collapsed", "batches"))
        self._restrict("propagate", ("auto", "samples", "moments"))
        for name, least in (("n_hidden", 1), ("n_layers", 2), ("n_samples", 1), ("n_starts", 1)):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name), least)
        check_batch_options(self)
        if self.inference == "collapsed" and (self.validation or self.propagate == "samples"):
            raise InputError("inference='collapsed' is in closed form: leave out validation, and propagate='samples'")

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        kernel = self._default_kernel() if self.kernel is None else copy.deepcopy(self.kernel)
        if not kernel.takes_tensors:
            raise InputError(
                f"{type(self).__name__}: kernel is over objects: give it in view_kernels, with X a list or mapping of "
                "views, view_kernels=[kernel] and X=[objects] for one"
            )
        self.inputs_ = ViewInputs(seed_of(self), self.views, self.view_kernels)
        return kernel, self.inputs_.learn(self, X)

    def _fit_model(self, kernel: Kernel, points: Points, y: Tensor, likelihood: Likelihood, outputs: int) -> None:
        """Train from one start or several, and keep the model with the greatest bound."""
        self._forget()
        if self.likelihood == "auto" and isinstance(likelihood, Bernoulli):
            likelihood = Bernoulli("probit")
        generator, x = torch.Generator().manual_seed(self._seed()), points.values
        refuse_bad_targets(likelihood, y, outputs)
        if isinstance(likelihood, GaussianNoise) and y.shape[1] > 1 and bool((y == y[:1]).all(0).any()):
            constant = int((y == y[:1]).all(0).nonzero()[0, 0])
            raise InputError(f"target {constant} of y (counted from 0) is constant: leave it out, others suffer")
        data, test = self._shares(x, y, generator)
        collapsed, found = self._given.seen is None and self._is_collapsed(likelihood, len(data.y)), []
        self.inference_ = "collapsed" if collapsed else "batches"
        starts = self.n_starts or (_STARTS if collapsed and self.inputs_.views is None else 1)
        for number in range(starts):
            own, start = copy.deepcopy(likelihood), self._start(kernel, data, number, collapsed, generator)
            self._say(f"start {number + 1} of {starts}, {'in closed form' if collapsed else 'by batches'}")
            if collapsed:
                found.append(train_collapsed(self, start, data, own))
            else:
                found.append(train_batches(self, start, data, test, own, outputs, generator))
            if any(history.ending == "interrupted" for history in found[-1].histories):
                break
        best = max(found, key=lambda one: -math.inf if math.isnan(one.bound) else one.bound)
        self.histories_, self.bounds_ = list(best.histories), [one.bound for one in found]
        if best.result is not None:
            self.result_ = best.result
            if not best.result.converged and self.max_iterations:
                log.warning("training ended before the bound stopped rising: %s", best.result.message)
        self.engine_, self.beliefs_ = AutoGPEngine(best.model, data), [best.model]

    def _is_collapsed(self, likelihood: Likelihood, rows: int) -> bool:
        possible = isinstance(likelihood, GaussianNoise) and self.propagate != "samples" and not self.validation
        small = rows <= _CLOSED_ROWS and rows * self.n_inducing**2 <= _CLOSED_ROWS * _CLOSED_INDUCING**2
        if self.inference == "collapsed" and not possible:
            raise InputError(f"inference='collapsed' is for Gaussian noise, not for {type(likelihood).__name__}")
        return self.inference == "collapsed" or (self.inference == "auto" and possible and small)

    def _start(self, kernel: Kernel, data: Data, number: int, collapsed: bool, generator: torch.Generator) -> Start:
        """Layers of hidden processes, each started at linear functions of the rows that it sees.

        Without views the second start follows what a shallow process finds relevant; all have inducing rows of their
        own. Steps of batches leave the hidden processes near where they start: these are then nearly linear.
        """
        chosen = some_rows(len(data.y), _START_ROWS, self._seed())
        data = Data(data.x[chosen], data.y[chosen])
        m, views = self.n_inducing, self.inputs_.views
        relevant, stretch = None, 1.0 if collapsed and views is None else _NEARLY_LINEAR
        if views is None:
            if self.inputs_.encoder is not None:
                name_categories(kernel, self.inputs_.encoder)
            kernels: Any = kernel.bind(self.inputs_.columns)
            width = min(data.x.shape[1], _MOST_HIDDEN) if self.n_hidden is None else self.n_hidden
            if number == 1:
                relevant = relevant_stretch(data.x, self._numbers(data.y), generator)
            targets = principal_targets(data.x, width, relevant)
        else:
            if self.n_hidden not in (None, len(views)):
                raise InputError(f"{self._hidden_option} is for one table: each of {len(views)} views has one process")
            kernels, y = self.inputs_.kernels(kernel, data.x.shape[1]), self._numbers(data.y)
            targets = torch.cat([linear_targets(data.x[:, self.inputs_.features(name)], y) for name in views], 1)
        points = self.inputs_.anchor_points(data.x.shape[1]) or None
        layers: list[Layer] = [
            hidden_layer(
                data.x, targets, kernels, m, generator, points, stretch if relevant is None else stretch * relevant
            )
        ]
        for _ in range(self.n_layers - 2):
            with torch.no_grad():
                h = _stacked(layers)(data.x).mean
            layers.append(hidden_layer(h, h, RBF(ard=h.shape[1]), m, generator))
        return Start(_stacked(layers), output_kernel(self.output_kernel, targets.shape[1]), data.x)

    def _latent(self, X: Any, layers: int = -1) -> Gaussian:
        check_is_fitted(self, "beliefs_")
        below, x = _stacked(list(self.model_.layer.layers)[:layers]), self.inputs_.points(self, X).values
        with torch.no_grad():
            device = next(self.model_.parameters()).device
            parts = [below(rows.to(device)) for rows in x.split(_LATENT_ROWS)]
        return Gaussian(*(torch.cat(part) for part in zip(*parts, strict=True)))

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the output process, in the space of the latent coordinates."""
        check_is_fitted(self, "engine_")
        last: Kernel = self.model_.layer.layers[-1].kernel
        return last

    def _kernel_columns(self) -> list[str]:
        return []  # kernels of different layers see different columns

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.layer.layers[-1].z.shape[-1])


def _expected(layers: list[Any], h: Tensor) -> Tensor:
    """The expected functions, by the expected values of each layer."""
    for layer in layers:
        h = layer(h).mean
    return h


def _stacked(layers: list[Any]) -> Any:
    return layers[0] if len(layers) == 1 else Stack(*layers, propagate="moments")
