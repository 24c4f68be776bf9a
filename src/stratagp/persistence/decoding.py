"""From a table of nodes and named tensors back to an object, where everything is checked before it is believed.

Classes come from the registry and are made by their constructors, one entry of the table after the other. Attributes
must be ones that the constructor set, tensors have the sizes that the file has bytes for, and nothing takes far more
memory than the file.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType
from typing import Any

from torch import Tensor, nn

from stratagp.errors import ModelFileError
from stratagp.parameterised import held_by, signature_of
from stratagp.persistence.limits import LONGEST, Allocations, Sizes, check_layer, refuse_growth
from stratagp.persistence.registry import CONTAINERS, Trust, classes, functions, is_learnt
from stratagp.persistence.tensors import TensorReader
from stratagp.persistence.values import HOLDERS, Node, listed, read_value, size, text

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
        self._large = self._long = 0

    def read(self) -> Any:
        """The last entry of the table, with all that it holds."""
        refuse_growth(self._nodes)
        for node in self._nodes:
            self._made.append(self._object(node) if "class" in node else self._entry(node))
        self.tensors.restore()
        for attribute in self._attributes:  # constructors may have changed what they were given
            _put(*attribute)
        for made in self._made:
            self._sizes.check_points(made)
        return self._made[-1]

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

    def _each(self, content: Node) -> list[Any]:
        return [self._value(part) for part in listed(content)]

    def _entry(self, node: dict[str, Any]) -> Any:
        """What an entry stands for that is no object of a class."""
        match node:
            case {"tensor": _}:
                return self.tensors.read(node)
            case {"named": name, "values": values} if issubclass(self._class(name), tuple):
                return self._class(name)(*self._each(values))
            case {"function": name}:
                known = functions().get(text(name))
                return known or self._trust.find(name, (FunctionType, BuiltinFunctionType))
            case {"method": name, "of": owner}:
                return self._method(text(name), *self._each(owner))
        kind, content = next(iter(node.items())) if len(node) == 1 else ("", [])
        if kind not in HOLDERS:
            raise ModelFileError(f"it has an entry with the unknown fields {sorted(map(str, node))[:5]}")
        found = HOLDERS[kind].read(self._each(content))
        if isinstance(found, range):
            self._long += (found[-1] - found[0]) // found.step + 1 if found else 0  # len() fails above 2⁶³
            if self._long > LONGEST:
                raise ModelFileError("it has a range of too many numbers")
        return found

    def _method(self, name: str, owner: object) -> Any:
        own = isinstance(inspect.getattr_static(type(owner), name, None), FunctionType)
        known = own and name == "encode" and type(owner) in classes().values()
        if not known and not self._trust.covers(f"{type(owner).__module__}.{name}"):
            raise ModelFileError(f"it holds {name[:40]!r}, which is not a method that a file may hold")
        return getattr(owner, name)

    def _class(self, name: Node) -> Any:
        return classes().get(text(name)) or self._trust.find(name, type)

    def _object(self, node: dict[str, Any]) -> Any:
        """An object, made by its constructor, with the attributes that this alone would not have made."""
        cls, name = self._class(node["class"]), node["class"]
        arguments, state = node.get("arguments"), node.get("state")
        if not isinstance(arguments, dict) or not isinstance(state, dict) or issubclass(cls, tuple):
            raise ModelFileError(
                f"{name} has something else where named values are expected, or is not a class of objects"
            )
        known = signature_of(cls).parameters
        if unknown := sorted(arguments.keys() - known.keys() - state.keys()):  # state: flags of a newer torch's layers
            raise ModelFileError(f"a {name} has the unknown argument {unknown[0][:40]!r}")
        given = {key: self._value(part) for key, part in arguments.items() if key in known}
        for key, value in given.items():
            self._sizes.check(cls, key, value)
        bound = inspect.BoundArguments(signature_of(cls), OrderedDict(given))
        with self._allocations:
            made = cls(*bound.args, **bound.kwargs)
        held = held_by(made) if isinstance(made, nn.Module) else dict(vars(made))
        for key in given.keys() & held.keys() - state.keys():
            self._put(made, key, given[key])
        for key, part in state.items():
            if not (key in held or isinstance(made, CONTAINERS) or is_learnt(cls, key)):
                raise ModelFileError(f"a {name} has the unknown attribute {key[:40]!r}")
            self._put(made, key, self._value(part))
        if isinstance(made, nn.Module):
            made.training = node.get("training", True) is True
            check_layer(made)
        return made

    def _put(self, made: object, key: str, value: object) -> None:
        self._sizes.check(type(made), key, value)
        self._attributes.append((made, key, value))
        _put(made, key, value)


def _put(made: object, key: str, value: object) -> None:
    """Set an attribute as it was, past the constructor: a tensor as the parameter or buffer that it is."""
    place: dict[str, Any] = made.__dict__
    if isinstance(made, nn.Module):
        kinds = ((made._parameters, nn.Parameter), (made._modules, nn.Module), (made._buffers, Tensor))
        place, kind = next((own for own in kinds if key in own[0]), (place, object))
        if value is not None and not isinstance(value, kind):
            raise ModelFileError(f"{key[:40]} of a {type(made).__name__} in it has the wrong type")
        if place is made.__dict__ and isinstance(value, (nn.Parameter, nn.Module)):
            place.pop(key, None)
            place = next(own for own, kind in kinds if isinstance(value, kind))
    place[key] = value
