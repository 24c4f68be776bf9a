"""Values as JSON, and back.

Numbers and texts stand for themselves. Any other single value is an object with one key, ``{"float": "nan"}``; a
holder of other values is an object with one key and the list of its parts, ``{"tuple": [1, 2]}``.
"""

from __future__ import annotations

import base64
import importlib
import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.data.tables import is_pandas
from stratagp.errors import InputError, ModelFileError
from stratagp.parameters import Unset
from stratagp.persistence.limits import LONGEST, refuse_alike

Node = Any  # what JSON has: numbers, texts, lists, objects

_LARGEST = 2**63  # whole numbers from here on are written as texts
_WHOLE = re.compile(r"-?\d{1,400}")
_DECIMALS = re.compile(r"-?(\d{1,400}(\.\d{1,400})?(E[+-]?\d{1,3})?|s?NaN|Infinity)")
_FLOATS = re.compile(r"nan|-?inf")
_SCALARS = re.compile(r"[<>|=]([biuf][1248]|f16|[mM]8(\[\d*[A-Za-z]+\])?|[US]\d{1,6})")
_DEVICES = re.compile(r"[a-z]{1,20}(:\d{1,3})?")
_DTYPES = re.compile(r"float(16|32|64)|bfloat16|u?int8|int(16|32|64)|bool")
_KEYS = (str, int, float, bool, bytes, type(None), tuple, frozenset, np.generic, Tensor, nn.Module)


class _Kind(NamedTuple):
    type: type | None  # None of frames, which are known by what they can do
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def is_single(value: object) -> bool:
    """Whether a value is written where it stands; all others are entries of the table."""
    return value is None or type(value) in (bool, str, *_NAMES) or isinstance(value, np.generic)


def write_value(value: Any) -> Node:
    """A single value as a node.

    >>> write_value(1.5), write_value(float("nan"))
    (1.5, {'float': 'nan'})
    """
    kind = type(value)
    whole = kind is int and -_LARGEST <= value < _LARGEST
    if value is None or kind in (bool, str) or whole or (kind is float and math.isfinite(value)):
        return value
    name = _NAMES.get(kind, "scalar")
    return {name: _SINGLE[name].write(value)}


def read_value(node: Node) -> Any:
    """The value of a node; raises whatever comes where its content is wrong."""
    if node is None or type(node) in (bool, int, str, float):
        return node
    ((kind, content),) = node.items()
    return _SINGLE[kind].read(content)


def parts_of(value: object) -> dict[str, list[Any]] | None:
    """What a holder is made of, by the name of its kind; None of anything else.

    >>> parts_of((1, 2))
    {'tuple': [1, 2]}
    """
    name = _HOLDER_NAMES.get(type(value))
    if name is None and not isinstance(value, nn.Module) and is_pandas(value):
        name = "frame"
    return None if name is None else {name: list(HOLDERS[name].write(value))}


def number(node: Node) -> Any:
    """A number that may be written as a node."""
    known = read_value(node) if isinstance(node, dict) and node.keys() <= {"float", "int"} else node
    return known if type(known) in (int, float, bool) else _refuse("something else where a number is expected")


def size(node: Node, most: int = _LARGEST) -> int:
    """A whole number from 0 to below ``most``."""
    return node if type(node) is int and 0 <= node < most else _refuse(f"{str(node)[:40]!r} where a size is expected")


def text(node: Node, pattern: re.Pattern[str] | None = None) -> str:
    """A text of a modest length, which may have to match a pattern."""
    if not isinstance(node, str) or len(node) >= 1000:
        _refuse("something else where a short text is expected")
    return node if pattern is None or pattern.fullmatch(node) else _refuse(f"the unknown value {node[:40]!r}")


def listed(content: Node) -> list[Any]:
    """A list; refuses all else."""
    return list(content) if isinstance(content, list) else _refuse("something else where a list is expected")


def _refuse(what: str) -> Any:
    raise ModelFileError(f"it has {what}")


def _read_scalar(content: Any) -> Any:
    dtype, memory = np.dtype(text(content[0], _SCALARS)), base64.b64decode(content[1], validate=True)
    if len(memory) != dtype.itemsize:
        _refuse("a number or text of the wrong size for its type")
    return np.ndarray((), dtype, memory)[()] if memory else dtype.type()


