"""Whether class probabilities are calibrated: how often events of probability p happen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count, check_level, classified


class Reliability(NamedTuple):
    """The number of ``rows`` in each bin of probabilities, and what happened in them; empty bins have NaN.

    ``share`` is how often the event happened; ``lower`` and ``upper`` are its binomial interval by Clopper and Pearson,
    which covers the true share at least as often as its level says.

    >>> reliability([1, 0, 1, 1], [0.9, 0.1, 0.9, 0.9], of=1, bins=2).rows.tolist()
    [1, 3]
    """

    edges: Float[np.ndarray, " b+1"]
    rows: Int[np.ndarray, " b"]
    probability: Float[np.ndarray, " b"]
    share: Float[np.ndarray, " b"]
    lower: Float[np.ndarray, " b"]
    upper: Float[np.ndarray, " b"]


def reliability(
    y: Any, probability: Any, classes: Any = None, of: Any = None, bins: int = 10, level: float = 0.95
) -> Reliability:
    """How often the most probable class, or the class ``of``, is the true one, in bins of its probability.

    Arguments:
        y: labels.
        probability: ``n c``, as from ``predict_proba``; or ``n``, of the second of two classes.
        classes: the labels in the order of the columns; 0, 1, … by default.
        of: a class; by default each row's most probable one.
        bins: the number of bins of equal width between 0 and 1.
        level: the level of the intervals.

    >>> found = reliability([1, 0, 1, 1], [0.9, 0.1, 0.9, 0.9], of=1, bins=2)
    >>> found.share, found.upper.round(3)
    (array([0., 1.]), array([0.975, 1.   ]))
    """
    said, true = _said(y, probability, classes, of)
    bins, level = check_count(bins, "bins"), check_level(level)
    place = _bin(said, bins)
    count, hits = np.bincount(place, minlength=bins), np.bincount(place, weights=true, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean, share = np.bincount(place, weights=said, minlength=bins) / count, hits / count
    lower, upper = binomial_interval(hits, count, level)
    empty = np.where(count > 0, 0.0, np.nan)
    return Reliability(np.linspace(0, 1, bins + 1), count, mean, share, lower + empty, upper + empty)


def binomial_interval(hits: Any, n: Any, level: float) -> tuple[Any, Any]:
    """The interval of Clopper and Pearson for shares, which contains the true one with probability at least ``level``.

    >>> low, high = binomial_interval(8, 10, 0.95)
    >>> round(float(low), 4), round(float(high), 4)
    (0.4439, 0.9748)
    """
    tail, hits, n = (1 - level) / 2, np.asarray(hits), np.asarray(n)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - tail), 1.0)
    return low, high


def ece(y: Any, probability: Any, classes: Any = None, of: Any = None, bins: int = 10) -> float:
    """Expected calibration error ``Σ_b n_b/n |share_b − probability_b|`` (Guo et al. 2017).

    Arguments as in :func:`reliability`. It is too large on few rows, because shares differ from probabilities by
    chance: :func:`ece_interval` tells by how much.

    >>> round(ece([1, 0, 1, 1], [0.9, 0.1, 0.9, 0.9], bins=2), 4)  # all sure by 0.9, all right
    0.1
    """
    said, true = _said(y, probability, classes, of)
    return _error(said, true, check_count(bins, "bins"))


def ece_interval(
    y: Any,
    probability: Any,
    classes: Any = None,
    of: Any = None,
    bins: int = 10,
    level: float = 0.95,
    n_draws: int = 2000,
    random_state: int = 0,
) -> tuple[float, float]:
    """An interval that contains the true calibration error about as often as ``level`` says, or more: ``e ± d``.

    The error ``e`` of :func:`ece` differs from the truth by at most ``Σ_b n_b/n |share_b − true share_b|``; ``d`` is
    the quantile of that sum over binomial draws of the shares in all bins, at their observed shares (with half a case
    more on both sides, so that a share of 1 does not count as certain). Ends are cut at 0 and 1.

    >>> low, high = ece_interval([1, 0, 1, 1] * 50, [0.7, 0.1, 0.7, 0.7] * 50)  # 150 sure by 0.7, 50 by 0.9, all right
    >>> round(low, 2), round(high, 2)
    (0.24, 0.26)
    """
    said, true = _said(y, probability, classes, of)
    bins, n_draws, level = check_count(bins, "bins"), check_count(n_draws, "n_draws"), check_level(level)
    place = _bin(said, bins)
    count, hits = np.bincount(place, minlength=bins), np.bincount(place, weights=true, minlength=bins)
    share = (hits + 0.5) / (count + 1)
    drawn = np.random.default_rng(random_state).binomial(count, share, size=(n_draws, bins))
    off = np.abs(drawn - count * share).sum(1) / len(said)
    estimate, reach = _error(said, true, bins), np.quantile(off, level)
    return float(max(0.0, estimate - reach)), float(min(1.0, estimate + reach))


def _said(y: Any, probability: Any, classes: Any, of: Any) -> tuple[np.ndarray, np.ndarray]:
    """The predicted probability of each row's event, and whether it happened."""
    codes, p, labels = classified(y, probability, classes)
    if of is None:
        chosen = p.argmax(1)
        return p[np.arange(len(p)), chosen], chosen == codes
    (place,) = np.nonzero(labels == of)
    if not len(place):
        raise InputError(f"of must be one of the classes {labels.tolist()}, got {of!r}")
    return p[:, place[0]], codes == place[0]


def _bin(said: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each probability; bins include their upper end, and the first also its lower end."""
    return np.clip(np.ceil(said * bins).astype(int) - 1, 0, bins - 1)


def _error(said: Float[np.ndarray, " n"], true: Bool[np.ndarray, " n"], bins: int) -> float:
    """``1/n Σ_b |Σ (said − true)|``, which is the error, because a bin's counts cancel."""
    gaps = np.bincount(_bin(said, bins), weights=said - true, minlength=bins)
    return float(np.abs(gaps).sum() / len(said))
