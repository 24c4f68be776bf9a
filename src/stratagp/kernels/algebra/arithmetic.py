"""Sums, products and powers of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term, multiply, terms_of
from stratagp.kernels.feature_maps import FeatureMap, Rng, WaveFeatures, multiplied, wave_terms
from stratagp.kernels.stationary.constant import Constant
from stratagp.parameters import positive


def _as_kernel(value: Any, trainable: bool) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, (int, float)):
        return Constant(positive(value, trainable=trainable))
    raise InputError(f"a kernel can be combined with kernels and positive numbers, got {type(value).__name__}")


def _flatten(kind: type[Kernel], parts: Sequence[Kernel]) -> list[Kernel]:
    return [leaf for part in parts for leaf in (part.parts if type(part) is kind else [part])]


class Sum(Kernel):
    """``k(x, z) = Σ kᵢ(x, z)``: the sum of independent processes. A number adds a learnt constant.

    >>> from stratagp import kernels as k
    >>> k.RBF() + k.Linear() + 2.0
    RBF(lengthscale=1, variance=1) + Linear(variance=1) + Constant(variance=2)
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__()
        kernels = _flatten(Sum, [_as_kernel(part, trainable=True) for part in parts])
        if not kernels:
            raise InputError("a sum of kernels needs at least one kernel")
        self._adopt(kernels)

    def forward(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The sum of the parts' matrices."""
        first, *rest = self.parts
        total = first(x, z)
        for part in rest:
            total = total + part(x, z)
        return total

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The sum of the parts' formulas."""
        return reduce(torch.add, (part.plain(x, z) for part in self.parts))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The sum of the parts' diagonals."""
        return reduce(torch.add, (part.diag(x) for part in self.parts))

    def terms(self, dim: int) -> list[Term]:
        """The terms of all parts."""
        return [term for part in self.parts for term in terms_of(part, dim)]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The features of all parts, each with its own ``n_features`` draws."""
        maps = [part.random_features(n_features, dim, generator) for part in self.parts]
        return WaveFeatures(dim, [term for part in maps for term in wave_terms(part)])

    def describe(self) -> str:
        """The parts joined by plus signs."""
        return " + ".join(part.describe() for part in self.parts)


class Product(Kernel):
    """``k(x, z) = Π kᵢ(x, z)``. A number scales the kernel and stays fixed, since kernels have variances of their own.

    >>> from stratagp import kernels as k
    >>> 2 * k.RBF() * (k.Linear() + k.Constant())
    Constant(variance=2 (fixed)) * RBF(lengthscale=1, variance=1) * (Linear(variance=1) + Constant(variance=1))
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__()
        kernels = _flatten(Product, [_as_kernel(part, trainable=False) for part in parts])
        if not kernels:
            raise InputError("a product of kernels needs at least one kernel")
        self._adopt(kernels)

    def forward(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The product of the parts' matrices, entry by entry."""
        first, *rest = self.parts
        total = first(x, z)
        for part in rest:
            total = total * part(x, z)
        return total

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The product of the parts' formulas."""
        return reduce(torch.mul, (part.plain(x, z) for part in self.parts))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The product of the parts' diagonals."""
        first, *rest = [part.diag(x) for part in self.parts]
        for factor in rest:
            first = first * factor
        return first

    def terms(self, dim: int) -> list[Term]:
        """Every term of one part times every term of the others."""
        return reduce(multiply, [terms_of(part, dim) for part in self.parts])

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """``n_features`` products of independent draws."""
        return multiplied([part.random_features(n_features, dim, generator) for part in self.parts])

    def describe(self) -> str:
        """The parts joined by times signs, sums in parentheses."""
        return " * ".join(parenthesise(part, (Sum,)) for part in self.parts)


class Power(Kernel):
    """``k(x, z)^p`` for a whole number ``p ≥ 1``; other powers of a kernel need not be positive definite.

    >>> from stratagp import kernels as k
    >>> k.Linear()(torch.tensor([[2.0]])).item(), (k.Linear() ** 2)(torch.tensor([[2.0]])).item()
    (4.0, 16.0)
    """

    def __init__(self, base: Kernel, exponent: Any) -> None:
        super().__init__()
        if not isinstance(exponent, int) or isinstance(exponent, bool) or exponent < 1:
            raise InputError(f"the exponent of a kernel must be a positive whole number, got {exponent!r}")
        self.base, self.exponent = base, exponent

    def forward(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The power of the base kernel's matrix, entry by entry."""
        return self.base(x, z) ** self.exponent

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The power of the base kernel's formula."""
        return self.base.plain(x, z) ** self.exponent

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The power of the base kernel's diagonal."""
        return self.base.diag(x) ** self.exponent

    def terms(self, dim: int) -> list[Term]:
        """The terms of a product of equal parts."""
        return reduce(multiply, [terms_of(self.base, dim)] * self.exponent)

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The features of a product of equal kernels with independent draws."""
        return multiplied([self.base.random_features(n_features, dim, generator) for _ in range(self.exponent)])

    def describe(self) -> str:
        """``base ** exponent``."""
        return f"{parenthesise(self.base)} ** {self.exponent}"


def parenthesise(kernel: Kernel, kinds: tuple[type[Kernel], ...] = (Sum, Product, Power)) -> str:
    """The kernel as text, in parentheses if it is of one of the kinds."""
    return f"({kernel.describe()})" if isinstance(kernel, kinds) else kernel.describe()
