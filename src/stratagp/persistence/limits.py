"""How much memory and work a model file may ask for: what is in proportion to the file, or modest."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stratagp.errors import ModelFileError
from stratagp.kernels import Kernel, SimilarPairs
from stratagp.linalg.interpolation import RegularGrid
from stratagp.parameterised import held_by
from stratagp.parameters import Parameter
from stratagp.persistence.registry import classes

_SMALL = 64  # kernel sizes, strides, paddings and pooled sides of torch's layers at most
_MODEST = 1000  # orders and lengths of words at most, which loops go by
_SMOOTHEST = 1e6  # the largest number of another kind in a kernel
_OF_MANY = {"n_samples": 10**5, "max_steps": 10**5, "trials": 10**6, "positions": 10**4}
_OF_MANY |= dict.fromkeys(("alphabet", "_size"), 0x110000)  # the letters that there are
_OF_ANY = {"seed", "_seed", "random_state", "rows", "steps", "taken", "evaluations", "halvings"}
_OF_ANY |= {"column", "columns", "index", "scale", "lower_bound", "upper_bound"}  # which no loop goes by
_PAIRS = 10**7  # features of one sequence under SimilarPairs
_POINTS = 5000  # between which covariances are computed although the file holds no such matrix
_COVARIANCES = 10**8  # of all functions of a layer
_ROOM, _TIMES = 2**25, 10  # numbers that constructors may make, beside those of the file so many times
_MAKERS = {"arange", "empty", "eye", "expand", "full", "linspace", "new_empty", "new_full", "new_ones", "new_zeros"}
_MAKERS |= {"ones", "rand", "randint", "randn", "randperm", "repeat", "repeat_interleave", "tile", "zeros"}
_SHARED, _MEETINGS = 10, 10**4  # times that objects are met on the average, and so many beside these
_GROWTH = 10**6  # values that shared lists may stand for, beside those that are written: to hash them takes as long
_DEEPEST = 100  # lists in lists
_ALIKE = 64  # members of a set that have one hash: each is compared with all others
LONGEST = 10**6  # numbers of all ranges


class Sizes:
    """What tensors say about sizes: the lengths of axes, and the side of the largest matrix; empty ones say nothing."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        full = [tensor for tensor in tensors if tensor.numel()]
        self.axes = {n for tensor in full for n in tensor.shape}
        self.square = max((min(tensor.shape[-2:]) for tensor in full if tensor.dim() > 1), default=0)

    def check(self, cls: type, key: str, value: object) -> None:
        """Refuse a whole number of an object that is neither modest nor the length of an axis.

        Options of estimators are free: training reads them, prediction does not. So are objects of other libraries.
        """
        if key in _OF_ANY or cls not in _own():
            return
        most, count = _OF_MANY.get(key, _MODEST), 0
        with suppress(TypeError, ValueError, RuntimeError):
            count = operator.index(value)  # type: ignore[arg-type]  # the number that a loop would go by, in an array too
        smooth = isinstance(value, float) and abs(value) > _SMOOTHEST and issubclass(cls, Kernel)
        if smooth or (abs(count) > most and count not in self.axes):
            limit = int(_SMOOTHEST) if smooth else most
            what = f"{key[:40]} of a {cls.__name__} is {str(value)[:40]}"
            raise ModelFileError(f"{what}: a model file has numbers up to {limit} there")

    def check_points(self, owner: object) -> None:
        """Refuse sizes of an object that are fine one by one, but not together.

        A matrix between inducing points may be computed where the file holds one of that side, as of a full covariance,
        or where it is modest; the covariances of all functions that a kernel speaks of count.
        """
        if type(owner) not in _own():
            return
        kind, held = type(owner).__name__, held_by(owner) if isinstance(owner, nn.Module) else {}
        if isinstance(owner, SimilarPairs) and owner.d * owner.positions * owner.root.shape[-1] ** 2 > _PAIRS:
            raise ModelFileError(f"d and positions of a {kind} ask for more than {_PAIRS} features of a sequence")
        z, kernel = held.get("z"), held.get("kernel")
        z = z.natural if isinstance(z, Parameter) else z
        points = z if isinstance(z, Tensor) and z.dim() > 1 else None
        count = owner.size if isinstance(owner, RegularGrid) else 0 if points is None else points.shape[-2]
        functions = 1
        if self.square < count <= _POINTS and isinstance(kernel, Kernel) and points is not None:
            with torch.no_grad():
                functions = kernel(points[..., :1, :]).numel()
        if count > self.square and (count > _POINTS or functions * count**2 > _COVARIANCES):
            raise ModelFileError(
                f"there are {count} inducing points of {functions} functions in an object {kind}, and the file has no "
                f"matrix of that size: it may have {_POINTS} points, and {_COVARIANCES} covariances in all"
            )


