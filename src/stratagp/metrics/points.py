"""Errors of point predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.metrics.checks import columns


def rmse(y: Any, mean: Any) -> float:
    """Root mean squared error ``√(1/n Σ (y − m)²)``, in the units of ``y``.

    >>> rmse([0.0, 0.0], [3.0, 4.0])  # √12.5
    3.5355339059327378
    """
    y, mean = columns(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mae(y: Any, mean: Any) -> float:
    """Mean absolute error ``1/n Σ |y − m|``, in the units of ``y``.

    >>> mae([0.0, 0.0], [3.0, -4.0])
    3.5
    """
    y, mean = columns(y=y, mean=mean)
    return float(np.mean(np.abs(y - mean)))


def nmse(y: Any, mean: Any) -> float:
    """The mean squared error relative to the variance of ``y``: ``Σ (y − m)² / Σ (y − ȳ)²``, which is ``1 − R²``.

    Rasmussen and Williams (2006) call it the standardised mean squared error.

    >>> nmse([1.0, 3.0], [2.0, 2.0])
    1.0
    """
    y, mean = columns(y=y, mean=mean)
    return _share(y, mean, y.mean(), "y")


def smse(y: Any, mean: Any, y_train: Any) -> float:
    """The squared error relative to that of the trivial prediction, the average ``t̄`` of the training targets.

    ``Σ (y − m)² / Σ (y − t̄)²``: 1 for the trivial prediction, for any test rows.

    >>> smse([1.0, 3.0], [1.0, 2.0], y_train=[0.0, 2.0])  # 1 of 0 + 4
    0.25
    """
    y, mean = columns(y=y, mean=mean)
    (train,) = columns(y_train=y_train)
    return _share(y, mean, train.mean(), "y - mean(y_train)")


def _share(y: np.ndarray, mean: np.ndarray, centre: float, name: str) -> float:
    trivial = np.sum((y - centre) ** 2)
    if trivial == 0:
        raise InputError(f"{name} is constant, so there is no variance to compare the error with")
    return float(np.sum((y - mean) ** 2) / trivial)
