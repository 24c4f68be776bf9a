"""What an estimator is fitted on: rows in memory, or a source of more rows than fit there, of which it sees a sample.

Start values, scales of inputs and inducing points come from the sample; categories, classes, the scale of targets and
the number of rows from a pass over all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from stratagp.data import Rules, Source, Stream, TargetScale, open_source, survey
from stratagp.data.fingerprint import fingerprint
from stratagp.data.stream import Encode
from stratagp.data.survey import MOST_CATEGORIES, Survey
from stratagp.data.target_checks import Check
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import RowsLike
from stratagp.training.checkpoint import Checkpoint
from stratagp.training.progress import log
from stratagp.training.world import World, join

CheckpointLike: TypeAlias = str | os.PathLike[str] | Checkpoint | None


@dataclass(frozen=True)
class Intake:
    """What ``fit`` is given.

    Arguments:
        X, y: all rows, or a sample.
        seed: of all that is random in the fit, in all processes.
        checkpoint: where training leaves its state.
        source, rules, seen: where all rows are, which of them training sees, and what is known of them; None in memory.
    """

    X: RowsLike
    y: ArrayLike | None
    seed: int
    checkpoint: Checkpoint | None = None
    source: Source | None = None
    rules: Rules | None = None
    seen: Survey | None = None

    def stream(self, encode: Encode) -> Stream | None:
        """All rows, to be read in batches; None where they are in memory."""
        if self.source is None or self.rules is None or self.seen is None:
            return None
        return Stream(self.source, self.rules, self.seen, encode, self.source.memory)

    def fingerprint(self) -> str:
        """A fingerprint that differs between sets of data."""
        if self.source is None or self.seen is None:
            return fingerprint(self.X, self.y)
        parts = [(part.rows, self.seen.kept[i]) for i, part in enumerate(self.source.parts)]
        return fingerprint(parts, self.X, self.y)

    def target_scale(self, targets: np.ndarray, weights: np.ndarray | None = None) -> TargetScale:
        """Centre and spread of the targets, of all rows."""
        if self.seen is None or self.seen.moments is None:
            return TargetScale.of(targets, weights)
        return TargetScale.of_moments(self.seen.moments.mean, self.seen.moments.spread)


@dataclass(frozen=True)
class Reading:
    """How files are read for an estimator.

    Arguments:
        seed: of all that is random.
        fixed_seed: whether the user chose it; else a fit that goes on takes the seed of the fit before.
        settings: what must be the same for a fit to go on where another ended.
        say: called with one line for each thing that is done.
        of_classes: whether targets are classes.
        validation: the share of rows to hold out.
        check: refuses targets that cannot be.
        texts: columns that may be texts, as they have kernels of their own.
    """

    seed: int
    fixed_seed: bool
    settings: dict[str, str]
    say: Callable[[str], None]
    of_classes: bool
    validation: float
    check: Check | None
    texts: frozenset[str]


def taken_in(X: RowsLike, y: ArrayLike | None, checkpoint: CheckpointLike, reading: Reading) -> Intake:
    """What ``fit(X, y, checkpoint)`` is given.

    Arguments:
        X: rows; or a :class:`~stratagp.data.Source`, or a path that :func:`~stratagp.data.open_source` takes.
        y: targets; of files, the name of their column, or a list of names.
        checkpoint: a folder, or a :class:`~stratagp.training.checkpoint.Checkpoint`.
    """
    world, seed = join(), reading.seed
    kept = Checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint
    if kept is not None and not isinstance(kept, Checkpoint):
        raise InputError(f"checkpoint must be a folder, or a Checkpoint, got {checkpoint!r}")
    if kept is not None and not reading.fixed_seed:
        seed = kept.settings().get("seed", seed)
    seed = int(world.from_first(seed))
    found = _opened(X, y, world, seed, reading) if is_source(X) else Intake(X, y, seed)
    if kept is not None:
        own = {"version": version("stratagp"), "seed": seed, "data": found.fingerprint()}
        kept.begin({**own, **reading.settings})
    return replace(found, checkpoint=kept)


def is_source(X: RowsLike) -> TypeGuard[Source | str | os.PathLike[str]]:
    """Whether ``X`` says where rows are, instead of being them.

    >>> is_source("flights/*.parquet"), is_source([[1.0, 2.0]]), is_source(["ACGT", "AACC"])
    (True, False, False)
    """
    return isinstance(X, (Source, str, os.PathLike))


def _opened(
    X: Source | str | os.PathLike[str], y: ArrayLike | None, world: World, seed: int, reading: Reading
) -> Intake:
    if isinstance(X, Source) and y is not None:
        raise InputError(
            "y must be left out where X is a Source: name the targets when you open it, open_source(…, target=…)"
        )
    if not isinstance(X, Source) and not isinstance(y, (str, list, tuple)):
        raise InputError(
            "y must be the name of the column to predict, or a list of names, where X is the path of files, got "
            f"{type(y).__name__}; objects to learn from are a list: X=[text, …]"
        )
    source = X if isinstance(X, Source) else open_source(X, y)
    rules = Rules(float(reading.validation), source.missing, seed)
    seen = survey(source, rules, reading.of_classes, world, reading.check)
    _refuse_texts(seen, reading.texts)
    sample = seen.representative()
    if sample.y is None:
        raise InputError("X has no targets: name them when you open the source, open_source(…, target='price')")
    whole = seen.rows + seen.held_rows + seen.dropped
    if seen.dropped:
        log.warning("rows with missing values are left out: %d of %d", seen.dropped, whole)
    if rules.share and not seen.held.keys:
        raise InputError(
            f"validation={rules.share:g} holds out none of {whole:,} rows: give a larger share, or validation=0"
        )
    parts = len(source.parts)
    reading.say(f"{seen.rows:,} row{'s' * (seen.rows != 1)} to train on, in {parts:,} part{'s' * (parts != 1)}")
    return Intake(sample.X, sample.y, seed, None, source, rules, seen)


def _refuse_texts(seen: Survey, texts: frozenset[str]) -> None:
    """Columns with very many categories are texts, which need a kernel over objects."""
    for name, found in seen.categories.items():
        if found is None and name not in texts:
            raise InputError(
                f"X: column {name!r} has more than {MOST_CATEGORIES:,} categories: leave it out, with "
                "open_source(…, columns=[…]), or give it a kernel over texts in view_kernels of GPDRFRegressor or "
                "GPDRFClassifier"
            )
