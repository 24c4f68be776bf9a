"""Where a model computes: on the processor, or on a device that torch knows of."""

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


def as_numpy(values: Tensor) -> np.ndarray:
    """Values in double precision, for the user, wherever they were computed."""
    return values.detach().double().cpu().numpy()


def is_elsewhere(module: nn.Module) -> bool:
    """Whether a module is on another device than the processor."""
    return any(tensor.device.type != "cpu" for tensor in (*module.parameters(), *module.buffers()))


def to_processor(value: Any, known: dict[int, Any] | None = None) -> Any:
    """A copy with every tensor inside on the processor; what parts of it share, they share in the copy too.

    It looks into modules, lists, tuples, dictionaries, bound methods and objects of this library. All else is kept as
    it is.

    Arguments:
        known: copies that were made already, by the identity of what they are copies of.
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
