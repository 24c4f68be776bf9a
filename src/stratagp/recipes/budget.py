"""What a fit may cost, and what can be learnt in so many seconds on this machine.

Short trials turn seconds into rows and epochs, which repeat to the last bit however fast the machine is. The cost of an
exact process grows at most with the cube of the ``n`` rows, that of a sparse one with ``n min(n, m)²`` for ``m``
inducing points, that of mini-batches with ``n``, and that of Vecchia's process with the rows whose conditionals it
learns from, of which it takes a few thousand at most. Where there are many rows and numbers to learn, it sees all rows,
and its values come from few of them if time is short.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from stratagp.recipes.choose import EXACT_ROWS, INDUCING, seconds_of
from stratagp.recipes.vecchia import CONDITIONALS

_LEAST, _TRIAL = 50, 500  # rows of the first trial: a quarter of all, between these
_DEARER = 10  # times as long as a trial of the exact process one of Vecchia's may take
_BATCH_TRIAL = 2000  # rows of trials by mini-batches
_SEARCHING = 0.4  # of the time, for values of few rows where predictions come from all
_SAFELY = 3.0  # times as long as expected a search of values may take
_A_THOUSAND = 0.04  # seconds in which Vecchia's process takes in so many rows, on the machine of `seconds_of`
_ROUNDING = 1e-6  # of rows


@dataclass(frozen=True)
class Budget:
    """What a fit may cost; None where there is no limit.

    Arguments:
        rows: to learn from.
        epochs: passes over the rows.
        seconds: for trials and training together.

    >>> Budget(rows=500, seconds=60)
    Budget(rows=500, epochs=None, seconds=60)
    """

    rows: int | None = None
    epochs: int | None = None
    seconds: float | None = None


class Plan(NamedTuple):
    """A way of inference with a budget of rows and epochs in place of seconds; why, where that is less than asked.

    ``search`` is how many rows values come from, where predictions come from more.

    >>> Plan("exact", Budget(rows=500)).way
    'exact'
    """

    way: str
    budget: Budget
    reason: str = ""
    search: int | None = None


Trial = Callable[[str, int, int | None], object]
"""``trial(way, rows, epochs)`` learns from so many rows; None stands for the usual number of epochs."""


def plan(way: str, n: int, budget: Budget, usual: int, trial: Trial, vecchia: bool, columns: int | None = None) -> Plan:
    """What to learn within a budget.

    Arguments:
        way: of inference, if there were no limit of seconds: "exact", "vecchia", "sparse", or another that learns by
            epochs.
        n: how many rows there are.
        usual: epochs without a limit.
        trial: learns from some rows, to be timed.
        vecchia: whether Vecchia's process may take the place of an exact one.
        columns: how many there are, where targets are numbers.

    >>> plan("exact", 1000, Budget(rows=500), 1, lambda way, rows, epochs: None, vecchia=True).budget.rows
    500
    """
    seconds, n = budget.seconds, min(n, budget.rows or n)
    if seconds is None:
        return Plan(way, budget)
    if way not in ("exact", "vecchia", "sparse"):
        found = _epochs(way, n, seconds, budget.epochs or usual, trial)
    elif vecchia and way == "exact" and n > EXACT_ROWS and columns is not None:
        found = _of_many(n, seconds, trial, columns)
    else:
        found = _rows(way, n, seconds, trial, vecchia)
    rows, epochs = found.budget.rows or budget.rows, found.budget.epochs or budget.epochs
    reason = found.reason and f"{found.reason} the time limit"
    return Plan(found.way, Budget(rows, epochs), reason, found.search)


def _of_many(n: int, seconds: float, trial: Trial, columns: int) -> Plan:
    """Vecchia's process of as many rows as it can take in; one trial tells how fast this machine is."""
    took = _timed(trial, "exact", _TRIAL, None)
    left, slow = max(seconds - took, 0.0), took / seconds_of("exact", _TRIAL, columns)
    if _SAFELY * slow * seconds_of("vecchia", n, columns) <= left:
        return Plan("vecchia", Budget())
    search = min(EXACT_ROWS, max(_TRIAL, _able(_TRIAL, _SEARCHING * left / took, "exact")))
    able = max(search, int(1000 * (1 - _SEARCHING) * left / (slow * _A_THOUSAND)))
    rows = None if able >= n else able
    of = f"all {n:,} rows" if rows is None else f"{rows:,} of {n:,} rows"
    return Plan("vecchia", Budget(rows), f"predictions from {of}, by values of {search:,} of them, fit into", search)


