"""What models say about rows that they are calibrated on, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.saving import export_model, save_model
from stratagp.estimators.targets import as_array, check_length, encode_labels

ONE_DEVIATION = math.erf(math.sqrt(0.5))  # 0.683, the probability within a standard deviation of a Gaussian


class Calibration:
    """A fitted model that is corrected by rows that it has not seen; it can be saved where the model can."""

    calibrates = True
    model: Any
    save = save_model
    export = export_model

    @property
    def _example(self) -> Any:
        return self.model._example


def predicted(model: Any, X: Any) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean and standard deviation of one target at each row."""
    check_is_fitted(model)
    try:
        mean, std = (np.asarray(part, dtype=float) for part in model.predict(X, return_std=True))
    except TypeError:
        raise InputError(f"model must have predict(X, return_std=True), which {type(model).__name__} has not") from None
    if mean.ndim != 1:
        raise InputError(
            f"model predicts {mean.shape[-1]} targets, but one is calibrated at a time: fit one model each"
        )
    if not (np.isfinite(std) & (std > 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(std) & (std > 0)))[0])
        raise InputError(f"model predicts a standard deviation of {std[row]:g} in row {row}: it must be positive")
    return mean, std


def probabilities(model: Any, X: Any) -> Float[np.ndarray, "n c"]:
    """What a classifier says about each class."""
    check_is_fitted(model)
    if not hasattr(model, "predict_proba"):
        raise InputError(f"model must have predict_proba, which {type(model).__name__} has not")
    return np.asarray(model.predict_proba(X), dtype=float)


def numbers(y: Any, n: int) -> Float[np.ndarray, " n"]:
    """The targets of rows."""
    array = as_array(y, "y")
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise InputError(f"y must have one number a row, got shape {array.shape}")
    check_length(array, n, "y")
    if not np.isfinite(array).all():
        raise InputError(f"y has NaN or infinity in row {int(np.flatnonzero(~np.isfinite(array))[0])}: drop such rows")
    return array


def codes(model: Any, y: Any, n: int) -> Int[np.ndarray, " n"]:
    """The place of each row's class in ``model.classes_``."""
    labels, places = encode_labels(model, y, n)
    unknown = [label for label in labels.tolist() if label not in model.classes_.tolist()]
    if unknown:
        raise InputError(f"y has the class {unknown[0]!r}, which the model does not know: {model.classes_.tolist()}")
    return np.searchsorted(model.classes_, labels)[places]


def is_of_counts(model: Any) -> bool:
    """Whether a model predicts whole numbers: by its own likelihood, or by one of mixed functions."""
    observed = getattr(getattr(model, "model_", None), "observed", None)  # of models of other libraries there is none
    return bool(getattr(getattr(observed, "unwrapped", observed), "discrete", False))


def adopt_columns(estimator: Any, model: Any) -> None:
    """Know the columns that the model knows."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(estimator, name, getattr(model, name))


def enough_rows(n: int, level: float) -> bool:
    """Whether n scores have a rank that one more stays below with probability ``level``.

    >>> enough_rows(19, 0.95), enough_rows(18, 0.95)
    (True, False)
    """
    return math.ceil((n + 1) * level - 1e-9) <= n


def order_statistic(n: int, level: float, name: str) -> int:
    """``⌈(n + 1) level⌉``, the rank among n scores that one more stays below with probability ``level``; from one.

    >>> order_statistic(19, 0.95, "it"), order_statistic(19, 1e-12, "it")
    (19, 1)
    """
    rank = max(1, math.ceil((n + 1) * level - 1e-9))
    if not enough_rows(n, level):
        needed = math.ceil(level / (1 - level) - 1e-9)
        raise InputError(f"{name} needs at least {needed} rows of calibration, but there are {n}: give more of them")
    return rank
