"""Rows of data in shuffled batches, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError

_EPOCHS = 10  # where nobody says how long to train


class Batches:
    """Rows in shuffled batches; only the rows of one batch are ever read at once.

    The order follows from the state of ``generator`` alone. Rows that are left over at the end of an epoch wait for the
    next shuffle.

    >>> batches = Batches((torch.arange(5.0),), 2, torch.Generator().manual_seed(0), torch.float32)
    >>> batches.per_epoch, [len(x) for (x,) in batches.epoch(at_most=10)]
    (2, [2, 2])
    """

    def __init__(self, data: Sequence[Any], batch_size: int, generator: torch.Generator, dtype: torch.dtype) -> None:
        sizes = {len(part) for part in data}
        if len(sizes) != 1 or not all(sizes):
            raise InputError(f"data must be arrays with as many rows, at least one, got {[len(p) for p in data]} rows")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        self.data, self.generator, self.dtype = data, generator, dtype
        self.rows = sizes.pop()
        self.size = min(batch_size, self.rows)
        self.per_epoch = self.rows // self.size

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """The batches of one pass over the data, at most so many."""
        order = torch.randperm(self.rows, generator=self.generator)
        for batch in order[: self.size * min(self.per_epoch, at_most)].split(self.size):
            index = torch.from_numpy(np.sort(batch.numpy()))  # the order of rows is the order on a disk
            yield [rows(part, index, self.dtype) for part in self.data]

    def total(self, epochs: int | None, steps: int | None) -> int:
        """The number of batches that ``epochs`` or ``steps`` ask for; at most one of the two is given."""
        if epochs is not None and steps is not None:
            raise InputError(f"give epochs or steps, not both, got epochs={epochs} and steps={steps}")
        total = steps if steps is not None else self.per_epoch * (_EPOCHS if epochs is None else epochs)
        if total < 0:
            raise InputError(f"epochs and steps must not be negative, got epochs={epochs} and steps={steps}")
        return total


def rows(data: Any, index: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Some rows of a tensor, an array or a memory map, in a precision.

    >>> rows(np.arange(6).reshape(3, 2), torch.tensor([2]), torch.float32)
    tensor([[4., 5.]])
    """
    if isinstance(data, Tensor):
        return (data[index] if isinstance(index, slice) else data.index_select(0, index)).to(dtype)
    chosen = np.asarray(data[index if isinstance(index, slice) else index.numpy()])
    return torch.from_numpy(np.ascontiguousarray(chosen) if chosen.flags.writeable else chosen.copy()).to(dtype)
