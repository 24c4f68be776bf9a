"""Prior mean functions: what a Gaussian process expects before it has seen any data."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, real


class Mean(Parameterised, ABC):
    """A function ``m(x)`` of the points, one value a row."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """``m(xᵢ)`` for each row."""


class Zero(Mean):
    """``m(x) = 0``, right for standardised targets."""

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Zeros."""
        return torch.zeros(len(x), dtype=x.dtype, device=x.device)


class Constant(Mean):
    """``m(x) = value``, learnt."""

    def __init__(self, value: Value | Parameter = 0.0) -> None:
        super().__init__()
        self.value = real(value)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The same value at every row."""
        return self.value.expand(len(x))


class Linear(Mean):
    """``m(x) = weightᵀ x + offset`` with as many weights as there are columns.

    >>> Linear([1.0, -1.0], 0.5)(torch.tensor([[2.0, 1.0]], dtype=torch.float64)).item()
    1.5
    """

    def __init__(self, weight: Value | Parameter, offset: Value | Parameter = 0.0) -> None:
        super().__init__()
        self.weight = real(weight)
        self.offset = real(offset)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The inner product of each row with the weights."""
        return x @ self.weight + self.offset
