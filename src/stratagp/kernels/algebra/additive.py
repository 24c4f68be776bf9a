"""ANOVA kernels: a function as the sum of main effects, pairwise interactions and so on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.arithmetic import Product
from stratagp.kernels.algebra.on_columns import OnColumns
from stratagp.kernels.base import Kernel
from stratagp.kernels.stationary.constant import Constant
from stratagp.parameters import UNSET, Parameter, Value, positive


class Additive(Kernel):
    """The additive kernel of every order up to ``max_order``, with one variance for each order.

    With one-column kernels ``kᵢ`` and the elementary symmetric polynomials ``eₙ`` of their values,

        k(x, z) = Σₙ varianceₙ · eₙ(k₁(x₁, z₁), …, k_D(x_D, z_D)),   eₙ = Σ_{i₁<…<iₙ} k_{i₁} ⋯ k_{iₙ}.

    ``e₁`` alone is a sum of main effects, ``e_D`` the ordinary product kernel. The polynomials come from the recursion
    ``eₙ ← eₙ + kᵢ eₙ₋₁`` over the columns; the Newton-Girard identities give the same but lose digits by cancellation.

    Reference: Duvenaud, Nickisch and Rasmussen, Additive Gaussian processes, 2011.

    Arguments:
        base: a kernel on one column, copied for each (its own variance is fixed), or a list with a kernel for each.
        max_order: the highest order of interaction; None for all.
        variance: a number, or one for each order.
        dim: the number of columns; may be set later by :meth:`Kernel.bind`.

    >>> from stratagp import kernels as k
    >>> Additive(k.RBF(), max_order=1, dim=3)(torch.zeros(1, 3)).item()
    3.0
    """

    def __init__(
        self,
        base: Kernel | Sequence[Kernel],
        max_order: int | None = None,
        variance: Value | Parameter = UNSET,
        dim: int | None = None,
    ) -> None:
        super().__init__()
        if max_order is not None and max_order < 1:
            raise InputError(f"max_order must be at least 1, got {max_order}")
        self.max_order = max_order
        self._template = (base,) if isinstance(base, Kernel) else ()  # a tuple: not a part of this kernel
        self.variance = positive(variance, name="variance")
        if not isinstance(base, Kernel):
            self._build(list(base))
        elif dim is not None:
            self._build(self._copies(dim))

    @property
    def differentiable(self) -> float:
        """As many derivatives as the roughest column, even before the columns are known."""
        return min(part.differentiable for part in self.parts or self._template)

    def _copies(self, dim: int) -> list[Kernel]:
        copies = [copy.deepcopy(template) for template in self._template for _ in range(dim)]
        for kernel in copies:
            if isinstance(kernel._modules.get("variance"), Parameter):
                kernel.fix("variance")
        return copies

    def replicate(self, functions: int) -> Kernel:
        """See :meth:`Kernel.replicate`; the columns must be known."""
        if not self.parts:
            raise InputError("Additive does not know its columns yet: call kernel.bind(d) before replicate")
        return super().replicate(functions)

    def _build(self, kernels: list[Kernel]) -> None:
        if not kernels:
            raise InputError("an additive kernel needs at least one column")
        self._adopt([OnColumns(kernel, i) for i, kernel in enumerate(kernels)])
        self.max_order = min(self.max_order or len(kernels), len(kernels))
        variance = self.parameter("variance")
        self.to(variance.raw)  # copies of the template follow a kernel that was moved before
        if variance.raw.dim() == 0:
            variance.spread(self.max_order)
            variance.per_column = False
        elif len(variance.raw) != self.max_order:
            raise InputError(f"variance has {len(variance.raw)} entries for {self.max_order} orders")

    def _bind(self, names: list[str]) -> None:
        if not self.parts:
            self._build(self._copies(len(names)))
        super()._bind(names)

    def _settings(self) -> str:
        kernels = ", ".join(part.describe() for part in self.parts or self._template)
        return f"[{kernels}], max_order={self.max_order}"

    def _check_columns(self, columns: int) -> None:
        super()._check_columns(columns)
        if not self.parts:
            raise InputError(
                f"Additive does not know its columns yet: call kernel.bind({columns}) or pass dim={columns}"
            )
        if len(self.parts) != columns:
            raise InputError(f"Additive has kernels for {len(self.parts)} columns, but the points have {columns}")

    def _orders(self, values: list[Tensor]) -> Tensor:
        """``Σₙ varianceₙ eₙ`` of the columns' matrices or diagonals, with rows in the last axes."""
        first = values[0]
        polynomials = [torch.ones_like(first)] + [torch.zeros_like(first) for _ in range(int(self.max_order or 0))]
        for i, value in enumerate(values):
            for n in range(min(i + 1, len(polynomials) - 1), 0, -1):
                polynomials[n] = polynomials[n] + value * polynomials[n - 1]
        weights = self.parameter("variance").natural.unbind(-1)  # one tensor for each order: () or (q,)
        pad = first.dim() - weights[0].dim()
        terms = [w.reshape(*w.shape, *[1] * pad) * e for w, e in zip(weights, polynomials[1:], strict=True)]
        return torch.stack(terms).sum(0)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The recursion over columns."""
        return self._orders([part(x, z) for part in self.parts])

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """The same recursion on the diagonals."""
        return self._orders([part.diag(x) for part in self.parts])

    def component(self, columns: Sequence[int]) -> Kernel:
        """The kernel of one effect, ``varianceₙ Π_{i ∈ columns} kᵢ``: a main effect or an interaction of the model.

        The posterior of that effect is ``posterior.component(kernel.component(columns), x)``. Take it again after
        training: its variance is a snapshot.
        """
        order = len(columns)
        known = set(range(len(self.parts)))
        if not 1 <= order <= int(self.max_order or 0) or len(set(columns)) != order or not set(columns) <= known:
            raise InputError(f"columns must be 1 to {self.max_order} different columns, got {list(columns)}")
        variance = self.parameter("variance").natural.detach()[..., order - 1]
        scale = Constant(variance)
        scale.parameter("variance").functions = self.functions
        return Product(scale, *(self.parts[i] for i in columns))
