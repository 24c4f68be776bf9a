"""Scores of whole predictive distributions, Gaussian or given by draws; lower is better."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from stratagp.errors import InputError
from stratagp.metrics.checks import columns, not_negative, positive, samples_of


def nlpd(y: Any, mean: Any, std: Any) -> float:
    """Mean negative log predictive density of Gaussian predictions: ``1/n Σ ½ z² + ln(σ √2π)``, ``z = (y − m)/σ``.

    >>> round(nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    y, mean, std = columns(y=y, mean=mean, std=std)
    positive(std)
    return float(np.mean(_surprise(y, mean, std)))


def msll(y: Any, mean: Any, std: Any, y_train: Any) -> float:
    """Mean standardised log loss: :func:`nlpd` minus that of a Gaussian with the training targets' mean and variance.

    0 is the trivial prediction, lower is better (Rasmussen and Williams 2006, section 2.5).

    >>> msll([0.5], [1.0], [1.0], y_train=[0.0, 2.0])  # the same Gaussian
    0.0
    """
    y, mean, std = columns(y=y, mean=mean, std=std)
    positive(std)
    (train,) = columns(y_train=y_train)
    if train.std() == 0:
        raise InputError("y_train is constant, so the trivial Gaussian has no density")
    return float(np.mean(_surprise(y, mean, std) - _surprise(y, train.mean(), train.std())))


def _surprise(y: np.ndarray, mean: Any, std: Any) -> Float[np.ndarray, " n"]:
    return 0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * math.log(2 * math.pi)


def crps(y: Any, mean: Any, std: Any) -> float:
    """Mean continuous ranked probability score ``∫ (F(t) − 1[t ≥ y])² dt`` of Gaussian predictions, in units of ``y``.

    ``σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π)`` with ``z = (y − m)/σ`` (Gneiting and Raftery 2007); the absolute error if
    ``σ`` is 0.

    >>> round(crps([0.0], [0.0], [1.0]), 4)  # (√2 − 1)/√π
    0.2337
    """
    y, mean, std = columns(y=y, mean=mean, std=std)
    not_negative(std)
    error = np.abs(y - mean)
    z = np.divide(error, std, out=np.zeros_like(error), where=std > 0)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    score = error * (2 * ndtr(z) - 1) + std * (2 * density - 1 / math.sqrt(math.pi))
    return float(np.mean(np.where(std > 0, score, error)))


def crps_samples(y: Any, samples: Any, fair: bool = False) -> float:
    """Mean continuous ranked probability score of predictions by draws ``x₁ … x_s``, ``n s``: ``O(n s log s)``.

    ``1/s Σ |xᵢ − y| − 1/(2s²) Σᵢⱼ |xᵢ − xⱼ|``, the score of the draws' empirical distribution. It exceeds that of the
    distribution they come from by ``1/(2s) E|x − x'|``; ``fair`` corrects that: ``1/(2s(s − 1))`` instead of
    ``1/(2s²)``. For sorted draws the double sum is ``2 Σᵢ (2i − s − 1) x₍ᵢ₎``.

    >>> crps_samples([0.0], [[-1.0, 1.0]])  # 1 − ¼ · 2
    0.5
    """
    (y,) = columns(y=y)
    drawn = np.sort(samples_of(y, samples), axis=1)
    s = drawn.shape[1]
    if fair and s < 2:
        raise InputError("samples must have at least 2 draws for a fair score, got 1")
    drawn = drawn - y[:, None]
    ranks = 2 * np.arange(1, s + 1) - s - 1
    spread = drawn @ ranks / (s * (s - 1 if fair else s))
    return float(np.mean(np.abs(drawn).mean(1) - spread))


def pit(y: Any, mean: Any, std: Any) -> Float[np.ndarray, " n"]:
    """Probability integral transforms ``Φ((y − m)/σ)`` of Gaussian predictions: uniform over 0 to 1 if these are right.

    >>> pit([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]).round(4)
    array([0.5   , 0.8413])
    """
    y, mean, std = columns(y=y, mean=mean, std=std)
    positive(std)
    return np.asarray(ndtr((y - mean) / std))


def pit_samples(y: Any, samples: Any) -> Float[np.ndarray, " n"]:
    """Probability integral transforms of predictions by draws ``n s``: the share of draws below ``y``, ties half.

    >>> pit_samples([0.5], [[0.0, 0.5, 1.0, 2.0]])
    array([0.375])
    """
    (y,) = columns(y=y)
    drawn = samples_of(y, samples)
    below, at = drawn < y[:, None], drawn == y[:, None]
    return np.asarray((below + 0.5 * at).mean(1))
