"""Arrays of texts: a list of what each says, or all their memory where that list would stand for far more of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stratagp.errors import ModelFileError
from stratagp.persistence.nodes import listed, only, read_plain, size, texts
from stratagp.persistence.tensors import TensorReader, TensorWriter

_WASTE = 16  # letters that an array has room for, for each that is written or each text
_LAST_LETTER = 0x10FFFF


def write_texts(value: np.ndarray, where: str, tensors: TensorWriter) -> dict[str, Any]:
    """The node of an array of texts or bytes.

    >>> write_texts(np.array(["a", "bc"]), "x", TensorWriter())
    {'texts': ['a', 'bc'], 'dtype': '<U2', 'shape': [2]}
    """
    found = [text if isinstance(text, str) else text.decode("latin-1") for text in value.ravel().tolist()]
    if not _is_wasteful(found, value.dtype):
        return {"texts": found, "dtype": value.dtype.str, "shape": list(value.shape)}
    dense = value.astype(value.dtype.newbyteorder("<"))
    stored = tensors.array(np.frombuffer(dense.tobytes(), np.uint8), where)
    return {"letters": stored, "dtype": dense.dtype.str, "shape": list(value.shape)}


def read_texts(node: dict[str, Any]) -> np.ndarray:
    """The array of a list of texts, which must have room for little more than is written."""
    only(node, "texts", "dtype", "shape")
    found, dtype = listed(node["texts"]), _dtype(node)
    if not all(isinstance(text, str) for text in found):
        raise ModelFileError("an array of texts in it holds something else")
    if _is_wasteful(found, dtype):
        raise ModelFileError("an array of texts in it has another type, with room for far more than is written")
    content = found if dtype.kind == "U" else [text.encode("latin-1") for text in found]
    return np.array(content, dtype=dtype).reshape(_shape(node))


def read_letters(node: dict[str, Any], tensors: TensorReader) -> np.ndarray:
    """The array whose memory is a tensor of bytes."""
    only(node, "letters", "dtype", "shape")
    if not isinstance(node["letters"], dict) or "array" not in node["letters"]:
        raise ModelFileError("the letters of an array of texts in it are no array")
    stored, dtype, shape = tensors.array(node["letters"]), _dtype(node), _shape(node)
    count = math.prod(shape)
    if stored.dtype != np.uint8 or stored.ndim != 1 or not count or len(stored) != count * dtype.itemsize:
        raise ModelFileError("an array of texts in it has another size than its letters")
    if dtype.kind == "U" and (dtype.str[0] != "<" or stored.view("<u4").max(initial=0) > _LAST_LETTER):
        raise ModelFileError("an array of texts in it has letters that are none")
    return stored.view(dtype).reshape(shape)


def _is_wasteful(found: list[str], dtype: np.dtype) -> bool:
    room = len(found) * _width(dtype)
    return room > _WASTE * (len(found) + sum(map(len, found)))


def _width(dtype: np.dtype) -> int:
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def _dtype(node: dict[str, Any]) -> np.dtype:
    texts(node["dtype"])
    dtype: np.dtype = read_plain("numpy dtype", node["dtype"])
    if dtype.kind not in "US":
        raise ModelFileError("an array of texts in it has another type")
    return dtype


def _shape(node: dict[str, Any]) -> list[int]:
    return [size(n) for n in listed(node["shape"])]
