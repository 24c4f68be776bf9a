"""One training run, step by step: its progress, the last good state, the best one, and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.training.optimisers import Mover, Snapshot
from stratagp.training.schedules import Schedule
from stratagp.training.world import World

OUT_OF_TIME, TERMINATED = 1, 1_000_000  # requests of a process; one TERMINATED outweighs all the others together

_STATE, _BEST_STATE = ("factor", "least", "taken", "sum", "count"), ("value", "waited", "last", "scored")
_KEEP_EVERY = 50  # steps between saved good states
_FALL = 10.0  # times its size (plus a nat per row) that the objective may lose since the last good state
_FAULTS = (NotPositiveDefiniteError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]


@dataclass
class History:
    """What happened in training.

    ``values`` has the mean objective of each epoch, ``scores`` the score after it and ``times`` the seconds from the
    start to its end. ``ending`` is "finished", "no more progress", "out of time", "diverged", "interrupted" or
    "terminated".

    >>> History(values=[-3.0, -1.0], ending="diverged").cut_short
    True
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
        """Whether training was interrupted, ran out of time or diverged: later phases should be skipped."""
        return self.ending in ("interrupted", "out of time", "diverged")


class Run:
    """One training run: its steps, the last good state, and recovery from failed steps.

    Arguments:
        objective: a function of a batch.
        mover: steps up its gradients.
        good: the last good state.
        schedule: a factor on the steps by progress.
        rows: the number of all data rows.
        world: the processes that step together.
    """

    def __init__(
        self,
        objective: Callable[..., Tensor],
        mover: Mover,
        good: Snapshot,
        schedule: Schedule,
        rows: int,
        world: World,
    ) -> None:
        self.objective, self.mover, self.good, self.schedule, self.rows = objective, mover, good, schedule, rows
        self.world, self.wish = world, 0
        self.factor, self.least, self.history = 1.0, -math.inf, History()
        self.taken, self.sum, self.count = 0, 0.0, 0  # batches so far; the sum and number of this epoch's objectives
        self.seen = 0  # rows of this process, in this epoch

    def step(self, batch: Sequence[Tensor], total: int) -> float:
        """One of ``total`` steps up the objective of a batch; returns its value before the step.

        Returns NaN if the state was bad and has been replaced by the last good one.
        """
        done = self.taken / total
        self.taken += 1
        value = self._step(batch, done)
        if not math.isnan(value):
            self.sum, self.count = self.sum + value, self.count + 1
        return value

    def _step(self, batch: Sequence[Tensor], done: float) -> float:
        self.mover.clear()
        self.seen += len(batch[0])
        own, error = self._climb(batch)
        shared = self.world.average(self.mover.moving, own, len(batch[0]), error is not None, self.wish)
        value, fault, self.wish = shared
        if fault or value is None:
            return self._turn_back(error)
        found, norm = self.mover.survey(value)
        if math.isnan(found) or found < self.least:
            return self._turn_back(None)
        if self.history.steps % _KEEP_EVERY == 0:
            self.good.take()
            self.least = found - _FALL * (abs(found) + self.rows)
        self.mover.step(self.schedule(done), self.factor, norm)
        self.history.steps += 1
        return found

    def _climb(self, batch: Sequence[Tensor]) -> tuple[Tensor | None, Exception | None]:
        """The objective of this process's rows, with gradients on the parameters; or the error."""
        if not len(batch[0]):
            return None, None
        device = self.mover.moving[0].device
        try:
            value = self.objective(*(part.to(device) for part in batch))
            if not value.requires_grad:
                raise InputError("objective does not depend on the trained parameters: check objective and parameters")
            (-value).backward()
        except _FAULTS as error:
            return None, error
        return value, None

    def _turn_back(self, error: Exception | None) -> float:
        """Return to the last good state with half the step; at the start there is none, and the error is raised."""
        if self.history.steps == 0:
            raise error or InputError("the objective is not finite at the start: check the data and the initial values")
        self.good.restore()
        self.factor *= 0.5
        self.history.halvings += 1
        return math.nan

    def end_epoch(self) -> None:
        """Record the mean objective of the epoch, and average the moments of all processes by rows."""
        norms = [part for part in self.good.module.modules() if isinstance(part, _BatchNorm)]
        self.world.mean([moments for norm in norms for moments in norm.buffers()], self.seen)
        self.history.values.append(self.sum / self.count if self.count else math.nan)
        self.sum, self.count, self.seen = 0.0, 0, 0

    def state(self) -> dict[str, Any]:
        """Everything that a later process needs to continue, except tensors."""
        return {**{name: getattr(self, name) for name in _STATE}, "history": asdict(self.history)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""
        for name in _STATE:
            setattr(self, name, state[name])
        self.history = History(**state["history"])
        if self.history.ending == "terminated":  # that is why it was saved; it continues from here
            self.history.ending = "finished"


class Best:
    """The best state by score, and whether to wait for a better one."""

    def __init__(
        self,
        snapshot: Snapshot,
        score: Callable[[], Any] | None,
        score_steps: int,
        patience: int | None,
        world: World,
    ) -> None:
        self.snapshot, self.score, self.score_steps, self.patience = snapshot, score, score_steps, patience
        self.world = world
        self.value, self.waited = -math.inf, 0
        self.last, self.scored = math.nan, 0  # the last score, and the steps before it

    def start(self) -> None:
        """Score the state that training starts from, which may be the best."""
        if self.score is not None:
            self.last = self._scored()
            self.value = -math.inf if math.isnan(self.last) else self.last
            self.snapshot.take()

    def is_over(self, history: History) -> bool:
        """Record an epoch; returns whether patience has run out."""
        if self.score is not None:
            if history.steps - self.scored >= self.score_steps:
                self.last, self.scored = self._scored(), history.steps
            history.scores.append(self.last)
        value = history.values[-1] if self.score is None else history.scores[-1]
        self.waited = 0 if value > self.value else self.waited + 1
        if value > self.value:
            self.value = value
            if self.score is not None:
                self.snapshot.take()
        return self.patience is not None and self.waited >= self.patience

    def finish(self) -> None:
        """Restore the state with the best score, if there was a score."""
        self.snapshot.restore()

    def _scored(self) -> float:
        assert self.score is not None
        return float(self.world.from_first(float(self.score())))

    def state(self) -> dict[str, Any]:
        """Everything that a later process needs to continue, except tensors."""
        return {name: getattr(self, name) for name in _BEST_STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""
        for name in _BEST_STATE:
            setattr(self, name, state[name])
