"""The covariance of many rows as something to multiply by: blocks of rows, shared among processes.

A process owns a stretch of the rows of ``K``. If they fit into memory it keeps them, in single precision unless more is
asked for; otherwise it recomputes them for each product. Each product is shared with all processes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.linalg.pivoted import pivoted_rows
from stratagp.models.memory import available_memory
from stratagp.training.world import World

_SHARE = 0.6  # of free memory, for kept rows
_CHUNK = 2**23  # entries of a block computed at once


class RowBlocks:
    """``K = k(x, x)`` times columns.

    Arguments:
        kernel: the covariance function.
        x: the points of all rows.
        keep: whether this process keeps its rows; None keeps them if they fit into memory.

    >>> from stratagp import kernels as k
    >>> x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> RowBlocks(k.Linear(), x) @ torch.tensor([[2.0], [3.0]], dtype=torch.float64)
    tensor([[0.],
            [3.]], dtype=torch.float64)
    """

    def __init__(self, kernel: Kernel, x: Any, keep: bool | None = None) -> None:
        self.kernel, self.x, self.world, self.keep, self.dtype = kernel, x, World(), keep, torch.float32
        self._pivoted: tuple[int, Tensor] | None = None
        n = len(x)
        first, stop = (n * each // self.world.size for each in (self.world.rank, self.world.rank + 1))
        self.own = range(first, stop)

    @cached_property
    def kept(self) -> Tensor | None:
        """The rows of this process, if it keeps them; computed on first use."""
        return self._all() if (self._fit() if self.keep is None else self.keep) else None

    def pivoted(self, rank: int) -> Float[Tensor, "r n"]:
        """``R`` with ``RᵀR ≈ K``, of at most ``rank`` rows; computed once for all systems."""
        if self._pivoted is None or self._pivoted[0] != rank:
            with torch.no_grad():
                diagonal, row = self.kernel.diag(self.x), lambda i: self.kernel(self.x[i : i + 1], self.x)[0]
                self._pivoted = rank, self._of_first(pivoted_rows(diagonal, row, rank)[0])
        return self._pivoted[1]

    def chunks(self) -> Iterator[slice]:
        """The rows of this process, in chunks of bounded size."""
        step = max(1, _CHUNK // max(1, len(self.x)))
        for start in range(self.own.start, self.own.stop, step):
            yield slice(start, min(start + step, self.own.stop))

    def block(self, rows: slice) -> Float[Tensor, "r n"]:
        """Some rows of ``K``, with gradients if they are enabled."""
        return self.kernel(self.x[rows], self.x)

    def refine(self) -> None:
        """Compute all products in double precision; rows are kept in it if they fit, otherwise not at all."""
        if self.dtype != torch.float64:
            self.dtype = torch.float64
            self.__dict__.pop("kept", None)  # made earlier for systems with more noise

    def __matmul__(self, v: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        """``K v``, in the precision of the kept rows."""
        if self.kept is None:
            return self.exact(v)
        found = torch.zeros_like(v)
        found[self.own.start : self.own.stop] = (self.kept @ v.to(self.kept)).to(v)
        return self.world.sum(found)

    def exact(self, v: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        """``K v`` in the precision of the kernel, from rows computed afresh."""
        found = torch.zeros_like(v)
        with torch.no_grad():
            for rows in self.chunks():
                found[rows] = self.block(rows) @ v
        return self.world.sum(found)

    def _of_first(self, rows: Float[Tensor, "r n"]) -> Float[Tensor, "p n"]:
        """The rows of the first process: another machine might round differently and choose other pivots."""
        count = self.world.from_first(len(rows))
        same = rows if len(rows) == count else rows.new_empty(count, rows.shape[1])
        self.world.copy_first([same])
        return same

    def _fit(self) -> bool:
        """Whether each process's rows fit into its share of the device's memory."""
        free = _free_memory(self._device())
        own = free is None or self.dtype.itemsize * len(self.own) * len(self.x) <= _SHARE * free
        return all(self.world.all_have(own))

    def _device(self) -> torch.device:
        with torch.no_grad():
            return self.kernel.diag(self.x[:1]).device

    def _all(self) -> Float[Tensor, "r n"]:
        with torch.no_grad():
            kept = torch.empty(len(self.own), len(self.x), dtype=self.dtype, device=self._device())
            for rows in self.chunks():
                kept[rows.start - self.own.start : rows.stop - self.own.start] = self.block(rows)
        return kept


def _free_memory(device: torch.device) -> float | None:
    """This process's share of a device's free memory; None if that is unknown."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # processes on this machine
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / math.ceil(local / torch.cuda.device_count())
    free = available_memory()
    return None if free is None else free / local
