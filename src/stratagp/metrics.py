"""How good predictions are: errors, densities, and whether the error bars hold."""

import math
from statistics import NormalDist

import numpy as np
from jaxtyping import Float


def rmse(y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"]) -> float:
    """Root mean squared error, in the units of ``y``."""
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y: Float[np.ndarray, " n"], mean: Float[np.ndarray, " n"], std: Float[np.ndarray, " n"]) -> float:
    """Mean negative log predictive density of Gaussian predictions; lower is better.

    >>> round(nlpd(np.array([0.0]), np.array([0.0]), np.array([1.0])), 4)
    0.9189
    """
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std)) + 0.5 * math.log(2 * math.pi))


def coverage(
    y: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, " n"],
    std: Float[np.ndarray, " n"],
    level: float = 0.95,
) -> float:
    """The share of ``y`` inside the central interval of Gaussian predictions that should hold ``level`` of them."""
    half = NormalDist().inv_cdf(0.5 + level / 2)
    return float(np.mean(np.abs(y - mean) <= half * std))
