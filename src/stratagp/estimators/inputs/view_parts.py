"""What is given for each view of an estimator: columns of a frame, arrays, lists of objects; put side by side."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from stratagp.data.encoding import refuse_other_names
from stratagp.data.tables import is_frame, pandas_like
from stratagp.errors import InputError
from stratagp.kernels import Kernel

REST = "columns"  # the view of all columns of a frame that have no kernel of their own


def views_of_frame(frame: Any, kernels: Mapping[Any, Any]) -> dict[str, Any]:
    """A view for each column that has a kernel of its own, and one, "columns", of all others.

    A column whose kernel is over objects becomes a list of these.
    """
    names = [name for name in kernels if name != REST]
    absent = [repr(name) for name in names if name not in frame.columns]
    if absent:
        raise InputError(
            f"X has no column {', '.join(absent)}, which view_kernels gives a kernel for; its columns are "
            f"{', '.join(map(str, frame.columns))}, and those without a kernel are together the view {REST!r}"
        )
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise InputError(f"X has more than one column named {twice[0]!r}: rename or drop them")
    if REST in kernels and REST in frame.columns:
        raise InputError(
            f"X: a column with a kernel of its own must not be called {REST!r}, which stands for all others: rename it"
        )
    views = {str(name): _column(frame, name, kernels[name]) for name in names}
    rest = frame.drop(columns=names)
    return {**views, **({REST: rest} if rest.shape[1] else {})}


def in_order(frame: Any, names: list[str]) -> Any:
    """The columns of a frame in the order of ``names``, which they must be."""
    found = [str(name) for name in frame.columns]
    refuse_other_names(names, found)
    return frame.iloc[:, [found.index(name) for name in names]]


def is_over_objects(kernel: Any) -> bool:
    """Whether it is a kernel, and over objects."""
    return isinstance(kernel, Kernel) and not kernel.takes_tensors


def _column(frame: Any, name: Any, kernel: Any) -> Any:
    if not is_over_objects(kernel):
        return frame[[name]]
    if frame[name].isna().any():
        row = int(np.flatnonzero(frame[name].isna())[0])
        raise InputError(f"X: column {name!r} has missing objects, the first in row {row}: drop or fill them")
    return frame[name].tolist()


def as_table(name: str, values: Any) -> Any:
    """A view as an array ``n d`` or a frame."""
    if is_frame(values):
        return pandas_like(values)
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "fiub":
        array = array[:, None]
    if array.ndim == 2 and array.shape[1]:
        return array
    hint = "; objects need a kernel over objects in view_kernels" if array.dtype.kind not in "fiub" else ""
    raise InputError(f"X must hold an array (n, columns) for each view, got {array.shape} for {name!r}{hint}")


def described(named: dict[str, Any], X: Any) -> str:
    """What was given for the views."""
    if not named:
        return f"{type(X).__name__} {np.shape(X)}" if hasattr(X, "shape") else type(X).__name__
    return ", ".join(f"{name} {np.shape(part)}" if hasattr(part, "shape") else name for name, part in named.items())


def widths(parts: dict[str, Any]) -> dict[str, int | None]:
    """The number of columns of each view; None for one of objects."""
    return {name: None if isinstance(part, list) else part.shape[1] for name, part in parts.items()}


def checked(parts: dict[str, Any]) -> dict[str, Any]:
    """Views that have the same rows."""
    if not parts:
        raise InputError("X must hold an array (n, columns) for each view, got none")
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"X must have the same rows in each view, got {lengths}")
    return parts


def side_by_side(arrays: dict[str, Any]) -> Any:
    """One table; a frame, if a part is one, with names of columns that their views precede where they repeat."""
    if not any(is_frame(part) for part in arrays.values()):
        return np.concatenate(list(arrays.values()), 1)
    pandas = importlib.import_module("pandas")
    frames = {name: pandas.DataFrame(part).reset_index(drop=True) for name, part in arrays.items()}
    count = Counter(str(column) for frame in frames.values() for column in frame.columns)
    for name, frame in frames.items():
        columns = [str(c) for c in frame.columns]
        frame.columns = [c if is_frame(arrays[name]) and count[c] == 1 else f"{name}: {c}" for c in columns]
    return pandas.concat(list(frames.values()), axis=1)


def slices(arrays: dict[str, Any]) -> dict[str, slice]:
    """Which of the columns side by side are those of each view."""
    counts = [part.shape[1] for part in arrays.values()]
    ends = np.cumsum(counts)
    return {name: slice(int(end) - count, int(end)) for name, count, end in zip(arrays, counts, ends, strict=True)}
