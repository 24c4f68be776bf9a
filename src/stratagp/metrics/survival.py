"""Survival: the share that is still there after a time, where some are only known to have been there so long."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from stratagp.errors import InputError
from stratagp.metrics.checks import check_level, labels_of, numbers


class SurvivalCurve(NamedTuple):
    """The share that survives each time, and the ends of its confidence interval.

    >>> times, share, low, high = kaplan_meier([[1.0, 1], [2.0, 0]], [1.5])
    >>> share
    array([0.5])
    """

    times: Float[np.ndarray, " t"]
    share: Float[np.ndarray, " t"]
    low: Float[np.ndarray, " t"]
    high: Float[np.ndarray, " t"]


def kaplan_meier(y: Any, times: Any = None, *, level: float = 0.95) -> SurvivalCurve:
    """The Kaplan-Meier estimate of survival, with Greenwood's variance of its log minus log.

    ``S(t) = Π (1 − dᵢ/nᵢ)`` over the times ``tᵢ ≤ t`` at which ``dᵢ`` of the ``nᵢ`` who were still watched had the
    event. The ends are ``S^exp(± z √V)`` with ``V = Σ dᵢ/(nᵢ (nᵢ − dᵢ)) / (log S)²``; where S is one both are one, and
    where it is zero both are zero.

    Arguments:
        y: ``n 2``: the time, and 1 if the event happened then or 0 if the row was only watched so long.
        times: at which to ask; those in ``y``, sorted, where left out.
        level: of the interval.

    >>> curve = kaplan_meier([[1.0, 1], [2.0, 0], [3.0, 1], [4.0, 1]])
    >>> curve.share
    array([0.75 , 0.75 , 0.375, 0.   ])
    """
    until, happened = _watched(y)
    asked = np.unique(until) if times is None else np.atleast_1d(numbers(times, "times"))
    if asked.ndim != 1:
        raise InputError(f"times must be a vector, got shape {asked.shape}")
    moments, events = np.unique(until[happened], return_counts=True)
    at_risk = (until[:, None] >= moments).sum(0)
    share = np.r_[1.0, np.cumprod(1 - events / at_risk)]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.r_[0.0, np.cumsum(events / (at_risk * (at_risk - events)))]) / np.abs(np.log(share))
        z = ndtri(0.5 + check_level(level) / 2)
        low, high = (np.where(share % 1 == 0, share, share ** np.exp(sign * z * spread)) for sign in (1, -1))
    place = np.searchsorted(moments, asked, side="right")
    return SurvivalCurve(asked, share[place], low[place], high[place])


def mean_by_group(values: Any, groups: Any) -> tuple[np.ndarray, np.ndarray]:
    """The names of groups of rows, sorted, and the mean of each over its rows: one prediction for several rows.

    A patient with many images, for example, is foretold by the mean over these, as of
    ``model.predict_survival(X, times)`` or of class probabilities.

    Arguments:
        values: ``n …``, what is predicted for each row.
        groups: ``n``, the name of each row's group.

    >>> mean_by_group([[1.0, 0.5], [0.8, 0.3], [0.6, 0.2]], ["b", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), array([[0.8 , 0.3 ],
           [0.8 , 0.35]]))
    """
    rows, named = numbers(values, "values"), labels_of(groups, "groups")
    if not rows.ndim or len(rows) != len(named):
        raise InputError(f"groups must name the group of each row of values {rows.shape}, got {len(named)} names")
    names, codes = np.unique(named, return_inverse=True)
    total = np.zeros((len(names), *rows.shape[1:]))
    np.add.at(total, codes, rows)
    return names, total / np.bincount(codes).reshape(-1, *[1] * (rows.ndim - 1))


def survival_brier(y: Any, survival: Any, times: Any, *, train: Any = None) -> float:
    """The Brier score of survival: the mean square of 1{T > t} − S(t | x), weighted for censoring; lower is better.

    A row counts for as much as was lost to censoring by then (Graf et al. 1999): rows with an event before ``t`` by one
    over the share that was still watched just before it, rows still there at ``t`` by one over the share watched then;
    rows last seen before ``t`` do not count. Shares below 0.001 are taken as 0.001.

    Arguments:
        y: ``n 2``, times and whether the event happened.
        survival: ``n t``, the predicted survival.
        times: ``t``.
        train: ``m 2``, rows from which the share still watched is found; ``y`` where left out.

    >>> survival_brier([[1.0, 1], [3.0, 1]], [[0.0], [1.0]], [2.0])
    0.0
    """
    until, happened = _watched(y)
    said, asked = numbers(survival, "survival"), np.atleast_1d(numbers(times, "times"))
    if said.shape != (len(until), len(asked)):
        raise InputError(f"survival must have the shape {(len(until), len(asked))}, rows and times, got {said.shape}")
    known, event = (until, happened) if train is None else _watched(train)
    watch = np.column_stack([known, ~event])
    before = kaplan_meier(watch, np.nextafter(until, -np.inf)).share.clip(1e-3)[:, None]
    there = until[:, None] > asked
    weight = (~there & happened[:, None]) / before + there / kaplan_meier(watch, asked).share.clip(1e-3)
    return float(np.mean(weight * (there - said) ** 2))


def _watched(y: Any) -> tuple[Float[np.ndarray, " n"], np.ndarray]:
    rows = numbers(y, "y")
    if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows):
        raise InputError(f"y must have two columns, the time and whether the event happened, got shape {rows.shape}")
    if (rows[:, 0] < 0).any() or not np.isin(rows[:, 1], (0, 1)).all():
        raise InputError("y must have times ≥ 0 in its first column and 0 or 1 in its second")
    return rows[:, 0], rows[:, 1] == 1
