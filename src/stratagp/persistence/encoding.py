"""An object, and all that it holds, as a table of JSON nodes and named tensors.

Objects of classes stand in one flat table and refer to one another by number, so that what was shared is shared again
and cycles do no harm. Everything else stands where it is used, until it is met again and moves to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.frames import frame_columns
from stratagp.persistence.letters import write_texts
from stratagp.persistence.limits import axes, largest_square, refuse_large, refuse_wide
from stratagp.persistence.nodes import Node, plain
from stratagp.persistence.registry import attributes_of, classes, name_of
from stratagp.persistence.tensors import TensorWriter

DEEPEST = 100  # lists in lists
MODULE_FIELDS = frozenset(vars(nn.Module()))
_HOOKS = frozenset(name for name in MODULE_FIELDS if name.endswith("_hooks"))
_LAST = ("criterion_", "_centres")  # which refer to what other attributes hold, and shall not name it
_PASSING = frozenset({"_given", "solver"})  # what lasts no longer than a fit, or is made again when it is asked for


class Encoder:
    """Collects ``objects``, a table of nodes, and ``tensors``.

    >>> encoder = Encoder()
    >>> encoder.value({"a": (1, 2.5)}, "x")
    {'dict': [['a', {'tuple': [1, 2.5]}]]}
    """

    def __init__(self) -> None:
        self.objects: list[Node] = []
        self.tensors = TensorWriter()
        self._seen: dict[int, dict[str, Any]] = {}
        self._held: list[Any] = []
        self._open: set[int] = set()

    def check(self) -> None:
        """Refuse numbers that no decoder would take."""
        tensors = self.tensors.named.values()
        sizes, square = axes(tensors), largest_square(tensors)
        try:
            for owner in filter(_is_object, self._held):
                for key, value in vars(owner).items():
                    refuse_large(owner, key, value, sizes)
                refuse_wide(owner, square)
        except ModelFileError as error:
            raise InputError(f"save: {error}; fit with smaller ones, or keep the model in memory") from error

    def value(self, value: Any, where: str, depth: int = 0) -> Node:
        """The node of a value; ``where`` it is, for messages and for the names of tensors."""
        try:
            return plain(value)
        except KeyError:
            pass
        if id(value) in self._open:
            raise InputError(f"save: {where} holds itself, which a model file cannot say")
        if id(value) in self._seen:
            return self._again(self._seen[id(value)])
        if depth > DEEPEST:
            raise InputError(
                f"save: {where[:200]} is nested more than {DEEPEST} deep, which a model file does not hold"
            )
        self._held.append(value)
        if _is_object(value):
            return self._object(value, where)
        self._open.add(id(value))
        node = self._part(value, where, depth + 1)
        self._open.discard(id(value))
        self._seen[id(value)] = node
        return node

    def _again(self, node: dict[str, Any]) -> Node:
        """A reference to what was met before; it moves to the table, if it is not there."""
        if "ref" not in node:
            self.objects.append(dict(node))
            node.clear()
            node["ref"] = len(self.objects) - 1
        return dict(node)

    def _part(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if isinstance(value, Tensor):
            return self.tensors.tensor(value, where)
        if type(value) is np.ndarray:
            return self._array(value, where, depth)
        if isinstance(value, tuple) and type(value) is not tuple:
            return {"named": name_of(type(value), where), "values": self._each(value, where, depth)}
        if type(value) in (list, tuple):
            return {type(value).__name__: self._each(value, where, depth)}
        if type(value) in (set, frozenset):
            return {type(value).__name__: self._each(sorted(value, key=_rank), where, depth)}
        if type(value) is dict:
            return {"dict": [self._item(key, own, where, depth) for key, own in value.items()]}
        if isinstance(value, (torch.Generator, np.random.RandomState)):
            return self._generator(value, where)
        if hasattr(value, "columns") and hasattr(value, "iloc"):
            return {"frame": [[name, self.value(own, f"{where}.{name}", depth)] for name, own in frame_columns(value)]}
        return self._callable(value, where, depth)

    def _each(self, values: Any, where: str, depth: int) -> list[Node]:
        return [self.value(own, f"{where}.{i}", depth) for i, own in enumerate(values)]

    def _item(self, key: Any, value: Any, where: str, depth: int) -> list[Node]:
        name = key if isinstance(key, str) else "key"
        return [self.value(key, f"{where}.{name}", depth), self.value(value, f"{where}.{name}", depth)]

    def _array(self, value: np.ndarray, where: str, depth: int) -> dict[str, Any]:
        if value.dtype.kind == "O":
            return {"objects": self._each(value.ravel().tolist(), where, depth), "shape": list(value.shape)}
        if value.dtype.kind in "US":
            return write_texts(value, where, self.tensors)
        return self.tensors.array(value, where)

    def _generator(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, torch.Generator):
            return {"generator": self.tensors.tensor(value.get_state(), where)}
        kind, key, place, has_next, following = value.get_state()
        if kind != "MT19937":
            raise InputError(f"save: {where} is a RandomState of {kind}; give one of MT19937, or a seed")
        return {"random state": [self.tensors.array(key, where), place, has_next, plain(following)]}

    def _callable(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if isinstance(value, MethodType):
            return {"method": value.__name__, "of": self.value(value.__self__, where, depth)}
        if isinstance(value, partial):
            parts = [self.value(part, where, depth) for part in (value.func, value.args, dict(value.keywords))]
            return {"partial": parts}
        if isinstance(value, (FunctionType, BuiltinFunctionType)):
            return {"function": name_of(value, where)}
        raise InputError(
            f"save: {where} is of {type(value).__module__}.{type(value).__qualname__}, which a model file cannot hold"
        )

    def _object(self, value: Any, where: str) -> Node:
        node: dict[str, Any] = {"class": name_of(type(value), where)}
        self.objects.append(node)
        reference = {"ref": len(self.objects) - 1}
        self._seen[id(value)] = reference
        own = classes().get(node["class"])
        names = sorted(vars(value), key=_LAST.__contains__)
        state = {name: vars(value)[name] for name in names if name not in _PASSING}
        if isinstance(value, nn.Module):
            node |= self._module(value, where)
            state = {name: part for name, part in state.items() if name not in MODULE_FIELDS}
        strange = sorted(set(state) - attributes_of(own)) if own is not None else []
        if strange:
            held = where or "the model"
            kind = type(value).__name__
            raise InputError(f"save: {held} has an attribute {strange[0]!r} that {kind} does not set: delete it")
        node["state"] = {name: self.value(part, _inside(where, name)) for name, part in state.items()}
        return dict(reference)

    def _module(self, value: nn.Module, where: str) -> dict[str, Any]:
        if any(vars(value).get(name) for name in _HOOKS):
            raise InputError(f"save: {where} has hooks, which a model file cannot hold: remove them")
        parts: Mapping[str, Mapping[str, Any]] = {
            "parameters": value._parameters,
            "buffers": value._buffers,
            "modules": value._modules,
        }
        found: dict[str, Any] = {
            kind: {name: self.value(part, _inside(where, name)) for name, part in named.items()}
            for kind, named in parts.items()
            if named
        }
        passing = sorted(value._non_persistent_buffers_set)
        return found | ({"passing": passing} if passing else {}) | ({} if value.training else {"training": False})


def _is_object(value: Any) -> bool:
    """Whether it is an object of a class whose state is its attributes."""
    others = (Tensor, np.ndarray, tuple, FunctionType, MethodType, partial, torch.Generator, np.random.RandomState)
    if isinstance(value, (*others, type)) or not hasattr(value, "__dict__"):
        return False
    return not (hasattr(value, "iloc") or type(value).__module__ == "builtins")


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _rank(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)
