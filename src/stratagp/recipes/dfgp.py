"""Deep feed-forward processes: hidden processes, and an output process that sees them."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Layer, Stack
from stratagp.likelihoods import Bernoulli, Likelihood
from stratagp.means import Constant
from stratagp.models.chain import Chain
from stratagp.models.dfgp import (
    dfgp_chain,
    dfgp_regression,
    hidden_layer,
    linear_targets,
    output_kernel,
    principal_targets,
    relevant_stretch,
    widen,
)
from stratagp.models.fitted_chain import ChainModel
from stratagp.objectives import elbo
from stratagp.objectives.curvature_bound import curvature_bound
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.batches import Batches, as_numbers, outputs_of, refuse_bad_targets
from stratagp.recipes.choose import is_collapsed
from stratagp.recipes.exact import learnt_noise
from stratagp.recipes.options import BatchOptions, NotNegative, Whole, WholeOrZero
from stratagp.training.lbfgs import Result, maximise
from stratagp.training.loop import History
from stratagp.training.progress import log

_MOST_HIDDEN = 8  # processes, where their number is left out
_STARTS = 2  # in closed form
_NEARLY_LINEAR = 3.0  # the stretch of lengthscales that makes functions so
_START_ROWS = 10_000  # that a start is made from
_POINTS = 0.2  # the share of a training in which beliefs about hidden values are points
_GAIN = 1e-4  # of the bound, a row, in ten iterations: training in closed form ends below it
_SOFTMAX_SAMPLES = 4  # of its functions, for each sample of hidden values


@dataclass(eq=False, repr=False)
class DFGPOptions(BatchOptions):
    """Options of deep feed-forward processes; :class:`~stratagp.DFGPRegressor` tells what they mean."""

    start_noise: ClassVar[float] = 0.3

    n_hidden: Whole | None = None
    output_kernel: Kernel | str = "ard"
    kernel: Kernel | None = None
    views: Any = None
    view_kernels: Any = None
    _: KW_ONLY
    n_inducing: Whole = 50
    n_layers: Whole = 2
    hidden: Literal["gaussian", "point"] = "gaussian"
    hidden_points: Literal["learnt", "fixed"] = "learnt"
    hidden_start: Literal["components", "targets"] = "components"
    n_starts: Whole | None = None
    inference: Literal["auto", "collapsed", "batches"] = "auto"
    propagate: Literal["auto", "samples", "moments"] = "auto"
    n_samples: Whole = 5
    prediction_samples: Whole = 64
    max_iterations: WholeOrZero = 400

    def _check(self) -> None:
        """Refuse options that do not go together."""
        super()._check()
        if self.n_layers < 2:
            raise InputError(f"n_layers must be a whole number of at least 2, got {self.n_layers!r}")
        if self.inference == "collapsed" and (self.validation or self.propagate == "samples"):
            raise InputError("inference='collapsed' is in closed form: leave out validation, and propagate='samples'")


@dataclass(eq=False, repr=False)
class DFGPClassOptions(DFGPOptions):
    """Options of deep feed-forward processes of classes; :class:`~stratagp.DFGPClassifier` tells what they mean."""

    _: KW_ONLY
    beta: NotNegative = 0.0

    def _check(self) -> None:
        super()._check()
        if self.beta and self.propagate != "moments":
            raise InputError("beta belongs to the bound by moments: also give propagate='moments'")


class Start(NamedTuple):
    """Layers where training starts, and the rows that they were started from."""

    below: Layer
    above: Kernel
    x: Tensor


class Trained(NamedTuple):
    """A trained model: the bound that it attains, and how its training went."""

    chain: Chain
    bound: float
    result: Result | None = None
    histories: tuple[History, ...] = ()


@dataclass(frozen=True)
class DFGPRecipe(Recipe):
    """Learn from one start or several, and keep the model with the greatest bound."""

    options: DFGPOptions

    def inference(self, rows: Rows) -> tuple[str, str]:
        """How the model is trained, and why."""
        options, likelihood = self.options, rows.likelihood
        assert likelihood is not None
        if rows.stream is not None:
            return "batches", "rows are read from files"
        possible = likelihood.is_gaussian and options.propagate != "samples" and not options.validation
        return is_collapsed(options.inference, possible, len(rows.data), options.n_inducing, type(likelihood).__name__)

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Train from each start."""
        options, likelihood = self.options, rows.likelihood
        assert likelihood is not None
        if options.likelihood == "auto" and isinstance(likelihood, Bernoulli):
            likelihood = Bernoulli("probit")
        generator, outputs = context.generator(), outputs_of(rows, likelihood)
        refuse_bad_targets(likelihood, rows.data.y, outputs)
        _refuse_constant_targets(likelihood, rows.data.y)
        batches = Batches.of(rows, options, context, generator)
        data, found = batches.data, []
        collapsed = self.inference(rows)[0] == "collapsed"
        by_views = rows.views is not None and rows.views.views is not None
        starts = options.n_starts or (_STARTS if collapsed and not by_views else 1)
        for number in range(starts):
            start = self._start(rows, data, number, collapsed, context, generator)
            context.log(f"start {number + 1} of {starts}, {'in closed form' if collapsed else 'by batches'}")
            own = copy.deepcopy(likelihood)
            if collapsed:
                found.append(self._in_closed_form(start, data, own, context))
            else:
                found.append(self._by_batches(start, batches, own, outputs, generator))
            if any(history.ending == "interrupted" for history in found[-1].histories):
                break
        best = max(found, key=lambda one: -math.inf if math.isnan(one.bound) else one.bound)
        best.chain.layer.n_nodes = options.prediction_samples
        if best.result is not None and not best.result.converged and options.max_iterations:
            log.warning("training ended before the bound stopped rising: %s", best.result.message)
        bounds = [one.bound for one in found]
        return ChainModel(best.chain, data, list(best.histories), best.result, bounds)

    def _start(
        self, rows: Rows, data: Data, number: int, collapsed: bool, context: FitContext, generator: torch.Generator
    ) -> Start:
        """Layers of hidden processes, each started at linear functions of the rows that it sees, or at the targets.

        Without views the second start follows what a shallow process finds relevant; all have inducing rows of their
        own. Steps of batches leave the hidden processes near where they start: these are then nearly linear.
        """
        options, data = self.options, data.some(_START_ROWS, context.seed)
        kernel = RBF(ard=True) if options.kernel is None else copy.deepcopy(options.kernel)
        views = None if rows.views is None else rows.views.views
        relevant, stretch = None, 1.0 if collapsed and views is None else _NEARLY_LINEAR
        points, y, at_targets = None, as_numbers(data.y, rows.n_classes), options.hidden_start == "targets"
        if views is None or rows.views is None:
            kernels: Any = rows.bind(kernel, kernel)
            width = min(data.x.shape[1], _MOST_HIDDEN) if options.n_hidden is None else options.n_hidden
            if number == 1:
                relevant = relevant_stretch(data.x, y, generator)
            targets = principal_targets(y, width) if at_targets else principal_targets(data.x, width, relevant)
        else:
            if options.n_hidden not in (None, len(views)):
                raise InputError(f"n_hidden is for one table: each of {len(views)} views has one process")
            kernels = rows.views.kernels(kernel, data.x.shape[1])
            seen = [data.x[:, rows.views.features(name)] for name in views]
            targets = torch.cat([principal_targets(y, 1) if at_targets else linear_targets(x, y) for x in seen], 1)
            points = rows.views.anchor_points(data.x.shape[1]) or None
        stretches = stretch if relevant is None else stretch * relevant
        m, moves = options.n_inducing, options.hidden_points == "learnt"
        layers: list[Layer] = [hidden_layer(data.x, targets, kernels, m, generator, points, stretches, moves)]
        for _ in range(options.n_layers - 2):
            with torch.no_grad():
                h = stacked(layers)(data.x).mean
            layers.append(hidden_layer(h, h, RBF(ard=h.shape[1]), m, generator, learn_points=moves))
        return Start(stacked(layers), output_kernel(options.output_kernel, targets.shape[1]), data.x)

    def _in_closed_form(self, start: Start, data: Data, likelihood: Likelihood, context: FitContext) -> Trained:
        """Everything by L-BFGS on the collapsed bound."""
        options = self.options
        given = isinstance(options.likelihood, Likelihood)
        noise = likelihood.parameter("noise") if given else learnt_noise(data.y.shape[1], options.start_noise)
        model = dfgp_regression(start.below, start.above, start.x, options.n_inducing, noise=noise).to(context.device)
        penalty = model.log_prior if model.has_priors else lambda: 0.0
        data = data.to(context.device)
        evaluations = 0
        phases = self._phases(options.max_iterations)
        for phase, share in enumerate(phases):
            if phase:
                widen(start.below)
            elif not share and len(phases) > 1:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is how long training lasts
                result = maximise(
                    lambda: model.log_evidence(data.x, data.y) + penalty(),
                    model.parameters() if share else [],
                    share,
                    _GAIN * len(data),
                )
            evaluations += result.evaluations
        result = Result(result.value, evaluations, result.converged, result.message)
        context.log(f"{result.value:.3f} after {result.evaluations} evaluations: {result.message}")
        return Trained(model.condition(data.x, data.y).to(context.device), result.value, result)

    def _by_batches(
        self, start: Start, batches: Batches, likelihood: Likelihood, outputs: int, generator: torch.Generator
    ) -> Trained:
        """Everything by batches of rows."""
        options, gaussian = self.options, likelihood.is_gaussian
        moments = options.propagate == "moments" or (options.propagate == "auto" and gaussian)
        by_curvature = moments and bool(batches.rows.n_classes)
        beta = options.beta if isinstance(options, DFGPClassOptions) else 0.0
        chain = dfgp_chain(
            start.below,
            start.above,
            likelihood,
            start.x,
            outputs,
            options.n_inducing,
            "moments" if moments else "samples",
            options.n_samples,
            _SOFTMAX_SAMPLES if likelihood.several_scores and not by_curvature else None,
            generator,
            torch.float64,
            Constant(level) if (level := likelihood.start(batches.data.y)) else None,
        ).to(batches.context.device)
        length, histories = batches.length(), []
        for phase, share in enumerate(self._phases(length.pop("epochs"))):
            if phase:
                widen(start.below)
            if not share:
                continue
            history = chain.fit(
                *batches.source,
                partial(curvature_bound, beta=beta) if by_curvature else elbo,
                natural=[chain.layer.layers[-1].posterior] if moments and gaussian else False,
                penalty=chain.log_prior if chain.has_priors else None,
                epochs=share,
                rate=options.rate,
                generator=generator,
                score=batches.score(chain),
                **length,
            )
            histories.append(history)
            if history.cut_short:
                break
        if options.hidden != "point":
            widen(start.below)  # where training was cut short before
        return Trained(chain, float(chain.bound(batches.data.x, batches.data.y)), None, tuple(histories))

    def _phases(self, total: int) -> list[int]:
        """How long beliefs about hidden values are points, and then Gaussians."""
        points = math.ceil(_POINTS * total)
        return [total] if self.options.hidden == "point" else [points, total - points]


def stacked(layers: list[Any]) -> Any:
    """Layers as one; a single one as it is."""
    return layers[0] if len(layers) == 1 else Stack(*layers, propagate="moments")


def _refuse_constant_targets(likelihood: Likelihood, y: Tensor) -> None:
    if likelihood.is_gaussian and y.shape[1] > 1 and bool((y == y[:1]).all(0).any()):
        constant = int((y == y[:1]).all(0).nonzero()[0, 0])
        raise InputError(
            f"target {constant} of y (counted from 0) is constant: leave it out, since it harms the fit of the others"
        )
