"""Finds targets that cannot be learnt from, and names their part and row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

from stratagp.data.source import Block
from stratagp.errors import InputError, RowError

TIMES = (datetime.date, datetime.timedelta)
OF_TIMES = "convert times to numbers, such as days since a date"
Check = Callable[[np.ndarray], Any]
"""Raises an error if any of the given targets is bad; each row is judged on its own."""


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Targets as numbers, ``n p``; raises if they are not.

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
        raise InputError(f"y must hold numbers, got {example!r}: use a classifier for classes") from None


def refuse_targets(block: Block, among: np.ndarray, check: Check | None) -> None:
    """Apply ``check`` to the targets of some rows of a block; the error names the part and the first bad row."""
    if block.y is None or check is None or not len(among):
        return
    try:
        check(block.y[among])
    except InputError as error:
        place = int(among[_first_bad(block.y[among], check)])
        said = _said(check, block.y[[place]]) or str(error)
        raise RowError(f"{block.where}: row ", block.row(place), f": {said}") from error


def _said(check: Check, y: np.ndarray) -> str:
    """The message of the check's error, or an empty text."""
    try:
        check(y)
    except InputError as error:
        return str(error)
    return ""


def _first_bad(y: np.ndarray, check: Check) -> int:
    """The first refused row, by bisection."""
    low, high = 0, len(y)  # low ≤ the first bad row < high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _said(check, y[low:middle]) else (middle, high)
    return low


def is_number(value: Any) -> bool:
    """Whether a value is a number or text that reads as one.

    >>> is_number("1e3"), is_number("n/a")
    (True, False)
    """
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
