"""A kernel on sets of vectors: how alike are the distributions that they were drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels.objects.arrays import array_objects, both_arrays, fixed_bandwidth, scaled
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.parameters import UNSET, Parameter, Value, format_value

_ROWS = 2048  # of either side that are compared at a time


class MeanMap(ObjectKernel):
    """The inner product of the kernel means of two sets of vectors (Smola et al., 2007; Muandet et al., 2012).

        s(A, B) = 1/(|A| |B|) Σ_{a ∈ A, b ∈ B} exp(−|a − b|²/(2 bandwidth²))

    With a ``lengthscale`` it is an RBF of the maximum mean discrepancy of normalised means. The order of rows does not
    matter; a set without rows is alike to other empty sets alone.

    Arguments:
        bandwidth: of the RBF between rows, fixed: a number or one a column (:func:`median_bandwidth` proposes one).

    >>> from stratagp import kernels as k
    >>> low, high = [[0.0], [1.0]], [[1.0]]
    >>> k.MeanMap(1.0, normalise=False)([low], [low, high]).tolist()[0]
    [0.8032653298563167, 0.8032653298563167]
    """

    def __init__(
        self,
        bandwidth: Any,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.bandwidth = fixed_bandwidth(bandwidth)

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """All pairs of sets, in blocks of rows; own similarities set by set."""
        left, right = (scaled(sets, self.bandwidth, "MeanMap") for sets in both_arrays(x, z, "MeanMap", empty=True))
        cross = _means(left, right)
        if z is x:
            return KernelCache(cross, cross.diagonal(), cross.diagonal())
        return KernelCache(cross, _own(left), _own(right))

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The means over all pairs of rows."""
        left, right = (scaled(sets, self.bandwidth, "MeanMap") for sets in both_arrays(a, b, "MeanMap", empty=True))
        return _means(left, right)

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The mean over all pairs of rows of one set."""
        return _own(scaled(array_objects(a, "MeanMap", empty=True), self.bandwidth, "MeanMap"))

    def _settings(self) -> str:
        return ", ".join(filter(None, [f"bandwidth={format_value(self.bandwidth.squeeze())}", super()._settings()]))


def _own(sets: Sequence[Tensor]) -> Float[Tensor, " n"]:
    return torch.stack([_means([item], [item])[0, 0] for item in sets]) if sets else torch.zeros(0).double()


def _means(left: Sequence[Tensor], right: Sequence[Tensor]) -> Float[Tensor, "n m"]:
    """The mean of ``exp(−½|a − b|²)`` over the rows of each pair of sets."""
    total = torch.zeros(len(left), len(right), dtype=torch.float64)
    if not len(left) or not len(right):
        return total
    (rows, owners), (others, their_owners) = _pooled(left), _pooled(right)
    for some, own in zip(rows.split(_ROWS), owners.split(_ROWS), strict=True):
        for more, their in zip(others.split(_ROWS), their_owners.split(_ROWS), strict=True):
            r2 = torch.cdist(some, more, compute_mode="donot_use_mm_for_euclid_dist").square()
            by_set = torch.zeros(len(right), len(some), dtype=torch.float64).index_add_(0, their, (-r2 / 2).exp().mT)
            total.index_add_(0, own, by_set.mT)
    sizes = [torch.tensor([max(1, len(item)) for item in sets], dtype=torch.float64) for sets in (left, right)]
    return total / sizes[0][:, None] / sizes[1]


def _pooled(sets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """All rows, and the number of the set that each belongs to."""
    sizes = torch.tensor([len(item) for item in sets])
    return torch.cat(list(sets)), torch.repeat_interleave(torch.arange(len(sets)), sizes)
