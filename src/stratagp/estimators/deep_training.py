"""How estimators of deep processes train one model from one start, in closed form or by batches."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.estimators.engines import Data, learnt_noise
from stratagp.kernels import Kernel
from stratagp.layers import Layer
from stratagp.likelihoods import GaussianNoise, Likelihood, Softmax
from stratagp.means import Constant
from stratagp.models.chain import Chain
from stratagp.models.dfgp import dfgp_chain, dfgp_regression, widen
from stratagp.objectives import elbo
from stratagp.objectives.curvature_bound import curvature_bound
from stratagp.training.lbfgs import Result, maximise
from stratagp.training.loop import History

_POINTS = 0.2  # the share of a training in which beliefs about hidden values are points
_GAIN = 1e-4  # of the bound, a row, in ten iterations: training in closed form ends below it
_SOFTMAX_SAMPLES = 4  # of its functions, for each sample of hidden values


class Start(NamedTuple):
    """Layers where training starts, and the rows that they were started from."""

    below: Layer
    above: Kernel
    x: Tensor


class Trained(NamedTuple):
    """A trained model: the bound that it attains, and how its training went."""

    model: Chain
    bound: float
    result: Result | None = None
    histories: tuple[History, ...] = ()


def train_collapsed(estimator: Any, start: Start, data: Data, likelihood: Likelihood) -> Trained:
    """Everything by L-BFGS on the collapsed bound."""
    given = isinstance(estimator.likelihood, Likelihood)
    noise = likelihood.parameter("noise") if given else learnt_noise(data.y.shape[1], estimator.start_noise)
    model = dfgp_regression(start.below, start.above, start.x, estimator.n_inducing, noise=noise)
    penalty = model.log_prior if model.has_priors else lambda: 0.0
    x, y = (part.to(estimator._moved(model).noise.device) for part in (data.x, data.y))

    def score() -> Tensor:
        return model.log_evidence(x, y) + penalty()

    evaluations = 0
    for phase, share in enumerate(_phases(estimator, estimator.max_iterations)):
        if phase:
            widen(start.below)
        elif not share:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is how long training lasts
            result = maximise(score, model.parameters() if share else [], share, _GAIN * len(data.y))
        evaluations += result.evaluations
    result = Result(result.value, evaluations, result.converged, result.message)
    estimator._say(f"{result.value:.3f} after {result.evaluations} evaluations: {result.message}")
    return Trained(estimator._moved(model.condition(x, y)), result.value, result)


def train_batches(
    estimator: Any,
    start: Start,
    data: Data,
    test: Data,
    likelihood: Likelihood,
    outputs: int,
    generator: torch.Generator,
) -> Trained:
    """Everything by batches of rows."""
    gaussian = isinstance(likelihood, GaussianNoise)
    moments = estimator.propagate == "moments" or (estimator.propagate == "auto" and gaussian)
    by_curvature = moments and estimator.of_classes
    model = dfgp_chain(
        start.below,
        start.above,
        likelihood,
        start.x,
        outputs,
        estimator.n_inducing,
        "moments" if moments else "samples",
        estimator.n_samples,
        _SOFTMAX_SAMPLES if isinstance(likelihood, Softmax) and not by_curvature else None,
        generator,
        torch.float64,
        Constant(level) if (level := likelihood.start(data.y)) else None,
    )
    estimator._moved(model)
    options, histories = estimator._length(data, estimator.max_epochs), []
    x, y = estimator._rows(data)
    for phase, share in enumerate(_phases(estimator, options.pop("epochs"))):
        if phase:
            widen(start.below)
        if not share:
            continue
        history = model.fit(
            x,
            y,
            curvature_bound if by_curvature else elbo,
            natural=[model.layer.layers[-1].posterior] if moments and gaussian else False,
            penalty=model.log_prior if model.has_priors else None,
            epochs=share,
            rate=estimator.rate,
            generator=generator,
            score=(lambda: float(model.log_predictive(test.x, test.y).mean())) if len(test.y) else None,
            progress=estimator.verbose,
            **options,
        )
        histories.append(history)
        if history.cut_short:
            break
    if estimator.hidden != "point":
        widen(start.below)  # where training was cut short before
    return Trained(model, float(model.bound(data.x, data.y)), None, tuple(histories))


def _phases(estimator: Any, total: int) -> list[int]:
    """How long beliefs about hidden values are points, and then Gaussians."""
    points = math.ceil(_POINTS * total)
    return [total] if estimator.hidden == "point" else [points, total - points]
