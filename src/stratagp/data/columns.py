"""One column of a table as numbers: its values, its categories, what is missing.

Dates become days since 1970-01-01 (in UTC if they have a time zone), durations become days. Missing entries are NaN.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float64

from stratagp.data.tables import Column
from stratagp.errors import InputError, RowError

Kind = Literal["number", "date", "duration", "category"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_DAY = datetime.timedelta(days=1)
TRUTHS = (bool, np.bool_)
TYPES: dict[Kind, Any] = {
    "date": (datetime.date,),
    "duration": (datetime.timedelta,),
    "number": (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_),
}
_SHOWN = 10  # categories that a message lists


def to_numbers(column: Column, kind: Kind) -> Float64[np.ndarray, " n"]:
    """A column of numbers, dates or durations as float64, NaN where values are missing.

    >>> to_numbers(Column("0", np.array(["1970-01-03T12", "NaT"], "datetime64[h]")), "date")
    array([2.5, nan])
    """
    values = column.values
    if values.dtype.kind == "c":
        raise InputError(f"X: Complex data not supported, but column {column.label} is complex: split it in two")
    if values.dtype.kind == "M" and kind == "date":
        return (values - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    if values.dtype.kind == "m" and kind == "duration":
        return values / np.timedelta64(1, "D")
    if values.dtype.kind in "biuf" and kind == "number":
        return values.astype(np.float64)
    return np.array([_number(value, row, column, kind) for row, value in enumerate(objects(column))], dtype=np.float64)


def categories_of(column: Column) -> list[Any]:
    """The categories of a column: the declared ones, or its distinct values in sorted order.

    >>> categories_of(Column("0", np.array(["b", "a", "b", None], dtype=object)))
    ['a', 'b']
    """
    found = column.declared
    if found is None:
        found = _in_order({_hashable(v, row, column) for row, v in enumerate(objects(column)) if not is_missing(v)})
    if not found:
        raise InputError(f"X: column {column.label} has no categories because all its values are missing: drop it")
    return found


def to_codes(column: Column, categories: list[Any], ignore: bool, remedy: str) -> Float64[np.ndarray, " n"]:
    """The position of each value among ``categories``; NaN where it is missing, −1 for unknown ones if ``ignore``.

    >>> to_codes(Column("0", np.array(["b", "a", None], dtype=object)), ["a", "b"], ignore=False, remedy="")
    array([ 1.,  0., nan])
    """
    positions = {category: float(i) for i, category in enumerate(categories)}
    if column.declared is not None and column.codes is not None:
        places = np.array([*(positions.get(category, -1.0) for category in column.declared), np.nan])
        codes = places[column.codes]
    else:
        values = enumerate(objects(column))
        codes = np.array(
            [np.nan if is_missing(v) else positions.get(_hashable(v, row, column), -1.0) for row, v in values]
        )
    if not ignore and (codes < 0).any():
        row = int((codes < 0).argmax())
        raise RowError(
            f"X has the category {column.values[row]!r} in row ",
            row,
            f", column {column.label}, which was not in the training data (known: {listed(categories)}): {remedy}",
        )
    return codes


def present(column: Column) -> np.ndarray:
    """The values that are not missing.

    >>> present(Column("0", np.array(["a", None], dtype=object))).tolist()
    ['a']
    """
    return column.values[is_present(column)]


def is_present(column: Column) -> Bool[np.ndarray, " n"]:
    """Which values are not missing.

    >>> is_present(Column("0", np.array(["a", None], dtype=object))).tolist()
    [True, False]
    """
    values = column.values
    if values.dtype.kind == "O":
        return np.array([not is_missing(value) for value in values.tolist()], dtype=bool)
    return values == values


def is_missing(value: Any) -> bool:
    """Whether an object is None, NaN, NaT or pandas' NA."""
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def _number(value: Any, row: int, column: Column, kind: Kind) -> float:
    if is_missing(value):
        return np.nan
    value = _date_of(value) if kind == "date" and isinstance(value, str) else value
    if not isinstance(value, TYPES[kind]):
        raise no_number(value, row, column, kind)
    if isinstance(value, datetime.datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)) - _EPOCH) / _DAY
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _EPOCH.toordinal())
    if isinstance(value, datetime.timedelta):
        return value / _DAY
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _date_of(text: str) -> Any:
    """The date or time that an ISO text names; other texts unchanged."""
    try:
        return datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return text


def no_number(value: Any, row: int, column: Column, kind: Kind = "number") -> RowError:
    """The error for a value that is not of its column's kind."""
    if kind != "number":
        iso = ", or texts such as '2024-12-31'" if kind == "date" else ""
        seen = f", column {column.label}, where fit saw {kind}s: give {kind}s there{iso}"
        return RowError(f"X has {value!r} in row ", row, seen)
    given = "string" if isinstance(value, str) else type(value).__name__
    return RowError(
        f"X: could not convert {given} to float: {value!r} in row ",
        row,
        f", column {column.label}; name the column in categorical=[{column.label}] if it holds categories, or encode "
        "it as numbers first",
    )


def objects(column: Column) -> list[Any]:
    """The values as Python objects; times in microseconds, the finest unit that Python has, whatever theirs was."""
    kind = column.values.dtype.kind
    return (column.values.astype(f"{kind}8[us]") if kind in "Mm" else column.values).tolist()


def _hashable(value: Any, row: int, column: Column) -> Any:
    try:
        hash(value)
    except TypeError:
        of = f", column {column.label}, which cannot be a category: use strings or numbers"
        raise RowError(f"X has {value!r} in row ", row, of) from None
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_)) else value


def _in_order(values: Iterable[Any]) -> list[Any]:
    values = list(values)
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def listed(categories: list[Any]) -> str:
    """The first categories, as messages list them."""
    shown = ", ".join(map(repr, categories[:_SHOWN]))
    return shown if len(categories) <= _SHOWN else f"{shown}, … ({len(categories)} in all)"
