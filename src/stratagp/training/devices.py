"""Where a model computes: on the processor, or on a device that torch knows of."""

from __future__ import annotations

import os
from typing import Any

import torch

from stratagp.errors import InputError


def find_device(given: Any) -> torch.device:
    """The device of a name, which must be there and compute in double precision.

    Processes that ``torchrun`` has started on one machine take one CUDA device each where ``"cuda"`` has no number.

    Arguments:
        given: "cpu", "cuda", "cuda:1" and the like, or a ``torch.device``.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if not isinstance(given, (str, torch.device)):
        raise InputError(f"device must be a name such as 'cpu' or 'cuda', or a torch.device, got {given!r}")
    try:
        device = _numbered(torch.device(given))
        float(torch.zeros((), dtype=torch.float64, device=device))
    except (RuntimeError, AssertionError, TypeError) as error:  # also where a device has no values
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"device={str(given)!r} cannot be computed on in double precision here ({reason}): take 'cpu', or see what "
            "torch.cuda.is_available() says"
        ) from error
    return device


def _numbered(device: torch.device) -> torch.device:
    """A CUDA device of its own for each process of this machine, as far as there are enough."""
    rank, count = os.environ.get("LOCAL_RANK"), torch.cuda.device_count() if device.type == "cuda" else 0
    return torch.device("cuda", int(rank) % count) if rank and count and device.index is None else device
