"""Several views of one object as inputs of an estimator: groups of columns, or arrays and lists of objects."""

from __future__ import annotations

import copy
import importlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.data.tables import is_frame, pandas_like
from stratagp.errors import InputError
from stratagp.estimators.inputs import Inputs, Points, check_objects
from stratagp.kernels import RBF, Anchors, Kernel, choose_anchors
from stratagp.kernels.columns import column_position

_REST = "columns"  # the view of all columns of a frame that are no objects


class ViewInputs(Inputs):
    """Tables whose columns belong to views; or an array or list of objects for each view, put side by side.

    A frame with columns of objects is such a list for each of these columns, and a table of the others.

    Objects become rows of their similarities to as many anchors as there are inducing points
    (:class:`~stratagp.kernels.Anchors`).

    Arguments:
        views: columns of each view, as a slice, a name, a number or a list of these; a mapping gives the views names.
            None for one table without views, or for ``X`` that is a mapping or a list of views itself.
        given: kernels of views, by name or in their order; a view with a kernel over objects is a list of these.

    After ``learn``, ``views`` tells which encoded columns each view has, by its name; None where there are no views.
    """

    def __init__(self, estimator: Any, kernel: Kernel, views: Any, given: Any = None) -> None:
        super().__init__(estimator, kernel)
        self.asked, self.given = views, given
        self.way = getattr(estimator, "anchors", "random")
        self.own_kernels: dict[str, Kernel | None] = {}
        self.widths: dict[str, int | None] | None = None  # None: objects
        self.views: dict[str, list[int]] | None = None
        self.anchors: dict[str, Anchors] = {}

    def learn(self, estimator: Any, X: Any) -> Points:
        """Learn from the training rows and their views, and return them as points."""
        named = self._named(X)
        if named is None:
            if self.asked is None and self.given is not None:
                raise InputError("view_kernels are for views: give views, X as a list of them, or kernel for all")
            points = super().learn(estimator, X)
            self.views = None if self.asked is None else self._resolved(estimator, self.asked)
            self.own_kernels = {} if self.views is None else _by_name(self.given, list(self.views))
            return points
        if self.asked is not None:
            raise InputError("X is one array for each view already: leave out views")
        self.own_kernels = _by_name(self.given, list(named))
        parts = self._parts(named)
        self.widths = _widths(parts)
        arrays = {name: part for name, part in parts.items() if not isinstance(part, list)}
        blocks = [super().learn(estimator, _side_by_side(arrays)).values] if arrays else []
        self.views = self._resolved(estimator, _slices(arrays)) if arrays else {}
        for name in [name for name, width in self.widths.items() if width is None]:
            blocks.append(self._anchored(name, parts[name], estimator.n_inducing))
            end = sum(block.shape[1] for block in blocks)
            self.views[name] = list(range(end - blocks[-1].shape[1], end))
        self.source += [-1] * (sum(block.shape[1] for block in blocks) - len(self.source))
        self.views = {name: self.views[name] for name in parts}
        return Points(torch.cat(blocks, 1))

    def points(self, estimator: Any, X: Any) -> Points:
        """New rows as points, the way the training rows were."""
        if self.widths is None:
            return super().points(estimator, X)
        named = self._named(X) or {}
        parts = self._parts(named) if set(named) == set(self.widths) else {}
        if _widths(parts) != self.widths:
            widths = self.widths.items()
            expected = ", ".join(f"{name} with {f'{w} columns' if w else 'objects'}" for name, w in widths)
            raise InputError(f"X must be an array for each view, as in fit: {expected}; got {_described(named, X)}")
        arrays = {name: parts[name] for name, width in self.widths.items() if width}
        blocks = [super().points(estimator, _side_by_side(arrays)).values] if arrays else []
        blocks += [anchors.encode(parts[name]) for name, anchors in self.anchors.items()]
        return Points(torch.cat(blocks, 1))

    def kernels(self, kernel: Kernel, columns: int) -> list[Kernel]:
        """A kernel for each view, on its columns: a copy of ``kernel``, or that which is given."""
        assert self.views is not None
        anchored = {name: anchors.kernel for name, anchors in self.anchors.items()}
        chosen = {name: anchored.get(name) or self.own_kernels[name] or kernel for name in self.views}
        copies = {name: copy.deepcopy(one) for name, one in chosen.items()}
        everything = list(range(columns))
        return [
            (copies[name] if own == everything else copies[name].on(own)).bind(columns)
            for name, own in self.views.items()
        ]

    def anchor_points(self, columns: int) -> list[Tensor | None]:
        """The inducing points of each view of objects, zero in the columns of others; None for the other views."""
        found: list[Tensor | None] = []
        for name, own in (self.views or {}).items():
            found.append(None)
            if name in self.anchors:
                rows = self.anchors[name].rows()
                found[-1] = rows.new_zeros(len(rows), columns).index_copy(1, torch.tensor(own), rows)
        return found

    def features(self, name: str) -> list[int]:
        """The columns of a view that a linear function may see."""
        assert self.views is not None
        return self.views[name][1 if name in self.anchors else 0 :]

    def _anchored(self, name: str, objects: list[Any], count: int) -> Tensor:
        kernel = self.own_kernels[name]
        assert kernel is not None
        chosen = choose_anchors(kernel, objects, count, torch.Generator().manual_seed(self._seed), self.way)
        self.anchors[name] = Anchors(kernel, [objects[i] for i in chosen])
        return self.anchors[name].encode(objects)

    def _parts(self, named: dict[str, Any]) -> dict[str, Any]:
        return _checked({name: _part(name, part, self.own_kernels[name]) for name, part in named.items()})

    def _named(self, X: Any) -> dict[str, Any] | None:
        """What is given for each view, by name, where ``X`` is that; None where it is one table."""
        if is_frame(X):
            return self._columns_of_objects(pandas_like(X))
        whole = isinstance(X, (list, tuple)) and len(X) > 0
        if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a sparse matrix of keys is a mapping too
            return {str(name): part for name, part in X.items()}
        if whole and (all(getattr(part, "ndim", 0) == 2 for part in X) or _has_objects(self.given, self.asked)):
            return {f"view {i}": part for i, part in enumerate(X)}
        return None

    def _columns_of_objects(self, frame: Any) -> dict[str, Any] | None:
        """A column of objects for each kernel over these, and the other columns; None where there are no such kernels.

        The kernels are given by the names of columns.
        """
        kernels = self.given.items() if isinstance(self.given, Mapping) and self.asked is None else ()
        names = [name for name, own in kernels if isinstance(own, Kernel) and not own.takes_tensors]
        if not names:
            return None
        absent = [repr(name) for name in names if name not in frame.columns]
        if absent:
            raise InputError(f"X has no column {', '.join(absent)}, which view_kernels gives a kernel for")
        for name in names:
            if frame[name].isna().any():
                row = int(np.flatnonzero(frame[name].isna())[0])
                raise InputError(f"X: column {name!r} has missing objects, the first in row {row}: drop or fill them")
        if _REST in names:
            raise InputError(f"X: a column of objects must not be called {_REST!r}, which stands for all other columns")
        rest = frame.drop(columns=names)
        return {**{str(name): frame[name].tolist() for name in names}, **({_REST: rest} if rest.shape[1] else {})}

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


