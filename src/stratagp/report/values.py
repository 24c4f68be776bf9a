"""Values of a report: as JSON can hold them, as few as a page needs, and as people read them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

_LONGEST = 60  # characters of an entry
_MOST_DECIMALS = 3  # in percentages


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts of them; NaN and infinity become None, other objects their text.

    >>> plain({"share": np.float64(0.5), "ends": np.array([1.0, np.nan])})
    {'share': 0.5, 'ends': [1.0, None]}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind not in "Mm":
        return plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    return plain(value.tolist()) if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else entry(value)


def entry(value: Any) -> Any:
    """One entry of a table: a number, None if it is missing, or a short text.

    >>> entry(np.datetime64("2020-01-01T00:00")), entry("a" * 100)[-3:]
    ('2020-01-01', 'aa…')
    """
    if isinstance(value, np.datetime64) or hasattr(value, "to_datetime64"):
        moment = value if isinstance(value, np.datetime64) else value.to_datetime64()
        return None if np.isnat(moment) else date(moment)
    if isinstance(value, (datetime.date, datetime.timedelta)):
        return str(value)
    if isinstance(value, (np.generic, int, float, bool)) or value is None:
        found = plain(value.item() if isinstance(value, np.generic) else value)
        return found if not isinstance(found, bool) else str(found)
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def date(moment: np.datetime64) -> str:
    """A date as text, with the time of day if it has one."""
    text = str(moment.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def short(values: Any) -> list[float | None]:
    """Numbers of six digits, enough for a picture."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def some(n: int, most: int, seed: int) -> Int[np.ndarray, " k"]:
    """The numbers of at most so many rows, drawn at random, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean of some numbers; NaN for a single one.

    >>> standard_error(np.array([0.0, 2.0, 4.0])), standard_error(np.array([3.0]))  # 2/√3
    (1.1547005383792517, nan)
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def number(value: Any, digits: int = 4) -> str:
    """A number with four significant digits and grouped thousands; a dash if unknown. Texts stay as they are.

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
    """A share in percent; only all rows are 100 %, and only none are 0 %.

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
    """How many things there are.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> listed(["age", "dose", "town"])
    'age, dose and town'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
