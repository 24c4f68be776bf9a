"""Which smoothness explains the rows best, where nobody gave a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from stratagp.kernels import RBF, Kernel, Matern
from stratagp.models.fitted_process import ExactModel
from stratagp.recipes.base import FitContext, Rows
from stratagp.recipes.search import Known, Search, climb_on
from stratagp.training.criterion import Criterion

SMOOTHNESS = (0.5, 1.5, 2.5)  # of the Matérn kernels that compete, beside the squared exponential
_FIRST = 2  # the place of the one that is tried first
_SEARCH, _JUDGE = 500, 1500  # rows that candidates are learnt from, and rows whose evidence tells which is best

Kind = TypeVar("Kind")
Candidate = TypeVar("Candidate")


def kernels_of_all(rows: Rows) -> list[Kernel]:
    """The kernels that compete, from rough to smooth, each with a lengthscale for each column."""
    return [rows.bind(None, kernel) for kernel in [*(Matern(nu=nu, ard=True) for nu in SMOOTHNESS), RBF(ard=True)]]


def tried_in_turn(
    kinds: Sequence[Kind],
    learn: Callable[[Kind, Candidate | None], Candidate],
    worth: Callable[[Candidate], float],
) -> list[Candidate]:
    """All that is tried of a row of kinds: the third, then better neighbours, each from where the best before it ended.

    >>> tried_in_turn([1, 2, 3, 4], lambda kind, before: kind, lambda found: -abs(found - 2))
    [3, 4, 2, 1]
    """
    first = at = min(_FIRST, len(kinds) - 1)
    best = learn(kinds[at], None)
    tried = [best]
    for step in (1, -1):
        while 0 <= at + step < len(kinds):
            found = learn(kinds[at + step], best)
            tried.append(found)
            if not worth(found) > worth(best):
                break
            best, at = found, at + step
        if at != first:
            break
    return tried


def smoothest(
    kernels: Sequence[Kernel], start: Callable[[Kernel], ExactModel], search: Search, context: FitContext
) -> tuple[ExactModel, Known]:
    """The model that explains more rows best, with values from few rows, and what is known of it.

    ``start`` makes a model from a kernel. All starts are tried with one of the kernels; others begin where that ended.
    Where values are not to be learnt, it is that one.
    """
    if search.max_iterations == 0:
        return start(kernels[_FIRST]), Known()

    def learn(kernel: Kernel, before: tuple[ExactModel, Known] | None) -> tuple[ExactModel, Known]:
        model, known = start(kernel), Known()
        if before is not None:
            Criterion(search.criterion, model.module, model.score, known.centres)
            model.module.load_state_dict(before[0].module.state_dict())
            known.curvature, known.rows = before[1].curvature, before[1].rows
        climb_on(min(_SEARCH, len(model.data)), model, search, context, known)
        return model, known

    def judged(found: tuple[ExactModel, Known]) -> float:
        model, known = found
        part = model.on(model.data.some(_JUDGE, context.seed))
        with torch.no_grad():
            value = float(Criterion(search.criterion, model.module, part.score, known.centres).objective())
        context.log(f"{model.prior.kernel}: {value:.3f}")
        return value

    return max(tried_in_turn(kernels, learn, lambda found: found[0].result.value), key=judged)
