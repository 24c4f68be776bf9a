"""One pass over all rows: the kinds of the columns, their categories, moments of targets, classes, a sample.

The sample is the ``k`` rows with the smallest hash of their position, so it is the same however processes, whose
surveys are merged, divide the parts.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt64

from stratagp.data.columns import categories_of
from stratagp.data.rules import Rules
from stratagp.data.sampling import Moments, Sample, joined, mixed
from stratagp.data.schema import kind_of
from stratagp.data.source import Block, Source
from stratagp.data.tables import Column, is_pandas, read_table
from stratagp.data.target_checks import Check, as_numbers, is_number, refuse_targets
from stratagp.errors import InputError, RowError
from stratagp.training.world import World

SAMPLE_ROWS, HELD_ROWS = 20_000, 10_000
MOST_CATEGORIES = 10_000  # in one column
_CLASSES = 10_000


class Beside(Enum):
    """Things that have a kind as columns do, under a name that no column can have."""

    TARGET = "the target"


@dataclass
class Survey:
    """What is known about all rows of a source.

    Arguments:
        kept: the number of rows of each part that training sees.
        dropped: the number of rows left out because a value is missing.
        held_rows: the number of rows held out for validation.
        kinds: the kind of each column of a frame ("number", "category", "date" or "duration") and where it was first
            seen; for targets that are classes, "number", "text" or "truth value".
        categories: those of each categorical column; None for one with more than 10,000, such as free text.
        moments: of numeric targets.
        classes: distinct targets of a classifier, with the key and the row of one example of each.
        sample: of the rows that training sees.
        held: a sample of the held-out rows.
    """

    kept: dict[int, int] = field(default_factory=dict)
    dropped: int = 0
    held_rows: int = 0
    kinds: dict[Any, tuple[str, str]] = field(default_factory=dict)
    categories: dict[Any, set[Any] | None] = field(default_factory=dict)
    moments: Moments | None = None
    classes: dict[Any, tuple[int, Block]] = field(default_factory=dict)
    sample: Sample = field(default_factory=lambda: Sample(SAMPLE_ROWS))
    held: Sample = field(default_factory=lambda: Sample(HELD_ROWS))

    @property
    def rows(self) -> int:
        """Rows that training sees."""
        return sum(self.kept.values())

    def merge(self, other: Survey) -> Survey:
        """Merge what another process has seen in other parts."""
        self.kept |= other.kept
        self.dropped += other.dropped
        self.held_rows += other.held_rows
        for name, (kind, where) in other.kinds.items():
            self._note_kind(name, kind, where)
        for name, found in other.categories.items():
            self._note_categories(name, found)
        if other.moments is not None:
            self.moments = other.moments if self.moments is None else self.moments.merged(other.moments)
        for label, (key, row) in other.classes.items():
            self._note_class(label, key, row, 0)
        self.sample.merge(other.sample)
        self.held.merge(other.held)
        return self

    def note(
        self, block: Block, keys: UInt64[np.ndarray, " n"], held: Bool[np.ndarray, " n"], of_classes: bool
    ) -> None:
        """Record complete rows, some of which are held out."""
        if is_pandas(block.X):
            for name in block.X.columns:
                self._note_column(name, block.X[name], block)
        if of_classes:
            self._note_labels(block)
            for label, row in zip(*np.unique(np.asarray(block.y), return_index=True), strict=True):
                self._note_class(label, int(keys[row]), block, int(row))
        elif block.y is not None:
            own = Moments.of(as_numbers(block.y)[~held]) if not held.all() else None
            if own is not None:
                self.moments = own if self.moments is None else self.moments.merged(own)
        self.sample.add(keys, block, ~held)
        self.held.add(keys, block, held)

    def representative(self) -> Block:
        """The sample, with a row of each class at least, and with all categories, also those that are not in it."""
        block = self.sample.settle()
        assert block is not None
        if self.classes:
            there = set(np.unique(np.asarray(block.y)).tolist())
            rare = [row for label, (_, row) in sorted(self.classes.items()) if label not in there]
            block = joined([block, *rare]) if rare else block
        if not is_pandas(block.X):
            return block
        pandas = importlib.import_module("pandas")
        frame = block.X.copy()
        for name, found in self.categories.items():
            if found is None:  # a column of objects
                continue
            known = categories_of(Column(repr(name), np.array([*found, None], dtype=object)[:-1]))
            frame[name] = pandas.Categorical(frame[name], categories=known)
        return Block(frame, block.y, block.where, block.first)

    def _note_column(self, name: Any, series: Any, block: Block) -> None:
        simple = getattr(series.dtype, "kind", "O") in "iufMm" and not hasattr(series.dtype, "categories")
        values = series.iloc[:1] if simple else series.drop_duplicates()
        column = read_table(values.to_frame()).columns[0]
        kind = kind_of(column, auto=True)
        agrees = self.kinds.get(name, (kind, ""))[0] == kind
        self._note_kind(name, kind, block.where, None if agrees else _first_word(series, block))
        if kind == "category":
            self._note_categories(name, set(categories_of(column)))

    def _note_labels(self, block: Block) -> None:
        """Record the kind of the classes, which can be sorted only if all have one kind."""
        labels = np.asarray(block.y).ravel()
        for kind, label in {_kind_of_label(label): label for label in set(labels.tolist())}.items():
            place = int((labels == label).argmax()) * len(block) // labels.size
            self._note_kind(Beside.TARGET, kind, block.where, (label, block.row(place)))

    def _note_kind(self, name: Any, kind: str, where: str, example: tuple[Any, int] | None = None) -> None:
        """Record the kind of a column; if it differs from before, the error shows an ``example`` and its row."""
        known, first = self.kinds.setdefault(name, (kind, where))
        if known != kind:
            what = name.value if isinstance(name, Beside) else f"column {name!r}"
            word = next((f" ({value!r})" for value in self.categories.get(name) or () if _is_word(value)), "")
            found = f"{where}: {what} holds values of kind {kind!r}"
            other = f", but of kind {known!r} in {first}{word}: give all files the same types"
            if example is None:
                raise InputError(found + other)
            raise RowError(f"{found} ({example[0]!r} in row ", example[1], f"){other}")

    def _note_categories(self, name: Any, found: set[Any] | None) -> None:
        known = self.categories.get(name, set())
        both = None if known is None or found is None else known | found
        self.categories[name] = both if both is None or len(both) <= MOST_CATEGORIES else None

    def _note_class(self, label: Any, key: int, block: Block, row: int) -> None:
        if label not in self.classes or key < self.classes[label][0]:
            self.classes[label] = key, block.take(np.array([row]))
        if len(self.classes) > _CLASSES:
            raise InputError(f"y has more than {_CLASSES:,} classes: use a regressor for numbers")


def survey(
    source: Source, rules: Rules, of_classes: bool, world: World | None = None, check: Check | None = None
) -> Survey:
    """Read all rows once; each process reads its share of the parts.

    Arguments:
        check: raises an :class:`~stratagp.errors.InputError` if targets are unusable.

    >>> from stratagp.data.source import Arrays
    >>> found = survey(Arrays(np.arange(10.0)[:, None], np.arange(10.0)), Rules(), of_classes=False)
    >>> found.rows, found.moments.mean, len(found.sample.settle())
    (10, array([4.5]), 10)
    """
    world = world or World()
    most = _most_rows(source)
    found, error = _empty(most), None
    try:
        for part in range(world.rank, len(source.parts), world.size):
            _note_part(found, source, part, rules, of_classes, check)
    except InputError as own:
        error = own
    for other in world.all_have(error):
        if other is not None:
            raise other
    for sample in (found.sample, found.held):
        sample.settle()
        sample.drop_beyond(world.all_have(sample.own_keys()))
    whole = reduce(Survey.merge, world.all_have(found), _empty(most))
    if not whole.rows:
        raise InputError("no rows are left to train on: all are held out or have missing values")
    source.surveyed = whole
    return whole


def _most_rows(source: Source) -> int:
    """The largest size of a sample: fewer rows if they are wide (images, say), but at least a thousand."""
    block = next(source.blocks(0))
    bytes_each = 8 * int(np.prod(block.X.shape[1:]))
    if not bytes_each:
        raise InputError(f"X: {block.where} has no columns besides the target: add input columns")
    return max(1000, source.memory // (4 * bytes_each))


def _empty(most: int) -> Survey:
    return Survey(sample=Sample(min(SAMPLE_ROWS, most)), held=Sample(min(HELD_ROWS, most)))


def _note_part(found: Survey, source: Source, part: int, rules: Rules, of_classes: bool, check: Check | None) -> None:
    found.kept[part] = rows = 0
    for block in source.blocks(part):
        keys = mixed(
            np.uint64(part << 32) + np.arange(rows, rows + len(block), dtype=np.uint64) + np.uint64(rules.seed)
        )
        rows += len(block)
        complete = rules.complete(block)
        found.dropped += int((~complete).sum())
        refuse_targets(block, np.flatnonzero(complete), None if of_classes else as_numbers)
        refuse_targets(block, np.flatnonzero(complete), check)
        if not complete.all():
            block, keys = block.take(np.flatnonzero(complete)), keys[complete]
        if len(block):
            held = rules.held(block)
            found.note(block, keys, held, of_classes)
            found.held_rows += int(held.sum())
            found.kept[part] += int((~held).sum())


def _first_word(series: Any, block: Block) -> tuple[str, int] | None:
    """The first text that is not a number, and its row: one word in a CSV column turns all its numbers into text."""
    return next(((value, block.row(place)) for place, value in enumerate(series) if _is_word(value)), None)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and not is_number(value)


def _kind_of_label(label: Any) -> str:
    if isinstance(label, bool):
        return "truth value"
    return "number" if isinstance(label, Number) else "text" if isinstance(label, str) else type(label).__name__
