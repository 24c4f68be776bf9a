"""An object, and all that it holds, as a table of JSON nodes and named tensors.

An entry of the table holds single values and references to other entries; an object stands after all that it holds, so
that ``load`` can make one entry after the other, and what was shared is shared again. The walk has a stack of its own:
it is no deeper for deep models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.limits import Sizes
from stratagp.persistence.outlines import Attributes, Parts, outline
from stratagp.persistence.tensors import TensorWriter
from stratagp.persistence.values import Node, is_single, write_value


class Encoder:
    """Writes a model and its test as ``objects``, a table of nodes whose last one is the pair, and ``tensors``.

    >>> Encoder({"a": (1, 2.5)}, None).objects
    [{'tuple': [1, 2.5]}, {'keys': ['a'], 'values': [{'ref': 0}]}, {'tuple': [{'ref': 1}, None]}]
    """

    def __init__(self, model: Any, test: Any) -> None:
        self.tensors = TensorWriter()
        self._outlines: dict[int, tuple[Any, dict[str, Any]]] = {}  # with the values, whose numbers stay theirs so
        self._places: dict[int, int] = {}
        for value, node in chain(self._walk(model, ""), self._walk(test, "test")):
            self._outlines[id(value)] = value, node
            self._places[id(value)] = len(self._places)
        self.objects = [{key: self._field(part) for key, part in node.items()} for _, node in self._outlines.values()]
        self.objects.append({"tuple": [self._value(model), self._value(test)]})

    def check(self) -> None:
        """Refuse numbers that no decoder would take."""
        sizes = Sizes(self.tensors.named.values())
        try:
            for value, node in self._outlines.values():
                for key, part in chain(node.get("arguments", {}).items(), node.get("state", {}).items()):
                    sizes.check(type(value), key, part)
                sizes.check_points(value)
        except ModelFileError as error:
            raise InputError(f"save: {error}; fit with smaller ones, or keep the model in memory") from error

    def _walk(self, root: Any, at: str) -> Iterator[tuple[Any, dict[str, Any]]]:
        """All parts of a value that are not single values, with their outlines, each after what it holds itself."""
        stack: list[tuple[Any, str, dict[str, Any] | None]] = [(root, at, None)]  # with the outline, if parts are done
        open_ones: set[int] = set()
        while stack:
            value, where, node = stack.pop()
            if node is not None:
                yield value, node
            elif is_single(value) or id(value) in self._places:
                continue
            elif id(value) in open_ones:
                raise InputError(f"save: {where} holds itself, which a model file cannot say")
            else:
                node = self._stored(value, where) or outline(value, where)
                open_ones.add(id(value))
                stack.append((value, where, node))
                for name, part in reversed([item for own in node.values() for item in _items(own)]):
                    stack.append((part, f"{where}.{name}" if where else str(name), None))

    def _stored(self, value: Any, where: str) -> dict[str, Any] | None:
        """The node of what the tensor file holds."""
        if isinstance(value, Tensor):
            return self.tensors.tensor(value, where)
        if isinstance(value, torch.Generator):
            return {"generator": self.tensors.tensor(value.get_state(), where)}
        return self.tensors.array(value, where) if type(value) is np.ndarray and value.dtype.kind != "O" else None

    def _field(self, part: Any) -> Node:
        if isinstance(part, Parts):
            return [self._value(own) for own in part]
        return {name: self._value(own) for name, own in part.items()} if isinstance(part, Attributes) else part

    def _value(self, value: Any) -> Node:
        return write_value(value) if is_single(value) else {"ref": self._places[id(value)]}


def _items(part: Any) -> Iterable[tuple[Any, Any]]:
    """The values in a field of an outline, with their names."""
    return part.items() if isinstance(part, Attributes) else enumerate(part) if isinstance(part, Parts) else ()
