"""Several views of one object: groups of columns, or an array for each view, as inputs of an estimator."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.estimators.inputs import Inputs, Points
from stratagp.kernels import Kernel
from stratagp.kernels.columns import column_position


class ViewInputs(Inputs):
    """Tables whose columns belong to views; or arrays, one for each view, that are put side by side.

    Arguments:
        views: columns of each view, as a slice, a name, a number or a list of these; a mapping gives the views names.
            None for one table without views, or for ``X`` that is a mapping or a list of arrays itself.

    After ``learn``, ``views`` tells which encoded columns each view has, by its name; None where there are no views.
    """

    def __init__(self, estimator: Any, kernel: Kernel, views: Any) -> None:
        super().__init__(estimator, kernel)
        self.asked = views
        self.widths: dict[str, int] | None = None
        self.views: dict[str, list[int]] | None = None

    def learn(self, estimator: Any, X: Any) -> Points:
        """Learn from the training rows and their views, and return them as points."""
        arrays = _arrays(X)
        if arrays is not None and self.asked is not None:
            raise InputError("X is one array for each view already: leave out views")
        self.widths = None if arrays is None else {name: part.shape[1] for name, part in arrays.items()}
        points = super().learn(estimator, X if arrays is None else _side_by_side(arrays))
        asked = self.asked if arrays is None else _slices(self.widths or {})
        self.views = None if asked is None else self._resolved(estimator, asked)
        return points

    def points(self, estimator: Any, X: Any) -> Points:
        """New rows as points, the way the training rows were."""
        arrays = _arrays(X)
        if self.widths is None:
            return super().points(estimator, X)
        if arrays is None or {name: part.shape[1] for name, part in arrays.items()} != self.widths:
            expected = ", ".join(f"{name} with {width} columns" for name, width in self.widths.items())
            raise InputError(f"X must be an array for each view, as in fit: {expected}")
        return super().points(estimator, _side_by_side({name: arrays[name] for name in self.widths}))

    def _resolved(self, estimator: Any, asked: Any) -> dict[str, list[int]]:
        if not isinstance(asked, (Mapping, list, tuple)) or not asked:
            raise InputError(
                f"views must be a list of columns for each view, or a mapping of names to them, got {asked!r}"
            )
        named = dict(asked) if isinstance(asked, Mapping) else {f"view {i}": columns for i, columns in enumerate(asked)}
        given = getattr(estimator, "feature_names_in_", None)
        names = [str(i) for i in range(estimator.n_features_in_)] if given is None else [str(name) for name in given]
        found: dict[str, list[int]] = {}
        for name, columns in named.items():
            chosen = _positions(columns, names)
            found[str(name)] = [i for i, source in enumerate(self.source) if source in chosen]
            if not found[str(name)]:
                raise InputError(f"views: {name!r} has no columns, got {columns!r}")
        return found


def kernels_of(views: dict[str, list[int]], kernel: Kernel, given: Any, columns: int) -> list[Kernel]:
    """A kernel for each view, on its columns: copies of one, or those that are given."""
    chosen = [kernel] * len(views) if given is None else list(given)
    if len(chosen) != len(views) or not all(isinstance(own, Kernel) for own in chosen):
        raise InputError(f"view_kernels must be a kernel for each of the {len(views)} views, got {given!r}")
    pairs = zip(chosen, views.values(), strict=True)
    return [copy.deepcopy(own).on(own_columns).bind(columns) for own, own_columns in pairs]


def _positions(columns: Any, names: list[str]) -> set[int]:
    if isinstance(columns, slice):
        return set(range(len(names))[columns])
    columns = columns.tolist() if isinstance(columns, np.ndarray) else columns
    wanted = columns if isinstance(columns, (list, tuple, range, set)) else [columns]
    for column in wanted:
        if isinstance(column, bool) or not isinstance(column, (int, str, np.integer)):
            raise InputError(f"views must name columns by number, name or slice, got {column!r}")
    return {column_position(column if isinstance(column, str) else int(column), names) for column in wanted}


def _arrays(X: Any) -> dict[str, np.ndarray] | None:
    """An array for each view, by name, where ``X`` is that; None where it is one table."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a sparse matrix of keys is a mapping too
        parts = {str(name): np.asarray(part) for name, part in X.items()}
    elif isinstance(X, (list, tuple)) and X and all(getattr(part, "ndim", 0) == 2 for part in X):
        parts = {f"view {i}": np.asarray(part) for i, part in enumerate(X)}
    else:
        return None
    if not parts or any(part.ndim != 2 or not part.shape[1] for part in parts.values()):
        raise InputError("X must hold an array (n, columns) for each view")
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"X must have the same rows in each view, got {lengths}")
    return parts


def _side_by_side(arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(arrays.values()), 1)


def _slices(widths: dict[str, int]) -> dict[str, slice]:
    ends = np.cumsum(list(widths.values()))
    return {name: slice(int(end) - width, int(end)) for (name, width), end in zip(widths.items(), ends, strict=True)}
