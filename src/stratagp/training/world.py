"""Several processes that train one model: each has its share of the rows of a batch, and all make the same step.

The objective is a mean over rows plus a part that does not depend on them, ``F = (N/B) Σᵢ ℓᵢ − KL``. A process with
``B_r`` of the ``B`` rows of a batch computes ``F_r = (N/B_r) Σ_{i∈r} ℓᵢ − KL``; weighted by rows, the average is that
of one process:

    Σ_r (B_r / B) F_r = (N/B) Σᵢ ℓᵢ − KL

So the KL counts once, however uneven the shares, and a process without rows adds nothing. The processes, their
rendezvous and restarts are torch's: ``torchrun --nproc-per-node 2 script.py``.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

_PAUSE = 0.3  # seconds in which threads of gloo let go of what they hold
_OBJECTIVE, _ROWS, _FAULTS, _WISHES = range(4)  # the numbers sent after the gradients


class World:
    """The processes that train together; by default a single one.

    >>> World().size, World().is_first
    (1, True)
    """

    def __init__(self) -> None:
        together = dist.is_available() and dist.is_initialized()
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that shows progress and writes files."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """This process's own rows of a batch, given by their numbers: every ``size``-th."""
        return rows[self.rank :: self.size] if self.size > 1 else rows

    def average(
        self, parameters: Sequence[nn.Parameter], value: Tensor | None, rows: int, fault: bool, wish: int
    ) -> tuple[Tensor | None, bool, int]:
        """Average gradients over processes by rows, in place; returns objective, whether any failed, and requests.

        Arguments:
            parameters: average the gradients of these; those without one count as zero.
            value: the objective of this process's rows; None if it has none.
            rows: the number of these rows.
            fault: whether this process failed to compute its objective.
            wish: a request for all after this step, as a number; the numbers of all processes are added up.
        """
        if self.size == 1:
            return value, fault, wish
        numbers = torch.tensor([0.0 if value is None else rows * value.item(), rows, fault, wish], dtype=torch.float64)
        flat = torch.cat([*(_weighted(p, rows) for p in parameters), numbers.to(parameters[0].device)])
        dist.all_reduce(flat)
        *sums, tail = flat.split([*(p.numel() for p in parameters), len(numbers)])
        total = tail[_ROWS].clamp_min(1.0)
        for parameter, summed in zip(parameters, sums, strict=True):
            parameter.grad = (summed / total).view_as(parameter).to(parameter)
        return tail[_OBJECTIVE] / total, bool(tail[_FAULTS] > 0), int(tail[_WISHES])

    def from_first(self, value: Any) -> Any:
        """The first process's value, in all of them: numbers, text and containers of these."""
        if self.size == 1:
            return value
        box = [value if self.is_first else None]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def by_first(self, function: Callable[[], Any]) -> Any:
        """The function's result in the first process, in all of them; if it raises, all raise."""
        if self.size == 1:
            return function()
        found, error = None, None
        if self.is_first:
            try:
                found = function()
            except Exception as own:
                error = own
        found, error = self.from_first((found, error))
        if error is not None:
            raise error
        return found

    def all_have(self, value: Any) -> list[Any]:
        """The values of all processes, by rank, in each of them."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Set tensors to their values in the first process."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def mean(self, tensors: Iterable[Tensor], rows: int) -> None:
        """Average real tensors over processes, in place, weighted by the ``rows`` that each took them from."""
        if self.size == 1:
            return
        total = float(self.sum(torch.tensor(float(rows), dtype=torch.float64)))
        for tensor in tensors if total else ():
            if tensor.is_floating_point():
                dist.all_reduce(tensor.mul_(rows / total))


def join() -> World:
    """Join the processes started by ``torchrun``, if any: over gloo, and NCCL for CUDA devices.

    >>> join().size
    1
    """
    if dist.is_available() and not dist.is_initialized() and "TORCHELASTIC_RUN_ID" in os.environ:
        store, rank, size = next(rendezvous("env://"))
        if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
            # torchrun keeps one store over restarts, with the addresses of dead processes; on one machine all processes
            # count restarts alike
            store = PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        atexit.register(_leave)
    return World()


def _leave() -> None:
    """End the process group. A thread of gloo may still hold the last message, and must not outlive the interpreter."""
    time.sleep(_PAUSE)
    dist.destroy_process_group()


def _weighted(parameter: nn.Parameter, rows: int) -> Tensor:
    """The gradient of a mean over rows as that of their sum, in double precision; zeros if there is none."""
    if parameter.grad is None or not rows:
        return torch.zeros(parameter.numel(), dtype=torch.float64, device=parameter.device)
    return parameter.grad.detach().reshape(-1).double() * rows
