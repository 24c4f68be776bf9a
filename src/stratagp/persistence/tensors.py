"""What the tensor file holds: tensors, arrays and states of generators, with their memory layout.

Products of matrices may differ in the last bit with the layout of their factors, so a transposed matrix comes back
transposed. Tensors that share memory share it again. An array of texts is stored as its bytes in memory.
"""

from __future__ import annotations

import math
import re
from itertools import chain, count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.values import Node, listed, size, text

_NUMBERS = re.compile(r"[<|](b1|[iu][1248]|f[248])|<[mM]8\[\d*[A-Za-z]+\]")
_TEXTS = re.compile(r"<U\d{1,6}|\|S\d{1,6}")
_LAYOUT = {"shape", "stride", "offset"}
_FLAGS = {"parameter", "gradient", "generator", "dtype", "texts"}
_LAST_LETTER = 0x10FFFF
_WASTE = 2  # a view of memory of more than so many times its size is stored alone
_MOST_AXES = 16
_LONGEST_NAME = 200  # letters; names of columns may have more


class TensorWriter:
    """Collects tensors under the names of the places where they are met."""

    def __init__(self) -> None:
        self.named: dict[str, Tensor] = {}
        self._places: dict[tuple[int, torch.dtype], str] = {}
        self._held: list[Tensor] = []  # so that no address is used twice

    def node(self, value: object, where: str) -> dict[str, Any] | None:
        """The node of what the tensor file holds; None of anything else."""
        if isinstance(value, torch.Generator):
            return {**self._place(value.get_state(), where), "generator": True}
        if type(value) is np.ndarray and value.dtype.kind != "O":
            return self._array(value, where)
        if not isinstance(value, Tensor):
            return None
        if value.layout is not torch.strided or value.is_complex() or value.is_quantized:
            raise InputError(f"save: {where} is a tensor of a kind that a model file cannot hold: make it dense")
        node = self._place(value.detach().cpu(), where)
        node |= {"parameter": True} if isinstance(value, nn.Parameter) else {}
        return node | ({"gradient": True} if value.requires_grad and value.is_leaf else {})

    def _place(self, value: Tensor, where: str) -> dict[str, Any]:
        self._held.append(value)
        memory = value.untyped_storage()
        key, room = (memory.data_ptr(), value.dtype), memory.nbytes() // value.element_size()
        if not value.numel() or key not in self._places:
            names = chain([where[:_LONGEST_NAME]], (f"{where[:_LONGEST_NAME]}.{i}" for i in count(len(self.named))))
            name = next(name for name in names if name not in self.named)  # a key and its value are met at one place
            whole = value.is_contiguous() and value.storage_offset() == 0 and room == value.numel()
            dense = all(step for step, n in zip(value.stride(), value.shape, strict=True) if n > 1)
            if not whole and (not dense or room > _WASTE * value.numel()):
                self.named[name] = value.clone(memory_format=torch.contiguous_format)
                return {"tensor": name}
            self.named[name] = value if whole else torch.empty(0, dtype=value.dtype).set_(memory)
            self._places[key] = name
        name = self._places[key]
        if self.named[name].shape == value.shape and self.named[name].stride() == value.stride():
            return {"tensor": name}
        layout = {"shape": list(value.shape), "stride": list(value.stride()), "offset": value.storage_offset()}
        return {"tensor": name, **layout}

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        """The node of an array of numbers, dates, durations or texts."""
        about: dict[str, Any] = {"dtype": value.dtype.str}
        if value.dtype.kind in "US":
            dtype = value.dtype.newbyteorder("<")
            about = {"dtype": dtype.str, "texts": list(value.shape)}
            value = np.frombuffer(value.astype(dtype).tobytes(), np.uint8)
        elif value.dtype.kind not in "biufmM" or value.dtype.itemsize > 8 or value.dtype.byteorder == ">":
            raise InputError(f"save: {where} is an array of {value.dtype}, which a model file cannot hold: convert it")
        held = value.view(_stored_as(value.dtype))
        plain = held.flags.writeable and min(held.strides, default=0) >= 0
        return {**self._place(torch.from_numpy(held if plain else held.copy(order="K")), where), **about}


