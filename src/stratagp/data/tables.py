"""Reads what a user gives as ``X`` (arrays, lists, tensors, data frames) as named columns of equal length.

Frames are recognised by their methods, so pandas need not be installed; those of other libraries use ``to_pandas``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from torch import Tensor, strided

from stratagp.errors import InputError


class Column(NamedTuple):
    """One column as given; missing entries are NaN, NaT, None or pandas' NA."""

    label: str  # its name in messages: "'age'" if it has one, else its position
    values: np.ndarray  # "n", of any dtype
    declared: list[Any] | None = None  # the categories of a pandas categorical, in their order
    codes: np.ndarray | None = None  # the position of each value among these, −1 if missing


class Table(NamedTuple):
    """Columns of equal length, with their names if all of them are strings."""

    columns: list[Column]
    names: list[str] | None
    rows: int
    is_frame: bool


def read_table(X: Any) -> Table:
    """The columns of a 2-D array of numbers or objects, list of lists, torch tensor or data frame.

    >>> table = read_table([[1.0, "red"], [2.0, "blue"]])
    >>> table.rows, table.columns[1].values.tolist()
    (2, ['red', 'blue'])
    """
    X = pandas_like(X)
    return _read_frame(X) if is_frame(X) else _read_array(as_array(X))


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a data frame, or can become one."""
    return is_pandas(X) or hasattr(X, "to_pandas")


def is_pandas(X: Any) -> bool:
    """Whether ``X`` is a data frame with the methods of pandas."""
    return all(hasattr(X, name) for name in ("columns", "dtypes", "iloc"))


def as_array(X: Any) -> np.ndarray:
    """A numpy array of numbers, or of objects where numbers and text are mixed; refuses sparse data."""
    if sparse.issparse(X) or (isinstance(X, Tensor) and X.layout is not strided):
        way = "to_dense" if isinstance(X, Tensor) else "toarray"
        raise InputError(f"X is sparse, but a Gaussian process needs dense data: convert it with X.{way}()")
    if isinstance(X, Tensor):
        X = X.detach().cpu()
        return X.double().numpy() if X.is_floating_point() else X.resolve_conj().numpy()
    try:
        array = np.asarray(X)
        return np.asarray(X, dtype=object) if array.dtype.kind in "US" and not isinstance(X, np.ndarray) else array
    except ValueError as error:
        raise InputError(f"X must be a table whose rows all have the same length: {error}") from error


def pandas_like(X: Any) -> Any:
    """Converts frames of other libraries to pandas; returns anything else as it is."""
    return X.to_pandas() if is_frame(X) and not is_pandas(X) else X


def _read_array(array: np.ndarray) -> Table:
    _check_shape(array)
    columns = [Column(str(i), array[:, i]) for i in range(array.shape[1])]
    return Table(columns, None, len(array), is_frame=False)


def _read_frame(frame: Any) -> Table:
    _check_size(frame.shape)
    names = list(frame.columns)
    if not any(isinstance(name, str) for name in names):
        labels, names = [str(i) for i in range(len(names))], []
    elif all(isinstance(name, str) for name in names):
        labels = [repr(str(name)) for name in names]
    else:
        odd = next(name for name in names if not isinstance(name, str))
        raise InputError(f"X has column names that are not strings ({odd!r}): use X.columns = X.columns.astype(str)")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"X has more than one column named {', '.join(map(repr, twice))}: rename or drop them")
    columns = [_read_series(frame.iloc[:, i], label) for i, label in enumerate(labels)]
    return Table(columns, [str(name) for name in names] or None, len(frame), is_frame=True)


def _read_series(series: Any, label: str) -> Column:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return Column(label, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if hasattr(series.dtype, "categories"):
        known, codes = series.dtype.categories.tolist(), series.cat.codes.to_numpy()
        values = np.array([*known, None], dtype=object)  # the last one marks missing values
        return Column(label, values[codes], known, codes)
    if hasattr(series.dtype, "freq"):  # a period counts as its start
        series = series.dt.to_timestamp()
    return Column(label, series.to_numpy())


def _check_shape(array: np.ndarray) -> None:
    if array.ndim < 2:
        found = "1D array" if array.ndim else "scalar array"
        raise InputError(
            f"X: Expected 2D array, got {found} instead: {_shorten(array)}. Reshape your data either using "
            "X.reshape(-1, 1) if it has a single feature or X.reshape(1, -1) if it contains a single sample."
        )
    if array.ndim > 2:
        raise InputError(
            f"X must have rows and columns. Found array with dim {array.ndim}, expected <= 2: flatten the axes "
            f"after the first, X.reshape({len(array)}, -1)"
        )
    _check_size(array.shape)


def _check_size(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape[::-1], ("feature(s)", "sample(s)"), strict=True):
        if not count:
            raise InputError(f"X: Found array with 0 {what} (shape={tuple(shape)}) while a minimum of 1 is required.")


def _shorten(array: np.ndarray) -> str:
    text = np.array2string(array, threshold=6, edgeitems=2)
    return text if len(text) < 80 else f"{text[:80]}…"
