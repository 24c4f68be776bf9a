"""How good predictions are: errors, densities, and whether the error bars hold.

Arguments are arrays or tensors with one number a row, ``n`` or ``n 1``; rows that do not match are an error.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from stratagp.errors import InputError


def rmse(y: Any, mean: Any) -> float:
    """Root mean squared error, in the units of ``y``."""
    y, mean = _columns(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y: Any, mean: Any, std: Any) -> float:
    """Mean negative log predictive density of Gaussian predictions; lower is better.

    >>> round(nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    y, mean, std = _columns(y=y, mean=mean, std=std)
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std)) + 0.5 * math.log(2 * math.pi))


def coverage(y: Any, mean: Any, std: Any, level: float = 0.95) -> float:
    """The share of ``y`` inside the central interval of Gaussian predictions that should hold ``level`` of them."""
    y, mean, std = _columns(y=y, mean=mean, std=std)
    half = NormalDist().inv_cdf(0.5 + level / 2)
    return float(np.mean(np.abs(y - mean) <= half * std))


def bhattacharyya(mean: Any, var: Any, other_mean: Any, other_var: Any) -> np.ndarray:
    """``−ln ∫ √(p q)`` of two Gaussians in each row: how far apart they are, 0 where they are the same.

    ``½ ln((v₁ + v₂)/2) − ¼ ln(v₁ v₂) + ¼ (m₁ − m₂)²/(v₁ + v₂)`` for variances ``v``, at least 1e-12.

    >>> bhattacharyya([0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 1.0])
    array([0. , 0.5])
    """
    m1, v1, m2, v2 = _columns(mean=mean, var=var, other_mean=other_mean, other_var=other_var)
    v1, v2 = np.maximum(v1, 1e-12), np.maximum(v2, 1e-12)
    apart = 0.25 * (m1 - m2) ** 2 / (v1 + v2)
    return 0.5 * np.log((v1 + v2) / 2) - 0.25 * (np.log(v1) + np.log(v2)) + apart


def _columns(**values: Any) -> list[np.ndarray]:
    """Each argument as a vector; NumPy would broadcast ``n`` against ``n 1`` to a matrix and answer nonsense."""
    arrays = {}
    for name, value in values.items():
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value, dtype=float)
        arrays[name] = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) != 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"metrics need one number a row and as many rows in each argument, got {found}")
    return list(arrays.values())
