"""What an estimator is fitted on: rows in memory, or a source of more rows than fit there, of which it sees a sample.

Start values, scales of inputs and inducing points come from the sample; categories, classes, the scale of targets and
the number of rows from a pass over all of them.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Integral
from typing import Any

import numpy as np

from stratagp.data import Rules, Source, Stream, TargetScale, open_source, survey
from stratagp.data.columns import categories_of
from stratagp.data.sampling import joined, row_hashes
from stratagp.data.source import Block
from stratagp.data.stream import Encode
from stratagp.data.survey import MOST_CATEGORIES, Survey
from stratagp.data.tables import Column, is_frame, pandas_like
from stratagp.errors import InputError
from stratagp.estimators.likelihood_checks import target_check
from stratagp.training.checkpoint import Checkpoint
from stratagp.training.progress import log
from stratagp.training.world import World, join


@dataclass
class Given:
    """Rows to fit on.

    Arguments:
        X, y: all of them, or a sample.
        source, rules, seen: where all are, which of them training sees, and what is known of them; None in memory.
        checkpoint: where training leaves its state.
        seed: of all that is random in the fit, in all processes.
    """

    X: Any
    y: Any
    source: Source | None = None
    rules: Rules | None = None
    seen: Survey | None = None
    checkpoint: Checkpoint | None = None
    seed: int = 0

    def stream(self, encode: Encode) -> Stream:
        """All rows, to be read in batches."""
        assert self.source is not None
        assert self.rules is not None
        assert self.seen is not None
        return Stream(self.source, self.rules, self.seen, encode, self.source.memory)

    @property
    def held(self) -> Block | None:
        """A sample of the rows that training does not see."""
        return None if self.seen is None else self.seen.held.settle()

    def target_scale(self, targets: np.ndarray) -> TargetScale:
        """Centre and spread of the targets, of all rows."""
        if self.seen is None or self.seen.moments is None:
            return TargetScale.of(targets)
        return TargetScale.of_moments(self.seen.moments.mean, self.seen.moments.spread)


@contextmanager
def given(estimator: Any, X: Any, y: Any, checkpoint: Any) -> Iterator[Given]:
    """What ``fit(X, y, checkpoint)`` is given, for as long as it lasts; ``_given`` of the estimator meanwhile.

    Arguments:
        X: rows; or a :class:`~stratagp.data.Source`, or a path that :func:`~stratagp.data.open_source` takes.
        y: targets; of files, the name of their column, or a list of names.
        checkpoint: a folder, or a :class:`~stratagp.training.checkpoint.Checkpoint`.
    """
    world = join()
    kept = Checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint
    if kept is not None and not isinstance(kept, Checkpoint):
        raise InputError(f"checkpoint must be a folder, or a Checkpoint, got {checkpoint!r}")
    seed = estimator._seed()
    if kept is not None and not isinstance(estimator.random_state, Integral):
        seed = kept.settings().get("seed", seed)  # of the fit that is to go on
    seed = int(world.from_first(seed))
    try:
        found = _opened(estimator, X, y, world, seed) if is_source(X) else Given(X, y, seed=seed)
        estimator._given, found.checkpoint = found, kept
        if kept is not None:
            kept.begin(_settings(estimator, found))
        yield found
    finally:
        estimator.__dict__.pop("_given", None)


def is_source(X: Any) -> bool:
    """Whether ``X`` says where rows are, instead of being them.

    >>> is_source("flights/*.parquet"), is_source([[1.0, 2.0]]), is_source(["ACGT", "AACC"])
    (True, False, False)
    """
    return isinstance(X, (Source, str, os.PathLike))


def _opened(estimator: Any, X: Any, y: Any, world: World, seed: int) -> Given:
    if isinstance(X, Source) and y is not None:
        raise InputError("y must be left out where X is a Source, which has its targets: open_source(…, target=…)")
    if not isinstance(X, Source) and not isinstance(y, (str, list, tuple)):
        raise InputError(
            "y must be the name of the column to predict, or a list of names, where X is the path of files, got "
            f"{type(y).__name__}; objects to learn from are a list: X=[text, …]"
        )
    source = X if isinstance(X, Source) else open_source(X, y)
    rules = Rules(float(estimator.validation), source.missing, seed)
    seen = survey(source, rules, estimator.of_classes, world, target_check(estimator))
    _refuse_texts(estimator, seen)
    sample = _sample(seen)
    if sample.y is None:
        raise InputError("X has no targets: give them to the source, as open_source(…, target='price')")
    whole = seen.rows + seen.held_rows + seen.dropped
    if seen.dropped:
        log.warning("rows with missing values are left out: %d of %d", seen.dropped, whole)
    if rules.share and not seen.held.keys:
        raise InputError(
            f"validation={rules.share:g} holds out none of {whole:,} rows: give a larger share, or validation=0"
        )
    parts = len(source.parts)
    estimator._say(f"{seen.rows:,} row{'s' * (seen.rows != 1)} to train on, in {parts:,} part{'s' * (parts != 1)}")
    return Given(sample.X, sample.y, source, rules, seen, seed=seed)


def _sample(seen: Survey) -> Block:
    """The sample, with a row of each class at least, and with all categories, also those that are not in it."""
    block = seen.sample.settle()
    assert block is not None
    if seen.classes:
        there = set(np.unique(np.asarray(block.y)).tolist())
        rare = [row for label, (_, row) in sorted(seen.classes.items()) if label not in there]
        block = joined([block, *rare]) if rare else block
    if not hasattr(block.X, "columns"):
        return block
    pandas = importlib.import_module("pandas")
    frame = block.X.copy()
    for name, found in seen.categories.items():
        if found is None:  # a column of objects
            continue
        known = categories_of(Column(repr(name), np.array([*found, None], dtype=object)[:-1]))
        frame[name] = pandas.Categorical(frame[name], categories=known)
    return Block(frame, block.y, block.where, block.first)


def _refuse_texts(estimator: Any, seen: Survey) -> None:
    """Columns with very many categories are texts, which need a kernel over objects."""
    own = getattr(estimator, "view_kernels", None)
    for name, found in seen.categories.items():
        if found is None and not (isinstance(own, Mapping) and name in own):
            raise InputError(
                f"X: column {name!r} has more than {MOST_CATEGORIES:,} categories: leave it out, with "
                "open_source(…, columns=[…]), or give it a kernel over texts in view_kernels of GPDRFRegressor or "
                "GPDRFClassifier"
            )


def _settings(estimator: Any, found: Given) -> dict[str, Any]:
    """What must be the same for a fit to go on where another ended."""
    given = estimator.get_params(deep=False).items()
    options = {name: repr(value) for name, value in given if name not in ("verbose", "random_state", "device")}
    kind = {"estimator": type(estimator).__name__, "version": version("stratagp"), "seed": found.seed}
    return {**kind, "data": _fingerprint(found), **options}


def _fingerprint(found: Given) -> str:
    """A number that other data would not have."""
    digest = hashlib.blake2b(digest_size=16)
    if found.source is not None and found.seen is not None:
        digest.update(repr([part.rows for part in found.source.parts]).encode())
        digest.update(repr([found.seen.kept[part] for part in range(len(found.source.parts))]).encode())
    _digest(digest, found.X)
    _digest(digest, found.y)
    return digest.hexdigest()


def _digest(digest: Any, values: Any) -> None:
    """Take in arrays, frames, texts and containers of these; of other objects only how many there are."""
    if isinstance(values, Mapping):
        values = list(values.items())
    if isinstance(values, (list, tuple)):
        digest.update(f"{len(values)} ".encode())
        for value in values:
            _digest(digest, value)
    elif is_frame(values) or hasattr(values, "dtype"):
        array = values if hasattr(values, "tobytes") else row_hashes(pandas_like(values)) if is_frame(values) else None
        array = np.asarray(values) if array is None else np.asarray(array)
        digest.update(array.tobytes() if array.dtype.kind != "O" else repr(array.ravel().tolist()).encode())
    elif isinstance(values, (str, bytes, int, float)):
        digest.update(repr(values).encode())
