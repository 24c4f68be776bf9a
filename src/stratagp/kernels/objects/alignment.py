"""The global alignment kernel: real-valued sequences compared over all ways to align them in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from stratagp.errors import InputError
from stratagp.kernels.objects.arrays import array_objects, both_arrays, fixed_bandwidth, scaled
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.settings import whole
from stratagp.parameters import UNSET, Parameter, Value, format_value

_CELLS = 2**22  # of pairs of frames that are compared at a time


class GlobalAlignment(ObjectKernel):
    """The sum over all alignments of two sequences of the product of frame similarities (Cuturi, 2011).

        s(a, b) = Σ_π Π_t κ(a_{π₁(t)}, b_{π₂(t)}),     κ = φ/(2 − φ)
        φ(aᵢ, bⱼ) = ω(i − j) exp(−|aᵢ − bⱼ|²/(2 bandwidth²)),     ω(h) = max(0, 1 − |h|/triangular)

    An alignment π moves on by one frame in ``a``, in ``b`` or in both; ω is 1 where ``triangular`` is 0. The sum grows
    exponentially with length, so it is computed, and normalised, as a logarithm. Time is that of all pairs of frames.

    Arguments:
        bandwidth: between frames, fixed: a number or one a column. Long sequences want a large one; the median
            distance of frames times the root of the median length is a usual start.
        triangular: frames this many steps apart, or more, are not aligned; 0 for no limit. Sequences whose lengths
            differ by as many steps have similarity 0.

    Objects are arrays ``length d``.

    >>> from stratagp import kernels as k
    >>> k.GlobalAlignment(1.0)([[[0.0], [1.0]]], [[[0.0], [0.0], [1.0]]]).item()
    0.6965...
    """

    def __init__(
        self,
        bandwidth: Any,
        triangular: int = 0,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.bandwidth, self.triangular = fixed_bandwidth(bandwidth), whole(triangular, "triangular", 0)

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """All pairs; where the kernel is normalised they are so already, since plain ones may leave all range."""
        left, right = (scaled(side, self.bandwidth, "GlobalAlignment") for side in both_arrays(x, z, "GlobalAlignment"))
        if z is x:
            cross = _log_similarities(left, left, self.triangular, symmetric=True)
            own, their_own = cross.diagonal(), cross.diagonal()
        else:
            cross = _log_similarities(left, right, self.triangular)
            own, their_own = (_log_own(side, self.triangular) for side in (left, right))
        if not self.normalise:
            return KernelCache(_plain(cross), _plain(own), _plain(their_own))
        cosines = (cross - own[:, None] / 2 - their_own / 2).exp()
        return KernelCache(cosines, torch.ones_like(own), torch.ones_like(their_own))

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The plain sum over alignments."""
        left, right = (scaled(side, self.bandwidth, "GlobalAlignment") for side in both_arrays(a, b, "GlobalAlignment"))
        return _plain(_log_similarities(left, right, self.triangular))

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The plain sum over alignments of each sequence with itself."""
        left = scaled(array_objects(a, "GlobalAlignment"), self.bandwidth, "GlobalAlignment")
        return _plain(_log_own(left, self.triangular))

    def _settings(self) -> str:
        width = f"bandwidth={format_value(self.bandwidth.squeeze())}"
        limit = f"triangular={self.triangular}" if self.triangular else ""
        return ", ".join(filter(None, [width, limit, super()._settings()]))


def _plain(logs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    values = logs.exp()
    if not bool(values.isfinite().all()):
        raise InputError("normalise must be True for sequences this long: the plain sum over alignments overflows")
    return values


def _log_own(sequences: Sequence[Tensor], triangular: int) -> Float[Tensor, " n"]:
    each = np.arange(len(sequences))
    return _log_pairs(sequences, sequences, each, each, triangular)


def _log_similarities(
    left: Sequence[Tensor], right: Sequence[Tensor], triangular: int, symmetric: bool = False
) -> Float[Tensor, "n m"]:
    """``log s`` of all pairs; half of them where both lists are the same."""
    i, j = np.triu_indices(len(left)) if symmetric else np.indices((len(left), len(right))).reshape(2, -1)
    values = _log_pairs(left, right, i, j, triangular)
    found = torch.empty(len(left), len(right), dtype=torch.float64)
    found[torch.from_numpy(i), torch.from_numpy(j)] = values
    if symmetric:
        found[torch.from_numpy(j), torch.from_numpy(i)] = values
    return found


def _log_pairs(
    left: Sequence[Tensor], right: Sequence[Tensor], i: np.ndarray, j: np.ndarray, triangular: int
) -> Float[Tensor, " p"]:
    """``log s`` of given pairs, in blocks of pairs of like lengths, the longest first."""
    found = torch.empty(len(i), dtype=torch.float64)
    n, m = (np.array([len(side[k]) for k in at], dtype=np.int64) for side, at in ((left, i), (right, j)))
    order, longest, start = np.lexsort((-m, -n)), int(m.max(initial=1)), 0
    while start < len(order):
        block = order[start : start + max(1, _CELLS // (int(n[order[start]]) * longest))]
        a, b = pad_sequence([left[k] for k in i[block]], True), pad_sequence([right[k] for k in j[block]], True)
        at = torch.from_numpy(block)
        found[at] = _log_alignments(_log_frames(a, b, triangular), torch.from_numpy(n)[at], torch.from_numpy(m)[at])
        start += len(block)
    return found


def _log_frames(a: Float[Tensor, "p n d"], b: Float[Tensor, "p m d"], triangular: int) -> Float[Tensor, "p n m"]:
    """``log κ`` of all pairs of frames."""
    log_phi = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square_().mul_(-0.5)
    if triangular:
        steps = (torch.arange(a.shape[1])[:, None] - torch.arange(b.shape[1])).abs()
        log_phi += (1 - steps.double() / triangular).clamp_min(0).log()
    return log_phi.sub_(log_phi.expm1().neg_().log1p_())


def _log_alignments(frames: Float[Tensor, "p n m"], n: Int[Tensor, " p"], m: Int[Tensor, " p"]) -> Float[Tensor, " p"]:
    """``log Σ_π Π κ``, one diagonal ``i + j`` after another; later frames of padded sequences are never looked at."""
    pairs, rows, columns = frames.shape
    mirrored, found = frames.flip(2), torch.empty(pairs, dtype=torch.float64)
    before, last = (torch.full((pairs, rows + 1), -torch.inf, dtype=torch.float64) for _ in range(2))
    before[:, 0] = 0.0  # the empty alignment; row i of the matrix is at i + 1
    for step in range(rows + columns - 1):
        low, high = max(0, step - columns + 1), min(step, rows - 1) + 1
        reached = torch.logaddexp(last[:, low:high], before[:, low:high]).logaddexp(last[:, low + 1 : high + 1])
        now = torch.full_like(last, -torch.inf)
        now[:, low + 1 : high + 1] = reached + mirrored.diagonal(columns - 1 - step, 1, 2)
        ended = (n + m - 2 == step).nonzero().squeeze(-1)
        found[ended] = now[ended, n[ended]]
        before, last = last, now
    return found
