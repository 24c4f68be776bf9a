"""Which rows the test holds out: some at random, the latest ones, or whole groups; and copies of training rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import stratagp
from stratagp.cli.table import DataFrame, Series, meant, pandas, pick
from stratagp.errors import InputError

WAYS = "random, time, time:COLUMN or groups:COLUMN"
_OF_THINGS = re.compile(r"(?i)(^|[_\- .])(dob|birth|born|built|founded|expir)|birth(day|date)")  # they have an age
_OF_ROWS = re.compile(r"(?i)(^|[_\- ])(date|time|datetime|timestamp|day|month|year|when|period)")


@dataclass(frozen=True)
class Split:
    """How test rows are drawn, and why.

    Arguments:
        way: "random", "time" or "groups".
        column: that decides.
    """

    way: str
    column: str = ""
    reason: str = "as asked for"

    @property
    def shown(self) -> str:
        """What the option ``--split`` would say."""
        return f"{self.way}:{self.column}" if self.column else self.way


def find_split(asked: str | None, frame: DataFrame, columns: Sequence[stratagp.data.Field], name: str) -> Split:
    """How test rows are drawn: as the user asks for, else by the first column of dates, else at random."""
    dates = [each.name for each in columns if each.kind == "date"]
    way, _, column = (asked or "").partition(":")
    if (asked and way not in ("random", "time", "groups")) or (way == "random" and column):
        raise InputError(f"--split must be {WAYS}, got {asked!r}")
    if way == "groups":
        if not column:
            raise InputError("--split groups needs a column whose rows stay together: --split groups:COLUMN")
        return Split(way, str(pick(frame, column, name).name))
    if way == "time":
        column = meant(frame, column) if column else next(iter(_by_name(dates)), "")
        if column not in dates:
            have = f"; its dates are {', '.join(map(repr, dates))}" if dates else " and the table has none"
            what = f"{column!r} is none" if column else "none is named"
            raise InputError(f"--split {asked}: it needs a column of dates, but {what}{have}")
        return Split(way, column)
    dates = [name for name in dates if not _OF_THINGS.search(name)]
    if way == "random" or not dates:
        return Split("random", reason="as asked for" if way else "no column holds dates of rows")
    column = _by_name(dates)[0]
    return Split("time", column, f"by the dates of {column!r}; --split random draws them at random")


def _by_name(dates: Sequence[str]) -> list[str]:
    """Columns of dates, those first whose names tell that they date rows."""
    return sorted(dates, key=lambda name: _OF_ROWS.search(name) is None)


def held_rows(split: Split, values: Series, share: float, seed: int) -> np.ndarray:
    """Which rows are held out by time or by groups: about a share of them.

    Arguments:
        values: the column that decides, for each row.
    """
    n = len(values)
    if split.way == "time":
        order = np.argsort(values.to_numpy(), kind="stable")
        known = int(values.notna().sum())  # rows without a date come last, and are trained on
        cut = min(max(known - round(share * n), 1), known - 1)
        later = values > values.iloc[order[cut - 1]]  # rows of one date stay together
        if known < 2 or not later.any():
            later = values >= values.iloc[order[max(cut, 0)]]
        found = later.fillna(False).to_numpy(dtype=bool)
    else:
        codes, groups = pandas().factorize(values, use_na_sentinel=False)
        if len(groups) < 2:
            raise InputError(f"--split {split.shown}: the column has a single group: give another column")
        counts = np.bincount(codes)
        order = np.random.default_rng(seed).permutation(len(counts))
        many = int(np.searchsorted(np.cumsum(counts[order]), share * n)) + 1
        found = np.isin(codes, order[: min(many, len(counts) - 1)])
    if not found.any() or found.all():
        raise InputError(f"--split {split.shown}: it cannot hold out a part of {n} rows; try --split random")
    return found


def copies(X: DataFrame, y: np.ndarray, X_test: DataFrame, y_test: np.ndarray) -> int:
    """How many test rows have the inputs and the target of a training row."""
    if not len(X_test) or not X.shape[1]:
        return 0
    hashed = pandas().util.hash_pandas_object
    seen, new = (hashed(part.assign(**{"\0": of.astype(str)}), index=False) for part, of in ((X, y), (X_test, y_test)))
    return int(new.isin(seen).sum())
