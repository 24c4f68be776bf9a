"""How much work the numbers of a model file may ask for: sizes are those of tensors that the file has, or modest."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import ModelFileError
from stratagp.kernels import Kernel, SimilarPairs
from stratagp.linalg.interpolation import RegularGrid
from stratagp.persistence.registry import classes

_SMALL = 64  # kernel sizes, strides, paddings and pooled sides of torch's layers at most
_MODEST = 1000  # orders and lengths of words at most, which loops go by
_SMOOTHEST = 1e6  # the largest number of another kind in a kernel
_OF_MANY = {"n_samples": 10**5, "max_steps": 10**5, "trials": 10**6, "positions": 10**4}
_OF_MANY |= dict.fromkeys(("alphabet", "_size"), 0x110000)  # the letters that there are
_OF_ANY = {"seed", "_seed", "random_state", "rows", "steps", "taken", "evaluations", "halvings"}
_OF_ANY |= {"column", "columns", "index", "scale"}  # which are told, start generators, name a column, or multiply
_PAIRS = 10**7  # features of one sequence under SimilarPairs
_POINTS = 5000  # between which covariances are computed although the file holds no such matrix
_COVARIANCES = 10**8  # of all functions of a layer


def axes(tensors: Iterable[Tensor]) -> set[int]:
    """All lengths of axes of tensors that hold something; an empty one may be of any shape, at no cost.

    >>> import torch
    >>> sorted(axes([torch.zeros(2, 3), torch.zeros(0, 10**12)]))
    [2, 3]
    """
    return {n for tensor in tensors if tensor.numel() for n in tensor.shape}


def largest_square(tensors: Iterable[Tensor]) -> int:
    """The side of the largest matrix among tensors, by the shorter of its last two axes.

    >>> import torch
    >>> largest_square([torch.zeros(9), torch.zeros(2, 7, 5)])
    5
    """
    return max((min(tensor.shape[-2:]) for tensor in tensors if tensor.dim() > 1 and tensor.numel()), default=0)


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
        most = int(_SMOOTHEST) if smooth else most
        kind = type(owner).__name__
        raise ModelFileError(
            f"{key[:40]} of a {kind} is {str(value)[:40]}: a model file has numbers up to {most} there"
        )


def refuse_wide(owner: Any, square: int) -> None:
    """Refuse sizes of an object that are fine one by one, but not together.

    A matrix between inducing points may be computed where the file holds one of that side (``square``), as of a full
    covariance, or where it is modest.
    """
    if type(owner) not in _own():
        return
    kind, z = type(owner).__name__, getattr(owner, "z", None)
    if isinstance(owner, SimilarPairs):
        if owner.d * owner.positions * owner.root.shape[-1] ** 2 > _PAIRS:
            raise ModelFileError(f"d and positions of a {kind} ask for more than {_PAIRS} features of a sequence")
    elif isinstance(owner, RegularGrid):
        _refuse_points(kind, owner.size, square)
    elif isinstance(z, Tensor) and z.dim() > 1:
        _refuse_points(kind, z.shape[-2], square, getattr(owner, "kernel", None), z)


def _refuse_points(kind: str, count: int, square: int, kernel: Any = None, z: Tensor | None = None) -> None:
    """Refuse too many points; of a kernel, the covariances of all functions that it speaks of count."""
    if count <= square:
        return
    functions = 1
    if count <= _POINTS and isinstance(kernel, Kernel) and z is not None:
        with torch.no_grad():
            functions = kernel(z[..., :1, :]).numel()
    if count > _POINTS or functions * count**2 > _COVARIANCES:
        raise ModelFileError(
            f"there are {count} inducing points of {functions} functions in an object {kind}, and the file no matrix "
            f"of that size: it may have {_POINTS} points, and {_COVARIANCES} covariances in all"
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
