"""Sequences of symbols as whole numbers: texts, bytes, arrays and lists of tokens in one flat array."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Integer

from stratagp.errors import InputError

_SPAN = 2**16  # a table of this size costs nothing
_SHOWN = "a sequence is a str, bytes, a list of tokens or a 1-D array of whole numbers"


class Symbols(NamedTuple):
    """Sequences one after another; a symbol that is to be skipped is −1, all others are 0 … size − 1."""

    codes: Int[np.ndarray, " symbols"]
    lengths: Int[np.ndarray, " sequences"]
    size: int

    def rows(self) -> Int[np.ndarray, " symbols"]:
        """The sequence of each symbol."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def places(self) -> Int[np.ndarray, " symbols"]:
        """Where in its sequence each symbol stands, from 0."""
        return np.arange(len(self.codes)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)


def encode(
    objects: Sequence[Any], skipped: Collection[Hashable] = (), alphabet: Collection[Hashable] | None = None
) -> Symbols:
    """Number the symbols of sequences; two symbols are the same where Python says that they are equal.

    A str consists of characters and bytes of numbers, as their lists do: ``"AC"`` is ``["A", "C"]``, and ``b"AC"`` is
    ``[65, 67]``, which is no text. Symbols in ``skipped``, and those outside an ``alphabet``, become −1.

    >>> encode(["ACA", ["C", "G"], [7, 7]], skipped={"G"})
    Symbols(codes=array([ 0,  1,  0,  1, -1,  2,  2]), lengths=array([3, 2, 2]), size=3)
    """
    plain = [_plain(item) for item in objects]
    lengths = np.array([len(item) for item in plain], dtype=np.int64)
    kinds = np.array([_KINDS[type(item)] for item in plain], dtype=np.int64)
    owner = np.repeat(kinds, lengths)
    codes, table = np.empty(len(owner), dtype=np.int64), dict[Hashable, int]()
    for kind, distinguish in enumerate(_DISTINGUISH):
        if (kinds == kind).any():
            symbols, numbers = distinguish([item for item in plain if _KINDS[type(item)] == kind])
            known = [s not in skipped and (alphabet is None or s in alphabet) for s in symbols]
            new = [table.setdefault(s, len(table)) if keep else -1 for s, keep in zip(symbols, known, strict=True)]
            codes[owner == kind] = np.array(new, dtype=np.int64)[numbers]
    return Symbols(codes, lengths, len(table))


def renumber(
    values: Integer[np.ndarray, " n"],
) -> tuple[Integer[np.ndarray, " distinct"], Int[np.ndarray, " n"]]:
    """The distinct values in order, and the place of each value among them: by a table where the values are dense.

    >>> renumber(np.array([30, 10, 30]))
    (array([10, 30]), array([1, 0, 1]))
    """
    lowest, highest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if highest - lowest >= max(_SPAN, 8 * len(values)):
        distinct, places = np.unique(values, return_inverse=True)
        return distinct, places.astype(np.int64)
    moved = values - values.dtype.type(lowest)
    present: Bool[np.ndarray, " span"] = np.zeros(highest - lowest + 1, dtype=bool)
    present[moved] = True
    distinct = np.flatnonzero(present)
    place = np.zeros(len(present), dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct + lowest, place[moved]


def _plain(item: Any) -> str | bytes | np.ndarray | list[Any]:
    """One of four types, without a look at single symbols."""
    if isinstance(item, str):
        return str(item)
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    if isinstance(item, (list, tuple)):
        return list(item)
    if not hasattr(item, "__array__"):
        raise InputError(f"a sequence is {item!r:.40}, of type {type(item).__name__}; {_SHOWN}")
    array = np.asarray(item)
    if array.ndim != 1 or (array.dtype.kind not in "iubOUS" and array.size):
        raise InputError(
            f"a sequence is an array of {array.dtype} of shape {array.shape}; {_SHOWN}. Measurements become symbols "
            "by a codebook: the number of the nearest of a few typical values"
        )
    return array.astype(np.int64) if np.can_cast(array.dtype, np.int64) else array.tolist()


_KINDS = {str: 0, bytes: 1, np.ndarray: 2, list: 3}
Distinct = tuple[Sequence[Hashable], Int[np.ndarray, " n"]]


def _characters(texts: list[str]) -> Distinct:
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    distinct, places = renumber(points)
    return [chr(point) for point in distinct], places


def _bytes(texts: list[bytes]) -> Distinct:
    distinct, places = renumber(np.frombuffer(b"".join(texts), dtype=np.uint8))
    return distinct.tolist(), places


def _integers(arrays: list[np.ndarray]) -> Distinct:
    distinct, places = renumber(np.concatenate(arrays))
    return distinct.tolist(), places


def _tokens(lists: list[list[Any]]) -> Distinct:
    flat = list(chain.from_iterable(lists))
    try:
        table = {token: i for i, token in enumerate(dict.fromkeys(flat))}
    except TypeError as error:
        raise InputError(f"the tokens of a sequence must be hashable: {error}; make tuples of lists") from None
    return list(table), np.fromiter(map(table.__getitem__, flat), dtype=np.int64, count=len(flat))


_DISTINGUISH: tuple[Callable[[list[Any]], Distinct], ...] = (_characters, _bytes, _integers, _tokens)
