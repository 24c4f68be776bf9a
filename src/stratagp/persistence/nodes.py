"""Single values as JSON and back: what JSON has no word for is an object with one key that says what it is."""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.distributions import constraints

from stratagp.errors import InputError, ModelFileError
from stratagp.parameters import Unset

LARGEST = 2**63  # whole numbers from here on are written as texts
_DIGITS = 400
_LONGEST_RANGE = 10**6
_SCALARS = re.compile(r"[<>|=]([biuf][1248]|f16|[mM]8(\[\d*[A-Za-z]+\])?)")
_DTYPES = {str(d).removeprefix("torch."): d for d in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}
_DTYPES |= {str(d).removeprefix("torch."): d for d in (torch.int8, torch.int16, torch.int32, torch.int64)}
_DTYPES |= {str(d).removeprefix("torch."): d for d in (torch.uint8, torch.bool, torch.complex64, torch.complex128)}
_CONSTRAINTS = ("real", "positive", "simplex", "lower_cholesky", "unit_interval", "nonnegative")
_BOUNDED = {"interval": ("lower_bound", "upper_bound"), "greater_than": ("lower_bound",), "less_than": ("upper_bound",)}

Node = Any  # what JSON has: numbers, texts, lists, objects


def plain(value: Any) -> Node:
    """A single value as a node; ``KeyError`` where it is of another kind.

    >>> plain(1.5), plain(float("nan")), plain(slice(0, 3)), plain(np.float32(0.5))
    (1.5, {'float': 'nan'}, {'slice': [0, 3, None]}, {'number': ['<f4', 0.5]})
    """
    if value is None or (isinstance(value, (bool, str)) and type(value) in (bool, str)):
        return value
    return _WRITERS[type(value)](value) if type(value) in _WRITERS else _rarer(value)


def _rarer(value: Any) -> Node:
    if isinstance(value, np.generic):
        kind = value.dtype.str
        if value.dtype.kind in "US":
            return {"text": [kind, str(value) if value.dtype.kind == "U" else value.tobytes().decode("latin-1")]}
        number = value.astype(np.int64) if value.dtype.kind in "mM" else value
        return {"number": [kind, plain(number.item())]}
    if isinstance(value, np.dtype):
        return {"numpy dtype": value.str}
    if isinstance(value, constraints.Constraint):
        return _constraint(value)
    raise KeyError(type(value))


def _constraint(value: Any) -> Node:
    for name in _CONSTRAINTS:
        own = getattr(constraints, name)
        if type(value) is type(own) and vars(value) == vars(own):
            return {"constraint": [name]}
    for name, bounds in _BOUNDED.items():
        if type(value) is getattr(constraints, name):
            return {"constraint": [name, *(plain(float(getattr(value, bound))) for bound in bounds)]}
    raise KeyError(type(value))


def _float(value: float) -> Node:
    return value if math.isfinite(value) else {"float": repr(value)}


def _length(value: range) -> int:
    """``len(value)``, which fails above 2⁶³."""
    return (value[-1] - value[0]) // value.step + 1 if value else 0


def _range(value: range) -> Node:
    if _length(value) > _LONGEST_RANGE:
        raise InputError(f"save: a model file cannot hold {value}, of more than {_LONGEST_RANGE} numbers: give a slice")
    return {"range": [value.start, value.stop, value.step]}


_WRITERS: dict[type, Callable[[Any], Node]] = {
    int: lambda value: value if -LARGEST <= value < LARGEST else {"int": str(value)},
    float: _float,
    Unset: lambda value: {"open": _float(float(value))},
    complex: lambda value: {"complex": [_float(value.real), _float(value.imag)]},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    slice: lambda value: {"slice": [plain(value.start), plain(value.stop), plain(value.step)]},
    range: _range,
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.device: lambda value: {"device": str(value)},
    torch.Size: lambda value: {"size": list(value)},
    datetime.date: lambda value: {"date": value.isoformat()},
    datetime.datetime: lambda value: {"datetime": value.isoformat()},
    datetime.timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: lambda value: {"decimal": str(value)},
    Fraction: lambda value: {"fraction": [str(value.numerator), str(value.denominator)]},
}


def read_plain(kind: str, content: Any) -> Any:
    """The value of a node ``{kind: content}``; raises whatever comes where the content is wrong.

    >>> read_plain("slice", [0, 3, None])
    slice(0, 3, None)
    """
    return _READERS[kind](content)


