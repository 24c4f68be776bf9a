"""Weights of a mixture of models that maximise the density of rows none of them has seen (Yao et al. 2018)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

_STEPS = 2000
_ENOUGH = 1e-7  # nats a row that a step must gain
_LEAST = 0.02  # weight of a member


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
    kept = np.arange(log_density.shape[1])
    while True:
        weights = _climbed(log_density[:, kept])
        lightest = int(weights.argmin())
        if len(kept) == 1 or (len(kept) <= most and weights[lightest] >= least):
            break
        kept = np.delete(kept, lightest)
    found = np.zeros(log_density.shape[1])
    found[kept] = weights
    return found


def _climbed(log_density: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " k"]:
    """Weights that are all above zero, by expectation-maximisation."""
    k = log_density.shape[1]
    weights, before = np.full(k, 1 / k), -np.inf
    for _ in range(_STEPS):
        joint = log_density + np.log(weights)
        total = logsumexp(joint, axis=1)
        weights = np.maximum(np.exp(joint - total[:, None]).mean(0), 1e-300)
        weights /= weights.sum()
        if total.mean() - before < _ENOUGH:
            break
        before = total.mean()
    return weights
