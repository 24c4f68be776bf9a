"""Targets that cannot be learnt from, found by the part and the row that they are in."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

from stratagp.data.source import Block
from stratagp.errors import InputError, RowError

TIMES = (datetime.date, datetime.timedelta)
OF_TIMES = "count the days from some date, to make numbers of times"
Check = Callable[[np.ndarray], Any]
"""Raises an error where some of the targets of rows, each judged alone, are bad."""


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Targets as numbers, ``n p``; others are refused.

    >>> as_numbers(np.array([1, 2])).tolist()
    [[1.0], [2.0]]
    """
    if y.dtype.kind in "Mm":
        raise InputError(f"y must hold numbers, got {y.ravel()[0]!s}: {OF_TIMES}")
    try:
        return y.reshape(len(y), -1).astype(np.float64)
    except (TypeError, ValueError):
        example = next(value for value in y.ravel().tolist() if not is_number(value))
        if isinstance(example, TIMES):
            raise InputError(f"y must hold numbers, got {example!s}: {OF_TIMES}") from None
        raise InputError(f"y must hold numbers, got {example!r}: classes are a task for a classifier") from None


def refuse_targets(block: Block, among: np.ndarray, check: Check | None) -> None:
    """Let ``check`` judge the targets of some rows of a block; an error names the part and the first bad row."""
    if block.y is None or check is None or not len(among):
        return
    try:
        check(block.y[among])
    except InputError as error:
        place = int(among[_first_bad(block.y[among], check)])
        said = _said(check, block.y[[place]]) or str(error)
        raise RowError(f"{block.where}: row ", block.row(place), f": {said}") from error


def _said(check: Check, y: np.ndarray) -> str:
    """What is said about targets, or nothing."""
    try:
        check(y)
    except InputError as error:
        return str(error)
    return ""


def _first_bad(y: np.ndarray, check: Check) -> int:
    """The first row that is refused, by halves."""
    low, high = 0, len(y)  # the first is before high, and not before low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _said(check, y[low:middle]) else (middle, high)
    return low


def is_number(value: Any) -> bool:
    """Whether a value, or what a text says, is a number.

    >>> is_number("1e3"), is_number("n/a")
    (True, False)
    """
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
