"""Stochastic training: an objective of a batch of rows, climbed by Adam or RMSProp and natural gradients."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.posteriors import FullGaussian
from stratagp.training.batches import Batches
from stratagp.training.batches import rows as rows
from stratagp.training.optimisers import Mover, Rates, Snapshot, chosen, only
from stratagp.training.progress import Meter, log, meter
from stratagp.training.schedules import Schedule
from stratagp.training.schedules import cosine as cosine

_KEEP_EVERY = 50  # steps between two good states that are kept
_FALL = 10.0  # times its size (and a nat a row) that the objective may lose since the last good state
_HALVINGS = 10  # of the step, before a diverging training is given up
_FAULTS = (NotPositiveDefiniteError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


@dataclass
class History:
    """What happened in training.

    ``values`` has the mean objective of each epoch, ``scores`` the score after it and ``times`` the seconds from the
    start to its end. ``ending`` is "finished", "no more progress", "out of time", "diverged" or "interrupted".
    """

    values: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    halvings: int = 0
    ending: str = "finished"

    @property
    def cut_short(self) -> bool:
        """Whether training was interrupted, ran out of time or diverged: what was to come after it should not."""
        return self.ending in ("interrupted", "out of time", "diverged")


def train(
    objective: Callable[..., Tensor],
    module: nn.Module,
    data: Sequence[Any],
    *,
    batch_size: int = 1024,
    epochs: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    optimiser: str = "adam",
    rate: float = 0.01,
    rates: Rates = (),
    decays: Rates = (),
    parameters: Iterable[nn.Parameter] | None = None,
    clip: float | None = None,
    natural: Sequence[FullGaussian] = (),
    natural_rate: float = 0.1,
    schedule: Schedule = cosine,
    generator: torch.Generator | None = None,
    score: Callable[[], Any] | None = None,
    score_steps: int = 1,
    patience: int | None = None,
    progress: bool = False,
    dtype: torch.dtype = torch.float32,
) -> History:
    """Move the parameters of ``module`` up ``objective(*batch)``, an unbiased estimate of what shall be maximised.

    A non-finite objective or gradient, an objective that has fallen by ten times its size, or a covariance that cannot
    be factored restores the last good state, also that of the optimiser, and halves the step. Ctrl-C ends the training
    and keeps the module as it is, or in the state with the best score.

    Arguments:
        data: tensors, arrays or memory maps with as many rows; each batch is read by rows, in constant memory.
        batch_size: rows of a batch; rows left over at the end of an epoch wait for the next shuffle.
        epochs, steps: how long to train, in one of the two; 10 epochs where neither is given.
        seconds: a time limit; training stops at the first step beyond it and says so. The schedule goes by steps.
        optimiser: ``"adam"``, or ``"rmsprop"`` (decay 0.9; AutoGP takes it with a rate of 0.003).
        rate: the step of the optimiser, times ``schedule(progress)``.
        rates: pairs of parameters and a factor of ``rate`` for them, as in ``[(network.parameters(), 0.1)]``.
        decays: pairs of parameters and a decay: each step of Adam also takes ``step · decay`` times a value off it.
        parameters: what moves; all that requires gradients where it is left out. What is not among them stays as it is.
        clip: the largest norm, over all of them, of the gradients that the optimiser sees; longer ones are shortened.
        natural: Gaussian posteriors that move by natural gradients instead; the objective must then be the bound
            itself, not a multiple of it.
        natural_rate: their step at first; it falls with the schedule to ``batch_size / rows``, a memory of one epoch.
        schedule: a factor of the steps by progress in [0, 1], such as those of :mod:`stratagp.training.schedules`.
        generator: the source of the shuffles; a new one with seed 0 where it is left out.
        score: a measure of the module at the start and after each epoch, higher is better; the best state is kept.
        score_steps: steps from one score to the next, at least; after an epoch in between the score is as it was.
        patience: stop after that many epochs without a better score (or objective, without a score).
        progress: show a bar; where standard output is no terminal, a line every ten seconds.
        dtype: the precision of the batches.

    >>> weight = nn.Linear(1, 1, bias=False)
    >>> x = torch.linspace(-1, 1, 256)[:, None]
    >>> history = train(lambda x, y: -(weight(x) - y).square().mean(), weight, (x, 3 * x), rate=0.1, batch_size=8)
    >>> round(weight.weight.item(), 1), history.steps
    (3.0, 320)
    """
    batches = Batches(data, batch_size, generator or torch.Generator().manual_seed(0), dtype)
    total = batches.total(epochs, steps)
    _check_limits(seconds, patience)
    moving = chosen(module, parameters)
    last = min(natural_rate, batches.size / batches.rows)
    mover = Mover(moving, optimiser, rate, rates, decays, natural, (natural_rate, last), clip)
    run = _Run(objective, mover, Snapshot(moving, module, mover.optimiser), schedule, batches.rows)
    best = _Best(Snapshot(moving, module), score, score_steps, patience)
    start = time.perf_counter()
    with only(module, moving), meter(progress, total, batches.size, seconds) as show:
        try:
            best.start()
            _epochs(run, batches, total, best, show)
        except KeyboardInterrupt:
            run.history.ending = "interrupted"
            log.warning("training was interrupted after step %d of %d; the model is kept", show.steps, show.total)
            best.restore()
        finally:
            mover.clear()
    run.history.seconds = time.perf_counter() - start
    return run.history


class _Run:
    """One training: its steps, the last good state, and what to do when a step goes wrong."""

    def __init__(
        self, objective: Callable[..., Tensor], mover: Mover, good: Snapshot, schedule: Schedule, rows: int
    ) -> None:
        self.objective, self.mover, self.good, self.schedule, self.rows = objective, mover, good, schedule, rows
        self.factor, self.least, self.history = 1.0, -math.inf, History()

    def step(self, batch: Sequence[Tensor], done: float) -> float:
        """One step up the objective of a batch, when a share ``done`` of the training is over; its value before it.

        NaN where the state was bad and has been replaced by the last good one.
        """
        self.mover.clear()
        try:
            value = self.objective(*batch)
            if not value.requires_grad:
                raise InputError("objective does not depend on the parameters that move: check it, and parameters")
            (-value).backward()
        except _FAULTS as error:
            return self.turn_back(error)
        found, norm = self.mover.survey(value)
        if math.isnan(found) or found < self.least:
            return self.turn_back(None)
        if self.history.steps % _KEEP_EVERY == 0:
            self.good.take()
            self.least = found - _FALL * (abs(found) + self.rows)
        self.mover.step(self.schedule(done), self.factor, norm)
        self.history.steps += 1
        return found

    def turn_back(self, error: Exception | None) -> float:
        """The last good state again, with half the step; at the start there is none, and the fault is raised."""
        if self.history.steps == 0:
            raise error or InputError("the objective is not finite at the start: check the data and the initial values")
        self.good.restore()
        self.factor *= 0.5
        self.history.halvings += 1
        return math.nan


def _epochs(run: _Run, batches: Batches, total: int, best: _Best, show: Meter) -> None:
    history, taken = run.history, 0
    while taken < total and history.ending == "finished":
        values = []
        for batch in batches.epoch(total - taken):
            values.append(run.step(batch, taken / total))
            taken += 1
            show.step(values[-1])
            if _must_stop(run, show, taken < total):
                break
        known = [value for value in values if not math.isnan(value)]
        history.values.append(math.fsum(known) / len(known) if known else math.nan)
        if best.is_over(history) and history.ending == "finished" and taken < total:
            history.ending = "no more progress"
        history.times.append(time.perf_counter() - show.start)
        show.score = history.scores[-1] if history.scores else math.nan
    best.restore()


def _must_stop(run: _Run, show: Meter, more: bool) -> bool:
    """Whether training has diverged or has no time left, which is said aloud."""
    if run.history.halvings > _HALVINGS:
        run.history.ending = "diverged"
        warnings.warn(
            f"training diverged at every step down to {run.factor:.0e} of rate, and was stopped at a good state: "
            "scale the data, or start from other values",
            ConvergenceWarning,
            stacklevel=4,
        )
    elif more and show.elapsed >= show.limit:
        run.history.ending = "out of time"
        log.warning(
            "training stopped at its time limit of %g s, after step %d of %d", show.limit, show.steps, show.total
        )
    return run.history.ending != "finished"


class _Best:
    """The best state by score, and whether to wait for a better one."""

    def __init__(
        self, snapshot: Snapshot, score: Callable[[], Any] | None, score_steps: int, patience: int | None
    ) -> None:
        self.snapshot, self.score, self.score_steps, self.patience = snapshot, score, score_steps, patience
        self.value, self.waited = -math.inf, 0
        self.last, self.scored = math.nan, 0  # the last score, and the steps taken until then

    def start(self) -> None:
        """Score the state that training starts from, which may be the best."""
        if self.score is not None:
            self.last = float(self.score())
            self.value = -math.inf if math.isnan(self.last) else self.last
            self.snapshot.take()

    def is_over(self, history: History) -> bool:
        """Take note of an epoch; whether patience has run out."""
        if self.score is not None:
            if history.steps - self.scored >= self.score_steps:
                self.last, self.scored = float(self.score()), history.steps
            history.scores.append(self.last)
        value = history.values[-1] if self.score is None else history.scores[-1]
        self.waited = 0 if value > self.value else self.waited + 1
        if value > self.value:
            self.value = value
            if self.score is not None:
                self.snapshot.take()
        return self.patience is not None and self.waited >= self.patience

    def restore(self) -> None:
        """The state with the best score, where there was a score."""
        self.snapshot.restore()


def _check_limits(seconds: float | None, patience: int | None) -> None:
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, got {seconds}: leave it out for no limit")
    if patience is not None and patience < 1:
        raise InputError(f"patience must be at least 1 epoch, got {patience}: leave it out for no early stop")
