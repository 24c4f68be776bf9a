"""Widths and weights of models of classes whose probabilities are multiplied, from rows that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from stratagp.predictive import Classes, narrowed

_WIDTHS = np.exp(np.linspace(np.log(0.2), np.log(4), 31))
_PRIOR = 1.0  # standard deviation of the logarithm of a width
_EVEN = 30.0  # precision of the weights around equal ones, as much as some thirty rows tell
_MOST, _LEAST = 5, 0.02  # members, and the weight of one


def pool(said: Sequence[Classes], codes: Int[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " k"], list[float]]:
    """Weights and widths with which ``Π_k p_k(c)^(w_k / t_k)``, normalised, makes held-out classes most probable.

    Each model gets its own width first: processes of few rows are too doubtful, and others too sure. Weights sum to
    one. There are at most five, none below 2 %: the lightest models are left out, and the others weighted again.

    >>> doubtful, none = np.array([[0.6, 0.4], [0.4, 0.6]] * 200), np.full((400, 2), 0.5)
    >>> codes = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 0] * 40)  # four of five are the likelier one
    >>> weights, widths = pool([Classes(doubtful), Classes(none)], codes)
    >>> weights.round(1).tolist(), round(widths[0], 1)  # log 1.5 / log 4 = 0.29
    ([0.9, 0.1], 0.3)
    """
    widths = [own_width(one, codes) for one in said]
    logs = np.stack([_logs(one, width) for one, width in zip(said, widths, strict=True)], 1)
    kept = np.arange(len(said))
    while True:
        weights = pool_weights(logs[:, kept], codes)
        if len(kept) <= _MOST and weights.min() >= min(_LEAST, weights.max()):
            found = np.zeros(len(said))
            found[kept] = weights
            return found, widths
        kept = np.delete(kept, weights.argmin())


def own_width(said: Classes, codes: Int[np.ndarray, " n"]) -> float:
    """The width that makes classes most probable, with a weak prior that it is near 1."""

    def worth(width: float) -> float:
        own = _logs(said, width)[np.arange(len(codes)), codes]
        return float(own.sum()) - 0.5 * (np.log(width) / _PRIOR) ** 2

    return float(max(_WIDTHS, key=worth))


def pool_weights(logs: Float[np.ndarray, "n k c"], codes: Int[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """``argmax_w Σᵢ log softmax(Σ_k w_k log p_k)_{cᵢ} − 15 Σ_k (w_k − 1/K)²`` on the simplex, a concave problem."""
    n, even = np.arange(len(codes)), np.full(logs.shape[1], 1 / logs.shape[1])
    if len(even) == 1:
        return even
    own = logs[n, :, codes]

    def cost(weights: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
        chances = softmax(np.einsum("k,nkc->nc", weights, logs), axis=1)
        far = weights - even
        value = -np.log(np.maximum(chances[n, codes], 1e-300)).sum() + 0.5 * _EVEN * far @ far
        slope = (np.einsum("nc,nkc->nk", chances, logs) - own).sum(0) + _EVEN * far
        return float(value) / len(n), slope / len(n)

    from scipy.optimize import minimize  # slow to load, and only needed here

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    found = minimize(
        cost, even, jac=True, method="SLSQP", bounds=[(0, 1)] * len(even), constraints=simplex, options={"ftol": 1e-9}
    )
    weights = np.clip(found.x, 0, None)
    return np.asarray(weights / weights.sum())


def _logs(said: Classes, width: float) -> Float[np.ndarray, "n c"]:
    found = narrowed(said, width)
    assert isinstance(found, Classes)
    return found.logs
