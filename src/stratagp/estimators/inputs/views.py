"""Several views of one object as inputs of an estimator: groups of columns, or arrays and lists of objects."""

from __future__ import annotations

import copy
import importlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from stratagp.data import TableEncoder
from stratagp.data.encoding import refuse_other_names
from stratagp.data.tables import is_frame, pandas_like
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import InputOptions, Inputs, Points, RowsLike, forget_columns
from stratagp.estimators.inputs.objects import ObjectReader, refuse_mixtures, refuse_texts, warn_if_alike
from stratagp.estimators.inputs.table import TableInputs
from stratagp.kernels import Anchors, Kernel, choose_anchors
from stratagp.kernels.algebra.on_columns import column_position

_ONE = "objects"  # the name of the view that a list of objects is
_REST = "columns"  # the view of all columns of a frame that have no kernel of their own


class ViewInputs(Inputs):
    """Tables whose columns belong to views; or an array or list of objects for each view, put side by side.

    In a frame, columns that are given kernels by name are views of their own, lists of objects where the kernels are
    over these, and all others are the view "columns". They may come in any order.

    Objects become rows of their similarities to some of them (:class:`~stratagp.kernels.Anchors`).

    Arguments:
        asked: columns of each view, as a slice, a name, a number or a list of these; a mapping gives the views names.
            None for one table without views, or for ``X`` that is a mapping or a list of views itself.
        given: kernels of views, by name or in their order; a view with a kernel over objects is a list of these.
        kernel: over objects, where ``X`` is a list of these: one view.

    After ``learn``, ``views`` tells which encoded columns each view has, by its name; None where there are no views.
    """

    def __init__(
        self, options: InputOptions, asked: Any = None, given: Any = None, kernel: Kernel | None = None
    ) -> None:
        self.options, self.asked, self.kernel = options, asked, kernel
        self.given = given if kernel is None else {_ONE: kernel}
        self.table = TableInputs(options)
        self.table_reader: BaseEstimator | None = None  # whose columns are those of the table alone
        self.own_kernels: dict[str, Kernel | None] = {}
        self.widths: dict[str, int | None] | None = None  # None: objects
        self.views: dict[str, list[int]] | None = None
        self.anchors: dict[str, Anchors] = {}
        self.readers: dict[str, ObjectReader] = {}  # of the views of objects
        self.encoder: TableEncoder | None = None
        self.centre: Tensor | None = None
        self.scale: Tensor | None = None
        self.takes_views = False
        self.frame: list[str] | None = None  # the names of its columns, if it was one that views were columns of
        self.columns = []
        self.source = []

    def learn(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """Learn from the training rows and their views, and return them as points."""
        self._refuse_objects_in_groups()
        if self.kernel is None:
            refuse_texts(X, self.options.texts)
        named = self._named(X)
        if named is None:
            if self.asked is None and self.given is not None:
                raise InputError("view_kernels are for views: give views, X as a list of them, or kernel for all")
            points = self._learn_table(estimator, X)
            self.views = None if self.asked is None else self._resolved(estimator, self.asked)
            self.own_kernels = {} if self.views is None else _by_name(self.given, list(self.views))
            return points
        if self.asked is not None:
            raise InputError("X already has one array for each view: leave out views")
        forget_columns(estimator)
        columns = is_frame(X) and self.kernel is None
        self.frame = [str(name) for name in pandas_like(X).columns] if columns else None
        self.own_kernels = _by_name(self.given, list(named))
        self.readers = {
            name: ObjectReader(self._call(name)) for name in named if _is_over_objects(self.own_kernels[name])
        }
        parts = _checked({name: self._part(name, part, learn=True) for name, part in named.items()})
        self.widths, self.takes_views = _widths(parts), self.kernel is None
        return self._learn_parts(estimator, parts)

    def _learn_table(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        points = self.table.learn(estimator, X)
        self.columns, self.source, self.encoder = self.table.columns, list(self.table.source), self.table.encoder
        self.centre, self.scale = self.table.centre, self.table.scale
        return points

    def _learn_parts(self, estimator: BaseEstimator, parts: dict[str, Any]) -> Points:
        """Arrays side by side in one table, then similarities of objects to anchors."""
        arrays = {name: part for name, part in parts.items() if name not in self.readers}
        # A frame's columns of objects are columns of the estimator too, but not of the table that is read here.
        reader = estimator if self.frame is None else clone(estimator, safe=False)
        self.table_reader = None if self.frame is None else reader
        tables = [self._learn_table(reader, _side_by_side(arrays))] if arrays else []
        blocks = [table.values for table in tables]
        ends = np.cumsum([part.shape[1] for part in arrays.values()])
        places = {name: slice(end - part.shape[1], end) for (name, part), end in zip(arrays.items(), ends, strict=True)}
        found = self._resolved(reader, places) if arrays else {}
        for name in self.readers:
            blocks.append(self._anchored(name, parts[name]))
            end = sum(block.shape[1] for block in blocks)
            found[name] = list(range(end - blocks[-1].shape[1], end))
        self.views = {name: found[name] for name in parts}
        self._count_columns(estimator, arrays)
        return _beside(tables, blocks)

    def points(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """New rows as points, the way the training rows were."""
        if self.widths is None:
            return self.table.points(estimator, X)
        if self.frame is not None and is_frame(X):
            frame = pandas_like(X)
            given = [str(name) for name in frame.columns]
            refuse_other_names(self.frame, given)
            X = frame.iloc[:, [given.index(name) for name in self.frame]]
        named = self._named(X) or {}
        same = set(named) == set(self.widths)
        parts = _checked({name: self._part(name, part) for name, part in named.items()}) if same else {}
        if _widths(parts) != self.widths:
            known = self.widths.items()
            expected = ", ".join(f"{name} with {f'{w} columns' if w else 'objects'}" for name, w in known)
            got = ", ".join(f"{name} {_shape(part)}".rstrip() for name, part in named.items())
            got = got or f"{type(X).__name__} {_shape(X)}".rstrip()
            raise InputError(f"X must be an array for each view, as in fit: {expected}; got {got}")
        arrays = {name: parts[name] for name, width in self.widths.items() if width}
        reader = estimator if self.table_reader is None else self.table_reader
        tables = [self.table.points(reader, _side_by_side(arrays))] if arrays else []
        blocks = [table.values for table in tables]
        blocks += [anchors.encode(parts[name]) for name, anchors in self.anchors.items()]
        return _beside(tables, blocks)

    def draws(self, points: Points, joint: bool = False) -> Float[Tensor, "s r d"]:
        """The incomplete rows, missing entries of the table drawn at random given the others there."""
        assert points.raw is not None
        assert points.incomplete is not None
        width = len(self.table.columns)
        found = self.table.draws(replace(points, raw=points.raw[:, :width]), joint)
        objects = torch.from_numpy(points.raw[points.incomplete][:, width:])
        return torch.cat([found, objects.expand(len(found), *objects.shape)], 2)

    def bind(self, kernel: Kernel | None, default: Kernel) -> Kernel:
        """A copy of a kernel that knows the columns and categories of the table."""
        return self.table.bind(kernel, default)

    def _count_columns(self, estimator: BaseEstimator, arrays: dict[str, Any]) -> None:
        """Where in ``X`` each column comes from, −1 for objects that are no column of a frame."""
        assert self.views is not None
        objects = [name for name in self.readers for _ in self.views[name]]
        if self.frame is None:
            self.source += [-1] * len(objects)
            return
        place = {name: i for i, name in enumerate(self.frame)}
        table = [str(name) for part in arrays.values() for name in part.columns]
        self.source = [place[table[i]] for i in self.source] + [place[name] for name in objects]
        estimator.n_features_in_ = len(self.frame)
        estimator.feature_names_in_ = np.array(self.frame, dtype=object)

    def kernels(self, kernel: Kernel, columns: int) -> list[Kernel]:
        """A kernel for each view, on its columns: a copy of ``kernel``, or its own."""
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

    def _anchored(self, name: str, objects: list[Any]) -> Tensor:
        kernel, options = self.own_kernels[name], self.options
        assert kernel is not None
        generator = torch.Generator().manual_seed(options.seed)
        chosen = choose_anchors(kernel, objects, options.n_anchors, generator, options.anchors)
        self.anchors[name] = Anchors(kernel, [objects[i] for i in chosen])
        if len(chosen) == 1:
            warn_if_alike(kernel, objects, self._call(name))
        return self.anchors[name].encode(objects)

    def _call(self, name: str) -> str:
        """How messages call a list of objects."""
        if name == _ONE:
            return "X"
        return f"X: view {name!r}" if self.frame is None else f"X: column {name!r}"

    def _part(self, name: str, values: Any, learn: bool = False) -> Any:
        """A view as an array ``n d`` or a frame, or as a list of objects where its kernel is over these."""
        reader = self.readers.get(name)
        if reader is None:
            return _as_table(name, values)
        return reader.learn(values) if learn else reader.read(values)

    def _named(self, X: Any) -> dict[str, Any] | None:
        """The views by name, where ``X`` consists of views; None where it is one table."""
        if self.kernel is not None:
            return {_ONE: X}
        if is_frame(X):
            by_column = isinstance(self.given, Mapping) and self.given and self.asked is None
            return _views_of_frame(pandas_like(X), self.given) if by_column else None
        whole = isinstance(X, (list, tuple)) and len(X) > 0
        if isinstance(X, Mapping) and not issparse(X):  # a sparse matrix of keys is a mapping too
            return {str(name): part for name, part in X.items()}
        several = whole and all(_is_array(part) and np.ndim(part) == 2 for part in X)
        if several or (whole and self.asked is None and self._over_objects()):
            return {f"view {i}": part for i, part in enumerate(X)}
        return None

    def _over_objects(self) -> list[Kernel]:
        given = self.given.values() if isinstance(self.given, Mapping) else self.given or ()
        return [own for own in given if _is_over_objects(own)]

    def _refuse_objects_in_groups(self) -> None:
        if self.asked is not None and self._over_objects():
            raise InputError(
                f"views are groups of columns of numbers and categories, but {self._over_objects()[0]} in view_kernels "
                "is over objects: leave out views, and let view_kernels={'text': kernel} name the column of objects"
            )

    def _resolved(self, estimator: BaseEstimator, asked: Any) -> dict[str, list[int]]:
        if not isinstance(asked, (Mapping, list, tuple)) or not asked:
            raise InputError(
                f"views must be a list of columns for each view, or a mapping of names to them, got {asked!r}"
            )
        named = dict(asked) if isinstance(asked, Mapping) else {f"view {i}": columns for i, columns in enumerate(asked)}
        given = vars(estimator).get("feature_names_in_")
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
    for own in named.values():
        if own is not None:
            refuse_mixtures(own, "view_kernels")
    return {name: named.get(name) for name in names}


def _positions(columns: Any, names: list[str]) -> set[int]:
    if isinstance(columns, slice):
        return set(range(len(names))[columns])
    columns = columns.tolist() if isinstance(columns, np.ndarray) else columns
    wanted = columns if isinstance(columns, (list, tuple, range, set)) else [columns]
    for column in wanted:
        if isinstance(column, bool) or not isinstance(column, (int, str, np.integer)):
            raise InputError(f"views must name columns by number, name or slice, got {column!r}")
    return {column_position(column if isinstance(column, str) else int(column), names) for column in wanted}


def _is_over_objects(kernel: object) -> bool:
    return isinstance(kernel, Kernel) and not kernel.takes_tensors


def _views_of_frame(frame: Any, kernels: Mapping[Any, Any]) -> dict[str, Any]:
    """A view for each column that has a kernel of its own, and one, "columns", of all others.

    A column whose kernel is over objects becomes a list of these.
    """
    names = [name for name in kernels if name != _REST]
    absent = [repr(name) for name in names if name not in frame.columns]
    if absent:
        raise InputError(
            f"X has no column {', '.join(absent)}, which view_kernels gives a kernel for; its columns are "
            f"{', '.join(map(str, frame.columns))}, and those without a kernel form the view {_REST!r}"
        )
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise InputError(f"X has more than one column named {twice[0]!r}: rename or drop them")
    if _REST in kernels and _REST in frame.columns:
        raise InputError(
            f"X: a column with a kernel of its own must not be called {_REST!r}, which stands for all others: rename it"
        )
    views: dict[str, Any] = {}
    for name in names:
        if not _is_over_objects(kernels[name]):
            views[str(name)] = frame[[name]]
            continue
        gaps = np.flatnonzero(frame[name].isna())
        if len(gaps):
            raise InputError(f"X: column {name!r} has missing objects, the first in row {gaps[0]}: drop or fill them")
        views[str(name)] = frame[name].tolist()
    rest = frame.drop(columns=names)
    return {**views, **({_REST: rest} if rest.shape[1] else {})}


def _beside(tables: list[Points], blocks: list[Tensor]) -> Points:
    """Points of a table, if there is one, and of objects side by side; the raw rows of the latter are their points."""
    values = torch.cat(blocks, 1)
    if not tables or tables[0].incomplete is None or tables[0].raw is None:
        return Points(values)
    raw = np.concatenate([tables[0].raw, *(block.numpy() for block in blocks[1:])], 1)
    return Points(values, tables[0].incomplete, raw)


def _as_table(name: str, values: Any) -> Any:
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


def _is_array(values: Any) -> bool:
    return isinstance(values, (np.ndarray, Tensor)) or issparse(values) or is_frame(values)


def _shape(values: Any) -> str:
    return str(np.shape(values)) if _is_array(values) else ""


def _widths(parts: dict[str, Any]) -> dict[str, int | None]:
    """The number of columns of each view; None for one of objects."""
    return {name: None if isinstance(part, list) else part.shape[1] for name, part in parts.items()}


def _checked(parts: dict[str, Any]) -> dict[str, Any]:
    """Views that have the same rows."""
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