def _rows(way: str, n: int, seconds: float, trial: Trial, vecchia: bool) -> Plan:
    """Rows of a closed form, and which one it is."""
    rows, left = _grow(way, n, seconds, trial)
    if rows == n:
        return Plan(way, Budget())
    if vecchia and way == "exact" and left > _DEARER * (seconds - left):
        more, rest = _grow("vecchia", n, left, trial)
        if more > rows:
            used = Budget(None if more == n else more)
            return Plan("vecchia", used, f"Vecchia's process of {more:,} of {n:,} rows fits into")
        rows = max(_first(n), _able(rows, max(rest, 0.0) / left, "exact"))  # in the time that these trials leave
    return Plan(way, Budget(rows), f"{rows:,} of {n:,} rows fit into")


def _grow(way: str, n: int, seconds: float, trial: Trial) -> tuple[int, float]:
    """The most rows whose training fits into the time, by trials on more and more of them, and the time these leave."""
    left, rows = seconds, _first(n)
    while True:
        took = _timed(trial, way, rows, None)
        left -= took
        able = _able(rows, max(left, 0.0) / took, way)
        if able >= n or able < 4 * rows:  # another trial would take as long as the training itself
            return min(n, max(_first(n), able)), left
        rows *= 2


def _first(n: int) -> int:
    """The rows of the first trial; no limit makes the training smaller."""
    return min(n, max(_LEAST, min(n // 4, _TRIAL)))


def _able(rows: int, ratio: float, way: str, m: int = INDUCING) -> int:
    """How many rows take ``ratio`` times as long as ``rows`` do; a sparse process has at most ``m`` inducing points.

    >>> _able(1000, 8, "exact"), _able(1000, 8, "sparse"), _able(250, 8, "sparse"), _able(250, 8, "vecchia")
    (2000, 8000, 500, 2000)
    """
    if way == "exact":
        return int(rows * ratio ** (1 / 3) + _ROUNDING)
    if way == "vecchia":
        return int(rows * ratio + _ROUNDING) if rows * ratio < CONDITIONALS else sys.maxsize
    cost = ratio * rows * min(rows, m) ** 2
    return int((cost ** (1 / 3) if cost <= m**3 else cost / m**2) + _ROUNDING)


def _epochs(way: str, n: int, seconds: float, usual: int, trial: Trial) -> Plan:
    """Epochs of mini-batches, from two trials of which the longer one clearly takes longer."""
    rows = min(n, _BATCH_TRIAL)
    spent = longer = _timed(trial, way, rows, 1)
    short, epochs = longer, 1
    while longer < 1.5 * short and spent <= seconds / 4:
        short, epochs = longer, 4 * epochs
        longer = _timed(trial, way, rows, epochs)
        spent += longer
    an_epoch = longer if epochs == 1 else max(longer - short, 0.1 * longer) / (0.75 * epochs)
    left = seconds - spent - max(longer - epochs * an_epoch, 0.0)
    an_epoch *= n / rows
    able = int(left / an_epoch)
    if able >= usual:
        return Plan(way, Budget())
    if able >= 1:
        return Plan(way, Budget(epochs=able), f"{able} epochs fit into")
    some = max(min(n, _TRIAL), min(n, int(n * left / an_epoch)))
    return Plan(way, Budget(some, 1), f"one epoch of {some:,} of {n:,} rows fits into")


def _timed(trial: Trial, way: str, rows: int, epochs: int | None) -> float:
    start = time.perf_counter()
    trial(way, rows, epochs)
    return max(time.perf_counter() - start, 1e-9)
