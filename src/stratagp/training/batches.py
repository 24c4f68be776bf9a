"""Rows of data in shuffled batches, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError
from stratagp.training.world import World

_EPOCHS = 10  # where nobody says how long to train


@runtime_checkable
class BatchStream(Protocol):
    """Batches of rows, in an order that follows from a seed, and can be gone on with from anywhere."""

    rows: int  # of an epoch, in all processes
    size: int  # rows of a batch, in all processes
    per_epoch: int  # batches
    generator: torch.Generator

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """This process's share of the batches of one pass over the data, at most so many."""

    def state(self) -> dict[str, Any]:
        """The place in the present epoch: numbers, text and tensors."""

    def restore(self, state: dict[str, Any]) -> None:
        """Let the next epoch be the rest of the one that was broken off there."""


@runtime_checkable
class Streamed(Protocol):
    """Data that are not in memory, and make batches of themselves."""

    rows: int

    def batches(self, batch_size: int, generator: torch.Generator, dtype: torch.dtype, world: World) -> BatchStream:
        """Their rows in shuffled batches."""


class Batches:
    """Rows in shuffled batches; only the rows of one batch are ever read at once.

    The order follows from the state of ``generator`` alone, that of the first process where there are several. Rows
    that are left over at the end of an epoch wait for the next shuffle.

    >>> batches = Batches((torch.arange(5.0),), 2, torch.Generator().manual_seed(0), torch.float32)
    >>> batches.per_epoch, [len(x) for (x,) in batches.epoch(at_most=10)]
    (2, [2, 2])
    """

    def __init__(
        self,
        data: Sequence[Any],
        batch_size: int,
        generator: torch.Generator,
        dtype: torch.dtype,
        world: World | None = None,
    ) -> None:
        sizes = {len(part) for part in data}
        if len(sizes) != 1 or not all(sizes):
            raise InputError(f"data must be arrays with as many rows, at least one, got {[len(p) for p in data]} rows")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        self.data, self.generator, self.dtype, self.world = data, generator, dtype, world or World()
        self.rows = sizes.pop()
        self.size = min(batch_size, self.rows)
        self.per_epoch = self.rows // self.size
        self.taken, self._start = 0, generator.get_state()  # batches of this epoch, and what its order comes from
        self._broken_off = False

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """This process's share of the batches of one pass over the data, at most so many."""
        order = self._order()
        first = self.taken = self.taken if self._broken_off else 0
        self._broken_off = False
        for batch in order[: self.size * min(self.per_epoch, first + at_most)].split(self.size)[first:]:
            self.taken += 1
            index = torch.from_numpy(np.sort(batch.numpy()))  # the order of rows is the order on a disk
            yield [rows(part, self.world.share(index), self.dtype) for part in self.data]

    def _order(self) -> Tensor:
        """The rows in the order of this epoch."""
        if self._broken_off:
            now = self.generator.get_state()
            self.generator.set_state(self._start)
            order = torch.randperm(self.rows, generator=self.generator)
            self.generator.set_state(now)
        else:
            self._start = self.generator.get_state()
            order = torch.randperm(self.rows, generator=self.generator)
        self.world.copy_first([order])
        return order

    def state(self) -> dict[str, Any]:
        """The place in the present epoch."""
        return {"taken": self.taken, "start": self._start}

    def restore(self, state: dict[str, Any]) -> None:
        """Let the next epoch be the rest of the one that was broken off there."""
        self.taken, self._start, self._broken_off = state["taken"], state["start"], True


def total_steps(batches: BatchStream, epochs: int | None, steps: int | None) -> int:
    """The number of batches that ``epochs`` or ``steps`` ask for; at most one of the two is given."""
    if epochs is not None and steps is not None:
        raise InputError(f"give epochs or steps, not both, got epochs={epochs} and steps={steps}")
    total = steps if steps is not None else batches.per_epoch * (_EPOCHS if epochs is None else epochs)
    if total < 0:
        raise InputError(f"epochs and steps must not be negative, got epochs={epochs} and steps={steps}")
    return total


def rows(data: Any, index: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Some rows of a tensor, an array or a memory map, in a precision.

    >>> rows(np.arange(6).reshape(3, 2), torch.tensor([2]), torch.float32)
    tensor([[4., 5.]])
    """
    if isinstance(data, Tensor):
        return (data[index] if isinstance(index, slice) else data.index_select(0, index.to(data.device))).to(dtype)
    chosen = np.asarray(data[index if isinstance(index, slice) else index.numpy()])
    return torch.from_numpy(np.ascontiguousarray(chosen) if chosen.flags.writeable else chosen.copy()).to(dtype)
