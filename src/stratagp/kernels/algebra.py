"""New kernels from old: sums, products, powers, columns, warped inputs, several functions side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels.base import Columns, Kernel
from stratagp.kernels.constant import Constant
from stratagp.parameters import positive


def _as_kernel(value: Any, trainable: bool) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, (int, float)):
        return Constant(positive(value, trainable=trainable))
    raise InputError(f"a kernel combines with kernels and positive numbers, not with {type(value).__name__}")


def _flatten(kind: type[Kernel], parts: Sequence[Kernel]) -> list[Kernel]:
    return [leaf for part in parts for leaf in (part.parts if type(part) is kind else [part])]


class Sum(Kernel):
    """``k(x, z) = Σ kᵢ(x, z)``: the sum of independent processes. A number adds a learnt constant.

    >>> from stratagp import kernels as k
    >>> k.RBF() + k.Linear() + 2.0
    RBF(lengthscale=1, variance=1) + Linear(variance=1) + Constant(variance=2)
    """

    def __init__(self, *parts: Kernel | float) -> None:
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

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The sum of the parts' diagonals."""
        return sum(part.diag(x) for part in self.parts)

    def describe(self) -> str:
        """The parts joined by plus signs."""
        return " + ".join(part.describe() for part in self.parts)


class Product(Kernel):
    """``k(x, z) = Π kᵢ(x, z)``. A number scales the kernel and stays fixed, since kernels have variances of their own.

    >>> from stratagp import kernels as k
    >>> 2 * k.RBF() * (k.Linear() + k.Constant())
    Constant(variance=2 (fixed)) * RBF(lengthscale=1, variance=1) * (Linear(variance=1) + Constant(variance=1))
    """

    def __init__(self, *parts: Kernel | float) -> None:
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

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The product of the parts' diagonals."""
        first, *rest = [part.diag(x) for part in self.parts]
        for factor in rest:
            first = first * factor
        return first

    def describe(self) -> str:
        """The parts joined by times signs, sums in parentheses."""
        return " * ".join(_parenthesise(part) for part in self.parts)


