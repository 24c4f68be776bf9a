"""The gap-weighted subsequence kernel of Lodhi et al. (2002), by dynamic programming over positions.

There are two ways to the same numbers. Where the alphabet is small, the weight of every subsequence is accumulated
along each sequence, all sequences at once. Where it is large, pairs of sequences are compared directly, many pairs at
once. Memory is bounded in both, whatever the lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.settings import share, whole
from stratagp.kernels.strings.base import Unknown, shown_unknown, skipped_symbols
from stratagp.kernels.strings.symbols import Symbols, encode
from stratagp.parameters import UNSET, Parameter, Value

_CELLS = 2**25  # of weights of subsequences, at most
_PAIR_CELLS = 2**20  # of positions of pairs that are compared at once
_STEP = 64  # the least number of positions of a sequence that are worth a step of their own
_FEATURE_COST, _PRODUCT_COST, _PAIR_COST = 7.0, 0.07, 6.0  # nanoseconds a cell


class Subsequence(ObjectKernel):
    """All subsequences of ``length`` symbols, with gaps, each weighted by ``decay`` to the power of its extent.

    ``φ_w(a) = Σ decay^(iₙ − i₁ + 1)`` over all places ``i₁ < … < iₙ`` of ``a`` that spell ``w``: near symbols count for
    more than distant ones.

    Arguments:
        length: of the subsequences.
        decay: in (0, 1].
        unknown: a symbol, or a set of symbols, that matches nothing; it widens gaps like any other.
        variance, lengthscale, normalise: as of every :class:`~stratagp.kernels.ObjectKernel`.

    >>> Subsequence(2, decay=0.5)(["cat", "car", "bat"])[0].detach()  # 1/(2 + decay²): "ca" alone, "at" alone
    tensor([1.0000, 0.4444, 0.4444], dtype=torch.float64)
    """

    def __init__(
        self,
        length: int = 3,
        decay: float = 0.5,
        *,
        unknown: Unknown = None,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.length, self.decay, self.unknown = whole(length, "length"), share(decay, "decay"), unknown

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """Similarities of two lists, and of each sequence with itself."""
        text = self._encode(x if z is x else [*x, *z])
        n, start = len(x), 0 if z is x else len(x)
        cross, own = _similarities(text, self.length, self.decay, n, start)
        return KernelCache(cross, own[:n], own[start:])

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """Of all pairs."""
        return self.compare(a, b).cross

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """Of each sequence with itself."""
        return _similarities(self._encode(a), self.length, self.decay, 0, 0)[1]

    def _encode(self, objects: Sequence[Any]) -> Symbols:
        return encode(objects, skipped_symbols(self.unknown))

    def _settings(self) -> str:
        own = f"length={self.length}, decay={self.decay:g}"
        return ", ".join(filter(None, [own, shown_unknown(self.unknown), super()._settings()]))


class Similarities(NamedTuple):
    """Of the first sequences with the last, and of each with itself."""

    cross: Float[Tensor, "n m"]
    own: Float[Tensor, " all"]


def _similarities(text: Symbols, length: int, decay: float, n: int, start: int) -> Similarities:
    """Of the first ``n`` sequences with all from ``start`` on, in the cheaper of two ways."""
    rows, prefixes = len(text.lengths), max(1, text.size) ** (length - 1)
    symbols = text.lengths.astype(float)
    pairs = symbols[:n].sum() * symbols[start:].sum() + symbols.dot(symbols)
    by_weights = symbols.sum() * prefixes * _FEATURE_COST + n * (rows - start) * prefixes * text.size * _PRODUCT_COST
    if rows * prefixes <= _CELLS and by_weights < pairs * length * _PAIR_COST:
        return by_features(text, length, decay, n, start)
    return by_pairs(text, length, decay, n, start)


# --- by the weights of all subsequences ---


def by_features(text: Symbols, length: int, decay: float, n: int, start: int) -> Similarities:
    """Inner products of the weights of subsequences, for some of their last symbols at a time."""
    rows, prefixes = len(text.lengths), max(1, text.size) ** (length - 1)
    cross, own = torch.zeros(n, rows - start, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
    width = max(1, _CELLS // max(1, rows * prefixes))
    for first in range(0, text.size, width):
        phi = torch.from_numpy(_weights(text, length, decay, first, min(text.size, first + width)))
        cross.addmm_(phi[:n], phi[start:].mT)
        own += torch.linalg.vecdot(phi, phi)
    return Similarities(cross, own)


def _weights(text: Symbols, length: int, decay: float, first: int, last: int) -> Float[np.ndarray, "rows subsequences"]:
    """``φ_w`` for all ``w`` that end in one of the symbols ``first … last − 1``.

    ``running[i]`` holds the weights of subsequences of ``i`` symbols read so far as they reach to the present position,
    so that at each position they shrink by ``decay``, and those that end in the symbol there grow.
    """
    order = np.argsort(-text.lengths, kind="stable")  # those that are read to the end drop out at the back
    lengths, starts = text.lengths[order], (np.cumsum(text.lengths) - text.lengths)[order]
    rows = len(order)
    running = [np.ones((rows, 1)), *(np.zeros((rows, text.size**i)) for i in range(1, length))]
    by_last = [array.reshape(rows, text.size, array.shape[1] // text.size) for array in running[1:]]
    total = np.zeros((rows, last - first, text.size ** (length - 1)))
    for position, active in enumerate(rows - np.cumsum(np.bincount(lengths))):  # as many as are longer
        symbols = text.codes[starts[:active] + position]
        known = np.flatnonzero(symbols >= 0)
        ends = known[(symbols[known] >= first) & (symbols[known] < last)]
        total[ends, symbols[ends] - first] += decay * running[-1][ends]
        for i in range(length - 1, 0, -1):
            by_last[i - 1][known, symbols[known]] += running[i - 1][known]
            running[i][:active] *= decay
    back = np.argsort(order)
    return total[back].reshape(rows, (last - first) * text.size ** (length - 1))


# --- by pairs ---


class Pairs(NamedTuple):
    """Sequences that are compared with one another, the longer in ``long``."""

    long: Int[np.ndarray, " pairs"]
    short: Int[np.ndarray, " pairs"]


def by_pairs(text: Symbols, length: int, decay: float, n: int, start: int) -> Similarities:
    """The similarity of each pair that is needed, once."""
    rows = len(text.lengths)
    i, j = (index.reshape(-1) for index in np.meshgrid(np.arange(n), np.arange(start, rows), indexing="ij"))
    needed = np.stack([np.concatenate([i, np.arange(rows)]), np.concatenate([j, np.arange(rows)])])
    needed.sort(axis=0)
    distinct, places = np.unique(needed[0] * rows + needed[1], return_inverse=True)
    values = torch.zeros(len(distinct), dtype=torch.float64)
    first, second = np.divmod(distinct, max(1, rows))
    swap = text.lengths[first] < text.lengths[second]
    pairs = Pairs(np.where(swap, second, first), np.where(swap, first, second))
    for chosen in _blocks(text.lengths[pairs.long], text.lengths[pairs.short]):
        values[chosen] = _compare(text, Pairs(pairs.long[chosen], pairs.short[chosen]), length, decay)
    found = values[torch.from_numpy(places)]
    return Similarities(found[: len(i)].reshape(n, rows - start), found[len(i) :])


def _blocks(long: Int[np.ndarray, " pairs"], short: Int[np.ndarray, " pairs"]) -> Iterator[Int[np.ndarray, " block"]]:
    """Pairs of nearly the same lengths together, as many as memory allows; those with an empty one are left out."""
    sizes = [np.frexp(lengths)[1] for lengths in (long, short)]
    order = np.lexsort((short, long, *sizes))
    order = order[short[order] > 0]
    borders = np.flatnonzero((np.diff(sizes[0][order]) != 0) | (np.diff(sizes[1][order]) != 0)) + 1
    for alike in np.split(order, borders):
        if len(alike):
            cells = min(_STEP, int(long[alike].max())) * int(short[alike].max())
            step = max(1, _PAIR_CELLS // cells)
            yield from (alike[at : at + step] for at in range(0, len(alike), step))


def _compare(text: Symbols, pairs: Pairs, length: int, decay: float) -> Float[Tensor, " pairs"]:
    """The similarity of each pair: a few positions of the longer sequences at a time, all of the shorter ones.

    With ``κ_i[p, q]`` the weight of common subsequences of ``i`` symbols that end at ``p`` and ``q``,
    ``κ_i[p, q] = decay² [a_p = b_q] Σ_{p' < p, q' < q} decay^(p − p' − 1 + q − q' − 1) κ_{i−1}[p', q']``.
    """
    a, b = _columns(text, pairs.long, -2), _columns(text, pairs.short, -3)
    b[b == -1] = -3  # a symbol to be skipped does not match even itself
    step = max(_STEP, _PAIR_CELLS // b.numel())
    carried = torch.zeros(length, *b.shape, dtype=torch.float64)
    total = torch.zeros(b.shape[1], dtype=torch.float64)
    for rows in a.split(step):
        match = (rows[:, None] == b).double().mul_(decay**2)
        ends = match
        for i in range(1, length):
            reach = torch.cat([carried[i][None], ends])
            for p in range(1, len(reach)):
                reach[p].add_(reach[p - 1], alpha=decay)
            carried[i] = reach[-1]
            for q in range(1, len(b)):
                reach[:, q].add_(reach[:, q - 1], alpha=decay)
            ends = torch.zeros_like(match)
            torch.mul(match[:, 1:], reach[:-1, :-1], out=ends[:, 1:])
        total += ends.sum((0, 1))
    return total


def _columns(text: Symbols, chosen: Int[np.ndarray, " pairs"], filler: int) -> Int[Tensor, "positions pairs"]:
    """Sequences as columns, filled up at the end."""
    lengths, starts = text.lengths[chosen], (np.cumsum(text.lengths) - text.lengths)[chosen]
    places = np.arange(lengths.max())[:, None]
    inside = places < lengths
    codes = text.codes[np.where(inside, starts + places, 0)]
    return torch.from_numpy(np.where(inside, codes, filler))