_SINGLE: dict[str, _Kind] = {
    "int": _Kind(int, str, lambda c: int(text(c, _WHOLE))),
    "float": _Kind(float, repr, lambda c: float(text(c, _FLOATS))),
    "unset": _Kind(Unset, lambda v: write_value(float(v)), lambda c: Unset(number(c))),
    "bytes": _Kind(bytes, lambda v: base64.b64encode(v).decode(), lambda c: base64.b64decode(c, validate=True)),
    "dtype": _Kind(torch.dtype, lambda v: str(v).removeprefix("torch."), lambda c: vars(torch)[text(c, _DTYPES)]),
    "device": _Kind(torch.device, str, lambda c: torch.device(text(c, _DEVICES))),
    "date": _Kind(date, date.isoformat, date.fromisoformat),
    "datetime": _Kind(datetime, datetime.isoformat, datetime.fromisoformat),
    "timedelta": _Kind(timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda c: timedelta(*c)),
    "decimal": _Kind(Decimal, str, lambda c: Decimal(text(c, _DECIMALS))),
    "scalar": _Kind(
        np.generic, lambda v: [v.dtype.str, base64.b64encode(v.tobytes()[: v.dtype.itemsize]).decode()], _read_scalar
    ),
}
_NAMES = {kind.type: name for name, kind in _SINGLE.items()}


def _in_order(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


def _keys(values: list[Any]) -> list[Any]:
    if not all(isinstance(value, _KEYS) for value in values):
        raise ModelFileError("a set in it, or a dictionary, holds something that cannot be a key")
    refuse_alike(values)
    return values


def _write_range(value: range) -> list[int]:
    if value and (value[-1] - value[0]) // value.step >= LONGEST:
        raise InputError(f"save: {value} is a range of more than {LONGEST} numbers: give a slice")
    return [value.start, value.stop, value.step]


def _read_dict(parts: list[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(_keys(parts[:half]), parts[half:], strict=True))


def _read_array(parts: list[Any]) -> np.ndarray:
    shape, *values = parts
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found.reshape([size(n) for n in shape])


def _write_frame(frame: Any) -> Iterable[Any]:
    """The names of columns, and their values, as plain arrays that an encoder of tables reads like those of pandas."""
    yield list(frame.columns)
    for _, column in frame.items():
        kind = str(column.dtype)
        if kind.startswith("datetime64[") and "," in kind:  # of a time zone
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        yield np.asarray(column.astype(object) if kind == "category" else column)


def _read_frame(parts: list[Any]) -> Any:
    names, *columns = parts
    if not all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns):
        raise ModelFileError("a column of a frame in it is not a column")
    if len({len(column) for column in columns}) > 1 or len(columns) != len(names):
        raise ModelFileError("a frame in it has columns of different lengths, or the wrong number of names")
    return importlib.import_module("pandas").DataFrame(dict(enumerate(columns))).set_axis(names, axis=1)


def _read_random_state(parts: list[Any]) -> np.random.RandomState:
    kind, words, place, has_next, following = parts
    made = np.random.RandomState(0)
    made.set_state((text(kind), words, size(place, 625), size(has_next, 2), float(number(following))))
    return made


HOLDERS: dict[str, _Kind] = {
    "list": _Kind(list, list, list),
    "tuple": _Kind(tuple, list, tuple),
    "set": _Kind(set, _in_order, lambda parts: set(_keys(parts))),
    "frozenset": _Kind(frozenset, _in_order, lambda parts: frozenset(_keys(parts))),
    "dict": _Kind(dict, lambda v: [*v, *v.values()], _read_dict),
    "slice": _Kind(slice, lambda v: [v.start, v.stop, v.step], lambda parts: slice(*parts)),
    "range": _Kind(range, _write_range, lambda parts: range(*map(number, parts))),
    "array": _Kind(np.ndarray, lambda v: [v.shape, *v.ravel().tolist()], _read_array),
    "frame": _Kind(None, _write_frame, _read_frame),
    "partial": _Kind(partial, lambda v: [v.func, v.args, v.keywords], lambda p: partial(p[0], *p[1], **p[2])),
    "random_state": _Kind(np.random.RandomState, lambda v: v.get_state(), _read_random_state),
}
_HOLDER_NAMES = {**{kind.type: name for name, kind in HOLDERS.items()}, torch.Size: "tuple"}
