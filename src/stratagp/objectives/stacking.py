"""Weights of a mixture of models that maximise the density of rows none of them has seen (Yao et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

_STEPS = 2000
_ENOUGH = 1e-7  # nats a row that a step must gain
_LEAST = 0.02  # weight of a member
_EVEN = 5.0  # rows that all models explain alike
_PRIOR = 0.2  # standard deviation of the logarithm of a width


def stacking_weights(
    log_density: Float[np.ndarray, "n k"], most: int = 5, least: float = _LEAST
) -> Float[np.ndarray, " k"]:
    """``argmax_w Σᵢ log Σ_k w_k p_k(yᵢ) + 5/K Σ_k log w_k`` over weights that sum to one, without the lightest.

    The objective is concave, and the steps of expectation-maximisation climb it: ``w_k`` becomes the share of ``p_k``
    in all rows. The second term is five more rows that all models explain alike: held-out rows are few, and the best
    weights for them are too far from equal ones. The ``most`` heaviest members stay, if they have at least ``least``.

    >>> fair = np.log([[0.9, 0.1], [0.1, 0.9]])  # each explains another row
    >>> stacking_weights(fair).round(3).tolist()
    [0.5, 0.5]
    """
    weights = _climbed(np.exp(log_density - log_density.max(1, keepdims=True)))
    kept = np.where(weights >= min(least, weights.max()), weights, 0.0)
    kept[np.argsort(-weights)[most:]] = 0.0
    return np.asarray(kept / kept.sum())


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


def _climbed(density: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " k"]:
    """Weights by expectation-maximisation; ``density`` may lack a factor in each row."""
    rows, members = density.shape
    weights, before = np.full(members, 1 / members), -np.inf
    for _ in range(_STEPS):
        total = np.maximum(density @ weights, 1e-300)
        value = float(np.log(total).sum() + _EVEN / members * np.log(weights).sum()) / rows
        weights = (weights * (density / total[:, None]).sum(0) + _EVEN / members) / (rows + _EVEN)
        weights = weights / weights.sum()
        if value - before < _ENOUGH:
            break
        before = value
    return weights