def _by_name(given: Any, names: list[str]) -> dict[str, Kernel | None]:
    """The kernels that are given for views, by the names of these; None for the others."""
    if given is None:
        return dict.fromkeys(names)
    by_name = isinstance(given, Mapping)
    named = {str(key): own for key, own in given.items()} if by_name else dict(zip(names, given, strict=False))
    fits = set(named) <= set(names) if by_name else len(given) == len(names)
    if not fits or not all(own is None or isinstance(own, Kernel) for own in named.values()):
        raise InputError(
            f"view_kernels must be a kernel for each of the {len(names)} views ({', '.join(names)}), or a mapping of "
            f"their names to kernels, got {given!r}"
        )
    return {name: named.get(name) for name in names}


def _has_objects(given: Any, asked: Any) -> bool:
    kernels = given.values() if isinstance(given, Mapping) else given or ()
    return asked is None and any(isinstance(own, Kernel) and not own.takes_tensors for own in kernels)


def _part(name: str, values: Any, kernel: Kernel | None) -> Any:
    """A view as an array ``n d`` or a frame, or as a list of objects where its kernel is over these."""
    if kernel is not None and not kernel.takes_tensors:
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise InputError(f"X: view {name!r} must be a list of objects, got {type(values).__name__}")
        return list(values)
    if is_frame(values):
        return pandas_like(values)
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "fiub":
        array = array[:, None]
    if array.ndim == 2 and array.shape[1]:
        return array
    hint = "; objects need a kernel over objects in view_kernels" if array.dtype.kind not in "fiub" else ""
    raise InputError(f"X must hold an array (n, columns) for each view, got {array.shape} for {name!r}{hint}")


def _positions(columns: Any, names: list[str]) -> set[int]:
    if isinstance(columns, slice):
        return set(range(len(names))[columns])
    columns = columns.tolist() if isinstance(columns, np.ndarray) else columns
    wanted = columns if isinstance(columns, (list, tuple, range, set)) else [columns]
    for column in wanted:
        if isinstance(column, bool) or not isinstance(column, (int, str, np.integer)):
            raise InputError(f"views must name columns by number, name or slice, got {column!r}")
    return {column_position(column if isinstance(column, str) else int(column), names) for column in wanted}


def _described(named: dict[str, Any], X: Any) -> str:
    """What was given for the views."""
    if not named:
        return f"{type(X).__name__} {np.shape(X)}" if hasattr(X, "shape") else type(X).__name__
    return ", ".join(f"{name} {np.shape(part)}" if hasattr(part, "shape") else name for name, part in named.items())


def _widths(parts: dict[str, Any]) -> dict[str, int | None]:
    """The number of columns of each view; None for one of objects."""
    return {name: None if isinstance(part, list) else part.shape[1] for name, part in parts.items()}


def _checked(parts: dict[str, Any]) -> dict[str, Any]:
    if not parts:
        raise InputError("X must hold an array (n, columns) for each view, got none")
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"X must have the same rows in each view, got {lengths}")
    return parts


def _side_by_side(arrays: dict[str, Any]) -> Any:
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


def _slices(arrays: dict[str, Any]) -> dict[str, slice]:
    widths = [part.shape[1] for part in arrays.values()]
    ends = np.cumsum(widths)
    return {name: slice(int(end) - width, int(end)) for name, width, end in zip(arrays, widths, ends, strict=True)}


class ObjectInputs(ViewInputs):
    """A list of objects: one view, whose rows are similarities to anchors."""

    def __init__(self, estimator: Any, kernel: Kernel) -> None:
        super().__init__(estimator, RBF(), None, {"objects": kernel})

    def learn(self, estimator: Any, X: Any) -> Points:
        """Choose anchors among the objects, and compare all with them."""
        return super().learn(estimator, {"objects": check_objects(X)})

    def anchor_rows(self) -> Tensor:
        """The anchors as rows: the inducing points of processes over the objects."""
        return self.anchors["objects"].rows()

    def points(self, estimator: Any, X: Any) -> Points:
        """New objects, compared with the anchors."""
        return super().points(estimator, {"objects": check_objects(X)})
