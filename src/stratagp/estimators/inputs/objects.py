"""Lists of objects as inputs of an estimator: checked before any work starts, and of one sort in fit and predict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sized
from numbers import Number
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from stratagp.data.columns import is_missing
from stratagp.data.tables import is_frame
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import Inputs, Points, RowsLike, forget_columns
from stratagp.kernels import Constant, Kernel
from stratagp.kernels.objects.base import short

_ALIKE = 1 - 1e-10  # the cosine above which two objects are one
_FIRST = 8  # objects that are compared with the first one at first; then eight times as many


class ObjectReader:
    """Reads lists of objects, and remembers whether those of ``fit`` were texts.

    Arguments:
        name: how messages call the list.

    >>> reader = ObjectReader()
    >>> reader.learn(["ab", "c"])
    ['ab', 'c']
    >>> reader.read([["ab"]])
    Traceback (most recent call last):
    stratagp.errors.InputError: X has ['ab'] in row 0, but in fit all objects were texts: give texts
    """

    def __init__(self, name: str = "X") -> None:
        self.name = name
        self.texts: bool | None = None  # whether all are texts, or none is; None where only some are

    def learn(self, X: RowsLike) -> list[Any]:
        """The objects of ``fit``."""
        objects = self._listed(X)
        texts = [isinstance(item, str) for item in objects]
        self.texts = all(texts) if all(texts) or not any(texts) else None
        number = next((i for i, item in enumerate(objects) if isinstance(item, (Number, np.bool_))), None)
        if self.texts is None and number is not None:
            raise InputError(
                f"{self.name} has {short(objects[number])} in row {number}, among texts: write it as a text or drop it"
            )
        if len(objects) > 1 and all(map(_is_wrapped, objects)) and any(len(item[0]) > 1 for item in objects):
            raise InputError(
                f"{self.name} has a list of one text in each row, such as {short(objects[0])}: give the texts "
                "themselves, [row[0] for row in X]"
            )
        return objects

    def read(self, X: RowsLike) -> list[Any]:
        """New objects, which must be texts where those of ``fit`` were, and must not where these were not."""
        objects = self._listed(X)
        other = (i for i, item in enumerate(objects) if isinstance(item, str) != self.texts)
        row = None if self.texts is None else next(other, None)
        if row is None:
            return objects
        wanted = "all objects were texts: give texts" if self.texts else "none was a text: prepare it as those of fit"
        raise InputError(f"{self.name} has {short(objects[row])} in row {row}, but in fit {wanted}")

    def _listed(self, X: Any) -> list[Any]:
        if (is_frame(X) and getattr(X, "ndim", 2) == 2) or isinstance(X, Mapping):
            raise InputError(
                f"{self.name} must be a list of objects, one for each row, got {type(X).__name__}: give one column of "
                "it, X['text'], or let view_kernels={'text': kernel} name it where the estimator has that option"
            )
        if isinstance(X, (str, bytes)) or not isinstance(X, Sized):
            raise InputError(f"{self.name} must be a list of objects, one for each row, got {type(X).__name__}")
        if isinstance(X, np.ndarray) and X.ndim > 1 and X.dtype.kind in "OUS" and X[0:1].size == 1:
            raise InputError(f"{self.name} has shape {X.shape}: give the column itself, X[:, 0]")
        if len(X) == 0:
            raise InputError(f"{self.name} must hold at least one object, got none")
        rows: Any = X
        objects = list(rows)
        row = next((i for i, item in enumerate(objects) if is_missing(item)), None)
        if row is not None:
            raise InputError(f"{self.name} has no object in row {row} ({objects[row]!r}): drop such rows or fill them")
        return objects


class ObjectInputs(Inputs):
    """Lists of objects that a kernel compares as they are."""

    objects = True

    def __init__(self) -> None:
        self.reader = ObjectReader()
        self.columns = []
        self.source = []

    def learn(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """The objects of ``fit``."""
        forget_columns(estimator)
        return Points(self.reader.learn(X))

    def points(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """New objects."""
        return Points(self.reader.read(X))


def refuse_texts(X: RowsLike, remedy: str) -> None:
    """Refuse a list of texts where a table is meant; ``remedy`` says which kernel takes it."""
    flat = isinstance(X, (list, tuple)) or (getattr(X, "ndim", 0) == 1 and not isinstance(X, torch.Tensor))
    rows: Any = X
    if flat and any(isinstance(item, str) for item in rows):
        raise InputError(f"X is a list of texts, which need a kernel over objects: {remedy}")


def refuse_mixtures(kernel: Kernel, name: str) -> None:
    """Refuse a kernel of which one part acts on objects and another one on numbers."""
    leaves = [] if kernel.takes_tensors else list(_leaves(kernel))
    objects = [type(leaf).__name__ for leaf in leaves if not leaf.takes_tensors]
    numbers = [type(leaf).__name__ for leaf in leaves if leaf.takes_tensors and not isinstance(leaf, Constant)]
    if objects and numbers:
        raise InputError(
            f"{name} mixes {objects[0]}, which acts on objects, with {numbers[0]}, which acts on numbers: let each "
            f"have its own columns of a frame, view_kernels={{'text': {objects[0]}(…), 'columns': {numbers[0]}(…)}}, "
            "as GPDRFRegressor and GPDRFClassifier can"
        )


def warn_if_alike(kernel: Kernel, objects: list[Any], name: str = "X") -> None:
    """Warn where the kernel can tell no two objects apart: ``k(a, b)² = k(a, a) k(b, b)`` for all of them."""
    start, count = 1, _FIRST
    while start < len(objects):
        if not _are_alike(kernel, objects[0], objects[start : start + count]):
            return
        start, count = start + count, 8 * count
    if len(objects) > 1:
        warnings.warn(
            f"{name}: no two of the {len(objects)} objects differ for {kernel}, so all predictions will be the same: "
            "check that they are what you meant, or use a kernel that tells them apart, such as one of shorter words",
            UserWarning,
            stacklevel=4,
        )


def _are_alike(kernel: Kernel, first: object, others: list[Any]) -> bool:
    with torch.no_grad():
        cross, own = kernel([first], others)[..., 0, :], kernel.diag([first, *others]).clamp_min(0)
    return bool((cross >= _ALIKE * (own[..., :1] * own[..., 1:]).sqrt()).all())


def _leaves(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels that sums, products and powers are made of; not what an object kernel has inside."""
    if not kernel.parts or (not kernel.takes_tensors and all(part.takes_tensors for part in kernel.parts)):
        yield kernel
    else:
        for part in kernel.parts:
            yield from _leaves(part)


def _is_wrapped(item: object) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 1 and isinstance(item[0], str)
