"""Stochastic training: an objective of a batch of rows, climbed by Adam or RMSProp and natural gradients."""

from __future__ import annotations

import math
import signal
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.posteriors import FullGaussian
from stratagp.training.batches import Batches, BatchStream, Streamed, total_steps
from stratagp.training.batches import rows as rows
from stratagp.training.checkpoint import EXIT_CODE, Checkpoint, Stage, all_tensors, generators, termination
from stratagp.training.optimisers import Mover, Rates, Snapshot, chosen, only
from stratagp.training.progress import Meter, log, meter
from stratagp.training.run import OUT_OF_TIME, TERMINATED, Best, Run
from stratagp.training.run import History as History
from stratagp.training.schedules import Schedule
from stratagp.training.schedules import cosine as cosine
from stratagp.training.world import World

_HALVINGS = 10  # of the step before diverging training is abandoned


def train(
    objective: Callable[..., Tensor],
    module: nn.Module,
    data: Sequence[Any] | Streamed,
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
    checkpoint: Checkpoint | None = None,
) -> History:
    """Move the parameters of ``module`` up ``objective(*batch)``, an unbiased estimate of what to maximise.

    A non-finite objective or gradient, an objective that has fallen by ten times its size, or a covariance that cannot
    be factored restores the last good state, including the optimiser's, and halves the step. Ctrl-C ends training and
    keeps the module as it is, or in the state with the best score; with a checkpoint it also saves the state.

    Processes started by ``torchrun`` that have joined (:mod:`stratagp.training.world`) share the rows of each batch
    and make the same steps; the first of them shows progress and writes.

    Arguments:
        data: tensors, arrays or memory maps with equally many rows, the same in all processes; each batch is read by
            rows, in constant memory. Or data that form their own batches, such as :class:`stratagp.data.Stream`.
        batch_size: rows of a batch; rows left over at the end of an epoch wait for the next shuffle.
        epochs, steps: how long to train; give one of the two, or neither for 10 epochs.
        seconds: a time limit; training stops at the first step beyond it and logs that. The schedule goes by steps.
        optimiser: ``"adam"``, or ``"rmsprop"`` (decay 0.9; AutoGP uses it with a rate of 0.003).
        rate: the step of the optimiser, multiplied by ``schedule(progress)``.
        rates: pairs of parameters and their factor on ``rate``, as in ``[(network.parameters(), 0.1)]``.
        decays: pairs of parameters and a decay: each step of Adam also subtracts ``step · decay`` times the value.
        parameters: what to train; by default everything that requires gradients. Anything else stays as it is.
        clip: the largest norm, over all of them, of the gradients that the optimiser sees; longer ones are shortened.
        natural: Gaussian posteriors that move by natural gradients instead; the objective must then be the bound
            itself, not a multiple of it.
        natural_rate: their first step; it falls with the schedule to ``batch_size / rows``, a memory of one epoch.
        schedule: a factor on the steps by progress in [0, 1], such as those of :mod:`stratagp.training.schedules`.
        generator: the source of the shuffles; by default a new one with seed 0.
        score: a measure of the module at the start and after each epoch, higher is better; the best state is kept.
        score_steps: the least number of steps between scores; epochs in between repeat the last score.
        patience: stop after that many epochs without a better score (or objective, without a score).
        progress: show a bar, or a line every ten seconds if standard output is not a terminal.
        dtype: the precision of the batches.
        checkpoint: where to save the state now and then. The same call continues from there; SIGTERM saves and ends the
            process.

    >>> weight = nn.Linear(1, 1, bias=False)
    >>> x = torch.linspace(-1, 1, 256)[:, None]
    >>> history = train(lambda x, y: -(weight(x) - y).square().mean(), weight, (x, 3 * x), rate=0.1, batch_size=8)
    >>> round(weight.weight.item(), 1), history.steps
    (3.0, 320)
    """
    _check_limits(seconds, patience)
    world, generator = World(), generator or torch.Generator().manual_seed(0)
    if isinstance(data, Streamed):
        batches: BatchStream = data.batches(batch_size, generator, dtype, world)
    else:
        batches = Batches(data, batch_size, generator, dtype, world)
    total = total_steps(batches, epochs, steps)
    moving = chosen(module, parameters)
    last = min(natural_rate, batches.size / batches.rows)
    mover = Mover(moving, optimiser, rate, rates, decays, natural, (natural_rate, last), clip)
    run = Run(objective, mover, Snapshot(moving, module, mover.optimiser), schedule, batches.rows, world)
    best = Best(Snapshot(moving, module), score, score_steps, patience, world)
    world.copy_first(all_tensors(module))
    stage = None if checkpoint is None else checkpoint.stage(module, run, best, batches, total)
    with ExitStack() as open_:
        open_.enter_context(only(module, moving))
        show = open_.enter_context(meter(progress and world.is_first, total, batches.size, seconds))
        asked = open_.enter_context(termination(stage is not None))
        if stage is not None and stage.restore(show):
            return run.history
        _part_ways(world, module)
        try:
            if not run.taken:
                best.start()
            _epochs(run, batches, total, best, show, stage, asked)
        except KeyboardInterrupt:
            run.history.ending = "interrupted"
            kept = "the model is kept" if stage is None else f"the model is kept, and its state is in {stage.path}"
            log.warning("training interrupted after step %d of %d; %s", show.steps, show.total, kept)
            best.finish()
        finally:
            mover.clear()
        run.history.seconds = show.clock() - show.start
        if stage is not None and run.history.ending != "interrupted":
            stage.save(show, over=True)
            if signal.SIGINT in asked:  # during the last step
                raise KeyboardInterrupt
            if asked:
                raise SystemExit(EXIT_CODE)
    return run.history


