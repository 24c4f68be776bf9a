"""Where a model computes: on the CPU or on another torch device."""

from __future__ import annotations

import copy
import inspect
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import InputError


def find_device(given: Any) -> torch.device:
    """The device with this name; raises unless it exists and computes in double precision.

    Processes started by ``torchrun`` on one machine take one CUDA device each if ``"cuda"`` has no number.

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
    except (RuntimeError, AssertionError, TypeError) as error:  # includes devices without storage
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"device={str(given)!r} cannot compute in double precision here ({reason}): use 'cpu', or check "
            "torch.cuda.is_available()"
        ) from error
    return device


def _numbered(device: torch.device) -> torch.device:
    """A separate CUDA device for each process on this machine, as far as there are enough."""
    rank, count = os.environ.get("LOCAL_RANK"), torch.cuda.device_count() if device.type == "cuda" else 0
    return torch.device("cuda", int(rank) % count) if rank and count and device.index is None else device


def as_numpy(values: Tensor) -> np.ndarray:
    """Values as a numpy array in double precision, from any device."""
    return values.detach().double().cpu().numpy()


def is_elsewhere(module: nn.Module) -> bool:
    """Whether a module is on a device other than the CPU."""
    return any(tensor.device.type != "cpu" for tensor in (*module.parameters(), *module.buffers()))


def to_processor(value: Any, known: dict[int, Any] | None = None) -> Any:
    """A copy with every tensor inside on the CPU; what its parts share, they also share in the copy.

    It looks into modules, lists, tuples, dictionaries, bound methods and objects of this library, and keeps everything
    else as it is.

    Arguments:
        known: copies made already, by the id of the original.
    """
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = _to_processor(value, known)
    return known[id(value)]


def _to_processor(value: Any, known: dict[int, Any]) -> Any:
    if isinstance(value, nn.Module):
        copied = copy.deepcopy(value).cpu()
        known |= {id(old): new for old, new in zip(value.parameters(), copied.parameters(), strict=True)}
        return copied
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {to_processor(key, known): to_processor(part, known) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_processor(part, known) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(to_processor(part, known) for part in value)
    if inspect.ismethod(value):
        return getattr(to_processor(value.__self__, known), value.__name__)
    if type(value).__module__.startswith("stratagp.") and hasattr(value, "__dict__"):
        copied = known[id(value)] = copy.copy(value)
        copied.__dict__.update({name: to_processor(part, known) for name, part in vars(value).items()})
        return copied
    return value
