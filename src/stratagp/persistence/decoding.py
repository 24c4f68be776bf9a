"""From a table of nodes and named tensors back to an object, with nothing believed that was not checked.

Classes come from the registry and are made by their constructors, one entry of the table after the other. Attributes
must be ones that the constructor set, tensors have the sizes that the file has bytes for, and nothing takes far more
memory than the file.
"""

from __future__ import annotations

import importlib
import inspect
from collections import OrderedDict
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import ModelFileError
from stratagp.parameterised import held_by, signature_of
from stratagp.persistence.limits import Allocations, Sizes, check_layer, refuse_alike, refuse_growth
from stratagp.persistence.outlines import CONTAINERS, LONGEST, is_estimator, is_learnt
from stratagp.persistence.registry import Trust, classes, functions
from stratagp.persistence.tensors import TensorReader
from stratagp.persistence.values import Node, listed, number, read_value, size, text

_METHODS = ("score", "noise", "log_noise", "encode")  # that are held apart from their objects
_KEYS = (str, int, float, bool, bytes, type(None), tuple, frozenset, np.generic, Tensor, nn.Module)
_LARGE = 1000  # whole numbers of more than 64 bits


class Decoder:
    """Reads a table of ``objects`` with tensors by name.

    >>> Decoder([{"list": [1, {"float": "inf"}]}], {}).read()
    [1, inf]
    """

    def __init__(self, objects: list[Node], named: dict[str, Tensor], trust: Trust | None = None) -> None:
        self._nodes, self.tensors, self._trust = objects, TensorReader(named), trust or Trust()
        self._sizes, self._allocations = Sizes(named.values()), Allocations(named.values())
        self._made: list[Any] = []
        self._attributes: list[tuple[Any, str, Any]] = []
        self._generators: list[tuple[torch.Generator, Tensor]] = []
        self._large = self._long = 0

    def read(self) -> Any:
        """The last entry of the table, with all that it holds."""
        refuse_growth(self._nodes)
        for node in self._nodes:
            self._made.append(self._object(node) if "class" in node else self._entry(node))
        self._settle()
        for made in self._made:
            self._sizes.check_points(made)
        return self._made[-1]

    def _settle(self) -> None:
        """Undo what constructors have done to their arguments: moved, drawn from, started."""
        self.tensors.restore()
        for made, key, value in self._attributes:
            _put(made, key, value)
        for generator, state in self._generators:
            generator.set_state(state)

    def _value(self, node: Node) -> Any:
        """A single value, or the entry that a reference means."""
        if isinstance(node, dict) and "ref" in node:
            place = size(node["ref"], len(self._nodes))
            if place >= len(self._made):
                raise ModelFileError("an entry in it holds itself, or a later one")
            return self._made[place]
        self._large += isinstance(node, dict) and "int" in node
        if self._large > _LARGE:
            raise ModelFileError(f"it has more than {_LARGE} whole numbers of so many digits")
        return read_value(node)

    def _each(self, content: Any, count: int | None = None) -> list[Any]:
        return [self._value(own) for own in listed(content, count)]

    def _entry(self, node: dict[str, Any]) -> Any:
        """What an entry stands for that is no object of a class."""
        match node:
            case {"tensor": _}:
                return self.tensors.tensor(node)
            case {"array": _}:
                return self.tensors.array(node)
            case {"generator": {"tensor": _} as state}:
                return self._generator(self.tensors.tensor(state))
            case {"list": values}:
                return self._each(values)
            case {"tuple": values}:
                return tuple(self._each(values))
            case {"set": values}:
                return set(_checked_keys(self._each(values)))
            case {"frozenset": values}:
                return frozenset(_checked_keys(self._each(values)))
            case {"keys": keys, "values": values}:
                return dict(zip(_checked_keys(self._each(keys)), self._each(values, len(keys)), strict=True))
            case {"named": name, "values": values} if issubclass(self._class(name), tuple):
                return self._class(name)(*self._each(values))
            case {"objects": values, "shape": shape}:
                return _array(self._each(values)).reshape([size(n) for n in listed(shape)])
            case {"frame": names, "columns": columns}:
                return _frame(self._each(names), self._each(columns))
            case {"range": numbers}:
                return self._range(range(*map(number, listed(numbers, 3))))
            case {"random_state": state}:
                return _random_state(*self._each(state, 5))
            case {"function": name}:
                known = functions().get(text(name))
                return known or self._trust.find(name, (FunctionType, BuiltinFunctionType))
            case {"method": name, "of": owner}:
                return self._method(text(name), *self._each(owner, 1))
            case {"partial": [function, args, keywords]}:
                return partial(self._value(function), *self._value(args), **self._value(keywords))
        raise ModelFileError(f"it has an entry with the unknown fields {sorted(map(str, node))[:5]}")

    def _range(self, found: range) -> range:
        self._long += (found[-1] - found[0]) // found.step + 1 if found else 0  # len() fails above 2⁶³
        if self._long > LONGEST:
            raise ModelFileError("it has a range of too many numbers")
        return found

    def _generator(self, state: Tensor) -> torch.Generator:
        memory = state.untyped_storage().data_ptr()
        if any(memory == other.untyped_storage().data_ptr() for _, other in self._generators):
            raise ModelFileError("two generators in it have one state")
        made = torch.Generator()
        made.set_state(state)
        self._generators.append((made, state))
        return made

    def _method(self, name: str, owner: Any) -> Any:
        own = isinstance(inspect.getattr_static(type(owner), name, None), FunctionType)
        known = own and name in _METHODS and type(owner) in classes().values()
        if not known and not self._trust.covers(f"{type(owner).__module__}.{name}"):
            raise ModelFileError(f"it holds {name[:40]!r}, which is no method that a file may hold")
        return getattr(owner, name)

    def _class(self, name: Any) -> Any:
        return classes().get(text(name)) or self._trust.find(name, type)

    def _object(self, node: dict[str, Any]) -> Any:
        """An object, made by its constructor, with the attributes that this alone would not have made."""
        cls, name = self._class(node["class"]), node["class"]
        arguments, state = node.get("arguments"), node.get("state")
        if not isinstance(arguments, dict) or not isinstance(state, dict) or issubclass(cls, tuple):
            raise ModelFileError(f"{name} has something else where named values are due, or is no class of objects")
        if unknown := sorted(arguments.keys() - signature_of(cls).parameters.keys()):
            raise ModelFileError(f"a {name} has the unknown argument {unknown[0][:40]!r}")
        given = {key: self._value(part) for key, part in arguments.items()}
        for key, value in given.items():
            self._sizes.check(cls, key, value)
        bound = inspect.BoundArguments(signature_of(cls), OrderedDict(given))
        with self._allocations:
            made = cls(*bound.args, **bound.kwargs)
        known = held_by(made) if isinstance(made, nn.Module) else dict(vars(made))
        for key in given.keys() & known.keys() - state.keys():
            self._put(made, key, given[key])
        for key, part in state.items():
            if not (key in known or isinstance(made, CONTAINERS) or (is_estimator(cls) and is_learnt(cls, key))):
                raise ModelFileError(f"a {name} has the unknown attribute {key[:40]!r}")
            self._put(made, key, self._value(part))
        if isinstance(made, nn.Module):
            made.training = node.get("training", True) is True
            check_layer(made)
        return made

    def _put(self, made: Any, key: str, value: Any) -> None:
        self._sizes.check(type(made), key, value)
        self._attributes.append((made, key, value))
        _put(made, key, value)


