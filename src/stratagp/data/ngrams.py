"""Texts as numbers: how long they are, and where they lie along the main directions of their n-grams and words."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64
from scipy import sparse
from torch import Tensor

_LONGEST = 3  # letters of an n-gram
_BUCKETS = 8192  # that n-grams and words are counted in: a symbol that was never seen needs no place of its own
_DIRECTIONS = 40
_LEARNT_FROM = 20_000  # texts at most


@dataclass(frozen=True)
class Ngrams:
    """Texts as points: their length, and their log counts of n-grams and words along some directions.

    Counted are runs of one to three letters, and words where spaces part them. With ``c`` the counts in hashed
    buckets, a text is the point ``log(1 + c) V``, where ``V`` has the first right singular vectors of the training
    texts.

    Arguments:
        directions: ``V``.

    >>> texts = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "c1ccccc1O", "Cc1ccccc1"]
    >>> ngrams = Ngrams.learnt(texts)
    >>> ngrams.names("smiles")[:3], ngrams(texts).shape
    (['smiles: length', 'smiles: 1', 'smiles: 2'], (6, 6))
    """

    directions: Float32[Tensor, "b k"]

    @staticmethod
    def learnt(texts: Sequence[str]) -> Ngrams:
        """The directions along which some texts differ most; of many texts, as many as can be read quickly."""
        from sklearn.utils.extmath import randomized_svd  # slow to load, and only needed here

        some = texts[:: max(1, len(texts) // _LEARNT_FROM)]
        found = min(_DIRECTIONS, len(some) - 1)
        vectors = randomized_svd(_log_counts(some), max(found, 1), random_state=0)[2]
        return Ngrams(torch.from_numpy(np.ascontiguousarray(vectors.T, dtype=np.float32)))

    def names(self, column: str) -> list[str]:
        """What the numbers of a column are called."""
        return [f"{column}: length", *(f"{column}: {i + 1}" for i in range(self.directions.shape[1]))]

    def __call__(self, texts: Sequence[str]) -> Float64[np.ndarray, "n k"]:
        """The points of texts."""
        lengths = np.array([len(text) for text in texts], dtype=float)
        return np.column_stack([lengths, _log_counts(texts) @ self.directions.double().numpy()])


def _log_counts(texts: Sequence[str]) -> sparse.csr_array:
    """``log(1 + count)`` of each bucket in each text."""
    counts = [Counter(_buckets(text)) for text in texts]
    starts = np.cumsum([0, *map(len, counts)])
    places = np.array([bucket for each in counts for bucket in each], dtype=np.int64)
    values = np.log1p([count for each in counts for count in each.values()])
    return sparse.csr_array((values, places, starts), shape=(len(texts), _BUCKETS))


def _buckets(text: str) -> Iterator[int]:
    runs = (text[i : i + n] for n in range(1, _LONGEST + 1) for i in range(len(text) - n + 1))
    yield from (zlib.crc32(run.encode(errors="replace")) % _BUCKETS for run in runs)
    if len(text.split()) > 1:
        words = re.findall(r"\w+", text.lower())
        yield from (zlib.crc32(f" {word}".encode(errors="replace")) % _BUCKETS for word in words)
