"""Fitted models that are corrected by rows that they have not seen: what all corrections share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.saving import export_model, save_model
from stratagp.estimators.targets import as_array, check_length, encode_labels

ONE_DEVIATION = math.erf(math.sqrt(0.5))  # 0.683, the probability within a standard deviation of a Gaussian


@runtime_checkable
class HasProbabilities(Protocol):
    """A classifier, of this library or another, that knows the probabilities of classes."""

    classes_: np.ndarray

    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""


@runtime_checkable
class HasDistribution(Protocol):
    """A regressor, of this library or another, that knows the whole distribution of a target."""

    def cdf(self, X: RowsLike, y: ArrayLike) -> np.ndarray:
        """The probability that a target is at most ``y``."""

    def predict_quantiles(self, X: RowsLike, quantiles: ArrayLike) -> np.ndarray:
        """The quantiles of each row, a column for each."""


@dataclass(eq=False, repr=False)
class Calibration(BaseEstimator, ABC):
    """A fitted model that is corrected by rows that it has not seen; it can be saved where the model can."""

    model: BaseEstimator
    calibrates: ClassVar[bool] = True
    save = save_model
    export = export_model

    @property
    def _example(self) -> Any:
        return self.model._example

    def _adopt_columns(self) -> None:
        """Know the columns that the model knows."""
        for name in ("n_features_in_", "feature_names_in_"):
            found = getattr(self.model, name, None)
            if found is not None:
                setattr(self, name, found)


@dataclass(eq=False, repr=False)
class CalibratedRegressor(RegressorMixin, Calibration, ABC):
    """The point predictions of the model, with intervals of another width."""

    @abstractmethod
    def predict_interval(self, X: RowsLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level``."""

    def predict(self, X: RowsLike, return_std: bool = False) -> Any:
        """The mean that the model predicts, and half the width of the 68.3 % interval if asked for."""
        check_is_fitted(self)
        mean = self.model.predict(X)
        if not return_std:
            return mean
        low, high = self.predict_interval(X, ONE_DEVIATION)
        return mean, 0.5 * (high - low)

    def mean_std_interval(self, X: RowsLike, level: float = 0.95) -> list[np.ndarray]:
        """Mean, standard deviation, and both ends of the interval."""
        return [*self.predict(X, return_std=True), *self.predict_interval(X, level)]


def probabilities(model: BaseEstimator, X: RowsLike) -> Float[np.ndarray, "n c"]:
    """What a classifier says about each class."""
    check_is_fitted(model)
    if not isinstance(model, HasProbabilities):
        raise InputError(f"model must have predict_proba, but {type(model).__name__} does not")
    return np.asarray(model.predict_proba(X), dtype=float)


def numbers(y: ArrayLike, n: int) -> Float[np.ndarray, " n"]:
    """The targets of rows."""
    array = as_array(y, "y")
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise InputError(f"y must have one number a row, got shape {array.shape}")
    check_length(array, n, "y")
    if not np.isfinite(array).all():
        raise InputError(f"y has NaN or infinity in row {int(np.flatnonzero(~np.isfinite(array))[0])}: drop such rows")
    return array


def codes(model: BaseEstimator, y: ArrayLike, n: int) -> Int[np.ndarray, " n"]:
    """The place of each row's class in ``model.classes_``."""
    labels, places = encode_labels(model, y, n)
    unknown = [label for label in labels.tolist() if label not in model.classes_.tolist()]
    if unknown:
        raise InputError(f"y has the class {unknown[0]!r}, which the model does not know: {model.classes_.tolist()}")
    return np.searchsorted(model.classes_, labels)[places]