def _epochs(
    run: Run, batches: BatchStream, total: int, best: Best, show: Meter, stage: Stage | None, asked: list[int]
) -> None:
    history = run.history
    while run.taken < total and history.ending == "finished":
        for batch in batches.epoch(total - run.taken):
            show.step(run.step(batch, total))
            if _must_stop(run, show, run.taken < total, bool(asked)):
                break
            if stage is not None and run.taken < total:  # after the last step, the epoch has to end first
                stage.maybe_save(show)
        if history.ending == "terminated" and stage is not None:
            history.ending = "finished"  # as it will be once training continues from the saved state
            stage.save(show)
            if signal.SIGINT in asked:
                raise KeyboardInterrupt
            if run.world.is_first:
                log.warning("training was asked to end; its state after step %d is in %s", run.taken, stage.path)
            raise SystemExit(EXIT_CODE)
        run.end_epoch()
        if best.is_over(history) and history.ending == "finished" and run.taken < total:
            history.ending = "no more progress"
        history.times.append(show.clock() - show.start)
        show.score = history.scores[-1] if history.scores else math.nan
    best.finish()


def _must_stop(run: Run, show: Meter, more: bool, asked: bool) -> bool:
    """Whether training has diverged, has no time left or was asked to end; logs which.

    With several processes, their requests travel with the next step, so that all end after the same one.
    """
    own = TERMINATED if asked else OUT_OF_TIME if show.elapsed >= show.limit else 0
    wish, run.wish = (own if run.world.size == 1 else run.wish), own
    if run.history.halvings > _HALVINGS:
        run.history.ending = "diverged"
        warnings.warn(
            f"training diverged at every step size down to {run.factor:.0e} of rate and stopped at a good state: "
            "scale the data or start from other values",
            ConvergenceWarning,
            stacklevel=4,
        )
    elif more and wish >= TERMINATED:
        run.history.ending = "terminated"
    elif more and wish:
        run.history.ending = "out of time"
        log.warning("training reached its time limit of %g s after step %d of %d", show.limit, show.steps, show.total)
    return run.history.ending != "finished"


def _part_ways(world: World, module: nn.Module) -> None:
    """Give processes with the same values their own random numbers from here on."""
    for generator in (*generators(module), torch.default_generator) if world.rank else ():
        seed = int(torch.randint(2**62, (), generator=generator))
        generator.manual_seed(seed + world.rank)


def _check_limits(seconds: float | None, patience: int | None) -> None:
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, got {seconds}: omit it for no limit")
    if patience is not None and patience < 1:
        raise InputError(f"patience must be at least 1 epoch, got {patience}: omit it to train to the end")
