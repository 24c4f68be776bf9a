"""Results as plain numbers, lists and strings: what JSON can hold, and no more of it than a page needs."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.special import betaincinv

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


def binomial_interval(hits: int, n: int, level: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson, which holds the true share with at least the probability ``level``.

    >>> low, high = binomial_interval(8, 10, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.4439, 0.9748)
    """
    tail = (1 - level) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high
