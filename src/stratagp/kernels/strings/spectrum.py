"""String kernels on words: counts of the words that sequences share, exactly or nearly."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from math import comb
from typing import Any, SupportsIndex

import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.objects.counted import gram, squared_norms
from stratagp.kernels.settings import share, whole
from stratagp.kernels.strings.base import CountedPatterns, Sequences, Unknown, choices, refuse_many, skipped_symbols
from stratagp.kernels.strings.patterns import Pattern, count_patterns
from stratagp.kernels.strings.symbols import Symbols, encode
from stratagp.parameters import UNSET, Parameter, Value

_COUNTS = 2**22  # of words with stars, at a time
_MOST_KINDS = 10**4  # ways to put stars
_MOST_STARS = 13  # at most m stars of m or more symbols can be put in 2^m ways at least


class Spectrum(CountedPatterns, ObjectKernel):
    """``s(a, b) = Σ_w |a|_w |b|_w`` over all words ``w`` of ``k`` symbols, ``|a|_w`` times that ``w`` stands in ``a``.

    >>> Spectrum(2)(["abab", "ab"]).detach()  # 2 ab + ba, and ab
    tensor([[1.0000, 0.8944],
            [0.8944, 1.0000]], dtype=torch.float64)
    """

    def __init__(
        self,
        k: int = 3,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k = whole(k, "k")

    def patterns(self) -> list[Pattern]:
        """The ``k`` symbols from a start."""
        return [Pattern(tuple(range(self.k)), self.k)]

    def _own_settings(self) -> str:
        return f"k={self.k}"


class Wildcard(CountedPatterns, ObjectKernel):
    """Words of ``k`` symbols of which up to ``m`` may be a star; each star costs a factor ``decay``.

    ``φ_w(a) = decay^(stars of w) · number of words of a that agree with w outside its stars``.

    >>> Wildcard(2, 1, decay=0.5, normalise=False)(["ab"], ["ab", "ac", "cb"]).tolist()  # ab, a*, *b
    [[1.5, 0.25, 0.25]]
    """

    def __init__(
        self,
        k: int = 5,
        m: int = 1,
        decay: float = 1.0,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k, self.m, self.decay = whole(k, "k"), whole(m, "m", 0), share(decay, "decay")
        if self.m >= self.k:
            raise InputError(f"m must be less than k={k}, got {m}: a word needs a symbol")
        check_stars(self.k, self.m)

    def patterns(self) -> list[Pattern]:
        """The symbols outside each choice of at most ``m`` stars, every choice a kind of its own."""
        return starred(self.k, self.m, self.decay)

    def _own_settings(self) -> str:
        return f"k={self.k}, m={self.m}, decay={self.decay:g}"


def check_stars(k: int, stars: int) -> None:
    """Refuse words of ``k`` symbols with at most ``stars`` stars where these can be put in too many ways."""
    ways = 2**stars if stars > _MOST_STARS else sum(choices(k, own) for own in range(stars + 1))
    refuse_many(ways, k, _MOST_KINDS, "lower k or m")


def starred(k: int, m: int, decay: float = 1.0, solid: bool = False) -> list[Pattern]:
    """All ways to read a word of ``k`` symbols except at most ``m`` of them; those with fewer stars come first."""
    check_stars(k, m)
    kept = [left for stars in range(m + 1) for left in combinations(range(k), k - stars)]
    return [Pattern(left, k, decay ** (k - len(left)), kind, solid) for kind, left in enumerate(kept)]


class Mismatch(Sequences, ObjectKernel):
    """Words of ``k`` symbols, each counted also for all words over the alphabet that differ in at most ``m`` places.

    ``φ_w(a)`` is the number of words of ``a`` at a Hamming distance of at most ``m`` from ``w``, and so
    ``s(a, b) = Σ_d M_d I_d`` over distances ``d ≤ 2m``, with ``M_d`` the pairs of words of ``a`` and ``b`` at distance
    ``d``, and ``I_d`` the number of words within ``m`` of both. Pairs come from words with up to ``2m`` stars, never
    from the words of the alphabet, so that neither time nor memory grows with its size.

    Arguments:
        alphabet: all symbols (a string, a list), or how many there are: the kernel depends on their number. Words with
            a symbol outside a given alphabet are skipped.

    >>> Mismatch(2, 1, "abc", normalise=False)(["ab"], ["ab", "aa", "ca", "ax"]).tolist()
    [[5.0, 3.0, 2.0, 0.0]]
    """

    def __init__(
        self,
        k: int = 5,
        m: int = 1,
        alphabet: int | Sequence[Hashable] | AbstractSet[Hashable] | None = None,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k, self.m = whole(k, "k"), whole(m, "m", 0)
        if self.m >= self.k:
            raise InputError(f"m must be less than k={k}, got {m}: all words would be alike")
        check_stars(self.k, min(2 * self.m, self.k))
        if alphabet is None:
            raise InputError("Mismatch needs an alphabet, its symbols or their number: a word may become any other")
        self.alphabet = alphabet
        symbols = None if isinstance(alphabet, SupportsIndex) else frozenset(alphabet) - skipped_symbols(unknown)
        self._symbols = symbols
        self._size = whole(alphabet if symbols is None else len(symbols), "the size of the alphabet")

    def patterns(self) -> list[Pattern]:
        """Words with up to ``2m`` stars."""
        return starred(self.k, min(2 * self.m, self.k), solid=True)

    def encode(self, objects: Sequence[Any]) -> Symbols:
        """As of all string kernels; there must not be more symbols than the alphabet has."""
        text = encode(objects, skipped_symbols(self.unknown), self._symbols)
        if text.size > self._size:
            raise InputError(
                f"there are {text.size} symbols, but alphabet={self._size}: give the number of all symbols"
            )
        return text

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """Similarities of two lists, and of each sequence with itself, all from one count."""
        text, start = self.encode(x if z is x else [*x, *z]), 0 if z is x else len(x)
        rows, n = len(text.lengths), len(x)
        cross, own = torch.zeros(n, rows - start, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
        for weight, phi in self._starred_counts(text):
            cross.add_(gram(phi[:n], phi[start:]), alpha=weight)
            own.add_(squared_norms(phi), alpha=weight)
        return KernelCache(cross, own[:n], own[start:])

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """Of all pairs."""
        return self.compare(a, b).cross

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """Of each sequence with itself."""
        counted = self._starred_counts(self.encode(a))
        return sum((weight * squared_norms(phi) for weight, phi in counted), torch.zeros(len(a), dtype=torch.float64))

    def _starred_counts(self, text: Symbols) -> Iterator[tuple[float, sparse.csr_array]]:
        """Counts of words with stars, some patterns at a time, and the weight of their inner products in the kernel."""
        step = max(1, _COUNTS // max(1, len(text.codes)))
        every = self.patterns()
        for stars, weight in enumerate(pair_weights(self.k, self.m, self._size)):
            patterns = [pattern for pattern in every if len(pattern.offsets) == self.k - stars]
            for first in range(0, len(patterns) if weight else 0, step):
                yield float(weight), count_patterns(text, patterns[first : first + step], self.positions)

    def _own_settings(self) -> str:
        return f"k={self.k}, m={self.m}, alphabet={self.alphabet!r}"


def pair_weights(k: int, m: int, size: int) -> list[int]:
    """Weights ``c_j`` with ``Σ_d M_d I_d = Σ_j c_j W_j``.

    ``W_j`` is the number of pairs of words with ``j`` stars that agree, ``W_j = Σ_d C(k − d, j − d) M_d``, and so
    ``c_j = Σ_{d ≥ j} (−1)^{d−j} C(k − j, d − j) I_d``.

    >>> pair_weights(3, 0, 4), pair_weights(2, 1, 3)
    ([1], [1, 1, 2])
    """
    last = min(2 * m, k)
    shared = [shared_neighbours(k, m, size, d) for d in range(last + 1)]
    return [sum((-1) ** (d - j) * comb(k - j, d - j) * shared[d] for d in range(j, last + 1)) for j in range(last + 1)]


def shared_neighbours(k: int, m: int, size: int, d: int) -> int:
    """How many words over ``size`` symbols are within ``m`` of both of two words that differ in ``d`` of ``k`` places.

    Where the two differ, such a word agrees with the one in ``a`` places, with the other in ``b``, with neither in
    ``d − a − b``; where they agree, it differs from both in ``c``: ``d − a + c ≤ m`` and ``d − b + c ≤ m``.

    >>> [shared_neighbours(2, 1, 3, d) for d in range(3)]  # of ab and ab, ab and aa, ab and ca
    [5, 3, 2]
    """
    return sum(
        comb(d, a) * comb(d - a, b) * (size - 2) ** (d - a - b) * comb(k - d, c) * (size - 1) ** c
        for a in range(d + 1)
        for b in range(d - a + 1)
        for c in range(min(k - d, m) + 1)
        if max(d - a, d - b) + c <= m
    )
