"""Checks the arguments of metrics: arrays or tensors with matching rows; errors name the argument."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError

_SUM = 1e-3  # how far the sum of a row of probabilities may be from one


def columns(**values: Any) -> list[Float[np.ndarray, " n"]]:
    """Each argument as a vector; NumPy would broadcast ``n`` against ``n 1`` to a matrix and return nonsense."""
    arrays = {name: _vector(value, name) for name, value in values.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"metrics need one number per row and equally many rows in each argument, got {found}")
    if not next(iter(arrays.values())).size:
        raise InputError(f"{next(iter(arrays))} has no rows: metrics need at least one")
    return list(arrays.values())


def _vector(value: Any, name: str) -> np.ndarray:
    array = numbers(value, name)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def numbers(value: Any, name: str) -> np.ndarray:
    """Checks for finite numbers."""
    try:
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers, one per row") from None
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(np.atleast_1d(array)))[0, 0])
        raise InputError(f"{name} has NaN or infinite values, the first in row {row}: drop or correct those rows")
    return array


def positive(std: np.ndarray, name: str = "std") -> None:
    """Checks for positive standard deviations, as a density needs."""
    if not (std > 0).all():
        row = int(np.flatnonzero(std <= 0)[0])
        raise InputError(f"{name} must be positive, got {std[row]:g} in row {row}: a point has no density")


def not_negative(std: np.ndarray, name: str = "std") -> None:
    """Checks for standard deviations, which may be zero."""
    if not (std >= 0).all():
        row = int(np.flatnonzero(std < 0)[0])
        raise InputError(f"{name} must not be negative, got {std[row]:g} in row {row}")


def samples_of(y: np.ndarray, samples: Any) -> Float[np.ndarray, "n s"]:
    """Checks for draws of each row's prediction, in columns."""
    drawn = numbers(samples, "samples")
    if drawn.ndim != 2 or len(drawn) != len(y) or not drawn.shape[1]:
        raise InputError(f"samples must be (n, draws) with the {len(y)} rows of y, got shape {drawn.shape}")
    return drawn


def check_level(level: Any, name: str = "level") -> float:
    """Checks for a probability strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        example = 0.95 if name.startswith("level") else 0.05
        raise InputError(f"{name} must lie between 0 and 1, such as {example}, got {level!r}")
    return float(level)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Checks for a whole number ≥ ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number ≥ {least}, got {value!r}")
    return int(value)


class Classified(NamedTuple):
    """The number of each row's class, the probability of each class, and the labels in the order of its columns."""

    codes: Int[np.ndarray, " n"]
    probability: Float[np.ndarray, "n c"]
    classes: np.ndarray


def classified(y: Any, probability: Any, classes: Any) -> Classified:
    """Checks labels and class probabilities; a vector of probabilities is that of the second of two classes."""
    p = numbers(probability, "probability")
    p = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    if p.ndim != 2 or p.shape[1] < 2 or not len(p):
        raise InputError(f"probability must be (n, classes), or (n,) for the second of two, got shape {p.shape}")
    if p.min() < -1e-9 or np.abs(p.sum(1) - 1).max() > _SUM:
        row = int(np.argmax(np.maximum(np.abs(p.sum(1) - 1), -p.min(1))))
        raise InputError(f"probability must be ≥ 0 and sum to one in each row; row {row} is {p[row].tolist()}")
    labels = np.arange(p.shape[1]) if classes is None else np.asarray(classes)
    if labels.shape != (p.shape[1],) or len(np.unique(labels)) != len(labels):
        raise InputError(f"classes must name each of the {p.shape[1]} columns of probability once, got {classes!r}")
    return Classified(codes_of(y, labels, len(p)), np.clip(p, 0, 1), labels)


def labels_of(y: Any, name: str) -> np.ndarray:
    """Checks for one label per row."""
    array = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1 or not len(array):
        raise InputError(f"{name} must have one label per row, got shape {array.shape}")
    return array


def codes_of(y: Any, classes: np.ndarray, n: int) -> Int[np.ndarray, " n"]:
    """The position of each label in ``classes``."""
    labels = labels_of(y, "y")
    if len(labels) != n:
        raise InputError(f"y has {len(labels)} rows, but probability has {n}: they must agree")
    order = np.argsort(classes)
    try:
        place = np.clip(np.searchsorted(classes[order], labels), 0, len(classes) - 1)
        known = np.asarray(classes[order][place] == labels)
    except TypeError:
        raise InputError(
            f"y has labels of another type than classes, {classes.tolist()}: pass classes, for example model.classes_"
        ) from None
    if not known.all():
        stranger = labels[~known].tolist()[0]
        raise InputError(f"y has the label {stranger!r}, which is not among classes {classes.tolist()}: pass classes")
    return order[place]
