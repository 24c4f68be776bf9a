"""From a table of nodes and named tensors back to an object, with nothing believed that was not checked.

Classes come from the registry, attributes must be ones that the class sets, tensors have the sizes that the file has
bytes for, and no node can stand for more memory than the file takes.
"""

from __future__ import annotations

import copy
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import ModelFileError
from stratagp.persistence.encoding import DEEPEST, MODULE_FIELDS
from stratagp.persistence.frames import made_frame
from stratagp.persistence.letters import read_letters, read_texts
from stratagp.persistence.limits import check_layer, largest_square, refuse_large, refuse_wide
from stratagp.persistence.nodes import Node, listed, mapping, number, only, read_plain, size, texts
from stratagp.persistence.registry import ADDED, Trust, attributes_of, classes, functions
from stratagp.persistence.tensors import TensorReader
from stratagp.persistence.unfolding import refuse_alike, refuse_growth

_FIELDS = frozenset({"class", "state"})
_OF_MODULES = frozenset({"parameters", "buffers", "modules", "passing", "training"})
_METHODS = ("score", "noise", "log_noise", "encode")  # that are held apart from their objects
_KEYS = (str, int, float, bool, bytes, type(None), tuple, frozenset, np.generic, Tensor, nn.Module)
_GROWTH = 10**6  # values that shared lists may stand for, beside those that are written: to hash them takes as long
_LARGE = 1000  # whole numbers of more than 64 bits


