"""Stochastic training: an objective of a batch of rows, climbed by Adam and natural gradients."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError, StrataGPError
from stratagp.posteriors import FullGaussian
from stratagp.training.natural_gradient import natural_step

Schedule = Callable[[float], float]
_KEEP_EVERY = 50  # steps between two good states that are kept
_HALVINGS = 10  # of the step, before a diverging training is given up


@dataclass
class History:
    """What happened in training: the mean objective of each epoch, the scores, and how it ended."""

    values: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    halvings: int = 0
    ending: str = "finished"


def cosine(progress: float, last: float = 0.02) -> float:
    """A factor of the step that falls from 1 to ``last`` along half a cosine, as ``progress`` goes from 0 to 1.

    >>> cosine(0.0), round(cosine(0.5), 2), round(cosine(1.0), 2)
    (1.0, 0.51, 0.02)
    """
    return last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def train(
    objective: Callable[..., Tensor],
    module: nn.Module,
    data: Sequence[Any],
    *,
    batch_size: int = 1024,
    epochs: int | None = None,
    steps: int | None = None,
    rate: float = 0.01,
    natural: Sequence[FullGaussian] = (),
    natural_rate: float = 0.1,
    schedule: Schedule = cosine,
    generator: torch.Generator | None = None,
    score: Callable[[], float] | None = None,
    patience: int | None = None,
    progress: bool = False,
    dtype: torch.dtype = torch.float32,
) -> History:
    """Move the parameters of ``module`` up ``objective(*batch)``, an unbiased estimate of what shall be maximised.

    A non-finite objective, or a covariance that cannot be factored, restores the last good state and halves the step.
    Ctrl-C ends the training and keeps the module as it is.

    Arguments:
        data: tensors, arrays or memory maps with as many rows; each batch is read by rows, in constant memory.
        batch_size: rows of a batch; rows left over at the end of an epoch wait for the next shuffle.
        epochs, steps: how long to train, in one of the two; 10 epochs where neither is given.
        rate: the step of Adam, times ``schedule(progress)``.
        natural: Gaussian posteriors that move by natural gradients instead of Adam; the objective must then be the
            bound itself, not a multiple of it.
        natural_rate: their step at first; it falls with the schedule to ``batch_size / rows``, a memory of one epoch.
        generator: the source of the shuffles; a new one with seed 0 where it is left out.
        score: a measure of the module after each epoch, higher is better; the best state is kept at the end.
        patience: stop after that many epochs without a better score (or objective, without a score).
        progress: show a bar.
        dtype: the precision of the batches.

    >>> weight = nn.Linear(1, 1, bias=False)
    >>> x = torch.linspace(-1, 1, 256)[:, None]
    >>> history = train(lambda x, y: -(weight(x) - y).square().mean(), weight, (x, 3 * x), rate=0.1, batch_size=8)
    >>> round(weight.weight.item(), 1), history.steps
    (3.0, 320)
    """
    batches = _Batches(data, batch_size, generator or torch.Generator().manual_seed(0), dtype)
    last = min(natural_rate, batches.size / batches.rows)
    run = _Run(objective, module, natural, rate, (natural_rate, last), schedule)
    total = _total_steps(batches.per_epoch, epochs, steps)
    start = time.perf_counter()
    with _bar(progress, total) as show:
        try:
            _epochs(run, batches, total, _Best(module, score, patience), show)
        except KeyboardInterrupt:
            run.history.ending = "interrupted"
    run.history.seconds = time.perf_counter() - start
    return run.history


class _Run:
    """One training: the optimisers, the last good state, and what to do when a step goes wrong."""

    def __init__(
        self,
        objective: Callable[..., Tensor],
        module: nn.Module,
        natural: Sequence[FullGaussian],
        rate: float,
        natural_rates: tuple[float, float],
        schedule: Schedule,
    ) -> None:
        _check_rates(rate, natural_rates[0])
        self.objective, self.module, self.natural, self.schedule = objective, module, list(natural), schedule
        self.rate, self.natural_rates, self.factor = rate, natural_rates, 1.0
        self.history = History()
        own = {id(p) for posterior in self.natural for p in posterior.parameters()}
        self.free = [p for p in module.parameters() if p.requires_grad and id(p) not in own]
        self.moving = [p for p in module.parameters() if p.requires_grad]
        self.adam = torch.optim.Adam(self.free, rate) if self.free else None
        self.keep()

    def keep(self) -> None:
        """Remember this state as good."""
        self.good = copy.deepcopy(self.module.state_dict())

    def step(self, batch: Sequence[Tensor], done: float) -> float:
        """One step up the objective of a batch, when a share ``done`` of the training is over; its value before it.

        NaN where the state was bad and has been replaced by the last good one.
        """
        for parameter in self.moving:
            parameter.grad = None
        try:
            value = self.objective(*batch)
            (-value).backward()
        except NotPositiveDefiniteError as error:
            return self.turn_back(error)
        if not (value.isfinite() and all(p.grad is None or bool(p.grad.isfinite().all()) for p in self.moving)):
            return self.turn_back(None)
        if self.history.steps % _KEEP_EVERY == 0:
            self.keep()
        share, (first, last) = self.schedule(done), self.natural_rates
        if self.adam is not None:
            self.adam.param_groups[0]["lr"] = self.factor * self.rate * share
            self.adam.step()
        for posterior in self.natural:
            natural_step(posterior, self.factor * (last + (first - last) * share))
        self.history.steps += 1
        return float(value.detach())

    def turn_back(self, error: StrataGPError | None) -> float:
        """The last good state again, with half the step; at the start there is none, and the fault is raised."""
        if self.history.steps == 0:
            raise error or InputError("the objective is not finite at the start: check the data and the initial values")
        self.module.load_state_dict(self.good)
        self.factor *= 0.5
        self.history.halvings += 1
        if self.adam is not None:
            self.adam = torch.optim.Adam(self.free, self.rate)
        return math.nan


def _epochs(run: _Run, batches: _Batches, total: int, best: _Best, show: Callable[[int, float], None]) -> None:
    taken = 0
    while taken < total:
        values = []
        for batch in batches.epoch(total - taken):
            values.append(run.step(batch, taken / total))
            taken += 1
            show(taken, values[-1])
            if run.history.halvings > _HALVINGS:
                run.history.ending = "diverged"
                warnings.warn(
                    f"training diverged at every step down to {run.factor:.0e} of rate, and was stopped at the last "
                    "good state: scale the data, or start from other values",
                    ConvergenceWarning,
                    stacklevel=4,
                )
                return
        run.history.values.append(float(np.nanmean(values)) if np.isfinite(values).any() else math.nan)
        if best.is_over(run.history):
            run.history.ending = "no more progress"
            break
    best.restore()


class _Best:
    """The best state by score, and whether to wait for a better one."""

    def __init__(self, module: nn.Module, score: Callable[[], float] | None, patience: int | None) -> None:
        self.module, self.score, self.patience = module, score, patience
        self.value, self.waited = -math.inf, 0
        self.state: dict[str, Any] | None = None

    def is_over(self, history: History) -> bool:
        """Take note of an epoch; whether patience has run out."""
        if self.score is not None:
            history.scores.append(self.score())
        value = history.values[-1] if self.score is None else history.scores[-1]
        self.waited = 0 if value > self.value else self.waited + 1
        if value > self.value:
            self.value = value
            if self.score is not None:
                self.state = copy.deepcopy(self.module.state_dict())
        return self.patience is not None and self.waited >= self.patience

    def restore(self) -> None:
        """The state with the best score, where there was a score."""
        if self.state is not None:
            self.module.load_state_dict(self.state)


class _Batches:
    """Rows in shuffled batches; only the rows of one batch are ever read at once."""

    def __init__(self, data: Sequence[Any], batch_size: int, generator: torch.Generator, dtype: torch.dtype) -> None:
        sizes = {len(part) for part in data}
        if len(sizes) != 1 or not all(sizes):
            raise InputError(f"data must be arrays with as many rows, at least one, got {[len(p) for p in data]} rows")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        self.data, self.generator, self.dtype = data, generator, dtype
        self.rows = sizes.pop()
        self.size = min(batch_size, self.rows)
        self.per_epoch = self.rows // self.size

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        order = torch.randperm(self.rows, generator=self.generator)
        for batch in order[: self.size * min(self.per_epoch, at_most)].split(self.size):
            index = batch.sort().values  # the order of rows is the order on a disk
            yield [rows(part, index, self.dtype) for part in self.data]


def rows(data: Any, index: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Some rows of a tensor, an array or a memory map, in a precision.

    >>> rows(np.arange(6).reshape(3, 2), torch.tensor([2]), torch.float32)
    tensor([[4., 5.]])
    """
    if isinstance(data, Tensor):
        return data[index].to(dtype)
    chosen = np.asarray(data[index if isinstance(index, slice) else index.numpy()])
    return torch.from_numpy(np.ascontiguousarray(chosen) if chosen.flags.writeable else chosen.copy()).to(dtype)


@contextmanager
def _bar(progress: bool, total: int) -> Iterator[Callable[[int, float], None]]:
    """A function to call with the number of steps and the objective; it draws a bar where one is wanted."""
    if not progress:
        yield lambda step, value: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("", total=total)
        yield lambda step, value: bar.update(task, completed=step, description=f"objective {value:.6g}")


def _total_steps(per_epoch: int, epochs: int | None, steps: int | None) -> int:
    if epochs is not None and steps is not None:
        raise InputError(f"give epochs or steps, not both, got epochs={epochs} and steps={steps}")
    total = steps if steps is not None else per_epoch * (10 if epochs is None else epochs)
    if total < 0:
        raise InputError(f"epochs and steps must not be negative, got epochs={epochs} and steps={steps}")
    return total


def _check_rates(rate: float, natural_rate: float) -> None:
    if not rate > 0:
        raise InputError(f"rate must be positive, got {rate}")
    if not 0 < natural_rate <= 1:
        raise InputError(f"natural_rate must be above 0 and at most 1, got {natural_rate}")
