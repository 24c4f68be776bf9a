"""Two classes from several kernels: reads views, makes a kernel on each, and names the classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError

_LEAST_SPREAD = 0.1  # of the spread of a view: what a feature is divided by at the least


class View(NamedTuple):
    """One view of the training rows, in the units of its kernel."""

    x: np.ndarray
    spread: np.ndarray
    scale: float  # 2ℓ²

    def kernel(self, x: np.ndarray) -> np.ndarray:
        """From these rows, in units of the view, to those of training."""
        squares = cdist(x / self.spread, self.x, "sqeuclidean")
        return np.asarray(np.exp(-squares / self.scale))


class KernelsClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Two classes from P kernels.

    ``X`` is a mapping of names to arrays, a list of arrays, or one array: views of the same rows. Each gets the kernel
    ``exp(−|x − x'|² / 2ℓ²)`` on columns that are divided by their spread among the training rows, with ``ℓ`` the median
    distance of two of these. A column that hardly varies is divided by a tenth of the root mean square spread of its
    view, lest it rule elsewhere.
    """

    precomputed: bool

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from views, or from ``P n n`` kernels between rows if ``precomputed``, and labels of two classes."""
        labels = np.asarray(y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if labels.ndim != 1 or len(self.classes_) != 2:
            raise InputError(f"y must have one label per row, of two classes; it has {len(self.classes_)} classes")
        kernels = self._computed(X, len(labels)) if self.precomputed else self._learn_views(X, len(labels))
        self._learn(kernels, np.where(codes == 1, 1.0, -1.0))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Above 0 for the second class. ``X``: views, or ``P m n`` kernels to the training rows if ``precomputed``."""
        check_is_fitted(self, "classes_")
        return self._decision(self._cross(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    @abstractmethod
    def _learn(self, kernels: np.ndarray, y: np.ndarray) -> None:
        """From ``P n n`` kernels and labels −1 and +1."""

    @abstractmethod
    def _decision(self, cross: np.ndarray) -> np.ndarray:
        """From ``P m n`` kernels between new rows and those of training."""

    def _learn_views(self, X: Any, n: int) -> np.ndarray:
        parts = _parts(X)
        if wrong := [name for name, part in parts.items() if len(part) != n]:
            raise InputError(f"view {wrong[0]!r} of X has {len(parts[wrong[0]])} rows, but y has {n}")
        self.views_ = {name: _view(name, part) for name, part in parts.items()}
        return np.stack([view.kernel(parts[name]) for name, view in self.views_.items()])

    def _cross(self, X: Any) -> np.ndarray:
        if self.precomputed:
            return self._computed(X, self.n_rows_, square=False)
        parts = _parts(X)
        shapes = {name: part.shape[1] for name, part in parts.items()}
        known = {name: len(view.spread) for name, view in self.views_.items()}
        if shapes != known:
            raise InputError(f"X must have the views of fit, with as many columns: {known}; got {shapes}")
        if len(rows := {len(part) for part in parts.values()}) > 1:
            raise InputError(f"the views of X must have equally many rows, got {sorted(rows)}")
        return np.stack([self.views_[name].kernel(parts[name]) for name in known])

    def _computed(self, X: Any, n: int, square: bool = True) -> np.ndarray:
        kernels = np.asarray(X, float)
        wanted = f"(kernels, {n if square else 'rows'}, {n})"
        if kernels.ndim != 3 or kernels.shape[2] != n or (square and kernels.shape[1] != n):
            raise InputError(f"precomputed=True: X must have the shape {wanted}, got {kernels.shape}")
        if not np.isfinite(kernels).all():
            raise InputError("X has NaN or infinite values: kernels must be finite")
        if square:
            self.n_rows_ = n
        return kernels


class ProbableClassifier(KernelsClassifier, ABC):
    """A classifier from kernels that knows the probability of each class."""

    weights_: np.ndarray
    bounds_: list[float]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        check_is_fitted(self, "classes_")
        second = self._probability(self._cross(X))
        return np.column_stack([1 - second, second])

    @abstractmethod
    def _probability(self, cross: np.ndarray) -> np.ndarray:
        """Of the second class."""

    def _decision(self, cross: np.ndarray) -> np.ndarray:
        return self._probability(cross) - 0.5


def _parts(X: Any) -> dict[str, np.ndarray]:
    """Views by name, as arrays of finite numbers."""
    if isinstance(X, Mapping):
        named = {str(name): part for name, part in X.items()}
    else:
        listed = list(X) if isinstance(X, (list, tuple)) and np.ndim(X[0] if len(X) else 0) == 2 else [X]
        named = {f"view {i}": part for i, part in enumerate(listed)}
    parts = {name: np.asarray(part, float) for name, part in named.items()}
    for name, part in parts.items():
        if part.ndim != 2 or not part.size:
            raise InputError(f"{name!r} of X must be a table of rows and columns, got the shape {part.shape}")
        if not np.isfinite(part).all():
            raise InputError(f"{name!r} of X has NaN or infinite values: drop or fill those rows")
    if not parts:
        raise InputError("X has no views: give a mapping of names to arrays, or a list of arrays")
    return parts


def _view(name: str, x: np.ndarray) -> View:
    spread = x.std(0)
    spread = np.maximum(spread, _LEAST_SPREAD * np.sqrt(np.mean(spread**2)))
    if not spread.all():
        raise InputError(f"{name!r} of X is the same in every row: leave it out")
    units = x / spread
    distances = pdist(units)
    median = np.median(distances) or np.sqrt(np.mean(distances**2))  # where most rows are equal
    return View(units, spread, float(2 * median**2))
