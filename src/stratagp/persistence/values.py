"""Single values as JSON and back: what JSON has no word for is an object with one key that says what it is."""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributions import constraints

from stratagp.errors import InputError, ModelFileError
from stratagp.parameters import Unset

Node = Any  # what JSON has: numbers, texts, lists, objects

_LARGEST = 2**63  # whole numbers from here on are written as texts
_DIGITS = 400
_SCALARS = re.compile(r"[<>|=]([biuf][1248]|f16|[mM]8(\[\d*[A-Za-z]+\])?)")
_DEVICES = re.compile(r"[a-z]{1,20}(:\d{1,3})?")
_TORCH = re.compile(r"float(16|32|64)|bfloat16|u?int8|int(16|32|64)|bool")
_CONSTRAINTS = {name: type(getattr(constraints, name)) for name in ("real", "simplex", "lower_cholesky")}
_CONSTRAINTS |= {name: getattr(constraints, name) for name in ("interval", "greater_than", "less_than")}
_NAMES_OF_CONSTRAINTS = {kind: name for name, kind in _CONSTRAINTS.items()}


def is_single(value: Any) -> bool:
    """Whether it is a value that a node of its own stands for, which holds no others."""
    return value is None or type(value) in (bool, str, *_NAMES) or isinstance(value, tuple(_RARE.values()))


def write_value(value: Any) -> Node:
    """A single value as a node.

    >>> write_value(1.5), write_value(float("nan")), write_value(slice(0, 3)), write_value(np.float32(0.5))
    (1.5, {'float': 'nan'}, {'slice': [0, 3, None]}, {'number': ['<f4', 0.5]})
    """
    kind = type(value)
    whole = kind is int and -_LARGEST <= value < _LARGEST
    if value is None or kind in (bool, str) or whole or (kind is float and math.isfinite(value)):
        return value
    name = _NAMES.get(kind) or next(name for name, rare in _RARE.items() if isinstance(value, rare))
    return {name: _KINDS[name].write(value)}


def read_value(node: Node) -> Any:
    """The value of a node; raises whatever comes where its content is wrong.

    >>> read_value({"slice": [0, 3, None]})
    slice(0, 3, None)
    """
    if node is None or type(node) in (bool, int, str, float):
        return node
    ((kind, content),) = node.items()
    return _KINDS[kind].read(content)


def number(node: Node) -> Any:
    """A number that may be written as a node."""
    known = read_value(node) if isinstance(node, dict) and node.keys() <= {"float", "int"} else node
    return known if type(known) in (int, float, bool) else _refuse("something else where a number is due")


def size(node: Node, most: int = _LARGEST) -> int:
    """A whole number from 0 to below ``most``."""
    return node if type(node) is int and 0 <= node < most else _refuse(f"{str(node)[:40]!r} where a size is due")


def text(node: Node, pattern: re.Pattern[str] | None = None) -> str:
    """A text of a modest length, which may have to match a pattern."""
    if not isinstance(node, str) or len(node) >= 1000:
        _refuse("something else where a short text is due")
    return node if pattern is None or pattern.fullmatch(node) else _refuse(f"the unknown type {node[:40]!r}")


def listed(content: Any, count: int | None = None) -> list[Any]:
    """A list, of so many parts if it is said; refuses all else."""
    right = isinstance(content, list) and count in (None, len(content))
    return list(content) if right else _refuse("something else where a list is due")


def _refuse(what: str) -> Any:
    raise ModelFileError(f"it has {what}")


def _write_scalar(value: Any) -> Node:
    return [value.dtype.str, write_value((value.astype(np.int64) if value.dtype.kind in "mM" else value).item())]


def _read_scalar(content: Any) -> Any:
    dtype, value = np.dtype(text(content[0], _SCALARS)), number(content[1])
    return np.array(value, dtype=np.int64).astype(dtype)[()] if dtype.kind in "mM" else dtype.type(value)


def _read_text(content: Any) -> Any:
    kind, value = content
    made = np.str_(value) if "U" in text(kind) else np.bytes_(value.encode("latin-1"))
    return made if made.dtype.str == kind else _refuse("a text of another length than its type")


def _write_constraint(value: Any) -> Node:
    if type(value) not in _NAMES_OF_CONSTRAINTS:
        raise InputError(f"save: a model file cannot hold the constraint {value}")
    return [_NAMES_OF_CONSTRAINTS[type(value)], *(write_value(float(bound)) for bound in vars(value).values())]


def _read_int(content: Any) -> int:
    return int(content) if len(text(content)) <= _DIGITS else _refuse("a whole number of too many digits")


def _read_decimal(content: Any) -> Decimal:
    found = Decimal(text(content))
    return found if not found.is_finite() or abs(found.adjusted()) <= _DIGITS else _refuse("a decimal that is too long")


class _Kind(NamedTuple):
    type: type
    write: Callable[[Any], Node]
    read: Callable[[Any], Any]


_KINDS: dict[str, _Kind] = {
    "int": _Kind(int, str, _read_int),
    "float": _Kind(float, repr, lambda c: float(c) if c in ("nan", "inf", "-inf") else _refuse("an unknown number")),
    "open": _Kind(Unset, lambda v: write_value(float(v)), lambda c: Unset(number(c))),
    "bytes": _Kind(bytes, lambda v: base64.b64encode(v).decode(), lambda c: base64.b64decode(c, validate=True)),
    "slice": _Kind(
        slice, lambda v: [v.start, v.stop, v.step], lambda c: slice(*(n if n is None else number(n) for n in c))
    ),
    "dtype": _Kind(torch.dtype, lambda v: str(v).removeprefix("torch."), lambda c: getattr(torch, text(c, _TORCH))),
    "device": _Kind(torch.device, str, lambda c: torch.device(text(c, _DEVICES))),
    "date": _Kind(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime": _Kind(datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "timedelta": _Kind(
        datetime.timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda c: datetime.timedelta(*c)
    ),
    "decimal": _Kind(Decimal, str, _read_decimal),
    "text": _Kind(
        np.character, lambda v: [v.dtype.str, str(v, "latin-1") if isinstance(v, bytes) else str(v)], _read_text
    ),
    "number": _Kind(np.generic, _write_scalar, _read_scalar),
    "constraint": _Kind(
        constraints.Constraint, _write_constraint, lambda c: _CONSTRAINTS[c[0]](*(float(number(n)) for n in c[1:]))
    ),
}
_NAMES = {kind.type: name for name, kind in _KINDS.items()}
_RARE = {name: _KINDS[name].type for name in ("text", "number", "constraint")}  # whose classes have others below
