"""Results as plain numbers, lists and strings: what JSON can hold, and no more of it than a page needs."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

_LONGEST = 60  # letters of a text that stands for an entry


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts of them; what is not finite is None, and what is unknown is its text.

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
    """One entry of a table: a number, None where it is missing, or a short text.

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
    """A date as text, with the time of day where it has one."""
    text = str(moment.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def short(values: Any) -> list[float | None]:
    """Numbers of six digits, which is what a picture needs."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def some(n: int, most: int, seed: int) -> Int[np.ndarray, " k"]:
    """The numbers of at most so many rows, drawn at random and in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def standard_error(values: np.ndarray) -> float:
    """Of the average of some numbers; NaN for a single one.

    >>> standard_error(np.array([0.0, 2.0, 4.0])), standard_error(np.array([3.0]))  # 2/√3
    (1.1547005383792517, nan)
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