def number(node: Node) -> Any:
    """A number that may be written as a node."""
    if isinstance(node, dict):
        ((kind, content),) = node.items()
        return read_plain(kind, content) if kind in ("float", "int") else _refuse(f"a {kind} where a number is due")
    return node if type(node) in (int, float, bool) else _refuse("something else where a number is due")


def size(node: Node, most: int = LARGEST) -> int:
    """A whole number from 0 to below ``most``."""
    return node if type(node) is int and 0 <= node < most else _refuse(f"{str(node)[:40]!r} where a size is due")


def texts(*values: Any) -> None:
    """Refuse what is no text of a modest length."""
    if not all(isinstance(value, str) and len(value) < 1000 for value in values):
        _refuse("something else where a short text is due")


def only(node: dict[str, Any], *fields: str) -> None:
    """Refuse a node that has other fields."""
    if node.keys() != set(fields):
        raise ModelFileError(f"a node in it has the fields {sorted(map(str, node))[:5]}, but {list(fields)} are due")


def listed(content: Any, count: int | None = None) -> list[Any]:
    """A list, of so many parts if it is said; refuses all else."""
    if not isinstance(content, list) or (count is not None and len(content) != count):
        raise ModelFileError("it has something else where a list is due")
    return content


def mapping(content: Any) -> dict[str, Any]:
    """Values by name; refuses all else."""
    if not isinstance(content, dict):
        raise ModelFileError("it has something else where named values are due")
    return content


def _refuse(what: str) -> Any:
    raise ModelFileError(f"it has {what}")


def _read_int(content: Any) -> int:
    texts(content)
    return int(content) if len(content) <= _DIGITS else _refuse("a whole number of too many digits")


def _read_float(content: Any) -> float:
    return float(content) if content in ("nan", "inf", "-inf") else _refuse("an unknown number")


def _read_decimal(content: Any) -> Decimal:
    texts(content)
    found = Decimal(content)
    return found if not found.is_finite() or abs(found.adjusted()) <= _DIGITS else _refuse("a decimal that is too long")


def _read_number(content: Any) -> Any:
    kind, value = content
    texts(kind)
    if not _SCALARS.fullmatch(kind):
        _refuse(f"a number of the unknown type {kind[:40]!r}")
    dtype = np.dtype(kind)
    return (
        np.array(number(value), dtype=np.int64).astype(dtype)[()] if dtype.kind in "mM" else dtype.type(number(value))
    )


def _read_text(content: Any) -> Any:
    kind, value = content
    texts(kind)
    if not isinstance(value, str):
        _refuse("something else where a text is due")
    made = np.str_(value) if "U" in kind else np.bytes_(value.encode("latin-1"))
    return made if made.dtype.str == kind else _refuse("a text of another length than its type")


def _read_slice(content: Any) -> slice:
    start, stop, step = (None if part is None else number(part) for part in content)
    return slice(start, stop, step)


def _read_range(content: Any) -> range:
    found = range(*map(number, content))
    return found if _length(found) <= _LONGEST_RANGE else _refuse("a range of too many numbers")


def _read_constraint(content: Any) -> Any:
    name, *bounds = content
    if name in _BOUNDED and len(bounds) == len(_BOUNDED[name]):
        return getattr(constraints, name)(*(float(number(bound)) for bound in bounds))
    return getattr(constraints, name) if name in _CONSTRAINTS and not bounds else _refuse("an unknown constraint")


def _read_dtype(content: Any) -> np.dtype:
    texts(content)
    known = re.fullmatch(r"[<>|=]([biufcSU]\d{1,6}|O|[mM]8(\[\d*[A-Za-z]+\])?)", content)
    return np.dtype(content) if known else _refuse("an unknown type of numbers")


def _read_device(content: Any) -> torch.device:
    """A device by its name, which it is only the wish of an estimator to be fitted on."""
    texts(content)
    return torch.device(content) if re.fullmatch(r"[a-z]{1,20}(:\d{1,3})?", content) else _refuse("an unknown device")


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _read_int,
    "float": _read_float,
    "open": lambda content: Unset(number(content)),
    "complex": lambda content: complex(*map(number, content)),
    "bytes": lambda content: base64.b64decode(content, validate=True),
    "number": _read_number,
    "text": _read_text,
    "slice": _read_slice,
    "range": _read_range,
    "dtype": lambda content: _DTYPES[content],
    "numpy dtype": _read_dtype,
    "device": _read_device,
    "size": lambda content: torch.Size([size(each) for each in content]),
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "timedelta": lambda content: datetime.timedelta(*content),
    "decimal": _read_decimal,
    "fraction": lambda content: Fraction(*map(_read_int, content)),
    "constraint": _read_constraint,
}
