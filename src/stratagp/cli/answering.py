"""Rows that a model cannot answer: with a gap that it does not fill, or with a category that it has not learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_LISTED = 10  # categories in a message


class Refused(NamedTuple):
    """Which rows, and what is wrong with the first of them."""

    rows: np.ndarray
    why: str

    @property
    def how_many(self) -> str:
        """How many of how many."""
        return f"{int(self.rows.sum()):,} of {len(self.rows):,} rows"


def refused(frame: Any, categories: Mapping[str, Sequence[str]], fills: bool) -> Refused:
    """The rows of a frame that a model has no answer for.

    Arguments:
        categories: what columns of categories may hold.
        fills: whether the model fills gaps.

    >>> import pandas as pd
    >>> found = refused(pd.DataFrame({"town": ["Bonn", "Rome"]}, index=[1, 2]), {"town": ["Bonn"]}, False)
    >>> found.why
    "the category 'Rome' in column 'town', row 2, which was not in the training data; known are 'Bonn'"
    """
    rows, reasons = np.zeros(len(frame), dtype=bool), []
    for name in frame.columns:
        gaps = frame[name].isna().to_numpy()
        known = categories.get(name)
        strange = ~gaps & ~frame[name].isin(known).to_numpy() if known is not None else np.zeros_like(gaps)
        bad = strange if fills else strange | gaps
        if bad.any():
            first = int(bad.argmax())
            reasons.append((first, _reason(name, frame, first, None if gaps[first] else known)))
        rows |= bad
    return Refused(rows, min(reasons)[1] if reasons else "")


def _reason(name: str, frame: Any, first: int, known: Sequence[str] | None) -> str:
    row = frame.index[first]
    if known is None:
        return f"no value in column {name!r}, row {row}, which the model has not learnt to fill"
    more = f", … ({len(known)} in all)" if len(known) > _LISTED else ""
    listed = ", ".join(repr(each) for each in known[:_LISTED]) + more
    return (
        f"the category {frame[name].iloc[first]!r} in column {name!r}, row {row}, which was not in the training data; "
        f"known are {listed}"
    )
