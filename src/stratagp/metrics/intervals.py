"""Whether intervals and quantiles have the coverage that they promise, and how wide they are."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.metrics.checks import check_level, columns, not_negative


def coverage(y: Any, mean: Any, std: Any, level: float = 0.95) -> float:
    """The share of ``y`` inside the central ``level`` interval of Gaussian predictions.

    >>> coverage([0.0, 1.0, 3.0, -1.0], [0.0] * 4, [1.0] * 4)
    0.75
    """
    y, mean, std = columns(y=y, mean=mean, std=std)
    not_negative(std)
    half = NormalDist().inv_cdf(0.5 + check_level(level) / 2)
    return float(np.mean(np.abs(y - mean) <= half * std))


def interval_coverage(y: Any, lower: Any, upper: Any) -> float:
    """The share of ``y`` between ``lower`` and ``upper``, ends included.

    >>> interval_coverage([0.0, 1.0, 3.0, -1.0], [-1.0] * 4, [1.0] * 4)
    0.75
    """
    y, lower, upper = columns(y=y, lower=lower, upper=upper)
    _check_order(lower, upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(lower: Any, upper: Any) -> float:
    """The mean width of intervals, in the units of the target: of two with enough coverage, the narrower is better.

    >>> interval_width([0.0, 1.0], [1.0, 4.0])
    2.0
    """
    lower, upper = columns(lower=lower, upper=upper)
    _check_order(lower, upper)
    return float(np.mean(upper - lower))


def pinball(y: Any, quantile: Any, level: float) -> float:
    """Mean pinball loss of predicted quantiles: ``level · (y − q)`` above them and ``(1 − level) · (q − y)`` below.

    It is least at the true quantile of that level.

    >>> pinball([1.0, 0.0], [0.0, 1.0], level=0.9)  # (0.9 + 0.1)/2
    0.5
    """
    y, quantile = columns(y=y, quantile=quantile)
    level, excess = check_level(level), y - quantile
    return float(np.mean(np.maximum(level * excess, (level - 1) * excess)))


def _check_order(lower: np.ndarray, upper: np.ndarray) -> None:
    if (lower > upper).any():
        row = int(np.flatnonzero(lower > upper)[0])
        raise InputError(f"lower must not exceed upper, got {lower[row]:g} and {upper[row]:g} in row {row}")
