"""The rows in a picture, from arrays or frames: names, columns, and copies with a column replaced."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import numpy as np
from torch import Tensor

from stratagp.data.columns import is_missing
from stratagp.data.tables import is_frame, is_pandas
from stratagp.errors import InputError
from stratagp.plotting.answers import answer, categories_of


class PlotData:
    """A table whose columns can be read and replaced.

    Arguments:
        X: an array or a pandas data frame.
        model: supplies the column names if ``X`` has none.
    """

    def __init__(self, X: Any, model: Any = None) -> None:
        self.is_frame = is_pandas(X)
        if not self.is_frame and is_frame(X):
            raise InputError(f"X must be an array or a pandas data frame, got {type(X).__name__}: pass X.to_pandas()")
        self.X: Any = X if self.is_frame else np.asarray(X.detach().cpu() if isinstance(X, Tensor) else X)
        if len(self.X.shape) != 2 or not all(self.X.shape):
            raise InputError(f"X must be a non-empty table (rows, columns), got shape {self.X.shape}")
        given = X.columns if self.is_frame else answer(model, "feature_names_in_")
        self.names = [f"x{i}" for i in range(self.X.shape[1])] if given is None else [str(name) for name in given]
        if len(self.names) != self.X.shape[1]:
            raise InputError(f"X has {self.X.shape[1]} columns, but the model was trained on {len(self.names)}")

    def __len__(self) -> int:
        return len(self.X)

    def position(self, column: Any) -> int:
        """The number of a column given by name or number."""
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        whole = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
        if whole and -len(self.names) <= column < len(self.names):
            return int(column) % len(self.names)
        raise InputError(f"{column!r} is not a column of X; its columns are {', '.join(self.names)}")

    def column(self, j: int) -> np.ndarray:
        """The values of a column."""
        values = self.X.iloc[:, j].to_numpy() if self.is_frame else self.X[:, j]
        if values.dtype.kind == "O":
            known = [value for value in values if not is_missing(value)]
            if known and all(isinstance(value, datetime.date) for value in known):
                return np.array([_moment(value) for value in values])
            if any(isinstance(value, str) for value in known):  # codes of digits are no numbers
                return np.asarray(values)
            try:
                return values.astype(float)
            except (TypeError, ValueError):
                return np.asarray(values)
        return np.asarray(values)

    def is_number(self, j: int, model: Any = None) -> bool:
        """Whether a column holds numbers or dates, not categories, by the model's own view if it has one."""
        categories = categories_of(model)
        if categories is not None and len(categories) == len(self.names):  # else it sees some as texts
            return not categories[j]
        return self.column(j).dtype.kind in "fiuM"

    def grid(self, j: int, count: int, margin: float = 0.0) -> np.ndarray:
        """Values from the least to the greatest of a column, extended by ``margin`` times that range."""
        values = self.column(j)
        if values.dtype.kind == "M":
            days = values[~np.isnat(values)].astype("datetime64[ns]").astype(np.int64)
            low, high = float(days.min()), float(days.max())
            ends = low - margin * (high - low), high + margin * (high - low)
            return np.linspace(*ends, count).astype(np.int64).astype("datetime64[ns]")
        values = values.astype(float)
        if not np.isfinite(values).any():
            raise InputError(f"X has no finite number in column {self.names[j]!r}")
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return np.linspace(low - margin * (high - low), high + margin * (high - low), count)

    def levels(self, j: int) -> list[Any]:
        """The values of a category, in order."""
        return sorted({value for value in self.column(j).tolist() if value is not None and value == value}, key=str)

    def typical(self, j: int, model: Any = None) -> Any:
        """The median of a column of numbers, the most frequent value of any other."""
        values = self.column(j)
        if (
            self.is_number(j, model) and values.dtype.kind not in "MO"
        ):  # objects are texts, which some models see as points
            return float(np.nanmedian(values.astype(float)))
        kept = values if values.dtype.kind == "M" else [value for value in values.tolist() if value is not None]
        return Counter(value for value in kept if value == value).most_common(1)[0][0]

    def take(self, chosen: np.ndarray) -> PlotData:
        """Some of the rows, in the given order."""
        found = PlotData.__new__(PlotData)
        found.is_frame, found.names = self.is_frame, self.names
        found.X = self.X.iloc[chosen].reset_index(drop=True) if self.is_frame else self.X[chosen]
        return found

    def replaced(self, values: dict[int, Any]) -> Any:
        """The table with some columns replaced, each by one value or one per row."""
        if not self.is_frame:
            table = self.X.astype(float) if self.X.dtype.kind in "iub" else self.X.copy()
            for j, column in values.items():
                table[:, j] = column
            return table
        table = self.X.copy()
        for j, column in values.items():
            own = table.iloc[:, j]
            kept = None if own.dtype.kind in "iub" else own.dtype
            whole = np.broadcast_to(np.asarray(column), len(table))
            table[table.columns[j]] = type(own)(whole.copy(), index=table.index, dtype=kept)
        return table


def _moment(value: Any) -> np.datetime64:
    """A date or time, in UTC if it has a zone; NaT if missing."""
    if is_missing(value):
        return np.datetime64("NaT", "us")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return np.datetime64(value, "us")


def name_of(y: Any, target: str | None, otherwise: str = "y") -> str:
    """The label of the target axis: as given, or the name of a pandas series."""
    if target is not None:
        return target
    name = getattr(y, "name", None)
    return name if isinstance(name, str) else otherwise


def numbers(y: Any, n: int, name: str = "y") -> np.ndarray:
    """Targets as numbers, one per row."""
    try:
        values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers") from None
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (n,):
        raise InputError(f"{name} must have one number for each of the {n} rows of X, got shape {values.shape}")
    return values


def labels(y: Any, n: int) -> np.ndarray:
    """Classes, one per row."""
    values = np.asarray(y)
    if values.shape != (n,):
        raise InputError(f"y must have one class for each of the {n} rows of X, got shape {values.shape}")
    return values
