"""How hyperparameters are learnt: by evidence, with weak priors, by leave-one-out, or by averaging over them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.models.fitted_classes import ClassModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter
from stratagp.recipes.base import FitContext
from stratagp.training import Result, maximise_from_many, nuts
from stratagp.training.criterion import Centres, Criterion, gets_weak_prior
from stratagp.training.free import gather, learnt, scatter
from stratagp.training.lbfgs import Curvature

WARM_UP = 150  # steps of the sampler before the first draw
QUIET = 1e-3  # the noise of a second start, of standardised targets: from 0.1 columns with small effects can get lost
SPREAD = 1.5  # of restarts, in logs: a factor of 4.5 either way
THIN = 3  # steps from one draw to the next: neighbours say the same
_FEW = (500, 1500)  # rows of the climbs before that on all rows
_LARGE_PART = 0.7  # of all rows: a climb on more of them is that on all
_GAIN, _GAIN_A_ROW, _PATIENCE = 0.05, 1e-4, 4  # nats that so many iterations must gain together for a climb to go on
ROUGH = 0.3  # the same of climbs on few rows, which the next one goes on from
_SECONDS_BETWEEN_REPORTS = 2.0


@dataclass(frozen=True)
class Search:
    """How hyperparameters are learnt.

    Arguments:
        criterion: "map" (evidence with weak priors), "ml" (evidence alone), "loo" (leave-one-out density) or "bayes"
            (averaged over draws from their posterior).
        n_restarts: how many more starts to try.
        max_iterations: of L-BFGS; 0 keeps the values as they are.
        n_draws: for "bayes".
    """

    criterion: str = "map"
    n_restarts: int = 1
    max_iterations: int = 200
    n_draws: int = 50


@dataclass
class Known:
    """What climbs have learnt so far: the middles of default priors, a curvature, and how many rows they saw last."""

    centres: Centres = field(default_factory=Centres)
    curvature: Curvature = field(default_factory=Curvature)
    rows: int = 0


def climb(
    model: ProcessModel | ClassModel, search: Search, context: FitContext, known: Known, most: int | None = None
) -> Criterion:
    """Move the values of a model to where they explain its rows best; all starts are tried on few of the rows.

    A climb on more rows begins where the last one ended, with the curvature that it learnt, so that all rows are seen a
    few times only. "All" are at most ``most``.
    """
    n = min(len(model.data), most or len(model.data))
    for few in (few for few in _FEW if known.rows < few <= _LARGE_PART * n and search.max_iterations):
        climb_on(few, model, search, context, known)
    return climb_on(n, model, search, context, known, max(_GAIN, _GAIN_A_ROW * n))


def climb_on(
    few: int,
    model: ProcessModel | ClassModel,
    search: Search,
    context: FitContext,
    known: Known,
    enough: float = ROUGH,
) -> Criterion:
    """One climb on ``few`` of the rows until it gains less than ``enough`` nats; the first tries all starts."""
    part = model if few == len(model.data) else model.on(model.data.some(few, context.seed))
    criterion = Criterion(search.criterion, model.module, part.score, known.centres)
    if known.rows:
        criterion.recall()
        search = replace(search, n_restarts=0)
    known.curvature, known.rows = known.curvature.times(known.rows / few), few
    with warnings.catch_warnings():
        if enough == ROUGH:
            warnings.simplefilter("ignore", ConvergenceWarning)  # the next climb goes on from there
        model.result = train(criterion, search, context, enough, _PATIENCE, known.curvature)
    return criterion


def train(
    criterion: Criterion,
    search: Search,
    context: FitContext,
    tolerance: float = 0.0,
    patience: int = 10,
    curvature: Curvature | None = None,
) -> Result:
    """Move the parameters to the best of ``1 + n_restarts`` optima.

    Where noise is learnt, the first restart has little of it: a start with much can end in a maximum where columns with
    small effects are noise. It is left out where the noise has been learnt from a part of the rows already.
    """
    if search.max_iterations == 0:
        with torch.no_grad():
            return Result(float(criterion.objective()), 1, True, "the values are as they were given")
    noise = open_noise(criterion.module)
    fresh = noise is None or torch.equal(noise.raw, criterion.centres[noise.raw])
    result = maximise_from_many(
        _Report(criterion.objective, context.log, (1 + search.n_restarts) * search.max_iterations),
        criterion.module.parameters(),
        search.n_restarts if fresh else max(0, search.n_restarts - 1),
        context.generator(),
        SPREAD,
        max_iterations=search.max_iterations,
        promising=[_quiet_start(criterion.module, noise)] if noise is not None and fresh else [],
        tolerance=tolerance,
        patience=patience,
        curvature=curvature,
    )
    context.log(f"{criterion.name}: {result.value:.3f} after {result.evaluations} evaluations; {result.message}")
    return result


def open_noise(module: Parameterised) -> Parameter | None:
    """The noise, where it is learnt and nobody chose its start."""
    noise = module.noise_parameter
    return noise if noise is not None and noise.unset and gets_weak_prior(noise) else None


def _quiet_start(module: Parameterised, noise: Parameter) -> np.ndarray:
    """The present free coordinates, with little noise."""
    free = learnt(module)
    present = gather(free)
    lower(noise)
    quiet = gather(free)
    scatter(free, present)
    return quiet


def lower(noise: Parameter) -> None:
    """Let the noise start with little; it is still nobody's choice."""
    noise.assign(QUIET)
    noise.unset = True


def draw(criterion: Criterion, n_draws: int, context: FitContext) -> Iterator[None]:
    """Set the parameters to one draw from their posterior after another; afterwards they are as before."""
    density = _Report(criterion.log_density, context.log)
    chain = nuts.sample(density, learnt(criterion.module), n_draws * THIN, WARM_UP, context.generator())
    context.log(f"NUTS: {chain.evaluations} evaluations, {chain.divergences} divergences")
    for i in range(THIN - 1, len(chain), THIN):
        with chain.at(i):
            yield


class _Report:
    """An objective that tells every few seconds how far it has come, of so many evaluations at most where it knows."""

    def __init__(self, objective: Callable[[], Tensor], say: Callable[[str], None], most: int | None = None) -> None:
        self.objective, self.say, self.most = objective, say, most
        self.calls, self.start = 0, time.monotonic()
        self.last = self.start

    def __call__(self) -> Tensor:
        value = self.objective()
        self.calls += 1
        if time.monotonic() - self.last > _SECONDS_BETWEEN_REPORTS:
            self.last = time.monotonic()
            left = max(0, (self.most or 0) - self.calls) * (self.last - self.start) / self.calls
            most = "" if self.most is None else f" of at most {self.most}, {left:.0f} s left at most"
            self.say(f"evaluation {self.calls}{most}: score {float(value.detach()):.3f}")
        return value
