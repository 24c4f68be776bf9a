"""Kernels on some of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.arithmetic import parenthesise
from stratagp.kernels.base import Kernel
from stratagp.kernels.expectations import Term, spread, terms_of
from stratagp.kernels.feature_maps import FeatureMap, Rng, composed

_MANY = 12  # columns above which only some are printed


class OnColumns(Kernel):
    """A kernel on some of the columns: ``k(x[columns], z[columns])``. Written ``kernel.on(columns)``.

    A sum of such kernels is a direct sum, a product a tensor product. Names wait for :meth:`Kernel.bind`.

    >>> from stratagp import kernels as k
    >>> k.RBF().on("age") + k.Linear().on([1, 2])
    RBF(lengthscale=1, variance=1).on('age') + Linear(variance=1).on([1, 2])
    """

    def __init__(self, base: Kernel, columns: Any) -> None:
        super().__init__()
        if not base.takes_tensors:
            raise InputError(f"{type(base).__name__} acts on objects, which have no columns: drop .on")
        columns = columns.tolist() if isinstance(columns, np.ndarray) else columns
        chosen = columns if isinstance(columns, (slice, list, tuple)) else [columns]
        if not isinstance(chosen, slice):
            chosen = list(chosen)
            if not chosen or not all(isinstance(c, (int, str)) and not isinstance(c, bool) for c in chosen):
                raise InputError(f"columns must be indices, names or a slice, got {columns!r}")
        self.base, self.columns = base, columns
        self.index: Any = chosen if _is_resolved(chosen) else None  # a slice, a list of numbers, or None until bound

    def _bind(self, names: list[str]) -> None:
        if isinstance(self.columns, slice):
            self.base._bind(names[self.columns])
            return
        wanted = [self.columns] if isinstance(self.columns, (int, str)) else list(self.columns)
        self.index = [column_position(column, names) for column in wanted]
        self.base._bind([names[i] for i in self.index])

    def take(self, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "*q n c"]:
        """The chosen columns of points."""
        if self.index is None:
            raise InputError(
                f".on({self.columns!r}) names columns, but the kernel does not know their order: call "
                "kernel.bind(names)"
            )
        if not isinstance(self.index, slice) and not (-x.shape[-1] <= min(self.index) <= max(self.index) < x.shape[-1]):
            raise InputError(f".on({self.columns!r}) asks for a column beyond the {x.shape[-1]} columns of the points")
        chosen = x[..., self.index]
        if not chosen.shape[-1]:
            raise InputError(f".on({self.columns!r}) selects none of the {x.shape[-1]} columns")
        return chosen

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel of the chosen columns."""
        chosen = self.take(x)
        return self.base(chosen, chosen if z is x else self.take(z))

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel's formula on the chosen columns."""
        return self.base.plain(self.take(x), self.take(z))

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The base kernel's diagonal on the chosen columns."""
        return self.base.diag(self.take(self._points(x, "x")))

    def terms(self, dim: int) -> list[Term]:
        """The terms of the base kernel, which do not depend on the other columns."""
        chosen = [int(column) for column in self.take(torch.arange(float(dim))[None])[0]]
        return [spread(term, chosen, dim) for term in terms_of(self.base, len(chosen))]

    def random_features(self, n_features: int, dim: int, generator: Rng = None) -> FeatureMap:
        """The base kernel's features of the chosen columns."""
        return composed(self.base, self.take, n_features, dim, generator)

    def describe(self) -> str:
        """``base.on(columns)``."""
        return f"{parenthesise(self.base)}.on({_shown(self.columns)})"


def _shown(columns: Any) -> str:
    """The columns as given; if there are many, the first two and the last."""
    if not isinstance(columns, (list, tuple)) or len(columns) <= _MANY:
        return repr(columns)
    return f"[{columns[0]!r}, {columns[1]!r} … {columns[-1]!r}]"


def _is_resolved(columns: slice | list[Any]) -> bool:
    return isinstance(columns, slice) or all(isinstance(c, int) for c in columns)


def column_position(column: int | str, names: list[str]) -> int:
    """The index of a column given by name or by number, which may be negative."""
    if isinstance(column, str):
        if column not in names:
            raise InputError(f"there is no column {column!r}; the columns are {', '.join(names)}")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise InputError(f"there is no column {column}; there are {len(names)} columns")
    return column % len(names)
