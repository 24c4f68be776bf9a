"""How much work the numbers of a model file may ask for: sizes are those of tensors that the file has, or modest."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cache
from typing import Any

from torch import Tensor, nn

from stratagp.errors import ModelFileError
from stratagp.persistence.registry import classes

_SMALL = 64  # kernel sizes, strides, paddings and pooled sides of torch's layers at most
_MODEST = 1000  # depths, orders and lengths of words at most, which loops go by
_SMOOTHEST = 1e6  # the largest number of another kind in a kernel
_OF_MANY = {"n_samples": 10**5, "max_steps": 10**5}
_OF_ANY = ("seed", "_seed", "rows", "steps", "taken", "evaluations", "halvings")  # which are told, or start generators


def axes(tensors: Iterable[Tensor]) -> set[int]:
    """All lengths of axes of tensors that hold something; an empty one may be of any shape, at no cost.

    >>> import torch
    >>> sorted(axes([torch.zeros(2, 3), torch.zeros(0, 10**12)]))
    [2, 3]
    """
    return {n for tensor in tensors if tensor.numel() for n in tensor.shape}


def refuse_large(owner: Any, key: str, value: Any, sizes: set[int]) -> None:
    """Refuse a whole number of an object that is neither modest nor a size of the tensors of the file.

    Arguments of estimators are free, as training reads them and prediction does not; so are objects of other libraries.
    """
    if type(owner) not in _own() or hasattr(owner, "get_params") or key in _OF_ANY:
        return
    most = _OF_MANY.get(key, _MODEST)
    count = _whole(value)
    smooth = isinstance(value, float) and abs(value) > _SMOOTHEST and "kernels" in type(owner).__module__
    if smooth or (abs(count) > most and count not in sizes):
        kind = type(owner).__name__
        raise ModelFileError(
            f"{key[:40]} of a {kind} is {str(value)[:40]}: a model file has numbers up to {most} there"
        )


@cache
def _own() -> frozenset[type]:
    return frozenset(classes().values())


def _whole(value: Any) -> int:
    """The number that a loop would go by: also one that stands in an array."""
    if isinstance(value, (str, bytes, float)) or not hasattr(value, "__index__"):
        return 0
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return 0


def check_layer(layer: nn.Module) -> None:
    """Refuse settings of a torch layer that are neither small nor a size of its own tensors.

    They say how large results are, of an adaptive pooling for example.
    """
    kind = next((base for base in type(layer).__mro__ if base.__module__.startswith("torch.nn.modules")), nn.Module)
    if kind is nn.Module:
        return
    sizes = axes((*layer.parameters(False), *layer.buffers(False)))
    for name, value in vars(layer).items():
        if not name.startswith("_") or name == "_reversed_padding_repeated_twice":
            for own in _numbers(value):
                if abs(own) > _SMALL and own not in sizes:
                    raise ModelFileError(f"{name} of a layer torch.nn.{kind.__name__} does not fit its tensors")


def _numbers(value: Any) -> Iterable[int]:
    if isinstance(value, (list, tuple)):
        return [own for part in value[:_SMALL] for own in _numbers(part)]
    return [value] if type(value) is int else []
