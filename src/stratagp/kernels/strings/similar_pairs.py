"""A string kernel on pairs of symbols of which some are more alike than others, such as amino acids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.settings import whole
from stratagp.kernels.strings.base import Sequences, Unknown, skipped_symbols
from stratagp.kernels.strings.gaps import samples
from stratagp.kernels.strings.patterns import Pattern
from stratagp.kernels.strings.symbols import Symbols, encode
from stratagp.parameters import UNSET, Parameter, Value

_CELLS = 2**24  # of counts of pairs, at once
_SHOWN = 40  # symbols of a message


class SimilarPairs(Sequences, ObjectKernel):
    """Pairs of symbols at distances ``1 … d``, where pairs of similar symbols count as partly the same.

    With ``N_g(a)`` the matrix of how often each symbol stands ``g`` places before each other one in ``a``, and ``S``
    the similarity of symbols,

        s(a, b) = Σ_g tr(S N_g(a) S N_g(b)ᵀ),

    which is ``Double(1, d)`` where ``S`` is the identity (a generalised similarity kernel: Kuksa, Khan and Pavlovic
    2012). With ``S = R Rᵀ`` the features are ``Rᵀ N_g(a) R``. Pairs with a symbol that ``S`` does not know are skipped;
    where it knows none of all sequences, they are refused.

    Arguments:
        similarity: "blosum62", how often amino acids replace one another (:func:`blosum62`); or a symmetric, positive
            semi-definite matrix, a row for each of the ``symbols``.
        symbols: a string or list of those of the matrix, in its order.
        others: as of all string kernels (:class:`Spectrum`).

    >>> similar = SimilarPairs([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]], "abc", d=1, normalise=False)
    >>> similar(["ac"], ["ac", "bc", "cc"]).round(decimals=6).tolist()  # b is half an a
    [[1.0, 0.5, 0.0]]
    """

    root: Tensor

    def __init__(
        self,
        similarity: Any = "blosum62",
        symbols: Sequence[Hashable] | None = None,
        d: int = 5,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.named = similarity if isinstance(similarity, str) else None
        matrix, self.symbols = _checked(similarity, symbols)
        self.d = whole(d, "d")
        values, vectors = torch.linalg.eigh(matrix)
        kept = values > 1e-12 * values[-1]
        self.register_buffer("root", vectors[:, kept] * values[kept].sqrt())

    def patterns(self) -> list[Pattern]:
        """Two symbols, at each distance."""
        return samples(2, 1, self.d)

    def encode(self, objects: Sequence[Any]) -> Symbols:
        """The sequences as rows of the similarity, with −1 for what is to be skipped."""
        known = [symbol for symbol in self.symbols if symbol not in skipped_symbols(self.unknown)]
        codes, lengths, size = encode([known, *objects], alphabet=frozenset(known))
        place = np.full(size + 1, -1)  # the last is of symbols that are skipped
        place[codes[: len(known)]] = [self.symbols.index(symbol) for symbol in known]
        return Symbols(place[codes[len(known) :]], lengths[1:], len(self.symbols))

    def features(self, objects: Sequence[Any]) -> Float[Tensor, "n p"]:
        """``Rᵀ N_g(a) R`` of each object, for all distances and parts of a sequence, in a row."""
        text = self.encode(objects)
        if len(text.codes) and (text.codes < 0).all():
            self._refuse_unknown(objects)
        ends = np.cumsum(text.lengths)
        step = max(1, _CELLS // (self.d * self.positions * text.size**2))
        blocks = [np.zeros((0, self.d * self.positions * self.root.shape[1] ** 2))]
        for first in range(0, len(ends), step):
            lengths = text.lengths[first : first + step]
            codes = text.codes[ends[first] - lengths[0] : ends[first + len(lengths) - 1]]
            pairs = self._pairs(Symbols(codes, lengths, text.size))
            root = self.root.cpu().numpy()
            blocks.append((root.T @ pairs @ root).reshape(len(lengths), -1))
        return torch.from_numpy(np.concatenate(blocks))

    def _refuse_unknown(self, objects: Sequence[Any]) -> None:
        """Say that no symbol is known, unless all are such as ``unknown`` names."""
        text = encode(objects, skipped_symbols(self.unknown))
        strange = np.flatnonzero(text.codes >= 0)
        if not len(strange):
            return
        row, place = text.rows()[strange[0]], text.places()[strange[0]]
        own = objects[row]
        symbol = np.asarray(own).tolist()[place] if hasattr(own, "__array__") else own[place]
        known = "".join(map(str, self.symbols)) if len(self.symbols) <= _SHOWN else f"the {len(self.symbols)} known"
        hint = ": upper-case them?" if isinstance(symbol, str) and symbol.upper() in self.symbols else ""
        raise InputError(f"none of the symbols, such as {symbol!r}, is one of {known}{hint}")

    def _pairs(self, text: Symbols) -> Float[np.ndarray, "n kinds size size"]:
        """``N_g`` of each sequence, and of each of its parts."""
        rows, size, kinds = text.rows(), text.size, self.d * self.positions
        part = text.places() * self.positions // np.repeat(np.maximum(1, text.lengths), text.lengths)
        cells = np.zeros((len(text.lengths), kinds, size, size))
        for number, (_, gap) in enumerate(pattern.offsets for pattern in self.patterns()):
            start: Int[np.ndarray, " pairs"] = np.flatnonzero(
                (rows[gap:] == rows[:-gap]) & (text.codes[gap:] >= 0) & (text.codes[:-gap] >= 0)
            )
            kind = part[start] * self.d + number
            at = (rows[start] * kinds + kind) * size**2 + text.codes[start] * size + text.codes[start + gap]
            cells += np.bincount(at, minlength=cells.size).reshape(cells.shape)
        return cells

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """Similarities of two lists, and of each sequence with itself."""
        left = self.features(x)
        right = left if z is x else self.features(z)
        return KernelCache(left @ right.mT, left.square().sum(1), right.square().sum(1))

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """Of all pairs."""
        return self.compare(a, b).cross

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """Of each sequence with itself."""
        return self.features(a).square().sum(1)

    def _own_settings(self) -> str:
        shown = repr(self.named) if self.named else f"{len(self.symbols)} symbols"
        return f"{shown}, d={self.d}"


def _checked(similarity: Any, symbols: Sequence[Hashable] | None) -> tuple[Float[Tensor, "s s"], tuple[Hashable, ...]]:
    """The similarity as a matrix, and its symbols."""
    if isinstance(similarity, str):
        if similarity != "blosum62" or symbols is not None:
            raise InputError(
                f"similarity must be 'blosum62', with its own symbols, or a matrix with symbols; got {similarity!r}"
                + ("" if symbols is None else f" with symbols={symbols!r:.40}")
            )
        acids, matrix = blosum62()
        return matrix, tuple(acids)
    matrix = torch.as_tensor(similarity, dtype=torch.float64)
    names = tuple(symbols or ())
    if matrix.shape != (len(names), len(names)) or not names or len(set(names)) < len(names):
        raise InputError(
            f"similarity must have a row and a column for each of the symbols, which are distinct; its shape is "
            f"{tuple(matrix.shape)}, and there are {len(set(names))} symbols"
        )
    if not torch.allclose(matrix, matrix.mT) or torch.linalg.eigvalsh(matrix)[0] < -1e-9 * matrix.abs().max():
        raise InputError("similarity must be symmetric and positive semi-definite: S = R Rᵀ for some R")
    return matrix, names


_ACIDS = "ARNDCQEGHILKMFPSTWYV"
_LOG_ODDS = """
 4
