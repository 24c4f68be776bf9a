"""The signature kernel: paths compared by their iterated integrals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from stratagp.errors import InputError
from stratagp.kernels.objects.arrays import array_objects, both_arrays
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.settings import above_zero, whole
from stratagp.parameters import UNSET, Parameter, Value

_FEATURES = 2**18  # of one path, at most
_DEEPEST = 50
_CELLS = 2**24  # of a block of features, at most


class Signature(ObjectKernel):
    """The inner product of truncated signatures of piecewise-linear paths (Király and Oberhauser, 2019).

        s(a, b) = Σ_{l=0}^{depth} ⟨S_l(a), S_l(b)⟩,     S_l(a) = ∫_{t₁ < … < t_l} da_{t₁} ⊗ … ⊗ da_{t_l}

    computed exactly from explicit features, ``1 + d + … + d^depth`` of them: by Chen's relation the signature of a path
    is the product of those of its pieces, and that of a straight piece with increment δ has ``δ^{⊗l}/l!`` at level
    ``l``. It does not change where a path starts or how fast it is run through, unless the options below say so.

    Arguments:
        depth: the highest level, at most 50.
        time: whether the place in the sequence, from 0 to 1, is a further column.
        base_point: whether every path starts at the origin, so that paths differ by where they begin.
        scale: that columns are multiplied with, time apart; level ``l`` by its power ``l``.

    Objects are arrays ``length d``. Standardise columns, since high levels of long paths outweigh all else.

    >>> from stratagp import kernels as k
    >>> k.Signature(2, time=False, normalise=False)([[[0.0], [1.0]]], [[[0.0], [2.0]]]).item()
    4.0
    """

    def __init__(
        self,
        depth: int = 3,
        time: bool = True,
        base_point: bool = False,
        scale: float = 1.0,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.depth, self.scale = whole(depth, "depth"), above_zero(scale, "scale")
        self._check_depth()
        self.time, self.base_point = time, base_point

    def _check_depth(self) -> None:
        if self.depth > _DEEPEST:
            raise InputError(f"depth must be at most {_DEEPEST}, got {self.depth}: the levels below count for nothing")

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """All pairs, in blocks of features."""
        left, right = both_arrays(x, z, "Signature")
        cross = torch.zeros(len(left), len(right), dtype=torch.float64)
        own, their_own = cross.new_zeros(len(left)), cross.new_zeros(len(right))
        for columns in self._blocks(right):
            their = self._signatures(right[columns])
            their_own[columns] = their.square().sum(1)
            for rows in self._blocks(left):
                ours = their if z is x and rows == columns else self._signatures(left[rows])
                cross[rows, columns], own[rows] = ours @ their.mT, ours.square().sum(1)
        return KernelCache(cross, own if len(right) else self._own(left), their_own)

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The products of all pairs of signatures."""
        return self.compare(a, b).cross

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The squared norm of each signature."""
        return self._own(array_objects(a, "Signature"))

    def _own(self, paths: Sequence[Tensor]) -> Float[Tensor, " n"]:
        norms = [self._signatures(paths[rows]).square().sum(1) for rows in self._blocks(paths)]
        return torch.cat([torch.zeros(0).double(), *norms])

    def _blocks(self, paths: Sequence[Tensor]) -> Iterator[slice]:
        if not paths:
            return
        self._check_depth()
        d = paths[0].shape[1] + self.time
        features = sum(d**level for level in range(self.depth + 1))
        if features > _FEATURES:
            raise InputError(
                f"signatures of {d} columns down to depth {self.depth} have {features} features, above {_FEATURES}: "
                "lower depth, or leave out columns"
            )
        step = max(1, _CELLS // features)
        yield from (slice(start, start + step) for start in range(0, len(paths), step))

    def _signatures(self, paths: Sequence[Tensor]) -> Float[Tensor, "n features"]:
        increments = pad_sequence([self._increments(path) for path in paths], True)
        found = torch.cat([torch.ones(len(paths), 1, dtype=torch.float64), *signatures(increments, self.depth)], 1)
        if not bool(found.isfinite().all()):
            raise InputError("a signature leaves the range of floats; standardise the columns, or lower scale or depth")
        return found

    def _increments(self, path: Float[Tensor, "length d"]) -> Float[Tensor, "steps c"]:
        path = path * self.scale
        if self.base_point:
            path = torch.cat([torch.zeros_like(path[:1]), path])
        if self.time:
            path = torch.cat([path, torch.linspace(0, 1, len(path), dtype=torch.float64)[:, None]], 1)
        return path.diff(dim=0)

    def _settings(self) -> str:
        options = ["" if self.time else "time=False", "base_point=True" if self.base_point else ""]
        scale = "" if self.scale == 1 else f"scale={self.scale:g}"
        return ", ".join(filter(None, [f"depth={self.depth}", *options, scale, super()._settings()]))


def signatures(increments: Float[Tensor, "n steps d"], depth: int) -> list[Tensor]:
    """Levels 1 to ``depth`` of the signatures of paths, ``n d^level`` each; steps of zero change nothing.

    Each step multiplies by ``exp(δ)`` in Horner's way, ``S_l ← S_l + (… (δ/l + S₁) ⊗ δ/(l−1) + …) ⊗ δ``.

    >>> [level.tolist() for level in signatures(torch.tensor([[[1.0], [2.0]]]), 2)]
    [[[3.0]], [[4.5]]]
    """
    n, steps, d = increments.shape
    levels = [torch.zeros(n, d**level, dtype=increments.dtype) for level in range(1, depth + 1)]
    for step in range(steps):
        delta = increments[:, step]
        for level in range(depth, 0, -1):
            term = delta / level
            for lower in range(1, level):
                term = torch.einsum("ni,nj->nij", term + levels[lower - 1], delta / (level - lower)).flatten(1)
            levels[level - 1] += term
    return levels