def _stored_as(dtype: np.dtype) -> np.dtype:
    """The type of numbers of the same size that torch knows."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind in "mM" or dtype.str in ("<u2", "<u4", "<u8") else dtype


class TensorReader:
    """Gives tensors, arrays and generators back; memory is a copy of that of the file."""

    def __init__(self, named: dict[str, Tensor]) -> None:
        self.named = named
        self._made: dict[str, Tensor] = {}
        self._given: list[tuple[Tensor, Tensor]] = []
        self._generators: dict[int, tuple[torch.Generator, Tensor]] = {}

    @property
    def unused(self) -> list[str]:
        """The names that nothing refers to."""
        return sorted(self.named.keys() - self._made.keys())

    def read(self, node: dict[str, Any]) -> Any:
        """The tensor, array or generator of a node."""
        layout, name = node.keys() & _LAYOUT, text(node["tensor"])
        if not node.keys() <= {"tensor"} | _LAYOUT | _FLAGS or len(layout) not in (0, 3):
            raise ModelFileError(f"the tensor {name[:80]!r} has unknown or missing fields")
        if name not in self.named:
            raise ModelFileError(f"there is no tensor {name[:80]!r} in the tensor file")
        if name not in self._made:
            self._made[name] = self.named[name].clone()
        found = _view(self._made[name], node) if layout else self._made[name]
        if "dtype" in node:
            return _array(found.numpy(), text(node["dtype"]), node.get("texts"))
        if "generator" in node:
            return self._generator(found)
        gradient = node.get("gradient") is True and found.is_floating_point()
        parameter = node.get("parameter") is True
        made = nn.Parameter(found, gradient) if parameter else found.view_as(found).requires_grad_(gradient)
        self._given.append((made, found))
        return made

    def _generator(self, state: Tensor) -> torch.Generator:
        made, memory = torch.Generator(), state.untyped_storage().data_ptr()
        if memory in self._generators:
            raise ModelFileError("two generators in it have one state")
        self._generators[memory] = made, state
        return made.set_state(state)

    def restore(self) -> None:
        """Undo what constructors did to tensors and generators since they were given."""
        for name, memory in self._made.items():
            memory.copy_(self.named[name])
        for made, found in self._given:
            made.data = found
        for generator, state in self._generators.values():
            generator.set_state(state)


def _array(stored: np.ndarray, kind: str, texts: Node) -> np.ndarray:
    """An array of a type whose memory was stored."""
    if texts is not None and _TEXTS.fullmatch(kind):
        dtype, shape = np.dtype(kind), [size(n) for n in listed(texts)]
        if stored.dtype != np.uint8 or stored.ndim != 1 or len(stored) != math.prod(shape) * dtype.itemsize:
            raise ModelFileError("an array of texts in it has the wrong size for its letters")
        if dtype.kind == "U" and stored.view("<u4").max(initial=0) > _LAST_LETTER:
            raise ModelFileError("an array of texts in it has invalid letters")
        return stored.view(dtype).reshape(shape)
    if texts is not None or not _NUMBERS.fullmatch(kind) or stored.dtype != _stored_as(np.dtype(kind)):
        raise ModelFileError(f"an array of {kind[:40]!r} in it has unknown fields, or is a tensor of {stored.dtype}")
    return stored.view(np.dtype(kind))


def _view(stored: Tensor, node: dict[str, Any]) -> Tensor:
    """A view of the memory of a tensor that stays inside of it and sees no more numbers than it has."""
    room = stored.numel()
    shape, stride = ([size(n, room + 1) for n in listed(node[key])] for key in ("shape", "stride"))
    offset, numbers = size(node["offset"], room + 1), math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) if numbers else 0
    if len(shape) > _MOST_AXES or numbers > room or last >= max(room, 1):
        raise ModelFileError(f"a view of the tensor {node['tensor']!r} reaches beyond it")
    return stored.as_strided(shape, stride, offset)
