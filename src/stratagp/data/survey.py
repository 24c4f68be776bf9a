"""One pass over all rows: what kind the columns are, their categories, moments of targets, classes, a sample.

The sample is the ``k`` rows with the smallest hash of their place, so that it is the same however the parts are divided
among processes, whose surveys are merged. The rows that validation holds out are those whose hash of their *values*,
and a seed, lies below a share: equal rows lie on the same side, and no list of them is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, UInt64

from stratagp.data.columns import categories_of, is_missing, kind_of
from stratagp.data.sampling import Moments, Sample, mixed, row_hashes
from stratagp.data.source import Block, Source
from stratagp.data.tables import is_frame, read_table
from stratagp.data.target_checks import Check, as_numbers, is_number, refuse_targets
from stratagp.errors import InputError
from stratagp.training.world import World

SAMPLE_ROWS, HELD_ROWS = 20_000, 10_000
MOST_CATEGORIES = 10_000  # of a column
DROPPING = "let open_source(…, missing='drop') pass over such rows"
_CLASSES = 10_000


@dataclass
class Survey:
    """What is known of all rows of a source.

    Arguments:
        kept: rows of each part that training sees.
        dropped: rows left out since something in them is missing.
        kinds: of each column of a frame, "number", "category", "date" or "duration", and where it was first seen so.
        categories: of each column that has them; None of one with more than 10,000, such as texts.
        moments: of targets that are numbers.
        classes: distinct targets where they are classes, with the key and the row of one of each.
        sample: of the rows that training sees.
        held: of those that it does not.
    """

    kept: dict[int, int] = field(default_factory=dict)
    dropped: int = 0
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
        """Take in what another process has seen of other parts."""
        self.kept |= other.kept
        self.dropped += other.dropped
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
        """Take in complete rows, some of which are held out."""
        if hasattr(block.X, "columns"):
            for name in block.X.columns:
                self._note_column(name, block.X[name], block)
        if of_classes:
            for label, row in zip(*np.unique(np.asarray(block.y), return_index=True), strict=True):
                self._note_class(label, int(keys[row]), block, int(row))
        elif block.y is not None:
            own = Moments.of(as_numbers(block.y)[~held]) if not held.all() else None
            if own is not None:
                self.moments = own if self.moments is None else self.moments.merged(own)
        self.sample.add(keys, block, ~held)
        self.held.add(keys, block, held)

    def _note_column(self, name: Any, series: Any, block: Block) -> None:
        simple = getattr(series.dtype, "kind", "O") in "iufMm" and not hasattr(series.dtype, "categories")
        values = series.iloc[:1] if simple else series.drop_duplicates()
        column = read_table(values.to_frame()).columns[0]
        kind = kind_of(column, auto=True)
        agrees = self.kinds.get(name, (kind, ""))[0] == kind
        self._note_kind(name, kind, block.where, "" if agrees else _first_word(series, block.first))
        if kind == "category":
            self._note_categories(name, set(categories_of(column)))

    def _note_kind(self, name: Any, kind: str, where: str, example: str = "") -> None:
        known, first = self.kinds.setdefault(name, (kind, where))
        if known != kind:
            word = next((f" ({value!r})" for value in self.categories.get(name) or () if _is_word(value)), "")
            raise InputError(
                f"{where}: column {name!r} holds values of kind {kind!r}{example}, but of kind {known!r} in "
                f"{first}{word}: let all files have the same types"
            )

    def _note_categories(self, name: Any, found: set[Any] | None) -> None:
        known = self.categories.get(name, set())
        both = None if known is None or found is None else known | found
        self.categories[name] = both if both is None or len(both) <= MOST_CATEGORIES else None

    def _note_class(self, label: Any, key: int, block: Block, row: int) -> None:
        if label not in self.classes or key < self.classes[label][0]:
            self.classes[label] = key, block.take(np.array([row]))
        if len(self.classes) > _CLASSES:
            raise InputError(f"y has more than {_CLASSES:,} classes: numbers are a task for a regressor")


class Rules(NamedTuple):
    """Which rows training sees.

    Arguments:
        share: of rows that validation holds out.
        missing: "raise" refuses rows with missing values, "drop" leaves them out.
        seed: of what is held out, and of the sample.

    >>> from stratagp.data.source import Block
    >>> Rules(missing="drop").complete(Block(np.array([[1.0], [np.nan]]), None, "rows", 0)).tolist()
    [True, False]
    """

    share: float = 0.0
    missing: str = "raise"
    seed: int = 0

    def complete(self, block: Block) -> Bool[np.ndarray, " n"]:
        """Which rows have no missing value; others are refused, unless they may be dropped."""
        gaps = _gaps(block.X)
        gaps = gaps if block.y is None else gaps | _gaps(block.y)
        if self.missing == "raise" and gaps.any():
            row = int(gaps.argmax())
            raise InputError(
                f"{block.where}: row {block.first + row} has missing or infinite values{_gap_column(block, row)}: fill "
                f"them, or {DROPPING}"
            )
        return ~gaps

    def held(self, block: Block) -> Bool[np.ndarray, " n"]:
        """Which rows are held out, by their values."""
        if not self.share:
            return np.zeros(len(block), dtype=bool)
        return mixed(row_hashes(block.X) + np.uint64(self.seed)) < np.uint64(int(self.share * 2**64))

    def seen(self, block: Block) -> Block:
        """The rows that training sees."""
        chosen = self.complete(block)
        chosen = chosen & ~self.held(block) if self.share else chosen
        return block if chosen.all() else block.take(np.flatnonzero(chosen))


class Divided(Source):
    """The rows of a source that are held out by their values, or all others; equal rows lie on the same side.

    Arguments:
        source: of all rows.
        share: that is held out, about.
        seed: which rows that are.
        held: whether the source is of these rows, or of the others.

    >>> from stratagp.data.source import Arrays
    >>> whole = Arrays(np.arange(1000.0)[:, None], np.arange(1000.0))
    >>> parts = [Divided(whole, 0.2, 0, held) for held in (True, False)]
    >>> [sum(len(block) for block in part.blocks(0)) for part in parts]
    [219, 781]
    """

    def __init__(self, source: Source, share: float, seed: int, held: bool) -> None:
        self.source, self.held, self._rules = source, held, Rules(share, "drop", seed)
        self.parts, self.targets = source.parts, source.targets
        self.settings(source.missing, source.memory)

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of its side in their order; none in some blocks, it may be. ``first`` counts rows of both sides."""
        for block in self.source.blocks(part, first):
            yield block.take(np.flatnonzero(self._rules.held(block) == self.held))


