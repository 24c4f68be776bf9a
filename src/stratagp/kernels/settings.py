"""Checks for settings of kernels that are not parameters: whole numbers and fractions."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

from stratagp.errors import InputError


def whole(value: Any, name: str, least: int = 1) -> int:
    """Checks for a whole number ≥ ``least``."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name} must be a whole number ≥ {least}, got {value!r}")
    return number


def share(value: Any, name: str) -> float:
    """Checks for a number in (0, 1]."""
    if not isinstance(value, Real) or not 0 < float(value) <= 1:
        raise InputError(f"{name} must be a number above 0 and at most 1, got {value!r}")
    return float(value)


def above_zero(value: Any, name: str) -> float:
    """Checks for a positive, finite number."""
    if not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name} must be a positive number, got {value!r}")
    return float(value)
