"""Kernels on lists of arbitrary Python objects: strings, graphs, records.

Objects cannot be moved by gradients, so the similarity of two lists is computed once, as a :class:`KernelCache`, and
hyperparameters then train on that cache at the speed of dense matrices.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.parameters import UNSET, Parameter, Value, positive

_SHOWN = 40  # letters of an object, in messages


class KernelCache(NamedTuple):
    """Similarities that no hyperparameter changes: between two lists (normalised), and of each object with itself.

    >>> words = PairFunction(lambda a, b: len(set(a) & set(b)))
    >>> cache = words.cache(["ab", "bc"], ["abc"])
    >>> cache.left.tolist(), cache.cross.shape
    ([2.0, 2.0], torch.Size([2, 1]))
    """

    cross: Float[Tensor, "*q n m"]
    left: Float[Tensor, "*q n"]
    right: Float[Tensor, "*q m"]


class ObjectKernel(Kernel):
    """A kernel on lists of objects; a subclass gives the plain similarity ``s(a, b)`` as :meth:`similarity`.

    With ``s̃ = s(a, b)/√(s(a, a) s(b, b))`` (``normalise``; objects with ``s(a, a) = 0`` are
    alike to one another and to nothing else),

        k = variance · s̃                                  without a lengthscale
        k = variance · exp(−(1 − s̃)/lengthscale²)         with one: an RBF of the kernel's own distance

    >>> from stratagp import kernels as k
    >>> k.Spectrum(1)(["ab"], ["ab", "aab", "c"]).round(decimals=3).tolist()  # letters in common, normalised
    [[1.0, 0.949, 0.0]]
    """

    takes_tensors = False

    def __init__(
        self,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__()
        if lengthscale is not None and not normalise:
            raise InputError("a lengthscale needs normalise=True: the distance is that of normalised objects")
        self.normalise = normalise
        self.variance = positive(variance, name="variance")
        self.lengthscale = None if lengthscale is None else positive(lengthscale, name="lengthscale")

    @abstractmethod
    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The matrix of ``s(aᵢ, bⱼ)``, symmetric and positive semi-definite, free of trainable parameters."""

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """``s(aᵢ, aᵢ)`` for each object; override it where that is cheaper than one pair at a time."""
        return torch.stack([self.similarity([item], [item])[0, 0] for item in a]) if len(a) else torch.zeros(0)

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """Plain similarities of two lists, and of each object with itself; override it where they share work."""
        left = self.self_similarity(x)
        return KernelCache(self.similarity(x, z), left, left if z is x else self.self_similarity(z))

    def cache(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """The similarities of two lists, to be kept while hyperparameters are trained."""
        cross, left, right = self.compare(x, z)
        if bool((left < 0).any()) or bool(((cross != 0) & ((left[:, None] == 0) | (right == 0))).any()):
            raise InputError(
                f"the similarity of {type(self).__name__} is not positive semi-definite: an object with s(a, a) ≤ 0 is "
                "similar to another; a kernel needs s(a, a) s(b, b) ≥ s(a, b)²"
            )
        return KernelCache(_normalised(cross, left, right) if self.normalise else cross, left, right)

    def cached(self, objects: Sequence[Any]) -> Cached:
        """The same kernel on row numbers of ``objects``, with all similarities computed once."""
        return Cached(self, objects)

    def from_cache(self, cache: KernelCache) -> Float[Tensor, "*q n m"]:
        """``k(x, z)`` at the current hyperparameters."""
        cross = cache.cross.to(self.variance)
        if self.lengthscale is None:
            return self.variance * cross
        return self.variance * torch.exp((cross - 1) / self.lengthscale.square())

    def forward(self, x: Sequence[Any], z: Sequence[Any]) -> Float[Tensor, "*q n m"]:
        """The cache, made and used at once."""
        return self.from_cache(self.cache(x, z))

    def diag(self, x: Sequence[Any]) -> Float[Tensor, "*q n"]:
        """The variance where normalised, else ``variance · s(x, x)``."""
        own = torch.ones(len(x)) if self.normalise else self.self_similarity(x)
        return (self.variance * own.to(self.variance)[:, None]).squeeze(-1)

    def _settings(self) -> str:
        return "" if self.normalise else "normalise=False"


def _normalised(
    cross: Float[Tensor, "n m"], left: Float[Tensor, " n"], right: Float[Tensor, " m"]
) -> Float[Tensor, "n m"]:
    """``s(a, b)/√(s(a, a) s(b, b))``, root by root: the product may leave the range of numbers."""
    size = left.double().sqrt()[:, None] * right.double().sqrt()
    alike = (left[:, None] == right).double()
    return torch.where(size > 0, cross.double() / torch.where(size > 0, size, torch.ones_like(size)), alike)


class PairFunction(ObjectKernel):
    """Any Python function of two objects as a kernel; it must be symmetric and positive semi-definite.

    What is no finite number is refused, with the two objects that it is the similarity of.

    >>> words = ["gaussian", "process", "gauss"]
    >>> shared = PairFunction(lambda a, b: len(set(a) & set(b)))
    >>> shared(words)[0]
    tensor([1.0000, 0.1667, 0.8165], dtype=torch.float64,
           grad_fn=...)
    """

    def __init__(
        self,
        function: Callable[[Any, Any], float],
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.function = function

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """Every pair in turn; half of them where both lists are the same."""
        if a is b:
            values = torch.zeros(len(a), len(a), dtype=torch.float64)
            for i, item in enumerate(a):
                row = [self._value(item, other, i, j) for j, other in enumerate(a[: i + 1])]
                values[i, : i + 1] = values[: i + 1, i] = torch.tensor(row, dtype=torch.float64)
            return values
        rows = [[self._value(item, other, i, j) for j, other in enumerate(b)] for i, item in enumerate(a)]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(a), len(b))

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The function of each object and itself."""
        return torch.tensor([self._value(item, item, i, i) for i, item in enumerate(a)], dtype=torch.float64)

    def _value(self, item: Any, other: Any, i: int, j: int) -> float:
        found = self.function(item, other)
        try:
            value = math.nan if isinstance(found, (str, bytes)) else float(found)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"the function of PairFunction must return a finite number, but of {short(item)} and {short(other)} "
                f"(rows {i} and {j} of the lists that are compared) it made {short(found)}"
            )
        return value


def short(item: Any) -> str:
    """An object as messages show it: plainly, and no more than its beginning."""
    text = repr(item.item() if isinstance(item, np.generic) else item)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def row_numbers(x: Float[Tensor, "*q n d"], size: int, owner: str) -> Int[Tensor, "*q n"]:
    """Points that are row numbers, as whole numbers."""
    rows = x.round().long()
    if x.shape[-1] != 1 or not bool(((rows == x) & (rows >= 0) & (rows < size)).all()):
        raise InputError(f"points of a {owner} kernel are one column of row numbers from 0 to {size - 1}")
    return rows.squeeze(-1)


class Cached(Kernel):
    """An object kernel on row numbers of a fixed list: hyperparameters train at the speed of dense matrices.

    >>> words = ["gaussian", "process", "gauss"]
    >>> kernel = PairFunction(lambda a, b: len(set(a) & set(b))).cached(words)
    >>> kernel(torch.tensor([[0]]), torch.tensor([[2]])).item()
    0.8164965809277261
    """

    cross: Tensor
    own: Tensor

    def __init__(self, base: ObjectKernel, objects: Sequence[Any]) -> None:
        super().__init__()
        self.base = base
        cache = base.cache(objects, objects)
        self.register_buffer("cross", cache.cross)
        self.register_buffer("own", cache.left)

    @property
    def takes_tensors(self) -> bool:
        """Its points are row numbers, not the objects."""
        return True

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the chosen rows."""
        i, j = (row_numbers(points, len(self.own), "Cached") for points in (x, z))
        return self.base.from_cache(KernelCache(self.cross[i[..., :, None], j[..., None, :]], self.own[i], self.own[j]))

    def describe(self) -> str:
        """``base.cached(…)``."""
        return f"{self.base.describe()}.cached({len(self.own)} objects)"


class Precomputed(Kernel):
    """A covariance matrix that is given; points are row numbers, in one column.

    >>> K = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    >>> Precomputed(K)(torch.tensor([[1], [0]]), torch.tensor([[1]]))
    tensor([[1.0000],
            [0.5000]], dtype=torch.float64, grad_fn=...)
    """

    matrix: Tensor

    def __init__(self, matrix: Any, variance: Value | Parameter = UNSET) -> None:
        super().__init__()
        matrix = torch.as_tensor(matrix, dtype=torch.float64)
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not torch.allclose(matrix, matrix.mT):
            raise InputError(f"Precomputed needs a symmetric square matrix, got shape {tuple(matrix.shape)}")
        self.register_buffer("matrix", matrix)
        self.variance = positive(variance, name="variance")

    def _settings(self) -> str:
        return f"{len(self.matrix)}×{len(self.matrix)} matrix"

    def _rows(self, x: Float[Tensor, "*q n d"]) -> Int[Tensor, "*q n"]:
        return row_numbers(x, len(self.matrix), "Precomputed")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The chosen rows and columns."""
        return self.variance * self.matrix[self._rows(x)[..., :, None], self._rows(z)[..., None, :]]

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The chosen diagonal entries."""
        own = self.matrix.diagonal()[self._rows(self._points(x, "x"))]
        return (self.variance * own[..., None]).squeeze(-1)
