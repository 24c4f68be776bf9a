"""Moments and samples of rows that stream past, and hashes that choose rows, the same in any order of reading."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt64

from stratagp.data.source import Block
from stratagp.data.tables import is_frame

_CANDIDATES = 4  # candidates held, as a multiple of the sample's size


@dataclass
class Moments:
    """``n``, mean and ``Σ(y − mean)²`` of columns, merged as in Chan, Golub and LeVeque (1983).

    >>> one, other = Moments.of(np.array([[1.0], [2.0]])), Moments.of(np.array([[6.0]]))
    >>> merged = one.merged(other)
    >>> merged.mean, merged.spread
    (array([3.]), array([2.1602469]))
    """

    n: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """The moments of the columns of values."""
        mean = values.mean(0)
        return cls(len(values), mean, ((values - mean) ** 2).sum(0))

    def merged(self, other: Moments) -> Moments:
        """The moments of the rows of both."""
        n, gap = self.n + other.n, other.mean - self.mean
        return Moments(
            n, self.mean + gap * (other.n / n), self.squares + other.squares + gap**2 * (self.n * other.n / n)
        )

    @property
    def spread(self) -> np.ndarray:
        """Population standard deviations."""
        found: np.ndarray = np.sqrt(self.squares / self.n)
        return found


@dataclass
class Sample:
    """The rows with the smallest keys, at most ``size`` of them.

    >>> sample = Sample(2)
    >>> sample.add(np.array([30, 10, 20], dtype=np.uint64), Block(np.array([[3.0], [1.0], [2.0]]), None, "rows", 0))
    >>> sample.settle().X.tolist()
    [[1.0], [2.0]]
    """

    size: int
    keys: list[UInt64[np.ndarray, " k"]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    worst: np.uint64 | None = None  # the largest key in a full sample

    def add(self, keys: UInt64[np.ndarray, " n"], block: Block, among: Bool[np.ndarray, " n"] | None = None) -> None:
        """Offer rows with these keys for the sample; only those ``among`` them, if given."""
        rows = np.arange(len(keys)) if among is None else np.flatnonzero(among)
        if self.worst is not None:
            rows = rows[keys[rows] < self.worst]
        if len(rows):
            self.keys.append(keys[rows])
            self.blocks.append(block if len(rows) == len(keys) else block.take(rows))
        if sum(map(len, self.keys)) > _CANDIDATES * self.size:
            self.settle()

    def merge(self, other: Sample) -> None:
        """Offer the rows of another sample."""
        for keys, block in zip(other.keys, other.blocks, strict=True):
            self.add(keys, block)

    def settle(self) -> Block | None:
        """The sample as one block, in order of the keys; None if there are no rows."""
        if not self.keys:
            return None
        keys, block = np.concatenate(self.keys), joined(self.blocks)
        order = np.argsort(keys, kind="stable")[: self.size]
        self.keys, self.blocks = [keys[order]], [block.take(order)]
        self.worst = self.keys[0][-1] if len(order) == self.size else None
        return self.blocks[0]

    def own_keys(self) -> UInt64[np.ndarray, " k"]:
        """The keys of a settled sample."""
        return self.keys[0] if self.keys else np.zeros(0, dtype=np.uint64)

    def drop_beyond(self, keys: Sequence[UInt64[np.ndarray, " _"]]) -> None:
        """Drop rows of a settled sample that are not among the best of all these keys, which include its own."""
        everyone, own = np.concatenate(list(keys)), self.own_keys()
        if len(everyone) > self.size:
            stay = int(np.searchsorted(own, np.partition(everyone, self.size - 1)[self.size - 1], side="right"))
            if stay < len(own):
                self.keys, self.blocks = [own[:stay]], [self.blocks[0].take(np.arange(stay))]


def joined(blocks: Sequence[Block]) -> Block:
    """The rows of several blocks as one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    parts = [block.X for block in blocks]
    X = (
        importlib.import_module("pandas").concat(parts, ignore_index=True)
        if is_frame(first.X)
        else np.concatenate(parts)
    )
    y = None if first.y is None else np.concatenate([block.y for block in blocks])
    return replace(first, X=X, y=y, within=None)


def row_hashes(X: Any) -> UInt64[np.ndarray, " n"]:
    """A hash of each row that depends only on its values, not on the types that store them.

    >>> import pandas as pd
    >>> row_hashes(pd.DataFrame({"a": [1, 2]}))[0] == row_hashes(pd.DataFrame({"a": [1.0, None]}))[0]
    np.True_
    """
    if is_frame(X):
        plain = _in_plain_types(X)
        hashes: np.ndarray = importlib.import_module("pandas").util.hash_pandas_object(plain, index=False).to_numpy()
        return hashes
    rows = np.ascontiguousarray(X.reshape(len(X), -1) + 0.0, dtype=np.float64).view(np.uint64)  # −0 is 0
    found = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        found = mixed(found ^ column)
    return found


def _in_plain_types(frame: Any) -> Any:
    """A frame with all numbers and booleans in double precision.

    Whole numbers and booleans change type in a block in which one is missing.
    """
    types = importlib.import_module("pandas").api.types
    found = frame.copy(deep=False)
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        of_truths = column.dtype == object and types.infer_dtype(column, skipna=True) == "boolean"
        if types.is_numeric_dtype(column.dtype) or of_truths:
            values = column.astype("boolean") if of_truths else column
            found.isetitem(place, values.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0)
    return found


def mixed(numbers: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    """A random-looking number for each number: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).

    >>> len(set(mixed(np.arange(1000, dtype=np.uint64)).tolist()))
    1000
    """
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found: np.ndarray = z ^ (z >> np.uint64(31))
        return found