@cache
def _own() -> frozenset[type]:
    return frozenset(cls for cls in classes().values() if not issubclass(cls, BaseEstimator))


def check_layer(layer: nn.Module) -> None:
    """Refuse settings of a torch layer that are neither small nor a size of its own tensors.

    They say how large results are, of an adaptive pooling for example.
    """
    kind = next((base for base in type(layer).__mro__ if base.__module__.startswith("torch.nn.modules")), nn.Module)
    sizes = Sizes((*layer.parameters(False), *layer.buffers(False))).axes
    for name, value in vars(layer).items() if kind is not nn.Module else ():
        numbers = [own for own in (value if isinstance(value, (tuple, list)) else [value]) if type(own) is int]
        if any(abs(own) > _SMALL and own not in sizes for own in numbers):
            raise ModelFileError(f"{name} of a layer torch.nn.{kind.__name__} does not fit its tensors")


class Allocations(TorchFunctionMode):
    """While it is on, tensors may be made of so many numbers in all, and none before its size is known to be fine."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self._left = _ROOM + _TIMES * sum(tensor.numel() for tensor in tensors)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, unless the sizes that it is given are too large."""
        kwargs, name, asked = kwargs or {}, func.__name__, 0
        if name in _MAKERS:
            rest = args[1:] if args and isinstance(args[0], Tensor) else args
            given = kwargs.get("size", next((part for part in rest if isinstance(part, (tuple, list))), rest))
            sizes = [abs(n) for n in given if type(n) is int] * (2 if name == "eye" and len(rest) == 1 else 1)
            asked = sum(sizes) if name in ("arange", "linspace") else math.prod(sizes)
            asked *= args[0].numel() if name in ("repeat", "tile") else 1
        if asked <= self._left:
            found = func(*args, **kwargs)
            self._left -= found.numel() if isinstance(found, Tensor) else 0
            if self._left >= 0:
                return found
        raise ModelFileError("its arguments ask for more memory than the file accounts for")


def refuse_growth(table: object) -> None:
    """Refuse a table whose entries share parts so that what they stand for is far more than what is written.

    An entry stands for what it holds, and for all that its references stand for, each time: evaluations meet them so.
    """
    if not isinstance(table, list) or not table or not all(isinstance(entry, dict) for entry in table):
        raise ModelFileError("its table of objects is not a list of objects")
    written = 0
    objects: list[int] = []
    values: list[int] = []
    depths: list[int] = []
    for i, entry in enumerate(table):
        parts = [part for own in entry.values() for part in _listed(own)]
        places = [part["ref"] for part in parts if isinstance(part, dict) and type(part.get("ref")) is int]
        below = [place for place in places if 0 <= place < i]
        written += len(parts)
        objects.append(("class" in entry) + sum(objects[place] for place in below))
        values.append(len(parts) + sum(values[place] for place in below))
        depths.append(0 if "class" in entry else 1 + max((depths[place] for place in below), default=0))
        if objects[i] > _SHARED * len(table) + _MEETINGS:
            raise ModelFileError("shared parts in it stand for too many")
        if values[i] - written > _GROWTH or depths[i] > _DEEPEST:
            raise ModelFileError("shared lists in it stand for too many values, or are nested too deep")


def _listed(content: object) -> Iterable[Any]:
    return content.values() if isinstance(content, dict) else content if isinstance(content, list) else [content]


def refuse_alike(values: list[Any]) -> None:
    """Refuse members of a set, or keys, that were chosen to have one hash, as multiples of ``2^61 − 1`` have."""
    if len(values) > _ALIKE:
        _, counts = np.unique(np.fromiter(map(hash, values), np.int64, len(values)), return_counts=True)
        if counts.max() > _ALIKE:
            raise ModelFileError("a set in it, or the keys of a dictionary, cannot be told apart quickly")
