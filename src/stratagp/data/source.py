"""Where rows come from when there are too many to hold: parts of a table, read one after another.

A source is a list of *parts* (row groups of files, stretches of arrays), each read from its start in *blocks* of a few
thousand rows. One pass over all rows gathers what must be known of them (:mod:`stratagp.data.survey`); batches for
training come from :mod:`stratagp.data.stream`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stratagp.data.tables import is_frame, is_pandas, pandas_like
from stratagp.errors import InputError

PART_ROWS = 1 << 16  # rows in a part of an array or a frame
BLOCK_BYTES = 4 << 20  # roughly how much is read at once
BLOCK_ROWS = 1 << 14  # the most rows in a block
MEMORY = 64 << 20


class Part(NamedTuple):
    """Rows stored together, and the name that messages use for their file or array."""

    where: str
    rows: int


@dataclass(frozen=True)
class Block:
    """Some rows of a part: inputs, targets, their file, and the number of the first row in that file."""

    X: Any  # a pandas frame, whose index counts rows from ``first`` on, or an array "n …"
    y: np.ndarray | None  # "n" or "n p", of any dtype
    where: str
    first: int
    within: np.ndarray | None = None  # row numbers counted from ``first``, if some rows were removed

    def __len__(self) -> int:
        return len(self.X)

    def take(self, chosen: np.ndarray) -> Block:
        """Some of its rows, by position."""
        X = self.X.iloc[chosen] if is_pandas(self.X) else self.X[chosen]
        within = chosen if self.within is None else self.within[chosen]
        return replace(self, X=X, y=None if self.y is None else self.y[chosen], within=within)

    def row(self, place: int) -> int:
        """The number in the file of the row at a position."""
        return self.first + int(place if self.within is None else self.within[place])


class Source(ABC):
    """Rows of a table, read in parts.

    ``parts`` lists them; ``targets`` names the columns to predict, if columns have names. ``missing`` says what to do
    with incomplete rows: "raise" or "drop". ``memory`` is how many bytes of rows may wait to be shuffled.
    ``surveyed`` is the result of the last :func:`~stratagp.data.survey`, if there was one.

    >>> from stratagp.data import Arrays
    >>> source = Arrays(np.zeros((3, 2)), np.arange(3.0))
    >>> source.rows, len(next(source.blocks(0)))
    (3, 3)
    """

    parts: list[Part]
    targets: list[str]
    missing = "raise"
    memory = MEMORY
    files: Sequence[str] = ()  # the files that rows come from
    surveyed: Any = None

    @abstractmethod
    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in order, from row ``first`` on, one block at a time."""

    def all_blocks(self) -> Iterator[Block]:
        """The rows of all parts in order, one block at a time."""
        for part in range(len(self.parts)):
            yield from self.blocks(part)

    def settings(self, missing: str, memory: int) -> None:
        """Set what to do with missing values and how much memory shuffling may use."""
        if missing not in ("raise", "drop"):
            raise InputError(f"missing must be 'raise' or 'drop', got {missing!r}")
        if not memory >= 1 << 20:
            raise InputError(f"memory must be at least 1 MiB, in bytes, got {memory!r}")
        self.missing, self.memory = missing, int(memory)

    @property
    def rows(self) -> int:
        """The number of rows in all parts."""
        return sum(part.rows for part in self.parts)


