"""What the data are: columns with their kinds, what is missing, and how the target is spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stratagp.data.columns import is_missing, to_numbers
from stratagp.data.schema import kind_of
from stratagp.data.tables import Column, as_array, is_frame, pandas_like, read_table
from stratagp.errors import InputError
from stratagp.plotting.answers import names_of
from stratagp.report.plain import date, entry, plain, short

MOST_COLUMNS = 60  # that a page lists
_MOST_CATEGORIES = 5
_BINS = 20


class Inputs(NamedTuple):
    """Inputs as columns: ``kinds`` are "number", "date", "duration", "category" or "object"; ``labels`` name rows."""

    names: list[str]
    kinds: list[str]
    columns: list[Column]
    labels: list[str]
    is_table: bool

    def row(self, i: int, chosen: list[int]) -> list[Any]:
        """Entries of some columns in one row."""
        return [entry(self.columns[j].values[i]) for j in chosen]


def read_inputs(X: Any, model: Any) -> Inputs:
    """The columns of frames and arrays; of texts, images and other objects, one column that holds them.

    >>> found = read_inputs(["abc", "bcd"], None)
    >>> found.names, found.kinds, found.row(1, [0])
    (['object'], ['object'], ['bcd'])

    A column of a frame keeps its name and the labels of its rows.
    """
    if isinstance(X, Mapping):
        return _objects({str(name): _items(part) for name, part in X.items()})
    if not is_frame(X):
        X = X.detach().cpu().numpy() if hasattr(X, "detach") else X
        if not isinstance(X, np.ndarray) and not _is_table(X):
            return _column_of_objects(X)
        if np.ndim(X) != 2:
            return _objects({"object": [f"array of shape {np.shape(row)}" for row in X]})
    table = read_table(X)
    names = table.names or (names_of(model) if hasattr(model, "n_features_in_") else None)
    if names is None or len(names) != len(table.columns):
        names = [f"x{i}" for i in range(len(table.columns))]
    frame = pandas_like(X)
    labels = [str(label) for label in frame.index] if is_frame(X) else [str(i) for i in range(table.rows)]
    categories = getattr(getattr(getattr(model, "inputs_", None), "encoder", None), "is_categorical", None)
    if categories is None or len(categories) != len(names):
        categories = [False] * len(names)
    kinds = ["category" if own else _kind(column) for column, own in zip(table.columns, categories, strict=True)]
    return Inputs(names, kinds, table.columns, labels, is_table=True)


def describe_columns(inputs: Inputs, wanted: list[int]) -> list[dict[str, Any]]:
    """Kind, missing entries and spread of columns; of categories, the most frequent values."""
    return [_described(inputs.names[j], inputs.kinds[j], inputs.columns[j]) for j in wanted]


def describe_numbers(y: np.ndarray) -> dict[str, Any]:
    """A histogram of targets that are numbers, with their mean and deviation.

    >>> found = describe_numbers(np.array([0.0, 1.0, 1.0, 4.0]))
    >>> found["mean"], found["std"], sum(found["counts"])
    (1.5, 1.5, 4)
    """
    counts, edges = np.histogram(y, bins=min(_BINS, max(5, int(np.sqrt(len(y))))))
    return {"counts": counts.tolist(), "edges": short(edges), "mean": float(y.mean()), "std": float(y.std())}


def describe_classes(labels: np.ndarray, classes: list[str]) -> dict[str, Any]:
    """How many rows each class has, the most frequent first."""
    count = Counter(labels.tolist())
    order = sorted(classes, key=lambda label: -count[label])
    return {"classes": order, "counts": [count[label] for label in order]}


def _objects(parts: dict[str, list[Any]]) -> Inputs:
    columns = []
    for name, items in parts.items():
        values = np.empty(len(items), dtype=object)
        values[:] = [str(entry(item)) for item in items]
        columns.append(Column(name, values))
    if not columns:
        raise InputError("X must not be empty")
    labels = [str(i) for i in range(len(columns[0].values))]
    return Inputs(list(parts), ["object"] * len(parts), columns, labels, is_table=False)


def _column_of_objects(X: Any) -> Inputs:
    """A list of objects, or a column of a frame, which has a name and labels."""
    name, index = getattr(X, "name", None), getattr(X, "index", None)
    found = _objects({"object" if name is None else str(name): _items(X)})
    return found if index is None or callable(index) else found._replace(labels=[str(label) for label in index])


def _items(part: Any) -> list[Any]:
    return [row.tolist() if hasattr(row, "tolist") else row for row in (part.to_numpy() if is_frame(part) else part)]


def _is_table(X: Any) -> bool:
    """Whether a list has rows of numbers, and not texts or sequences."""
    try:
        return as_array(X).ndim == 2 and np.issubdtype(np.asarray(X).dtype, np.number)
    except (InputError, ValueError):
        return False


def _kind(column: Column) -> str:
    values = (
        [value for value in column.values.tolist() if not is_missing(value)] if column.values.dtype == object else []
    )
    if any(not isinstance(value, (str, int, float, bool)) and not hasattr(value, "year") for value in values[:100]):
        return "object"
    return kind_of(column, auto=True)


def _described(name: str, kind: str, column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "kind": kind, "low": None, "middle": None, "high": None, "top": []}
    if kind in ("number", "date", "duration"):
        values = to_numbers(column, kind)  # type: ignore[arg-type]
        known = values[np.isfinite(values)]
        ends = np.quantile(known, [0.0, 0.5, 1.0]) if len(known) else []
        shown = [_day(end) if kind == "date" else plain(end) for end in ends]
        return found | dict(zip(("low", "middle", "high"), shown, strict=False)) | {"missing": len(values) - len(known)}
    present = [value for value in column.values.tolist() if not is_missing(value)]
    found["missing"] = len(column.values) - len(present)
    texts = Counter(str(entry(value)) for value in present)
    found["distinct"] = len(texts)
    found["top"] = [[text, count] for text, count in texts.most_common(_MOST_CATEGORIES)] if kind == "category" else []
    return found


def _day(days: float) -> str:
    return date(np.datetime64("1970-01-01") + np.timedelta64(round(days * 86400), "s"))
