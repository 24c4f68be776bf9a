"""Real-valued sequences as symbols, so that kernels on texts apply to them: each frame becomes its nearest centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.objects.arrays import array_objects
from stratagp.kernels.settings import whole

_FRAMES = 2**14  # that are compared with the centres at a time


class Codebook:
    """Frames by the number of the nearest of ``size`` centres, found by k-means on standardised frames.

    Arguments:
        size: how many symbols; tens to hundreds for a few thousand frames.
        random_state: seed of the k-means.

    >>> from stratagp import kernels as k
    >>> songs = [[[0.0], [0.1], [9.0]], [[9.1], [0.0]]]
    >>> book = k.Codebook(2).fit(songs)
    >>> [symbols.tolist() for symbols in book.encode([[[0.2], [8.0], [0.0]]])] in ([[0, 1, 0]], [[1, 0, 1]])
    True
    """

    def __init__(self, size: int = 64, random_state: int = 0) -> None:
        self.size, self.random_state = whole(size, "size"), random_state
        self.mean, self.scale, self.centres = (torch.zeros(0, dtype=torch.float64) for _ in range(3))

    def fit(self, sequences: Sequence[Any]) -> Codebook:
        """Choose the centres from the frames of all sequences, arrays ``length d``; returns the codebook."""
        from sklearn.cluster import MiniBatchKMeans  # slow to load, and only needed here

        arrays = array_objects(sequences, "Codebook", empty=True)
        frames = torch.cat(arrays) if arrays else torch.zeros(0, 1).double()
        if len(frames) < self.size:
            raise InputError(f"a Codebook of {self.size} symbols needs at least as many frames, got {len(frames)}")
        self.mean, spread = frames.mean(0), frames.std(0, correction=0)
        self.scale = torch.where(spread > 0, spread, 1.0)
        search = MiniBatchKMeans(self.size, random_state=self.random_state, n_init=3)
        search.fit(((frames - self.mean) / self.scale).numpy())
        self.centres = torch.from_numpy(np.array(search.cluster_centers_))
        return self

    def encode(self, sequences: Sequence[Any]) -> list[np.ndarray]:
        """The number of the nearest centre of each frame, an array of whole numbers for each sequence."""
        if not len(self.centres):
            raise InputError("a Codebook must be fitted before it encodes: call fit(sequences)")
        arrays = array_objects(sequences, "Codebook", empty=True)
        if arrays and arrays[0].shape[1] != len(self.mean):
            raise InputError(f"the Codebook knows frames of {len(self.mean)} columns, got {arrays[0].shape[1]}")
        return [self._nearest(item).numpy() for item in arrays]

    def _nearest(self, frames: Tensor) -> Tensor:
        blocks = ((frames - self.mean) / self.scale).split(_FRAMES)
        exact = "donot_use_mm_for_euclid_dist"  # a frame has the same symbol wherever it stands
        return torch.cat([torch.cdist(block, self.centres, compute_mode=exact).argmin(1) for block in blocks])

    def __repr__(self) -> str:
        return f"Codebook({self.size})"