class Arrays(Source):
    """Arrays or memory maps: one pair of inputs and targets for each shard.

    Arguments:
        X: an array ``n …``, or a list of them; ``numpy.load(path, mmap_mode="r")`` leaves the rows on disk.
        y: the targets of each array, or None for prediction.
        missing: "raise" refuses rows with NaN or infinite values, "drop" skips them.
        memory: how many bytes of rows may wait to be shuffled.

    >>> source = Arrays([np.zeros((3, 2)), np.ones((2, 2))], [np.arange(3), np.arange(2)])
    >>> source.rows, [len(block) for part in range(2) for block in source.blocks(part, first=1)]
    (5, [2, 1])
    """

    def __init__(self, X: Any, y: Any = None, missing: str = "raise", memory: int = MEMORY) -> None:
        self.settings(missing, memory)
        shards = list(X) if isinstance(X, (list, tuple)) else [X]
        targets = [None] * len(shards) if y is None else list(y) if isinstance(X, (list, tuple)) else [y]
        if len(shards) != len(targets):
            raise InputError(f"y must have as many arrays as X ({len(shards)}), got {len(targets)}")
        self.targets: list[str] = []
        self.parts, self._parts = [], []
        for number, (x, own) in enumerate(zip(shards, targets, strict=True)):
            _refuse_path(x, "X", is_array=hasattr(x, "shape"))
            _refuse_path(own, "y", is_array=True)  # a list of numbers is fine too
            if own is not None and len(own) != len(x):
                raise InputError(f"y must have as many rows as X: array {number} has {len(own)}, X has {len(x)}")
            if x.shape[1:] != shards[0].shape[1:]:
                raise InputError(
                    f"arrays of X must have rows of one shape: those of array {number} have shape {x.shape[1:]}, those "
                    f"of the first {shards[0].shape[1:]}"
                )
            for start in range(0, len(x), PART_ROWS):
                stop = min(start + PART_ROWS, len(x))
                self.parts.append(Part(f"array {number}", stop - start))
                self._parts.append((x, own, start, stop))
        _refuse_nothing(self.rows, "X")

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in order, from row ``first`` on, one block at a time."""
        x, y, start, stop = self._parts[part]
        size = block_rows(x[:1].nbytes)
        for row in range(start + first, stop, size):
            end = min(row + size, stop)
            own = None if y is None else np.asarray(y[row:end])
            yield Block(np.asarray(x[row:end]), own, self.parts[part].where, row)


class Frame(Source):
    """A data frame in memory.

    Arguments:
        frame: a pandas frame, or one of another library with ``to_pandas``.
        target: the name of the column to predict, or a list of names; None for prediction.
        missing, memory: as in :class:`Arrays`.

    >>> import pandas as pd
    >>> source = Frame(pd.DataFrame({"age": [1.0, 2.0], "price": [3.0, 4.0]}), "price")
    >>> next(source.blocks(0)).y
    array([3., 4.])
    """

    def __init__(self, frame: Any, target: Any = None, missing: str = "raise", memory: int = MEMORY) -> None:
        self.settings(missing, memory)
        if not is_frame(frame):
            raise InputError(f"frame must be a data frame, got {type(frame).__name__}")
        self._frame = pandas_like(frame)
        self.targets = target_names(target, list(self._frame.columns), "the frame")
        sizes = [min(PART_ROWS, len(self._frame) - start) for start in range(0, len(self._frame), PART_ROWS)]
        self.parts = [Part("the frame", size) for size in sizes]
        _refuse_nothing(len(self._frame), "the frame")

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in order, from row ``first`` on, one block at a time."""
        start, size = part * PART_ROWS, block_rows(8 * len(self._frame.columns))
        stop = start + self.parts[part].rows
        for row in range(start + first, stop, size):
            frame = self._frame.iloc[row : min(row + size, stop)].reset_index(drop=True)
            yield split_frame(frame, self.targets, "the frame", row)


class Mapped(Source):
    """The blocks of a source, each passed through a function that keeps its rows in place.

    >>> from dataclasses import replace
    >>> doubled = Mapped(Arrays(np.ones((2, 1))), lambda block: replace(block, X=2 * block.X))
    >>> next(doubled.blocks(0)).X.tolist()
    [[2.0], [2.0]]
    """

    def __init__(self, source: Source, change: Callable[[Block], Block]) -> None:
        self.source, self.change, self.parts, self.targets = source, change, source.parts, source.targets
        self.files = source.files
        self.settings(source.missing, source.memory)

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in order, from row ``first`` on, one block at a time."""
        return map(self.change, self.source.blocks(part, first))


def split_frame(frame: Any, targets: Sequence[str], where: str, first: int) -> Block:
    """A block with ``targets`` separated from the other columns of a frame; one target is a vector."""
    if not targets:
        return Block(frame, None, where, first)
    y = frame[targets[0]] if len(targets) == 1 else frame[list(targets)]
    return Block(frame.drop(columns=list(targets)), y.to_numpy(), where, first)


def target_names(target: Any, columns: Sequence[Any], what: str, argument: str = "y") -> list[str]:
    """The columns that ``target`` (or the named ``argument``) lists; raises if one does not exist."""
    wanted = [] if target is None else [target] if isinstance(target, str) else list(target)
    gone = [name for name in wanted if name not in columns]
    if gone:
        shown = ", ".join(repr(str(name)) for name in list(columns)[:20]) + (", …" if len(columns) > 20 else "")
        raise InputError(f"{argument}: {what} has no column {gone[0]!r}; its columns are {shown}")
    return wanted


def block_rows(bytes_each: int) -> int:
    """How many rows to read at once if each takes ``bytes_each`` bytes."""
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, bytes_each)))


def _refuse_path(values: Any, name: str, is_array: bool) -> None:
    if isinstance(values, (str, os.PathLike)) or not is_array:
        raise InputError(
            f"{name} must be an array or a list of arrays, got {type(values).__name__}: open tables with open_source, "
            'arrays in files with numpy.load(path, mmap_mode="r")'
        )


def _refuse_nothing(rows: int, what: str) -> None:
    if not rows:
        raise InputError(f"{what} has no rows: it needs at least one")
