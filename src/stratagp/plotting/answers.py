"""What pictures ask of models, both ours and other libraries' in the style of scikit-learn."""

from __future__ import annotations

import inspect
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.regression import is_of_counts


def answers(model: Any, *names: str) -> bool:
    """Whether a model, of this or another library, has these methods or learnt attributes."""
    return all(hasattr(model, name) for name in names)


def answer(model: Any, name: str) -> Any:
    """A learnt attribute of a model, of this or another library; None if it has none."""
    return getattr(model, name, None)


def categories_of(model: Any) -> list[bool] | None:
    """Which columns are categories for a model that encodes tables; None for other models."""
    return answer(answer(answer(model, "inputs_"), "encoder"), "is_categorical")


def check_regressor(model: Any, picture: str) -> None:
    """Raise unless the model is a fitted regressor."""
    if not isinstance(model, BaseEstimator) or not is_regressor(model):
        raise InputError(f"{picture} needs a regressor, got {type(model).__name__}")
    check_is_fitted(model)


def check_classifier(model: Any, picture: str) -> None:
    """Raise unless the model is a fitted classifier."""
    if not isinstance(model, BaseEstimator) or not is_classifier(model):
        raise InputError(f"{picture} needs a classifier, got {type(model).__name__}")
    check_is_fitted(model)


def moments(model: Any, X: Any, of: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of one target at each row."""
    options = options_of(model.predict, of)
    if "return_std" not in inspect.signature(model.predict).parameters:
        raise InputError(f"{type(model).__name__} has no standard deviations: predict takes no return_std")
    mean, std = (np.asarray(part) for part in model.predict(X, return_std=True, **options))
    return one_target(mean), std


def interval(model: Any, X: Any, level: float, of: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """The ends of the model's own interval, or of a Gaussian one if it has only mean and standard deviation."""
    if answers(model, "predict_interval"):
        low, high = model.predict_interval(X, level, **options_of(model.predict_interval, of))
        return one_target(np.asarray(low)), np.asarray(high)
    mean, std = moments(model, X, of)
    reach = NormalDist().inv_cdf(0.5 + level / 2)
    return mean - reach * std, mean + reach * std


def promised(model: Any, X: Any, ends: tuple[np.ndarray, np.ndarray], level: float) -> float:
    """The probability that a model gives to its intervals, on average over rows: their ``level``.

    Intervals of counts end on whole numbers and contain more: ``mean(F(high) − F(low − 1))``.
    """
    if not is_of_counts(model):
        return level
    low, high = ends
    return float(np.mean(np.asarray(model.cdf(X, high)) - np.asarray(model.cdf(X, low - 1))))


def options_of(method: Any, of: str) -> dict[str, str]:
    """``of`` as an option if the method has it; without it, methods are about observations."""
    if of not in ("y", "f"):
        raise InputError(f"of must be 'y' for observations or 'f' for the function without noise, got {of!r}")
    if "of" in inspect.signature(method).parameters:
        return {"of": of}
    if of == "f":
        raise InputError("of must be 'y': this model cannot predict the function without noise")
    return {}


def draws(model: Any, X: Any, count: int, random_state: int) -> np.ndarray:
    """Joint draws ``n s`` of the function, or of observations if the model draws only those."""
    if not answers(model, "sample_y"):
        raise InputError(f"n_samples must be 0 for {type(model).__name__}, which has no sample_y")
    known = "of" in inspect.signature(model.sample_y).parameters
    return np.asarray(model.sample_y(X, count, random_state=random_state, **({"of": "f"} if known else {})))


def one_target(values: np.ndarray) -> np.ndarray:
    """Refuse predictions of several targets."""
    if values.ndim != 1:
        raise InputError(f"the model predicts {values.shape[1]} targets, but a picture shows one: fit a model for each")
    return values


def names_of(model: Any) -> list[str]:
    """The names of the columns that a model has learnt from."""
    names = answer(model, "feature_names_in_")
    return [f"x{i}" for i in range(model.n_features_in_)] if names is None else [str(name) for name in names]
