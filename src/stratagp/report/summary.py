"""What the data are: the columns with their kinds, what is missing, and the spread of the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from sklearn.base import BaseEstimator
from torch import Tensor

from stratagp.data.columns import is_present, present, to_numbers
from stratagp.data.schema import Field, as_stored
from stratagp.data.tables import Column, as_array, is_frame, pandas_like, read_table
from stratagp.errors import InputError
from stratagp.plotting.answers import answer, answers, categories_of, names_of
from stratagp.report.values import date, entry, plain, short

MOST_COLUMNS = 60  # that a page lists
_MOST_CATEGORIES = 5
_BINS = 20


class InputSummary(NamedTuple):
    """Inputs as columns: what each holds, its values, and the ``labels`` that name rows."""

    fields: list[Field]
    columns: list[Column]
    labels: list[str]
    is_table: bool

    @property
    def names(self) -> list[str]:
        """The names of columns."""
        return [each.name for each in self.fields]

    @property
    def complete(self) -> Int[np.ndarray, " k"]:
        """The numbers of the rows without gaps."""
        return np.flatnonzero(np.all([is_present(column) for column in self.columns], axis=0))

    def row(self, i: int, chosen: list[int]) -> list[Any]:
        """Entries of some columns in one row."""
        return [entry(self.columns[j].values[i]) for j in chosen]


def read_inputs(X: Any, model: BaseEstimator | None) -> InputSummary:
    """The columns of frames and arrays; texts, images and other objects become one column.

    >>> found = read_inputs(["abc", "bcd"], None)
    >>> found.fields[0].kind, found.row(1, [0])
    ('object', ['bcd'])

    A column of a frame keeps its name and the labels of its rows.
    """
    if isinstance(X, Mapping):
        return _objects({str(name): _items(part) for name, part in X.items()})
    if not is_frame(X):
        X = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
        if not isinstance(X, np.ndarray) and not _is_table(X):
            return _column_of_objects(X)
        if np.ndim(X) != 2:
            return _objects({"object": [f"array of shape {np.shape(row)}" for row in X]})
    table, frame = read_table(X), pandas_like(X)
    names = table.names or (names_of(model) if answers(model, "n_features_in_") else None)
    if names is None or len(names) != len(table.columns):
        names = [f"x{i}" for i in range(len(table.columns))]
    labels = [str(label) for label in frame.index] if is_frame(X) else [str(i) for i in range(table.rows)]
    learnt = categories_of(model) or []
    learnt = learnt if len(learnt) == len(names) else [False] * len(names)
    stored = zip(names, as_stored(table), learnt, strict=True)
    fields = [replace(each, name=name, kind="category" if own else each.kind) for name, each, own in stored]
    return InputSummary(fields, table.columns, labels, is_table=True)


def describe_target(y: np.ndarray, classes: list[str] | None) -> dict[str, Any]:
    """How many rows each class has, the most frequent first; for numbers a histogram, mean and deviation.

    >>> found = describe_target(np.array([0.0, 1.0, 1.0, 4.0]), None)
    >>> found["mean"], found["std"], sum(found["counts"])
    (1.5, 1.5, 4)
    """
    if classes is None:
        counts, edges = np.histogram(y, bins=min(_BINS, max(5, int(np.sqrt(len(y))))))
        return {"counts": counts.tolist(), "edges": short(edges), "mean": float(y.mean()), "std": float(y.std())}
    count = Counter(str(label) for label in y.tolist())
    order = sorted(classes, key=lambda label: -count[label])
    return {"classes": order, "counts": [count[label] for label in order]}


def _objects(parts: dict[str, list[Any]]) -> InputSummary:
    columns = []
    for name, items in parts.items():
        values = np.empty(len(items), dtype=object)
        values[:] = [str(entry(item)) for item in items]
        columns.append(Column(name, values))
    if not columns:
        raise InputError("X must not be empty")
    fields = [Field(each.label, "object", len(set(each.values.tolist())), 0) for each in columns]
    return InputSummary(fields, columns, [str(i) for i in range(len(columns[0].values))], is_table=False)


def _column_of_objects(X: Any) -> InputSummary:
    """A list of objects, or a column of a frame, which has a name and labels."""
    name, index = answer(X, "name"), answer(X, "index")
    found = _objects({"object" if name is None else str(name): _items(X)})
    return found if index is None or callable(index) else found._replace(labels=[str(label) for label in index])


def _items(part: Any) -> list[Any]:
    rows = part.to_numpy() if is_frame(part) else part
    return [row.tolist() if isinstance(row, (np.ndarray, np.generic, Tensor)) else row for row in rows]


def _is_table(X: Any) -> bool:
    """Whether a list has rows of numbers, rather than texts or sequences."""
    try:
        return as_array(X).ndim == 2 and np.issubdtype(np.asarray(X).dtype, np.number)
    except (InputError, ValueError):
        return False


def describe_column(field: Field, column: Column) -> dict[str, Any]:
    """Kind, missing entries and spread; for categories, the most frequent values."""
    found: dict[str, Any] = {
        "name": field.name,
        "kind": field.kind,
        "low": None,
        "middle": None,
        "high": None,
        "top": [],
    }
    if field.kind in ("number", "date", "duration"):
        values = to_numbers(column, field.kind)  # type: ignore[arg-type]
        known = values[np.isfinite(values)]
        ends = np.quantile(known, [0.0, 0.5, 1.0]).tolist() if len(known) else []
        if field.kind == "date":
            ends = [date(np.datetime64("1970-01-01") + np.timedelta64(round(end * 86400), "s")) for end in ends]
        shown = dict(zip(("low", "middle", "high"), plain(ends), strict=False))
        return found | shown | {"missing": len(values) - len(known)}
    texts = Counter(str(entry(value)) for value in present(column).tolist())
    top = [[text, count] for text, count in texts.most_common(_MOST_CATEGORIES)] if field.kind == "category" else []
    return found | {"missing": field.missing, "distinct": len(texts), "top": top}
