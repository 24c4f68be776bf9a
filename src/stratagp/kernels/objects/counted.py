"""Object kernels that are inner products of sparse counts: words of a text, patterns of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from stratagp.kernels.objects.base import KernelCache

_DENSE = 0.045  # the share of counts that are not zero above which plain matrix products are faster
_CELLS = 2**26  # of a dense block of counts, at most


class Counted(ABC):
    """Beside :class:`~stratagp.kernels.ObjectKernel`: ``s(a, b) = φ(a)·φ(b)`` for the counts ``φ`` of a subclass.

    Both lists of objects are counted in one call, so that features are numbered alike, however new they are; nothing
    about the objects is remembered, and a symbol that was never seen before is a feature like any other.
    """

    @abstractmethod
    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        """``φ`` of each object in a row, in float64; columns have a meaning within one call only."""

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """Similarities of two lists, and of each object with itself, all from one count."""
        phi = self.counts(x if z is x else [*x, *z])
        left, right = (phi, phi) if z is x else (phi[: len(x)], phi[len(x) :])
        own = squared_norms(phi)
        return KernelCache(gram(left, right), own[: len(x)], own if z is x else own[len(x) :])

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The products of all pairs."""
        return self.compare(a, b).cross

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The squared norm of each row of counts."""
        return squared_norms(self.counts(a))


def squared_norms(phi: sparse.csr_array) -> Float[Tensor, " n"]:
    """``φᵢ·φᵢ`` for each row."""
    return torch.from_numpy(np.asarray(phi.multiply(phi).sum(axis=1), dtype=float).reshape(-1))


def gram(left: sparse.csr_array, right: sparse.csr_array) -> Float[Tensor, "n m"]:
    """``left rightᵀ`` as a dense matrix; counts with few zeros are multiplied as dense blocks of rows.

    >>> gram(sparse.csr_array(np.eye(2)), sparse.csr_array([[3.0, 4.0]]))
    tensor([[3.],
            [4.]], dtype=torch.float64)
    """
    (n, columns), m = left.shape, right.shape[0]
    if max(left.nnz, right.nnz) < _DENSE * columns * max(1, min(n, m)) or m * columns > _CELLS:
        return torch.from_numpy(np.asarray((left @ right.T).todense(), dtype=float).reshape(n, m))
    dense, found = torch.from_numpy(right.toarray()).mT, torch.empty(n, m, dtype=torch.float64)
    step = max(1, _CELLS // max(1, columns))
    for start in range(0, n, step):
        found[start : start + step] = torch.from_numpy(left[start : start + step].toarray()) @ dense
    return found
