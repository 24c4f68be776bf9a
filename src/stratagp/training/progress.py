"""Progress reports: a bar on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

log = logging.getLogger("stratagp")

_MEMORY = 0.98  # of the smoothed objective: about fifty steps
_BAR_SECONDS, _LINE_SECONDS = 0.2, 10.0  # between two reports


class Meter:
    """The state of training in numbers: smoothed objective, last score, rows per second, seconds left.

    Arguments:
        total: the number of steps to come.
        batch: rows per step.
        seconds: the time limit, if any.
        show: what to do with a report, ``show(steps, text)``; called at most every ``every`` seconds.

    >>> meter = Meter(total=100, batch=10, clock=iter([0.0, 2.0]).__next__)
    >>> meter.step(-3.0)
    >>> print(meter.text)
    objective -3 · 5 rows/s · 0:03:18 left
    """

    def __init__(
        self,
        total: int,
        batch: int,
        seconds: float | None = None,
        show: Callable[[int, str], None] = lambda steps, text: None,
        every: float = math.inf,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.total, self.batch, self.limit = total, batch, math.inf if seconds is None else seconds
        self.show, self.every, self.clock = show, every, clock
        self.steps = self.resumed = 0
        self.score = math.nan
        self._sum = self._weight = 0.0
        self.start = self.now = self._shown = clock()

    def step(self, value: float) -> None:
        """Record a step and the objective before it; NaN marks a failed step."""
        self.steps += 1
        if value == value:
            self._sum = _MEMORY * self._sum + (1 - _MEMORY) * value
            self._weight = _MEMORY * self._weight + 1 - _MEMORY
        self.now = self.clock()
        if self.now - self._shown >= self.every:
            self.report()

    def resume(self, steps: int, seconds: float) -> None:
        """Continue after ``steps`` steps and ``seconds`` seconds, and report that."""
        self.steps = self.resumed = steps
        self.start -= seconds
        self.report()

    def report(self) -> None:
        """Show the current state."""
        self._shown = self.now
        self.show(self.steps, self.text)

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the last step."""
        return self.now - self.start

    @property
    def objective(self) -> float:
        """``Σ ρ^(t−i) vᵢ / Σ ρ^(t−i)`` over the values of all steps, ρ = 0.98."""
        return self._sum / self._weight if self._weight else math.nan

    @property
    def rate(self) -> float:
        """Rows per second since the start."""
        return self.steps * self.batch / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def left(self) -> float:
        """Seconds to the last step at the current speed, or to the time limit."""
        by_steps = self.elapsed * (self.total - self.steps) / self.steps if self.steps else math.inf
        return max(0.0, min(by_steps, self.limit - self.elapsed))

    @property
    def text(self) -> str:
        """All of it in one line."""
        if self.steps and self.steps == self.resumed:
            return "restored from the checkpoint"
        score = "" if math.isnan(self.score) else f" · score {self.score:.6g}"
        left = "" if math.isinf(self.left) else f" · {timedelta(seconds=round(self.left))} left"
        objective = "" if math.isnan(self.objective) else f"objective {self.objective:.6g}{score} · "
        return f"{objective}{self.rate:,.0f} rows/s{left}"


@contextmanager
def meter(progress: bool, total: int, batch: int, seconds: float | None = None) -> Iterator[Meter]:
    """A meter that shows itself: as a bar if ``progress`` is set and standard output is a terminal.

    Otherwise a line every ten seconds and one at the end go to the ``stratagp`` logger, at INFO, and with ``progress``
    to standard output.

    >>> with meter(True, total=1, batch=8) as show:
    ...     show.step(-1.5)
    step 1 of 1 · objective -1.5 · ... rows/s · 0:00:00 left
    """
    if progress and sys.stdout.isatty():
        with _bar(total) as show:
            yield from _shown(Meter(total, batch, seconds, show, _BAR_SECONDS))
    else:
        yield from _shown(Meter(total, batch, seconds, _lines(progress, total), _LINE_SECONDS))


def _shown(own: Meter) -> Iterator[Meter]:
    try:
        yield own
    finally:
        if own.steps > own.resumed:
            own.report()


def _lines(printed: bool, total: int) -> Callable[[int, str], None]:
    def show(steps: int, text: str) -> None:
        line = f"step {steps} of {total} · {text}"
        log.info(line)
        if printed:
            print(line, flush=True)

    return show


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int, str], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")) as bar:
        task = bar.add_task("", total=total)
        yield lambda steps, text: bar.update(task, completed=steps, description=text)
