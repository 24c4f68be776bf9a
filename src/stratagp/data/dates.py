"""Dates in texts: the formats that they may be written in, and what a date tells beside how far along it is."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

OR = " or "  # between formats, where more than one reads all texts
_DAYS = (
    *("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y"),
    *("%m-%d-%Y", "%d-%m-%Y", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    *(
        "%d-%b-%Y",
        "%d-%b-%y",
        "%d%b%Y",
        "%b %Y",
        "%B %Y",
        "%b-%Y",
        "%Y-%m",
        "%m/%Y",
        "%m.%Y",
        "%Y %b",
        "%a %d %b %Y",
    ),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M", "T%H:%M:%S")
_FORMATS = tuple(day + time for day in _DAYS for time in _TIMES)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_LIKE = re.compile(r"(?=.*\d)[\w\s.,:/+-]{5,40}")  # what a date may look like
_WORD = re.compile(r"[^\W\d_]+")
_WORDS = {word.lower() for word in (*calendar.month_name, *calendar.month_abbr, *calendar.day_abbr)} | set("tz")
_WORDS |= {"am", "pm"}  # words that a date may have
_PLAIN = re.compile(r"-?\d+([.,]\d+)?")  # no date, whatever the format: see COMPACT
COMPACT = "%Y%m%d"
_FIRST = 20  # texts that most formats fail on
PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}  # of what repeats, in days


def parsed(texts: Any, form: str) -> Any:
    """Dates from a series of texts, without a time zone (in UTC if the texts have one); NaT where a format fails.

    Arguments:
        form: as in :func:`time.strptime`; empty for ISO 8601.

    >>> import pandas as pd
    >>> parsed(pd.Series(["14.03.2024", "no date"]), "%d.%m.%Y").tolist()
    [Timestamp('2024-03-14 00:00:00'), NaT]
    """
    import pandas as pd

    return pd.to_datetime(texts, format=form or "ISO8601", utc=True, errors="coerce").dt.tz_localize(None)


def formats_of(texts: Sequence[str], given: Sequence[str] = (), share: float = 1.0) -> list[str] | None:
    """The formats that read so large a share of different texts, those that read most first; None if none does.

    Arguments:
        given: formats that win where they read enough.

    >>> formats_of(["3/14/2024", "12/1/2024"]), formats_of(["3/4/2024"]), formats_of(["2024-03-14T10:00Z"])
    (['%m/%d/%Y'], ['%m/%d/%Y', '%d/%m/%Y'], [''])
    >>> formats_of(["14 Mar", "red"]) is None
    True
    """
    import pandas as pd

    series = pd.Series(list(dict.fromkeys(text.strip() for text in texts)), dtype=object)
    for form in given:
        if parsed(series, form).notna().mean() >= share:
            return [form]
    if not series.map(_may_be_date).mean() >= share:
        return None
    if (series.str.fullmatch(_ISO) & parsed(series, "").notna()).mean() >= share:
        return [""]
    first, read = series[:_FIRST], dict[str, float]()
    for form in _FORMATS:
        if parsed(first, form).notna().mean() >= min(share, 0.5) and (
            (found := parsed(series, form).notna().mean()) >= share
        ):
            read[form] = found
    return _different(series, sorted(read, key=lambda form: -read[form])) or None


def _may_be_date(text: str) -> bool:
    if _LIKE.fullmatch(text) is None or _PLAIN.fullmatch(text):
        return False
    return all(word.lower() in _WORDS for word in _WORD.findall(text))


def _different(texts: Any, forms: list[str]) -> list[str]:
    """The formats that do not say the same as an earlier one."""
    kept: list[str] = []
    for form in forms:
        if not any(parsed(texts, form).equals(parsed(texts, other)) for other in kept):
            kept.append(form)
    return kept


def are_compact(numbers: np.ndarray) -> bool:
    """Whether whole numbers are dates such as 20240314.

    >>> are_compact(np.array([20240314, 20231231])), are_compact(np.array([20240314, 20241399]))
    (True, False)
    """
    import pandas as pd

    if numbers.dtype.kind not in "iuf" or not ((numbers >= 19000101) & (numbers <= 21001231)).all():
        return False
    distinct = np.unique(numbers)
    if (distinct % 1 != 0).any():
        return False
    distinct = distinct.astype(int)
    return len(distinct) > 1 and bool(parsed(pd.Series(distinct.astype(str)), COMPACT).notna().all())


def parts_of(days: Float64[np.ndarray, " n"]) -> list[str]:
    """What repeats in dates, given in days since 1970: of "year", "week" and "day" those that the dates tell apart.

    The year needs dates from more than one, and from more than one season; the week different days of a month;
    the day different times.

    >>> parts_of(np.arange(800.0)), parts_of(np.arange(0, 4, 0.25)), parts_of(np.floor(365.25 * np.arange(9)))
    (['year', 'week'], ['day'], [])
    """
    days = days[np.isfinite(days)]
    if not len(days):
        return []
    span, dates = np.ptp(days), np.floor(days).astype("datetime64[D]")
    of_month = np.unique((dates - dates.astype("datetime64[M]")).astype(int))
    phase = np.unique(days / PERIODS["year"] % 1)
    gap = np.diff(phase, append=phase[:1] + 1).max()  # the longest time of the year without rows
    found = ["year"] if span > 366 and gap < 0.9 else []
    found += ["week"] if span >= 14 and len(of_month) > 4 and len(np.unique(np.floor(days) % 7)) > 1 else []
    return found + (["day"] if len(np.unique(days % 1)) > 1 else [])


def waves(days: Float64[np.ndarray, " n"], parts: Sequence[str]) -> Float64[np.ndarray, "n k"]:
    """Sine and cosine of the phase of each part, so that December lies beside January; NaN where a date is missing.

    >>> waves(np.array([0.25]), ["day"]).round(6)
    array([[1., 0.]])
    """
    angles = [2 * np.pi / PERIODS[part] * days for part in parts]
    columns = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(columns, 1) if columns else np.empty((len(days), 0))


def wave_names(parts: Sequence[str]) -> list[str]:
    """The columns of :func:`waves`.

    >>> wave_names(["week"])
    ['sin(week)', 'cos(week)']
    """
    return [f"{wave}({part})" for part in parts for wave in ("sin", "cos")]