class Decoder:
    """Reads a table of ``objects`` with tensors by name.

    >>> Decoder([{"list": [1, {"float": "inf"}]}], {}).read()
    [1, inf]
    """

    def __init__(self, objects: list[Node], named: dict[str, Tensor], trust: Trust | None = None) -> None:
        self._nodes, self.tensors, self._trust = objects, TensorReader(named), trust or Trust()
        self._made: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()
        self._states: set[int] = set()  # memory of the states of generators
        self._count = self._written = 0  # values, with shared ones as often as they are met, and nodes
        self._large = 0
        self._axes: set[int] = set()

    def read(self) -> Any:
        """The first object of the table, with all that it holds."""
        if not isinstance(self._nodes, list) or not all(isinstance(node, dict) for node in self._nodes):
            raise ModelFileError("its objects are no list of objects")
        self._axes = self.tensors.sizes
        for i, node in enumerate(self._nodes):
            if "class" in node:
                self._made[i] = self._allocated(node)
        for i, node in enumerate(self._nodes):
            if "class" in node:
                self._fill(self._made[i], node)
        found = self._referred(0)
        refuse_growth(found)
        square = largest_square(self.tensors.named.values())
        for i, node in enumerate(self._nodes):
            if "class" in node:
                refuse_wide(self._made[i], square)
        return found

    def value(self, node: Node, depth: int = 0) -> Any:
        """The value of a node."""
        self._count += 1
        self._written += 1
        if node is None or type(node) in (bool, int, str):
            return node
        if type(node) is float:
            return float(number(node))
        if not isinstance(node, dict) or not node or depth > DEEPEST + 5:
            raise ModelFileError("it has a value that is no node, or nodes nested too deep")
        kind = next((kind for kind in node if kind in _COMPOUND), None)
        if kind is not None:
            return _COMPOUND[kind](self, node, depth + 1)
        if len(node) != 1:
            raise ModelFileError(f"it has a node with the unknown fields {sorted(map(str, node))[:5]}")
        ((kind, content),) = node.items()
        return self._plain(kind, content)

    def _plain(self, kind: str, content: Any) -> Any:
        self._large += kind == "int"
        if self._large > _LARGE:
            raise ModelFileError(f"it has more than {_LARGE} whole numbers of so many digits")
        try:
            found = read_plain(kind, content)
        except ModelFileError:
            raise
        except Exception as error:
            raise ModelFileError(f"it has a {kind[:40]!r} that cannot be read ({type(error).__name__})") from error
        self._count += len(found) if kind == "range" else 0
        self._check_growth()
        return found

    def _check_growth(self) -> None:
        if self._count - self._written > _GROWTH:
            raise ModelFileError("shared lists, or ranges, in it stand for too many values")

    def _referred(self, index: Any) -> Any:
        index = size(index, len(self._nodes))
        if index not in self._made:
            if index in self._open:
                raise ModelFileError("a list in it holds itself")
            self._open.add(index)
            before = self._count
            self._made[index] = self.value(self._nodes[index])
            self._sizes[index] = self._count - before
            self._open.discard(index)
        else:
            self._count += self._sizes.get(index, 0)
            self._check_growth()
        return self._made[index]

    def _reference(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "ref")
        return self._referred(node["ref"])

    def _list(self, node: dict[str, Any], depth: int) -> Any:
        ((kind, content),) = node.items()
        values = [self.value(own, depth) for own in listed(content)]
        made = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        if kind in ("set", "frozenset"):
            if not all(isinstance(value, _KEYS) for value in values):
                raise ModelFileError("a set in it holds what sets cannot hold")
            refuse_alike(values)
        return made(values)

    def _dict(self, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        only(node, "dict")
        items = [[self.value(part, depth) for part in listed(item, 2)] for item in listed(node["dict"])]
        if not all(isinstance(key, _KEYS) for key, _ in items):
            raise ModelFileError("a dictionary in it has a key that cannot be one")
        refuse_alike([key for key, _ in items])
        return dict(items)

    def _named(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "named", "values")
        cls = self._class(node["named"])
        values = [self.value(own, depth) for own in listed(node["values"])]
        if not issubclass(cls, tuple) or len(values) != len(getattr(cls, "_fields", ())):
            raise ModelFileError(f"{node['named']} does not have {len(values)} fields")
        return tuple.__new__(cls, values)

    def _tensor(self, node: dict[str, Any], depth: int) -> Tensor:
        return self.tensors.tensor(node)

    def _array(self, node: dict[str, Any], depth: int) -> np.ndarray:
        return self.tensors.array(node)

    def _objects(self, node: dict[str, Any], depth: int) -> np.ndarray:
        only(node, "objects", "shape")
        values = [self.value(own, depth) for own in listed(node["objects"])]
        found = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            found[i] = value
        return found.reshape([size(n) for n in listed(node["shape"])])

    def _texts(self, node: dict[str, Any], depth: int) -> np.ndarray:
        return read_texts(node)

    def _letters(self, node: dict[str, Any], depth: int) -> np.ndarray:
        return read_letters(node, self.tensors)

    def _generator(self, node: dict[str, Any], depth: int) -> torch.Generator:
        only(node, "generator")
        state = self.value(node["generator"], depth)
        if not isinstance(state, Tensor):
            raise ModelFileError("the state of a generator in it is no tensor")
        if (memory := state.untyped_storage().data_ptr()) in self._states:
            raise ModelFileError("two generators in it have one state")
        self._states.add(memory)
        made = torch.Generator()
        made.set_state(state)
        return made

    def _random_state(self, node: dict[str, Any], depth: int) -> np.random.RandomState:
        only(node, "random state")
        key, place, has_next, following = listed(node["random state"], 4)
        words = self.value(key, depth)
        if not (isinstance(words, np.ndarray) and words.dtype == np.uint32 and words.shape == (624,)):
            raise ModelFileError("the state of a RandomState in it is not one")
        made = np.random.RandomState(0)
        made.set_state(("MT19937", words, size(place, 625), size(has_next, 2), float(number(following))))
        return made

    def _frame(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "frame")
        columns = [listed(item, 2) for item in listed(node["frame"])]
        return made_frame([(name, self.value(content, depth)) for name, content in columns])

    def _function(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "function")
        texts(node["function"])
        known = functions().get(node["function"])
        return known or self._trust.find(node["function"], (FunctionType, BuiltinFunctionType))

    def _method(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "method", "of")
        owner, name = self.value(node["of"], depth), node["method"]
        texts(name)
        own = isinstance(getattr(type(owner), name, None), FunctionType) and type(owner) in classes().values()
        if not (own and name in _METHODS) and not self._trust.covers(f"{type(owner).__module__}.{name}"):
            raise ModelFileError(f"it holds {name[:40]!r}, which is no method that a file may hold")
        return getattr(owner, name)

    def _partial(self, node: dict[str, Any], depth: int) -> Any:
        only(node, "partial")
        function, args, keywords = (self.value(part, depth) for part in listed(node["partial"], 3))
        if not callable(function) or not isinstance(args, tuple) or not isinstance(keywords, dict):
            raise ModelFileError("it has a partial function that is none")
        return partial(function, *args, **keywords)

    def _class(self, name: Any) -> type:
        texts(name)
        found: type = classes().get(name) or self._trust.find(name, type)
        return found

    def _allocated(self, node: dict[str, Any]) -> Any:
        cls = self._class(node["class"])
        known = _FIELDS | _OF_MODULES if issubclass(cls, nn.Module) else _FIELDS
        if not node.keys() <= known:
            raise ModelFileError(f"a {node['class']} has the unknown fields {sorted(node.keys() - known)[:5]}")
        if issubclass(cls, (tuple, BaseException, torch.autograd.Function)):
            raise ModelFileError(f"{node['class']} is no class of objects")
        made = object.__new__(cls)
        if isinstance(made, nn.Module):
            nn.Module.__init__(made)
        return made

    def _fill(self, made: Any, node: dict[str, Any]) -> None:
        name = node["class"]
        cls: type = type(made)
        known = attributes_of(cls) if name in classes() else None
        for key, part in mapping(node.get("state")).items():
            if (known is not None and key not in known) or key in MODULE_FIELDS or key.startswith("__"):
                raise ModelFileError(f"a {name} has the unknown attribute {key[:40]!r}")
            made.__dict__[key] = self.value(part)
            refuse_large(made, key, made.__dict__[key], self._axes)
        if isinstance(made, nn.Module):
            self._fill_module(made, node, known)
            check_layer(made)
        written = {key for kind in ("state", "parameters", "buffers", "modules") for key in node.get(kind, {})}
        for (owner, key), value in ADDED.items():
            if owner == name and key not in written:
                made.__dict__[key] = copy.deepcopy(value)

    def _fill_module(self, made: nn.Module, node: dict[str, Any], known: frozenset[str] | None) -> None:
        kinds: dict[str, tuple[type, dict[str, Any]]] = {
            "parameters": (nn.Parameter, made._parameters),
            "buffers": (Tensor, made._buffers),
            "modules": (nn.Module, made._modules),
        }
        free = isinstance(made, (nn.ModuleDict, nn.Sequential))
        for kind, (expected, own) in kinds.items():
            for key, part in mapping(node.get(kind, {})).items():
                if not (known is None or key in known or key.isdigit() or free) or key in made.__dict__ or "." in key:
                    raise ModelFileError(f"a {node['class']} has the unknown part {key[:40]!r}")
                value = self.value(part)
                if value is not None and not isinstance(value, expected):
                    raise ModelFileError(f"{key} of a {node['class']} is not one of its {kind}")
                own[key] = value
                refuse_large(made, key, value, self._axes)
        passing = listed(node.get("passing", []))
        texts(*passing)
        made._non_persistent_buffers_set = set(passing)
        made.training = node.get("training", True) is True


_COMPOUND: dict[str, Any] = {
    "ref": Decoder._reference,
    "list": Decoder._list,
    "tuple": Decoder._list,
    "set": Decoder._list,
    "frozenset": Decoder._list,
    "dict": Decoder._dict,
    "named": Decoder._named,
    "tensor": Decoder._tensor,
    "array": Decoder._array,
    "objects": Decoder._objects,
    "texts": Decoder._texts,
    "letters": Decoder._letters,
    "generator": Decoder._generator,
    "random state": Decoder._random_state,
    "frame": Decoder._frame,
    "function": Decoder._function,
    "method": Decoder._method,
    "partial": Decoder._partial,
}
