"""Tensors and arrays as named entries of a safetensors file, with their memory layout, and back.

Products of matrices may differ in the last bit with the layout of their factors, so that a transposed matrix comes
back transposed. Tensors that share memory share it again.
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
from stratagp.persistence.limits import axes
from stratagp.persistence.nodes import Node, size, texts

_NUMBERS = re.compile(r"[<|](b1|[iu][1248]|f[248])|<[mM]8\[\d*[A-Za-z]+\]")
_WASTE = 2  # times the size of a tensor that the memory it is a view of may have, to be stored as a whole
_MOST_AXES = 16
_LONGEST_NAME = 200  # letters; names of columns may have more


class TensorWriter:
    """Collects tensors under the names of the places where they are met."""

    def __init__(self) -> None:
        self.named: dict[str, Tensor] = {}
        self._places: dict[tuple[int, torch.dtype], str] = {}
        self._held: list[Tensor] = []  # so that no address is used twice

    def tensor(self, value: Tensor, where: str) -> Node:
        """The node of a tensor, a parameter or a buffer."""
        if value.layout is not torch.strided or value.is_complex() or value.is_quantized:
            raise InputError(f"save: {where} is a tensor of a kind that a model file cannot hold: make it dense")
        node = self._place(value.detach().cpu(), where)
        node |= {"parameter": True} if isinstance(value, nn.Parameter) else {}
        return node | ({"gradient": True} if value.requires_grad and value.is_leaf else {})

    def _place(self, value: Tensor, where: str) -> dict[str, Any]:
        self._held.append(value)
        memory = value.untyped_storage()
        key = memory.data_ptr(), value.dtype
        room = memory.nbytes() // value.element_size()
        whole = value.is_contiguous() and value.storage_offset() == 0 and room == value.numel()
        if value.numel() and key in self._places:
            return self._view(value, self._places[key])
        dense = all(step for step, n in zip(value.stride(), value.shape, strict=True) if n > 1)
        where = self._free(where)
        if not whole and (not dense or room > _WASTE * value.numel()):
            self.named[where] = value.clone(memory_format=torch.contiguous_format)
            return {"tensor": where}
        self.named[where] = value if whole else torch.empty(0, dtype=value.dtype).set_(memory)
        self._places[key] = where
        return {"tensor": where} if whole else self._view(value, where)

    def _free(self, where: str) -> str:
        """A name that no tensor has: a key of a dictionary and its value are met at one place."""
        where = where[:_LONGEST_NAME]
        others = (f"{where}.{i}" for i in count(len(self.named)))
        return next(name for name in chain([where], others) if name not in self.named)

    def _view(self, value: Tensor, name: str) -> dict[str, Any]:
        stored = self.named[name]
        if stored.shape == value.shape and stored.stride() == value.stride():
            return {"tensor": name}
        layout = {"shape": list(value.shape), "stride": list(value.stride()), "offset": value.storage_offset()}
        return {"tensor": name, **layout}

    def array(self, value: np.ndarray, where: str) -> Node:
        """The node of an array of numbers, dates or durations."""
        if value.dtype.kind not in "biufmM" or value.dtype.itemsize > 8 or value.dtype.byteorder == ">":
            raise InputError(f"save: {where} is an array of {value.dtype}, which a model file cannot hold: convert it")
        where = self._free(where)
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = np.ascontiguousarray(value.T if turned else value).reshape(value.T.shape if turned else value.shape)
        self.named[where] = torch.from_numpy(flat.view(_stored_as(flat.dtype)).copy())
        return {"array": where, "dtype": value.dtype.str} | ({"order": "F"} if turned else {})


def _stored_as(dtype: np.dtype) -> np.dtype:
    """The type of numbers of the same size that torch knows."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind in "mM" or dtype.str in ("<u2", "<u4", "<u8") else dtype


class TensorReader:
    """Gives tensors back; each as a copy of its own, in aligned memory."""

    def __init__(self, named: dict[str, Tensor]) -> None:
        self.named = named
        self._made: dict[str, Tensor] = {}
        self.used: set[str] = set()
        self._arrays: set[str] = set()  # of which there are copies

    @property
    def sizes(self) -> set[int]:
        """All numbers that are the length of an axis of a tensor that is not empty."""
        return axes(self.named.values())

    def _find(self, name: Any) -> Tensor:
        texts(name)
        if name not in self.named:
            raise ModelFileError(f"there is no tensor {name!r} in the tensor file")
        self.used.add(name)
        if name not in self._made:
            self._made[name] = self.named[name].clone()
        return self._made[name]

    def tensor(self, node: dict[str, Any]) -> Tensor:
        """The tensor of a node."""
        known = {"tensor", "shape", "stride", "offset", "parameter", "gradient"}
        if (
            not node.keys() <= known
            or ("shape" in node) != ("stride" in node)
            or ("shape" in node) != ("offset" in node)
        ):
            raise ModelFileError(f"the tensor {str(node['tensor'])[:80]!r} has unknown or missing fields")
        found = self._find(node["tensor"])
        if "shape" in node:
            found = _view(found, node)
        gradient = node.get("gradient") is True and found.is_floating_point()
        if node.get("parameter") is True:
            return nn.Parameter(found, requires_grad=gradient)
        return found.view_as(found).requires_grad_(gradient)

    def array(self, node: dict[str, Any]) -> np.ndarray:
        """The array of a node."""
        kind: Any = node.get("dtype")
        texts(kind)
        stored = self._find(node["array"]).numpy()
        if not node.keys() <= {"array", "dtype", "order"} or not _NUMBERS.fullmatch(kind):
            raise ModelFileError(f"the array {node['array']!r} has unknown fields")
        if node["array"] in self._arrays:
            raise ModelFileError(f"two arrays in it are the tensor {node['array'][:80]!r}: a shared one is a reference")
        self._arrays.add(node["array"])
        dtype = np.dtype(kind)
        if stored.dtype != _stored_as(dtype):
            raise ModelFileError(f"the tensor {node['array']!r} is of {stored.dtype}, but {_stored_as(dtype)} is due")
        found = stored.view(dtype).copy()
        return found.T if node.get("order") == "F" else found


def _view(stored: Tensor, node: dict[str, Any]) -> Tensor:
    """A view of the memory of a tensor that stays inside of it and sees no more numbers than it has."""
    room = stored.numel()
    shape, stride = ([size(n, room + 1) for n in node[key]] for key in ("shape", "stride"))
    offset, numbers = size(node["offset"], room + 1), math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) if numbers else 0
    if len(shape) > _MOST_AXES or numbers > room or last >= max(room, 1):
        raise ModelFileError(f"a view of the tensor {node['tensor']!r} reaches beyond it")
    return stored.as_strided(shape, stride, offset)
