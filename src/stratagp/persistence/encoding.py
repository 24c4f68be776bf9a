"""An object, and all that it holds, as a table of JSON nodes and named tensors.

An object is its class, the arguments of its constructor and its further attributes. An entry of the table holds single
values and references to earlier entries, so that ``load`` can make one after the other, and what was shared is shared
again. The walk has a stack of its own: it is no deeper for deep models.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from sklearn.base import BaseEstimator
from torch import nn

from stratagp.errors import InputError, ModelFileError
from stratagp.parameterised import Parameterised, held_by, signature_of
from stratagp.persistence.limits import Sizes
from stratagp.persistence.registry import CONTAINERS, is_learnt, name_of
from stratagp.persistence.tensors import TensorWriter
from stratagp.persistence.values import Node, is_single, parts_of, write_value

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Encoder:
    """Writes a model and its test as ``objects``, a table of nodes whose last one is the pair, and ``tensors``.

    >>> Encoder({"a": (1, 2.5)}, None).objects
    [{'tuple': [1, 2.5]}, {'dict': ['a', {'ref': 0}]}, {'tuple': [{'ref': 1}, None]}]
    """

    def __init__(self, model: object, test: object) -> None:
        self.objects: list[Node] = []
        self.tensors = TensorWriter()
        self._places: dict[int, int] = {}
        self._outlines: list[tuple[object, dict[str, Any]]] = []  # which keep values, and so their identities
        self._walk(model, "")
        self._walk(test, "test")
        self.objects.append({"tuple": [self._written(model), self._written(test)]})

    def check(self) -> None:
        """Refuse numbers that no decoder would take."""
        sizes = Sizes(self.tensors.named.values())
        try:
            for value, node in self._outlines:
                for key, part in {**node.get("arguments", {}), **node.get("state", {})}.items():
                    sizes.check(type(value), key, part)
                sizes.check_points(value)
        except ModelFileError as error:
            raise InputError(f"save: {error}; fit with smaller ones, or keep the model in memory") from error

    def _walk(self, root: object, at: str) -> None:
        """Write all parts of a value that are not single values, each after what it holds itself."""
        stack: list[tuple[object, str, dict[str, Any] | None]] = [(root, at, None)]  # with an outline: parts are done
        open_ones: set[int] = set()
        while stack:
            value, where, node = stack.pop()
            if node is not None:
                self._places[id(value)] = len(self.objects)
                self.objects.append({key: self._written(part, inside=True) for key, part in node.items()})
                self._outlines.append((value, node))
            elif is_single(value) or id(value) in self._places:
                continue
            elif id(value) in open_ones:
                raise InputError(f"save: {where} holds itself, which a model file cannot express")
            else:
                node = self.tensors.node(value, where) or parts_of(value) or _outline(value, where)
                open_ones.add(id(value))
                stack.append((value, where, node))
                fields = [part for part in node.values() if isinstance(part, (list, dict))]
                items = [item for own in fields for item in (own.items() if isinstance(own, dict) else enumerate(own))]
                stack += [(part, f"{where}.{name}" if where else str(name), None) for name, part in reversed(items)]

    def _written(self, value: object, inside: bool = False) -> Node:
        """A value as a node or a reference; the lists and dictionaries of an outline are written value by value."""
        if inside and isinstance(value, list):
            return [self._written(part) for part in value]
        if inside and isinstance(value, dict):
            return {name: self._written(part) for name, part in value.items()}
        return write_value(value) if is_single(value) else {"ref": self._places[id(value)]}


def _outline(value: object, where: str) -> dict[str, Any]:
    """The node of an object, a function or a method, with the values it holds in lists and dictionaries."""
    cls = type(value)
    if isinstance(value, tuple):
        return {"named": name_of(cls, where), "values": list(value)}
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return {"function": name_of(value, where)}
    if isinstance(value, MethodType):
        return {"method": value.__name__, "of": [value.__self__]}
    if isinstance(value, type) or cls.__module__ == "builtins" or "__dict__" not in dir(cls):
        raise InputError(f"save: {where} is of {cls.__module__}.{cls.__qualname__}, which a model file cannot hold")
    held: dict[str, Any] = vars(value)
    node: dict[str, Any] = {"class": name_of(cls, where)}
    if isinstance(value, nn.Module):
        if any(hooks for name, hooks in held.items() if name.endswith("_hooks")):
            raise InputError(f"save: {where} has hooks, which a model file cannot hold: remove them")
        held, node = held_by(value), node | ({} if value.training else {"training": False})
    arguments = {} if isinstance(value, CONTAINERS) else _arguments(value, held, where)
    state = {name: part for name, part in held.items() if name not in arguments or arguments[name] is not part}
    for name in list(state):
        if isinstance(inspect.getattr_static(cls, name, None), cached_property):
            del state[name]
        elif isinstance(value, BaseEstimator) and not is_learnt(cls, name):
            who = where or "the model"
            raise InputError(f"save: {who} has an attribute {name!r} that {cls.__name__} does not set: delete it")
    return {**node, "arguments": arguments, "state": state}


def _arguments(value: object, held: dict[str, Any], where: str) -> dict[str, Any]:
    """The arguments of the constructor: as they were given, or as the attributes of their names are now."""
    captured = value._arguments if isinstance(value, Parameterised) else {}
    of_torch = isinstance(value, nn.Module) and not isinstance(value, Parameterised)
    kind: Any = type(value)
    found: dict[str, Any] = {}
    for name, parameter in signature_of(kind).parameters.items():
        if name in captured:
            found[name] = captured[name]
        elif name in held:
            found[name] = held[name] is not None if of_torch and name == "bias" else held[name]
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIADIC:
            kept = f"the argument {name!r} of {kind.__name__}"
            raise InputError(f"save: {where} does not keep {kept}: let it set self.{name}")
    return found
