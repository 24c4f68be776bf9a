"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any

_MOST_DECIMALS = 3  # of percents


def number(value: Any, digits: int = 4) -> str:
    """Four digits that count, groups of thousands, and a dash for what is not known; texts are left as they are.

    >>> number(12345.678), number(0.0123456), number(-2.0), number(None), number(1e-9)
    ('12,346', '0.01235', '−2', '–', '1e−09')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, (str, bool)):
        return str(value)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if isinstance(value, int) or -4 <= size < 9:
        decimals = 0 if isinstance(value, int) else max(0, digits - 1 - size)
        text = f"{value:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.{digits - 1}g}"
    return text.replace("-", "−")


def percent(share: Any, digits: int = 3) -> str:
    """A share as percent; what is short of all, or more than nothing, is not rounded to it.

    >>> percent(0.95), percent(0.123456), percent(None), percent(12.34)
    ('95 %', '12.3 %', '–', '1,234 %')
    >>> percent(0.9996), percent(1.0), percent(1e-9), percent(0.0)
    ('> 99.9 %', '100 %', '< 0.001 %', '0 %')
    """
    if share is None or not math.isfinite(share):
        return "–"
    if share == 0:
        return "0 %"
    size = math.floor(math.log10(abs(100 * share)))
    decimals = min(max(0, digits - 1 - size), _MOST_DECIMALS)
    step, rounded = 10.0**-decimals, round(100 * share, decimals)
    if rounded >= 100 > 100 * share:
        text = f"> {100 - step:.{decimals}f}"
    elif rounded == 0:
        text = f"{'<' if share > 0 else '>'} {math.copysign(step, share):.{decimals}f}"
    else:
        text = f"{rounded:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} %".replace("-", "−")


def count(n: int, what: str) -> str:
    """A number of things.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def listed(names: list[str]) -> str:
    """Names in a row.

    >>> listed(["age", "dose", "town"])
    'age, dose and town'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
