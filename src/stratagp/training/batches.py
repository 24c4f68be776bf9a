"""Rows of data in shuffled batches, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError
from stratagp.training.world import World

_EPOCHS = 10  # by default


@runtime_checkable
class BatchStream(Protocol):
    """Batches of rows in an order that a seed decides, which can be resumed anywhere."""

    rows: int  # in an epoch, over all processes
    size: int  # rows in a batch, over all processes
    per_epoch: int  # batches in an epoch
    generator: torch.Generator

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """This process's share of at most ``at_most`` batches of one pass over the data."""

    def state(self) -> dict[str, Any]:
        """The position in the current epoch: numbers, text and tensors."""

    def restore(self, state: dict[str, Any]) -> None:
        """Make the next epoch the rest of the interrupted one."""


@runtime_checkable
class Streamed(Protocol):
    """Data outside memory that form their own batches."""

    rows: int

    def batches(self, batch_size: int, generator: torch.Generator, dtype: torch.dtype, world: World) -> BatchStream:
        """Their rows in shuffled batches."""


class Batches:
    """Rows in shuffled batches; only the rows of one batch are ever read at once.

    The order depends only on the state of ``generator``, that of the first process if there are several. Rows
    left over at the end of an epoch wait for the next shuffle.

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
            raise InputError(f"data must be arrays with equally many rows (at least 1), got {[len(p) for p in data]}")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        self.data, self.generator, self.dtype, self.world = data, generator, dtype, world or World()
        self.rows = sizes.pop()
        self.size = min(batch_size, self.rows)
        self.per_epoch = self.rows // self.size
        self.taken, self._start = 0, generator.get_state()  # batches so far in this epoch, and its start
        self._broken_off = False

    def epoch(self, at_most: int) -> Iterator[list[Tensor]]:
        """This process's share of at most ``at_most`` batches of one pass over the data."""
        order = self._order()
        first = self.taken = self.taken if self._broken_off else 0
        self._broken_off = False
        for batch in order[: self.size * min(self.per_epoch, first + at_most)].split(self.size)[first:]:
            self.taken += 1
            index = torch.from_numpy(np.sort(batch.numpy()))  # sorted rows are read in disk order
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
        """The position in the current epoch."""
        return {"taken": self.taken, "start": self._start}

    def restore(self, state: dict[str, Any]) -> None:
        """Make the next epoch the rest of the interrupted one."""
        self.taken, self._start, self._broken_off = state["taken"], state["start"], True


def total_steps(batches: BatchStream, epochs: int | None, steps: int | None) -> int:
    """The number of batches in ``epochs`` or ``steps``; give at most one of the two."""
    if epochs is not None and steps is not None:
        raise InputError(f"give epochs or steps, not both, got epochs={epochs} and steps={steps}")
    total = steps if steps is not None else batches.per_epoch * (_EPOCHS if epochs is None else epochs)
    if total < 0:
        raise InputError(f"epochs and steps must not be negative, got epochs={epochs} and steps={steps}")
    return total


def rows(data: Any, index: Tensor | slice, dtype: torch.dtype) -> Tensor:
    """Some rows of a tensor, an array or a memory map, as a tensor of type ``dtype``.

    >>> rows(np.arange(6).reshape(3, 2), torch.tensor([2]), torch.float32)
    tensor([[4., 5.]])
    """
    if isinstance(data, Tensor):
        return (data[index] if isinstance(index, slice) else data.index_select(0, index.to(data.device))).to(dtype)
    chosen = np.asarray(data[index if isinstance(index, slice) else index.numpy()])
    return torch.from_numpy(np.ascontiguousarray(chosen) if chosen.flags.writeable else chosen.copy()).to(dtype)
