"""Counting patterns in sequences: which symbols stand at given places after a start.

Every string kernel that counts reads symbols at a few offsets from each place of a sequence. What it reads becomes one
whole number, exactly: symbols are digits, and where the digits no longer fit into 62 bits, the prefixes read so far are
numbered afresh in the order in which they turn up. No table of all possible words is ever built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from stratagp.errors import InputError
from stratagp.kernels.strings.symbols import Symbols, renumber

_BLOCK = 2**20  # patterns that are read at once
_LARGEST = 2**62  # what a whole number may hold


class Pattern(NamedTuple):
    """Symbols to read at ``offsets`` from a start, where the sequence goes on for ``span`` symbols from there.

    Patterns of different ``kind`` are different features even where they read the same symbols. A ``solid`` pattern
    does not fit where any symbol of its span is to be skipped, read or not.
    """

    offsets: tuple[int, ...]
    span: int
    weight: float = 1.0
    kind: int = 0
    solid: bool = False


class Tally(NamedTuple):
    """Sums of weights: of feature ``ids`` in sequences ``rows``."""

    rows: Int[np.ndarray, " counts"]
    ids: Int[np.ndarray, " counts"]
    sums: Float[np.ndarray, " counts"]


def count_patterns(text: Symbols, patterns: Sequence[Pattern], parts: int = 1, once: bool = False) -> sparse.csr_array:
    """The weighted number of starts at which each feature is read, sequences in rows and features in columns.

    A pattern that would read a skipped symbol, or does not fit, counts nothing. With ``parts`` above 1, features are
    told apart also by the part of the sequence in which they start. With ``once``, patterns that read the same symbols
    from one start count as one; they must be of one weight.

    >>> from stratagp.kernels.strings.symbols import encode
    >>> count_patterns(encode(["abab", "b"]), [Pattern((0, 1), 2)]).toarray()  # ab, ba
    array([[2., 1.],
           [0., 0.]])
    """
    reader = _Reader(text, patterns, parts)
    step = max(1, _BLOCK // len(patterns))
    tallies = [reader.tally(start, start + step, once) for start in range(0, max(1, len(text.codes)), step)]
    rows, ids, sums = (np.concatenate(column) for column in zip(*tallies, strict=True))
    distinct, columns = renumber(ids)
    return sparse.csr_array((sums, (rows, columns)), shape=(len(text.lengths), len(distinct)))


class _Reader:
    """Reads patterns at a block of starts; the number of a feature is the same in all blocks."""

    def __init__(self, text: Symbols, patterns: Sequence[Pattern], parts: int) -> None:
        self.patterns, self.parts, self.size = patterns, parts, max(1, text.size)
        self.tags = list(dict.fromkeys((pattern.kind, pattern.weight) for pattern in patterns))
        places = text.places()
        lengths = np.repeat(text.lengths, text.lengths)
        self.rows, self.room, self.part = text.rows(), lengths - places, places * parts // np.maximum(1, lengths)
        self.skips = bool((text.codes < 0).any())
        self.clear = np.minimum(self.room, _until_skipped(text.codes)) if self.skips else self.room
        self.codes = np.pad(text.codes, (0, max(pattern.span for pattern in patterns)))
        self.most = max(1, len(text.codes)) * len(patterns)  # no more can ever turn up
        self.among_rows = max(1, len(text.lengths))
        if self.most * max(self.size, len(self.tags) * parts * self.among_rows) > _LARGEST:
            raise InputError(f"{len(text.codes)} symbols are too many at once: compare fewer sequences in a call")
        self.numberings: dict[int, _Numbering] = {}

    def tally(self, start: int, stop: int, once: bool) -> Tally:
        """The features of all patterns from starts in a range, each feature of a sequence summed."""
        read, sizes = zip(*(self._read(pattern, start, stop) for pattern in self.patterns), strict=True)
        ids, size = np.stack(read), max(sizes)
        if once:
            ids.sort(axis=0)
            ids[1:][ids[1:] == ids[:-1]] = -1
        kept = ids >= 0
        distinct, counts = _distinct(np.broadcast_to(self.rows[start:stop], ids.shape)[kept] * size + ids[kept])
        rows, ids = np.divmod(distinct, size)
        ids, tags = np.divmod(ids, len(self.tags))
        kinds, weights = (np.array(column) for column in zip(*self.tags, strict=True))
        return Tally(rows, ids * (1 + int(kinds.max())) + kinds[tags], counts * weights[tags])

    def _read(self, pattern: Pattern, start: int, stop: int) -> tuple[Int[np.ndarray, " starts"], int]:
        """The number of what a pattern reads from each start, −1 for nothing, and a bound on all such numbers."""
        room = self.clear if pattern.solid else self.room
        fits: Bool[np.ndarray, " starts"] = room[start:stop] >= pattern.span
        stop, size = start + len(fits), 1
        ids = np.zeros(len(fits), dtype=np.int64)
        for depth, offset in enumerate(pattern.offsets):
            symbols = self.codes[start + offset : stop + offset]
            ids, size = self._room_for(self.size, ids, size, depth)
            ids, size = ids * self.size + symbols, size * self.size
            if self.skips:
                fits &= symbols >= 0
        tag, factor = self.tags.index((pattern.kind, pattern.weight)), self.parts * len(self.tags)
        ids, size = self._room_for(factor * self.among_rows, ids, size, -1)
        ids = (ids * self.parts + self.part[start:stop]) * len(self.tags) + tag
        ids[~fits] = -1
        return ids, size * factor

    def _room_for(
        self, factor: int, ids: Int[np.ndarray, " starts"], size: int, depth: int
    ) -> tuple[Int[np.ndarray, " starts"], int]:
        """Numbers that may be multiplied by ``factor``; those of one depth are numbered alike in all patterns."""
        if size * factor <= _LARGEST:
            return ids, size
        return self.numberings.setdefault(depth, _Numbering())(ids), self.most


def _distinct(keys: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " distinct"], Int[np.ndarray, " distinct"]]:
    """The distinct keys in order, and how often each turns up: by a table where the keys are dense."""
    lowest, highest = (int(keys.min()), int(keys.max())) if len(keys) else (0, 0)
    if highest - lowest >= 8 * len(keys):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys - lowest)
    found = np.flatnonzero(counts)
    return found + lowest, counts[found]


def _until_skipped(codes: Int[np.ndarray, " symbols"]) -> Int[np.ndarray, " symbols"]:
    """How many symbols from each place on come before the next that is to be skipped."""
    places = np.arange(len(codes))
    skipped = np.where(codes < 0, places, len(codes))
    return np.minimum.accumulate(skipped[::-1])[::-1] - places


class _Numbering:
    """Whole numbers as 0, 1, … in the order in which they turn up, over several calls."""

    def __init__(self) -> None:
        self.known = np.empty(0, dtype=np.int64)  # in order
        self.numbers = np.empty(0, dtype=np.int64)

    def __call__(self, values: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        distinct, places = renumber(values)
        new = distinct[~np.isin(distinct, self.known)]
        at = np.searchsorted(self.known, new)
        self.numbers = np.insert(self.numbers, at, len(self.known) + np.arange(len(new)))
        self.known = np.insert(self.known, at, new)
        return self.numbers[np.searchsorted(self.known, distinct)][places]