def _put(made: Any, key: str, value: Any) -> None:
    """Set an attribute as it was, past the constructor: a tensor as the parameter or buffer that it is."""
    place: dict[str, Any] = made.__dict__
    if isinstance(made, nn.Module):
        kinds = ((made._parameters, nn.Parameter), (made._modules, nn.Module), (made._buffers, Tensor))
        place, kind = next((own for own in kinds if key in own[0]), (place, object))
        if value is not None and not isinstance(value, kind):
            raise ModelFileError(f"{key[:40]} of a {type(made).__name__} in it is something else than it was")
        if place is made.__dict__ and isinstance(value, (nn.Parameter, nn.Module)):
            place.pop(key, None)
            place = next(own for own, kind in kinds if isinstance(value, kind))
    place[key] = value


def _checked_keys(values: list[Any]) -> list[Any]:
    if not all(isinstance(value, _KEYS) for value in values):
        raise ModelFileError("a set in it, or a dictionary, holds what cannot be a key")
    refuse_alike(values)
    return values


def _array(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found


def _frame(names: list[Any], columns: list[Any]) -> Any:
    if not all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns):
        raise ModelFileError("a column of a frame in it is no column")
    if len({len(column) for column in columns}) > 1 or len(columns) != len(names):
        raise ModelFileError("a frame in it has columns of different lengths, or names for others")
    return importlib.import_module("pandas").DataFrame(dict(enumerate(columns))).set_axis(names, axis=1)


def _random_state(kind: Any, words: Any, place: Any, has_next: Any, following: Any) -> np.random.RandomState:
    made = np.random.RandomState(0)
    made.set_state((text(kind), words, size(place, 625), size(has_next, 2), float(number(following))))
    return made
