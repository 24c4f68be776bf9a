"""Predictions corrected by rows that a model has not learnt from."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.conformal import ConformalClassifier, ConformalRegressor
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.recalibrated import RecalibratedClassifier, RecalibratedRegressor

_METHODS = {"regressor": ("conformal", "isotonic"), "classifier": ("conformal", "isotonic", "temperature")}


def calibrate(
    model: BaseEstimator,
    X: RowsLike,
    y: ArrayLike,
    method: Literal["conformal", "isotonic", "temperature"] = "conformal",
) -> Any:
    """The model with intervals, quantiles, sets or probabilities that are corrected by held-out rows.

    Arguments:
        model: a fitted regressor or classifier; it stays as it is.
        X, y: rows that it has not learnt from, a few hundred or more.
        method: "conformal": intervals of regressors and sets of classes that hold the truth with a given probability
            at least, whatever the model got wrong (:class:`ConformalRegressor`, :class:`ConformalClassifier`).
            "isotonic": the predictive distribution, or the probability of each class, through an increasing map
            (:class:`RecalibratedRegressor`, :class:`RecalibratedClassifier`). "temperature", of classifiers: all
            probabilities sharpened or softened by one number.

    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_t(2, 300)  # outliers, which the model does not expect
    >>> gp = GPRegressor(noise=0.01, max_iterations=0).fit(X[:100], y[:100])  # and far too little noise
    >>> low, high = gp.predict_interval(X[200:], 0.9)
    >>> float(np.mean((low < y[200:]) & (y[200:] < high)))
    0.37
    >>> low, high = calibrate(gp, X[100:200], y[100:200]).predict_interval(X[200:], 0.9)
    >>> float(np.mean((low < y[200:]) & (y[200:] < high)))
    0.9
    """
    if not isinstance(model, BaseEstimator) or not (is_classifier(model) or is_regressor(model)):
        raise InputError(f"model must be a regressor or a classifier, got {type(model).__name__}")
    kind = "classifier" if is_classifier(model) else "regressor"
    if method not in _METHODS[kind]:
        choices = ", ".join(map(repr, _METHODS[kind]))
        raise InputError(f"method must be one of {choices} for a {kind}; got {method!r}")
    check_is_fitted(model)
    if kind == "regressor":
        corrected: Any = ConformalRegressor(model) if method == "conformal" else RecalibratedRegressor(model)
    else:
        corrected = ConformalClassifier(model) if method == "conformal" else RecalibratedClassifier(model, method)
    return corrected.fit(X, y)
