"""Which smoothness explains the rows best, where nobody gave a kernel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch

from stratagp.errors import NotPositiveDefiniteError, NumericalWarning
from stratagp.kernels import RBF, Kernel, Matern
from stratagp.models.fitted_process import ExactModel
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.search import Known, Search, climb_on
from stratagp.training.criterion import Criterion

SMOOTHNESS = (0.5, 1.5, 2.5)  # of the Matérn kernels that compete, beside the squared exponential
_FIRST = 2  # the place of the one that is tried first
_SEARCH, _JUDGE = 500, 1500  # rows that candidates are learnt from, and rows whose evidence tells which is best

Found = TypeVar("Found")


class Begun(NamedTuple):
    """A model with values from few rows, what is known of it, and how well it explains these rows."""

    model: ExactModel
    known: Known
    worth: float


def kernels_of_all(rows: Rows) -> list[Kernel]:
    """The kernels that compete, from rough to smooth, each with a lengthscale for each column."""
    return [rows.bind(None, kernel) for kernel in [*(Matern(nu=nu, ard=True) for nu in SMOOTHNESS), RBF(ard=True)]]


def best_of_walk(
    count: int, learn: Callable[[int, Found | None], Found], worth: Callable[[Found], float]
) -> list[Found]:
    """What is learnt at the third of ``count`` places, then at better neighbours, each from the best before: all of it.

    >>> best_of_walk(4, lambda place, before: place, lambda found: -abs(found - 1))
    [2, 3, 1, 0]
    """
    at = first = min(_FIRST, count - 1)
    best = learn(first, None)
    tried = [best]
    for step in (1, -1):
        while 0 <= at + step < count:
            found = learn(at + step, best)
            tried.append(found)
            if not worth(found) > worth(best):
                break
            best, at = found, at + step
        if at != first:
            break
    return tried


def smoothest(
    kernels: Sequence[Kernel], start: Callable[[Kernel], ExactModel], search: Search, context: FitContext
) -> Begun:
    """The model that explains more rows best, with values from few rows.

    ``start`` makes a model from a kernel. All starts are tried with one of the kernels; others begin where that ended.
    Where values are not to be learnt, it is that one.
    """
    if search.max_iterations == 0:
        return Begun(start(kernels[_FIRST]), Known(), 0.0)

    def learn(place: int, before: Begun | None) -> Begun:
        model, known = start(kernels[place]), Known()
        if before is not None:
            Criterion(search.criterion, model.module, model.score, known.centres)
            model.module.load_state_dict(before.model.module.state_dict())
            known.curvature, known.rows = before.known.curvature, before.known.rows

        def climbed() -> float:
            climb_on(min(_SEARCH, len(model.data)), model, search, context, known)
            return float(model.result.value)

        return Begun(model, known, climbed() if before is None else _without_jitter(climbed))

    def judged(begun: Begun) -> float:
        part = begun.model.on(begun.model.data.some(_JUDGE, context.seed))
        criterion = Criterion(search.criterion, begun.model.module, part.score, begun.known.centres)
        with torch.no_grad():
            value = _without_jitter(lambda: float(criterion.objective()))
        context.log(f"{begun.model.prior.kernel}: {value:.3f}")
        return value

    tried = best_of_walk(len(kernels), learn, lambda begun: begun.worth)
    return max((begun for begun in tried if begun.worth > -math.inf), key=judged)


def _without_jitter(worth: Callable[[], float]) -> float:
    """What something is worth, nothing where a covariance is singular: then a rougher kernel is the better choice."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        try:
            return worth()
        except (NumericalWarning, NotPositiveDefiniteError):
            return -math.inf
