"""Prior mean functions: what a Gaussian process expects before it has seen any data.

A mean with unknown coefficients can also be integrated out: with ``w ~ N(0, variance)``, ``h(x)·w`` is a Gaussian
process with the kernel ``k.Linear(variance).warp(h)``; add it to the kernel of the model (universal kriging, exactly).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, real


class Mean(Parameterised, ABC):
    """A function ``m(x)`` of the points, one value per row. Any torch module from ``n d`` to ``n`` also works.

    >>> Constant(2.0)(torch.zeros(3, 1)).tolist()
    [2.0, 2.0, 2.0]
    """

    @abstractmethod
    def forward(self, x: Any) -> Float[Tensor, " n"]:
        """``m(xᵢ)`` for each row."""


class Zero(Mean):
    """``m(x) = 0``, right for standardised targets.

    >>> Zero()(torch.zeros(3, 1)).tolist()
    [0.0, 0.0, 0.0]
    """

    def forward(self, x: Any) -> Float[Tensor, " n"]:
        """Zeros, also for lists of objects."""
        return x.new_zeros(x.shape[0]) if isinstance(x, Tensor) else torch.zeros(len(x), dtype=torch.float64)


class Constant(Mean):
    """``m(x) = value``, learnt.

    >>> Constant(2.0)(["a", "list", "of texts"]).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, value: Value | Parameter = 0.0) -> None:
        super().__init__()
        self.value = real(value, name="value")

    def forward(self, x: Any) -> Float[Tensor, " n"]:
        """The same value at every row, also for lists of objects."""
        return self.value.expand(x.shape[0] if isinstance(x, Tensor) else len(x))


class Polynomial(Mean):
    """``m(x) = offset + Σ_p Σ_d weight_pd x_d^p`` for powers p = 1 … degree, learnt; degree 1 is a linear mean.

    Arguments:
        weight: one row for each power and one column for each input, ``degree d``; a vector is a linear mean.

    >>> Polynomial([[1.0, -1.0], [0.0, 2.0]], 0.5)(torch.tensor([[2.0, 3.0]], dtype=torch.float64)).item()
    17.5
    """

    def __init__(self, weight: Value | Parameter, offset: Value | Parameter = 0.0) -> None:
        super().__init__()
        self.weight = real(weight, name="weight")
        self.offset = real(offset, name="offset")
        if self.weight.dim() not in (1, 2):
            raise InputError(f"weight must have a row for each power and a column for each input, got {weight!r}")

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The polynomial of each row."""
        weight = torch.atleast_2d(self.weight)
        if weight.shape[-1] != x.shape[-1]:
            raise InputError(f"this mean has weights for {weight.shape[-1]} columns, but the points have {x.shape[-1]}")
        powers = [x ** (p + 1) @ row for p, row in enumerate(weight)]
        return self.offset + torch.stack(powers).sum(0)
