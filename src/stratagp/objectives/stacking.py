"""Weights of a mixture of models that maximise the density of rows none of them has seen (Yao et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

_STEPS = 2000
_ENOUGH = 1e-7  # nats a row that a step must gain
_LEAST = 0.02  # weight of a member
_NOTHING = 1e-4  # weight of candidates that are left out together
_PRIOR = 0.2  # standard deviation of the logarithm of a width


def stacking_weights(
    log_density: Float[np.ndarray, "n k"], most: int = 5, least: float = _LEAST
) -> Float[np.ndarray, " k"]:
    """``argmax_w Σᵢ log Σ_k w_k p_k(yᵢ)`` over weights that sum to one, of which at most ``most`` are not zero.

    The objective is concave, and the steps of expectation-maximisation climb it: ``w_k ← mean of the share of p_k``.
    Members with less than ``least`` are left out, the lightest first, and the others weighted again.

    >>> fair = np.log([[0.9, 0.1], [0.1, 0.9]])  # each explains another row
    >>> stacking_weights(fair).round(3).tolist()
    [0.5, 0.5]
    """
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    weights = np.full(log_density.shape[1], 1 / log_density.shape[1])
    while True:
        weights = _climbed(density, weights)
        lightest = int(np.where(weights > 0, weights, np.inf).argmin())
        if weights[lightest] >= min(least, weights.max()) and (weights > 0).sum() <= most:
            return weights
        weights = np.where((weights < _NOTHING) | (np.arange(len(weights)) == lightest), 0.0, weights)
        weights /= weights.sum()


def stacked(log_density: Float[np.ndarray, "n k w"], widths: Sequence[float]) -> tuple[Float[np.ndarray, " k"], float]:
    """Weights of the members, and the one width of all of them, that maximise the density of the mixture.

    A mixture of models that are each as wide as they should be is too wide (Gneiting and Ranjan 2013), so all of them
    are made narrower by the same factor: their spread-adjusted linear pool. A prior that weighs as much as a dozen
    rows holds the factor near 1.

    Arguments:
        log_density: of each row, by each model, at each of the widths.
        widths: factors of the models' own spread.
    """
    found = [stacking_weights(log_density[:, :, i]) for i in range(len(widths))]
    worth = [
        float(logsumexp(log_density[:, :, i], axis=1, b=weights).sum()) - 0.5 * (np.log(width) / _PRIOR) ** 2
        for i, (weights, width) in enumerate(zip(found, widths, strict=True))
    ]
    best = int(np.argmax(worth))
    return found[best], float(widths[best])


def _climbed(density: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Weights by expectation-maximisation; those that are zero stay zero. ``density`` may lack a factor in each row."""
    before = -np.inf
    for _ in range(_STEPS):
        total = density @ weights
        value = float(np.log(np.maximum(total, 1e-300)).mean())
        weights = weights * (density / np.maximum(total, 1e-300)[:, None]).mean(0)
        weights = weights / weights.sum()
        if value - before < _ENOUGH:
            break
        before = value
    return weights
