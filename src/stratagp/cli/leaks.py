"""Columns that alone tell the target: known only after it, or written from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import stratagp
from stratagp.cli.table import DataFrame, Series

_ROWS = 20  # below which chance tells targets too
_REPEATS = 3.0  # rows of each value, on average, from which a category is no identifier
_SAME = 0.99999  # the correlation of values, or of their ranks, above which two columns say the same


def telling(X: DataFrame, y: np.ndarray, columns: Sequence[stratagp.data.Field], task: str) -> dict[str, str]:
    """The columns of which each tells the target of all rows by itself, and how.

    >>> import pandas as pd
    >>> X = pd.DataFrame({"paid": [0.0, 1.0] * 20, "age": np.arange(40.0) % 7})
    >>> fields = [stratagp.data.Field(name, "number", 2, 0) for name in X]
    >>> telling(X, np.array(["no", "yes"] * 20), fields, "classification")
    {'paid': 'its values lie apart for the classes'}
    """
    used = [each for each in columns if each.used and each.kind != "text"]
    if len(used) < 2 or len(y) < _ROWS or len(np.unique(y)) < 2:  # a single column is meant to tell the target
        return {}
    found = {}
    for each in used:
        values = X[each.name]
        gaps = values.isna().to_numpy()
        how = _by_gaps(gaps, y) if task == "classification" else ""
        if not how and (~gaps).sum() >= max(_ROWS, len(y) / 2) and values.nunique() > 1:
            known = values[~gaps]
            told = _classes if task == "classification" else _numbers
            how = told(known, y[~gaps], each.kind)
        if how:
            found[each.name] = how
    return found


def _by_gaps(gaps: np.ndarray, y: np.ndarray) -> str:
    """Whether a value is missing for one class alone."""
    both = min(gaps.sum(), (~gaps).sum()) >= _ROWS / 4
    apart = both and not set(np.unique(y[gaps]).tolist()) & set(np.unique(y[~gaps]).tolist())
    return "it has a value for some classes alone" if apart else ""


def _classes(values: Series, y: np.ndarray, kind: str) -> str:
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        return ""
    if kind == "category":
        one_each = (values.groupby(values.to_numpy()).size().mean() >= _REPEATS) and _is_function(values, codes)
        return "each of its values has a single class" if one_each else ""
    order = np.argsort(values.to_numpy(), kind="stable")
    changes = int((np.diff(codes[order]) != 0).sum())
    return "its values lie apart for the classes" if changes == len(classes) - 1 and _is_function(values, codes) else ""


def _numbers(values: Series, y: np.ndarray, kind: str) -> str:
    if kind == "category":
        repeats = values.nunique() > 2 and values.groupby(values.to_numpy()).size().mean() >= _REPEATS
        return "each of its values has a single target" if repeats and _is_function(values, y) else ""
    x = values.to_numpy().astype("datetime64[s]").astype(float) if kind == "date" else values.to_numpy(dtype=float)
    if np.std(x) == 0 or np.std(y) == 0:
        return ""
    rank, of_target = (np.unique(each, return_inverse=True)[1] for each in (x, y))
    same = max(abs(np.corrcoef(x, y)[0, 1]), abs(np.corrcoef(rank, of_target)[0, 1])) > _SAME
    return "it rises or falls with the target without exception" if same else ""


def _is_function(values: Series, y: np.ndarray) -> bool:
    """Whether rows of the same value have the same target."""
    frame = values.to_frame("value").assign(y=y)
    return bool((frame.groupby("value", observed=True)["y"].nunique() == 1).all())