def survey(
    source: Source, rules: Rules, of_classes: bool, world: World | None = None, check: Check | None = None
) -> Survey:
    """Read all rows once; each process its share of the parts.

    Arguments:
        check: raises an :class:`~stratagp.errors.InputError` where targets are none that can be learnt from.

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
        raise InputError("no row is left to train on: all are held out, or have missing values")
    return whole


def _most_rows(source: Source) -> int:
    """Rows of a sample, at most: few where they are wide, images say, but a thousand."""
    bytes_each = 8 * int(np.prod(next(source.blocks(0)).X.shape[1:]))
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
            found.kept[part] += int((~held).sum())


def _first_word(series: Any, first: int) -> str:
    """Which text is no number, and its row: one word makes texts of all numbers in a column of a CSV file."""
    words = (f" ({value!r} in row {first + row})" for row, value in series.items() if _is_word(value))
    return next(words, "")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and not is_number(value)


def _gap_column(block: Block, row: int) -> str:
    """Which input is missing in a row, where inputs have names."""
    if not is_frame(block.X):
        return ""
    names = [name for name in block.X.columns if _gaps(block.X[[name]].iloc[[row]]).any()]
    return f" in column {names[0]!r}" if names else " in the target"


def _gaps(values: Any) -> Bool[np.ndarray, " n"]:
    """Rows in which something is missing, or infinite."""
    if is_frame(values):
        numbers = values.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
        gaps: np.ndarray = values.isna().to_numpy().any(1) | np.isinf(numbers).any(1)
        return gaps
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind in "fc":
        return ~np.isfinite(flat).all(1)
    if flat.dtype.kind == "O":
        return np.array([any(map(is_missing, row)) for row in flat.tolist()])
    return np.zeros(len(flat), dtype=bool)
