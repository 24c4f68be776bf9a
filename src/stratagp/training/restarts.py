"""L-BFGS from several starts, for scores with more than one maximum."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.training.free import Objective, gather, scatter
from stratagp.training.lbfgs import Curvature, Result, maximise


@dataclass(frozen=True)
class _Run:
    """One optimisation: the number of its start, how and where it ended, and its warnings."""

    number: int
    result: Result
    theta: np.ndarray
    warnings: list[warnings.WarningMessage]
    curvature: Curvature | None


def maximise_from_many(
    objective: Objective,
    parameters: Iterable[nn.Parameter],
    n_restarts: int,
    generator: torch.Generator | None = None,
    spread: float = 1.0,
    max_iterations: int = 200,
    promising: Sequence[np.ndarray] = (),
    tolerance: float = 0.0,
    patience: int = 10,
    curvature: Curvature | None = None,
) -> Result:
    """:func:`maximise` from the current values and ``n_restarts`` others; ``parameters`` end at the best maximum.

    The other starts are those of ``promising``, vectors of free coordinates, as far as they go, then ``raw + spread ·
    N(0, I)``: a factor of about ``e`` for positive numbers. A start that fails is skipped, unless all fail. Only
    warnings of the winner are shown. ``tolerance``, ``patience`` and ``curvature`` are those of
    :func:`maximise`; the curvature that the winner learnt is handed on.

    >>> x = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    >>> def hills():  # the higher one is at −1
    ...     return (2 * torch.exp(-((x + 1) ** 2)) + torch.exp(-((x - 2) ** 2))).sum()
    >>> maximise_from_many(hills, [x], 5, torch.Generator().manual_seed(0), spread=3.0).message
    'start ... of 6 won: ...'
    >>> round(x.item(), 2)
    -1.0
    """
    if n_restarts < 0:
        raise InputError(f"n_restarts must be at least 0, got {n_restarts}")
    if not spread > 0:
        raise InputError(f"spread must be positive, got {spread}")
    free = [p for p in parameters if p.requires_grad]
    if not free:
        return maximise(objective, free)
    chosen = list(promising)[:n_restarts]
    starts = [gather(free), *chosen, *_random_starts(free, n_restarts - len(chosen), generator, spread)]
    climb = partial(maximise, objective, free, max_iterations=max_iterations, tolerance=tolerance, patience=patience)
    runs, failures = _run_all(climb, free, starts, curvature)
    if not runs:
        raise failures[0]
    best = max(runs, key=lambda run: run.result.value)
    scatter(free, best.theta)
    if curvature is not None and best.curvature is not None:
        curvature.inverse = best.curvature.inverse
    for warning in best.warnings:
        warnings.warn(warning.message, stacklevel=2)
    return _result(best, runs, failures)


def _random_starts(
    free: list[nn.Parameter], n: int, generator: torch.Generator | None, spread: float
) -> list[np.ndarray]:
    given = gather(free)
    return list(given + spread * torch.randn(n, len(given), generator=generator, dtype=torch.float64).numpy())


def _run_all(
    climb: Callable[..., Result], free: list[nn.Parameter], starts: list[np.ndarray], known: Curvature | None
) -> tuple[list[_Run], list[Exception]]:
    runs: list[_Run] = []
    failures: list[Exception] = []
    try:
        for number, start in enumerate(starts, 1):
            scatter(free, start)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    own = None if known is None else Curvature(known.inverse)
                    result = climb(curvature=own)
                except (NotPositiveDefiniteError, InputError) as failure:
                    failures.append(failure)
                else:
                    runs.append(_Run(number, result, gather(free), list(caught), own))
    finally:
        scatter(free, starts[0])
    return runs, failures


def _result(best: _Run, runs: list[_Run], failures: list[Exception]) -> Result:
    evaluations = sum(run.result.evaluations for run in runs) + len(failures)  # a start fails at its first evaluation
    failed = f" ({len(failures)} failed)" if failures else ""
    message = f"start {best.number} of {len(runs) + len(failures)} won{failed}: {best.result.message}"
    return Result(best.result.value, evaluations, best.result.converged, message)
