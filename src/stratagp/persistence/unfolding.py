"""How often what a file shares is met: an object that two others hold is written once, but evaluated twice."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
from torch import Tensor, nn

from stratagp.errors import ModelFileError

_SHARED = 10  # times that modules are met on the average; models of the library meet theirs twice
_MEETINGS = 10**4  # of modules, beside these
_ALIKE = 64  # members of a set that have one hash: each is compared with all others
_LEAVES = (str, bytes, int, float, complex, bool, type(None), Tensor, type)


def refuse_growth(root: Any) -> None:
    """Refuse modules that hold themselves, or that share parts so that an evaluation meets far too many.

    With ``w(m)`` the number of modules that an evaluation of ``m`` may meet, ``w(m) = 1 + Σ w(part)``: each is computed
    once.

    >>> from stratagp import kernels as k
    >>> kernel = k.RBF()
    >>> for _ in range(30):
    ...     kernel = k.Product(k.Sum(kernel, kernel))
    >>> refuse_growth(kernel)
    Traceback (most recent call last):
    stratagp.errors.ModelFileError: shared parts in it stand for too many
    """
    counts = _Meetings()
    total = counts.of(root)
    if total > _SHARED * counts.modules + _MEETINGS:
        raise ModelFileError("shared parts in it stand for too many")


class _Meetings:
    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._open: set[int] = set()
        self.modules = 0

    def of(self, value: Any) -> int:
        """How many modules are met in a value, with shared ones as often as they are met."""
        if isinstance(value, _LEAVES) or id(value) in self._open:
            return 0
        if id(value) not in self._known:
            self._open.add(id(value))
            is_module = isinstance(value, nn.Module)
            self.modules += is_module
            if is_module and any(id(part) in self._open for part in value._modules.values()):
                raise ModelFileError("a module in it holds itself")
            self._known[id(value)] = is_module + sum(self.of(part) for part in _parts(value))
            self._open.discard(id(value))
        return self._known[id(value)]


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds, as it is: nothing is made for the purpose that could take the place of another."""
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, np.ndarray):
        return value.flat if value.dtype == object else ()
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__,)
    return vars(value).values() if hasattr(value, "__dict__") else ()


def refuse_alike(values: list[Any]) -> None:
    """Refuse members of a set, or keys, that were chosen to have one hash, as multiples of ``2^61 − 1`` have.

    >>> refuse_alike([i * (2**61 - 1) for i in range(100)])
    Traceback (most recent call last):
    stratagp.errors.ModelFileError: a set in it, or the keys of a dictionary, cannot be told apart quickly
    """
    if len(values) <= _ALIKE:
        return
    _, counts = np.unique(np.fromiter(map(hash, values), np.int64, len(values)), return_counts=True)
    if counts.max() > _ALIKE:
        raise ModelFileError("a set in it, or the keys of a dictionary, cannot be told apart quickly")
