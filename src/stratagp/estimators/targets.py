"""Targets and weights that estimators are given, checked before any work starts."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from stratagp.data.columns import is_missing
from stratagp.data.target_checks import OF_TIMES, TIMES
from stratagp.errors import InputError
from stratagp.metrics.checks import check_level as check_level


def check_targets(
    estimator: BaseEstimator, y: ArrayLike | None, n: int, gaps: bool = False
) -> Float[np.ndarray, " n *q"]:
    """Numbers, one row for each of ``n`` points; one column for each target where there are columns.

    With ``gaps``, NaN says that an entry was not observed.
    """
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    array = as_array(y, "y", f"; classes are a task for {estimator.classifier}")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise InputError(f"y must be (n,) or (n, targets), got shape {array.shape}")
    check_length(array, n, "y")
    table = array.reshape(n, -1)
    bad = np.isinf(table) if gaps else ~np.isfinite(table)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        able = table.shape[1] > 1 and "outputs" in estimator.get_params(deep=False)
        remedy = "" if not able else "; outputs='correlated' takes targets with gaps (NaN)"
        kind = "NaN" if np.isnan(table[row, column]) else "infinity"
        raise InputError(
            f"Input y contains {kind} in row {row}, and NaN or infinity in {int(bad.any(1).sum())} of {n} rows: drop "
            f"those rows{remedy}"
        )
    if gaps and np.isnan(table).all(0).any():
        raise InputError(f"y has no observed entry in column {int(np.isnan(table).all(0).argmax())}: drop that column")
    return array


def check_groups(groups: ArrayLike | None, n: int) -> Int[Tensor, " n"] | None:
    """The number of the group of each of ``n`` rows, from labels of any kind; None without groups.

    >>> check_groups(["b", "a", "b"], 3)
    tensor([1, 0, 1])
    """
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError(f"groups must have a label for each of {n} rows, got the shape {labels.shape}")
    return torch.from_numpy(np.unique(labels.astype(str), return_inverse=True)[1])


def encode_labels(
    estimator: BaseEstimator, y: ArrayLike | None, n: int, several: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the number of each row's class; ``several`` asks for two at least."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    check_length(labels, n, "y")
    gaps = np.flatnonzero([is_missing(label) or label != label for label in labels])
    if len(gaps):
        raise InputError(f"y has no label in row {gaps[0]}, and in {len(gaps)} of {n} rows: drop those rows")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise InputError(f"y has infinity in row {np.isinf(labels).argmax()}, which is not a class: drop such rows")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if several and len(classes) < 2:
        raise InputError(
            f"y must contain at least two classes, got only one class: {classes.tolist()[0]!r} in all {n} rows"
        )
    return classes, codes


def check_weights(sample_weight: ArrayLike | None, n: int) -> Float[np.ndarray, " n"] | None:
    """Numbers ≥ 0, one for each row; a single number stands for all."""
    if sample_weight is None:
        return None
    array = as_array(sample_weight, "sample_weight")
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.ndim != 1:
        raise InputError(f"sample_weight must be 1D with one number for each row, got shape {array.shape}")
    check_length(array, n, "sample_weight")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("sample_weight must be finite and not negative: a weight divides the noise of its row")
    if not (array > 0).any():
        raise InputError("sample_weight is zero for every row: nothing is left to learn from")
    return array


def as_array(values: ArrayLike, name: str, remedy: str = "") -> np.ndarray:
    """Numbers as float64; ``remedy`` ends the message about what is no number."""
    values = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must hold real numbers")
    if array.size and (array.dtype.kind in "Mm" or isinstance(array.ravel()[0], TIMES)):
        raise InputError(f"{name} must hold numbers, got {array.ravel()[0]!s}: {OF_TIMES}")
    if array.dtype.kind in "US":
        raise InputError(f"{name} must hold numbers, got {array.dtype}{remedy}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        example = next((v for v in array.ravel() if not isinstance(v, (int, float, np.number))), array.ravel()[0])
        raise InputError(f"{name} must hold numbers, got {example!r}{remedy}") from None


def check_length(array: np.ndarray, n: int, name: str) -> None:
    """As many rows as there are points."""
    if len(array) != n:
        raise InputError(f"X has {n} row{'s' * (n != 1)}, but {name} has {len(array)}: inconsistent numbers of samples")


def check_noise(noise: ArrayLike, n: int) -> np.ndarray:
    """Known variances, one for each row."""
    if isinstance(noise, (bool, np.bool_)):
        raise InputError(f"noise must be 'learn', 'heteroscedastic' or variances ≥ 0, got {noise!r}")
    array = as_array(noise, "noise")
    if array.ndim == 0:
        array = np.full(n, float(array))
    check_length(array, n, "noise")
    if array.ndim != 1 or not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("noise must be a variance ≥ 0, or one for each row, in squared units of y")
    return array


def check_quantiles(quantiles: ArrayLike) -> list[float]:
    """Levels of quantiles, one or several."""
    levels = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if not ((levels > 0) & (levels < 1)).all():
        raise InputError(f"quantiles must lie between 0 and 1, such as [0.1, 0.9], got {quantiles!r}")
    return [float(level) for level in levels]


def check_n_samples(n_samples: int) -> int:
    """How many draws."""
    if not isinstance(n_samples, (int, np.integer)) or n_samples < 1:
        raise InputError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
    return int(n_samples)


def check_of(of: str) -> bool:
    """Whether an answer is about observations, noise included."""
    if of not in ("y", "f"):
        raise InputError(f"of must be 'y' for observations or 'f' for the function without noise, got {of!r}")
    return of == "y"