-1  5
-2  0  6
-2 -2  1  6
 0 -3 -3 -3  9
-1  1  0  0 -3  5
-1  0  0  2 -4  2  5
 0 -2  0 -1 -3 -2 -2  6
-2  0  1 -1 -3  0  0 -2  8
-1 -3 -3 -3 -1 -3 -3 -4 -3  4
-1 -2 -3 -4 -1 -2 -3 -4 -3  2  4
-1  2  0 -1 -3  1  1 -2 -1 -3 -2  5
-1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5
-2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7
 1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4
 0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5
-3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11
-2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7
 0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4
"""  # in half bits; Henikoff and Henikoff, Proc. Natl. Acad. Sci. USA 89, 10915 (1992)


def blosum62() -> tuple[str, Float[Tensor, "20 20"]]:
    """The twenty amino acids by their letters, and their similarity with a diagonal of ones.

    An entry ``b`` of BLOSUM62 says that two acids stand in one place of related proteins ``2^(b/2)`` times as often as
    by chance; the similarity is that ratio, divided by the roots of those of each acid with itself.

    >>> letters, similarity = blosum62()
    >>> i, l, w = (letters.index(letter) for letter in "ILW")
    >>> similarity[i, l].item(), similarity[i, w].item()  # isoleucine is much like leucine, little like tryptophan
    (0.5, 0.02627...)
    """
    lower = torch.zeros(len(_ACIDS), len(_ACIDS), dtype=torch.float64)
    rows, columns = torch.tril_indices(len(_ACIDS), len(_ACIDS))
    lower[rows, columns] = torch.tensor([float(value) for value in _LOG_ODDS.split()], dtype=torch.float64)
    ratios = torch.exp2((lower + lower.tril(-1).mT) / 2)
    size = ratios.diagonal().sqrt()
    return _ACIDS, ratios / (size[:, None] * size)
