"""What the string kernels have in common: their options, and counts of patterns.

A sequence is a str, bytes, a list or tuple of hashable tokens, or a 1-D array of whole numbers; the kinds may be mixed,
and symbols are the same where Python says that they are equal (see :func:`~stratagp.kernels.strings.symbols.encode`).
Nothing is remembered from call to call, so symbols and words that were never seen before are features like any others.
A sequence too short for any feature is alike to others of its sort alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from math import comb
from typing import Any

from scipy import sparse

from stratagp.errors import InputError
from stratagp.kernels.objects.counted import Counted
from stratagp.kernels.settings import whole
from stratagp.kernels.strings.patterns import Pattern, count_patterns
from stratagp.kernels.strings.symbols import Symbols, encode

_MOST_SYMBOLS = 10**6  # of all patterns together
_FEW = 20  # of a choice that is counted; there are more than a million larger ones

Unknown = Hashable | AbstractSet[Hashable] | list[Hashable]


class Sequences(ABC):
    """Beside :class:`~stratagp.kernels.ObjectKernel`: a kernel that reads symbols of sequences by patterns.

    Arguments that all such kernels share:
        unknown: a symbol, or a set of symbols, that is like nothing: a feature that would read it is skipped. Gaps and
            stars read nothing. Symbols of bytes are numbers.
        positions: into how many parts of equal length each sequence is cut; with more than one, features are told
            apart also by the part in which they start, so that a word early and the same word late differ.
        variance, lengthscale, normalise: as of every :class:`~stratagp.kernels.ObjectKernel`.
    """

    normalise: bool
    unknown: Unknown
    positions: int
    once = False  # whether patterns that read the same from one start count as one

    def _read(self, unknown: Unknown, positions: int) -> None:
        skipped_symbols(unknown)
        self.unknown, self.positions = unknown, whole(positions, "positions")

    @abstractmethod
    def patterns(self) -> list[Pattern]:
        """What is read from each place of a sequence."""

    def encode(self, objects: Sequence[Any]) -> Symbols:
        """The sequences as whole numbers, with −1 for what is to be skipped."""
        skipped = skipped_symbols(self.unknown)
        long = [symbol for symbol in skipped if isinstance(symbol, str) and len(symbol) > 1]
        if long and any(isinstance(item, str) for item in objects):
            raise InputError(
                f"unknown={long[0]!r} is no symbol of a text, whose symbols are letters: set({long[0]!r})?"
            )
        return encode(objects, skipped)

    def _settings(self) -> str:
        shown = [self._own_settings(), shown_unknown(self.unknown)]
        shown += ["" if self.positions == 1 else f"positions={self.positions}"]
        return ", ".join(filter(None, [*shown, "" if self.normalise else "normalise=False"]))

    @abstractmethod
    def _own_settings(self) -> str:
        """As in :meth:`~stratagp.kernels.Kernel._settings`, without the options that all share."""


class CountedPatterns(Counted, Sequences):
    """Beside :class:`~stratagp.kernels.ObjectKernel`: the inner product of counts of patterns."""

    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        """The weighted number of times that each sequence has each feature."""
        return count_patterns(self.encode(objects), self.patterns(), self.positions, self.once)


def skipped_symbols(unknown: Unknown) -> AbstractSet[Hashable]:
    """One symbol, or a set or list of them, as a set."""
    if isinstance(unknown, AbstractSet):
        return unknown
    if isinstance(unknown, list):
        return set(unknown)
    if not isinstance(unknown, Hashable):
        raise InputError(f"unknown must be a symbol, or a set of symbols, got {unknown!r}")
    return set() if unknown is None else {unknown}


def shown_unknown(unknown: Unknown) -> str:
    """The argument as printed, always in the same order; empty where there is none.

    >>> shown_unknown({"Z", "X"})
    "unknown={'X', 'Z'}"
    """
    if not isinstance(unknown, AbstractSet):
        return "" if unknown is None else f"unknown={unknown!r}"
    return f"unknown={{{', '.join(sorted(map(repr, unknown)))}}}"


def choices(n: int, k: int) -> int:
    """``C(n, k)``, or, where that is at least ``2^20``, a number that is too.

    >>> choices(6, 4), choices(60, 30)
    (15, 1048576)
    """
    few = min(k, n - k)
    return comb(n, few) if few < _FEW else 2**_FEW


def refuse_many(patterns: int, symbols: int, most: int, remedy: str) -> None:
    """Refuse more than ``most`` patterns, or such that read far too many symbols in all: each is read from each place.

    >>> refuse_many(choices(60, 30), 30, 10**4, "lower g or k")
    Traceback (most recent call last):
    stratagp.errors.InputError: more than 10000 words with gaps are too many: lower g or k
    """
    if patterns > most or patterns * symbols > _MOST_SYMBOLS:
        most = min(most, _MOST_SYMBOLS // max(1, symbols))
        raise InputError(f"more than {most} words with gaps are too many: {remedy}")