class Power(Kernel):
    """``k(x, z)^p`` for a whole number ``p ≥ 1``; other powers of a kernel need not be positive definite."""

    def __init__(self, base: Kernel, exponent: int) -> None:
        super().__init__()
        if not isinstance(exponent, int) or isinstance(exponent, bool) or exponent < 1:
            raise InputError(f"a kernel's exponent must be a positive whole number, got {exponent!r}")
        self.base, self.exponent = base, exponent
        self._inherit(base)

    def forward(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The power of the base kernel's matrix, entry by entry."""
        return self.base(x, z) ** self.exponent

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The power of the base kernel's diagonal."""
        return self.base.diag(x) ** self.exponent

    def describe(self) -> str:
        """``base ** exponent``."""
        return f"{_parenthesise(self.base, (Sum, Product, Power))} ** {self.exponent}"


class OnColumns(Kernel):
    """A kernel on some of the columns: ``k(x[columns], z[columns])``. Written ``kernel.on(columns)``.

    A sum of such kernels is a direct sum, a product a tensor product. Names wait for :meth:`Kernel.bind`.
    """

    def __init__(self, base: Kernel, columns: Columns) -> None:
        super().__init__()
        self.base, self.columns = base, columns
        self._inherit(base)
        chosen = [columns] if isinstance(columns, (int, str)) else columns
        if not isinstance(chosen, slice):
            chosen = list(chosen)
            if not chosen or not all(isinstance(c, (int, str)) and not isinstance(c, bool) for c in chosen):
                raise InputError(f"columns must be indices, names or a slice, got {columns!r}")
        self.index: slice | list[int] | None = chosen if _is_resolved(chosen) else None

    def _bind(self, names: list[str]) -> None:
        if isinstance(self.columns, slice):
            self.base._bind(names[self.columns])
            return
        wanted = [self.columns] if isinstance(self.columns, (int, str)) else list(self.columns)
        self.index = [_position(column, names) for column in wanted]
        self.base._bind([names[i] for i in self.index])

    def _take(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n c"]:
        if self.index is None:
            raise InputError(
                f".on({self.columns!r}) names columns, but the kernel has not been told their order: call "
                "kernel.bind(names), or fit it through an estimator on a data frame"
            )
        if isinstance(self.index, list) and max(self.index) >= x.shape[-1]:
            raise InputError(f".on({self.columns!r}) asks for a column that points with {x.shape[-1]} columns lack")
        return x[..., self.index]

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the chosen columns."""
        chosen = self._take(x)
        return self.base(chosen, chosen if z is x else self._take(z))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel's diagonal on the chosen columns."""
        return self.base.diag(self._take(self._points(x, "x")))

    def describe(self) -> str:
        """``base.on(columns)``."""
        return f"{_parenthesise(self.base, (Sum, Product, Power))}.on({self.columns!r})"


class Warped(Kernel):
    """``k(u(x), u(z))`` for a function or torch module ``u``; a module's weights are learnt with the kernel.

    >>> from stratagp import kernels as k
    >>> k.RBF().warp(torch.log)(torch.tensor([[1.0]]), torch.tensor([[1.0]]))
    tensor([[1.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"warp needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, function
        self._inherit(base)
        if isinstance(function, nn.Module):
            function.to(torch.float64)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the warped points."""
        warped = self.function(x)
        return self.base(warped, warped if z is x else self.function(z))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel's diagonal at the warped points."""
        return self.base.diag(self.function(self._points(x, "x")))

    def describe(self) -> str:
        """``base.warp(function)``."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{_parenthesise(self.base, (Sum, Product, Power))}.warp({name})"


class Rescaled(Kernel):
    """``g(x) k(x, z) g(z)`` for a function or torch module ``g`` that returns one number a row (``n 1``)."""

    def __init__(self, base: Kernel, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"Rescaled needs a function of the inputs, got {type(function).__name__}")
        self.base, self.function = base, function
        self._inherit(base)
        if isinstance(function, nn.Module):
            function.to(torch.float64)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel scaled from both sides."""
        return self.function(x) * self.base(x, z) * self.function(z).mT

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``g(x)² k(x, x)``."""
        points = self._points(x, "x")
        return self.function(points).squeeze(-1).square() * self.base.diag(points)

    def describe(self) -> str:
        """``Rescaled(base, function)``."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Rescaled({self.base.describe()}, {name})"


class Separate(Kernel):
    """Kernels of different kinds side by side, one for each latent function: ``q n m``.

    Functions that share a kernel's form are faster as ``kernel.replicate(q)``, one batched product.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        if not kernels or not all(isinstance(k, Kernel) and k.functions is None for k in kernels):
            raise InputError("Separate needs a list of kernels, each for one function")
        self._adopt(kernels)

    @property
    def functions(self) -> int | None:
        """One function for each part."""
        return len(self.parts)

    def replicate(self, functions: int) -> Kernel:
        """Refused: the kernel has its function axis already."""
        raise InputError(f"Separate already has {len(self.parts)} functions; it cannot be replicated {functions} times")

    def forward(self, x: Any, z: Any) -> Float[Tensor, "q n m"]:
        """The parts' matrices, stacked; points with a function axis go to their own part."""
        return torch.stack([part(_own(x, i), _own(z, i)) for i, part in enumerate(self.parts)])

    def diag(self, x: Any) -> Float[Tensor, "q n"]:
        """The parts' diagonals, stacked."""
        return torch.stack([part.diag(_own(x, i)) for i, part in enumerate(self.parts)])

    def describe(self) -> str:
        """``Separate([…])``."""
        return f"Separate([{', '.join(part.describe() for part in self.parts)}])"


def _own(points: Any, i: int) -> Any:
    return points[i] if isinstance(points, Tensor) and points.dim() == 3 else points


def _is_resolved(columns: slice | list[Any]) -> bool:
    return isinstance(columns, slice) or all(isinstance(c, int) and c >= 0 for c in columns)


def _position(column: int | str, names: list[str]) -> int:
    if isinstance(column, str):
        if column not in names:
            raise InputError(f"there is no column {column!r}; the columns are {', '.join(names)}")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise InputError(f"there is no column {column}; there are {len(names)} columns")
    return column % len(names)


def _parenthesise(kernel: Kernel, kinds: tuple[type[Kernel], ...] = (Sum,)) -> str:
    return f"({kernel.describe()})" if isinstance(kernel, kinds) else kernel.describe()
