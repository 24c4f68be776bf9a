"""Scores of predicted classes and of their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from stratagp.errors import InputError
from stratagp.metrics.checks import classified, labels_of

_AVERAGES = ("macro", "micro", "weighted", "none")


def log_loss(y: Any, probability: Any, classes: Any = None) -> float:
    """Mean negative log probability of the true class, ``−1/n Σ ln p(yᵢ)``; infinite if one has probability zero.

    Arguments:
        y: labels.
        probability: ``n c``, as from ``predict_proba``; or ``n``, of the second of two classes.
        classes: the labels in the order of the columns (``classes_`` of an estimator); 0, 1, … by default.

    >>> round(log_loss(["a", "b"], [[0.5, 0.5], [0.0, 1.0]], classes=["a", "b"]), 4)  # ½ ln 2
    0.3466
    """
    codes, p, _ = classified(y, probability, classes)
    return float(np.mean(log_losses(codes, p)))


def brier(y: Any, probability: Any, classes: Any = None) -> float:
    """Brier score ``1/n Σᵢ Σ_c (p_ic − 1[yᵢ = c])²`` over all classes, from 0 to 2, as in Brier (1950).

    For two classes it is twice the score that counts only one of them. Arguments as in :func:`log_loss`.

    >>> brier([1], [[0.5, 0.5]])
    0.5
    """
    codes, p, _ = classified(y, probability, classes)
    return float(np.mean(brier_scores(codes, p)))


def log_losses(codes: Int[np.ndarray, " n"], p: Float[np.ndarray, "n c"]) -> Float[np.ndarray, " n"]:
    """``−ln p(yᵢ)`` of each row, for the numbers of the true classes; infinite if one has probability zero."""
    with np.errstate(divide="ignore"):
        return -np.log(p[np.arange(len(p)), codes])


def brier_scores(codes: Int[np.ndarray, " n"], p: Float[np.ndarray, "n c"]) -> Float[np.ndarray, " n"]:
    """``Σ_c (p_ic − 1[yᵢ = c])²`` of each row, for the numbers of the true classes."""
    return np.sum((p - np.eye(p.shape[1])[codes]) ** 2, axis=1)


def f1(y: Any, predicted: Any, average: str = "macro", positive: Any = None) -> Any:
    """F₁, the harmonic mean ``2 TP / (2 TP + FP + FN)`` of precision and recall; 0 for a class in neither.

    Arguments:
        y, predicted: labels.
        average: over classes: "macro" (each counts equally), "weighted" (by its rows in ``y``), "micro" (counts of all
            classes together, the accuracy) or "none": one number for each class, in order.
        positive: return only the score of this class and ignore ``average``.

    >>> f1([0, 0, 1], [0, 1, 1], average="none").round(4)
    array([0.6667, 0.6667])
    """
    if average not in _AVERAGES:
        raise InputError(f"average must be one of {', '.join(map(repr, _AVERAGES))}; got {average!r}")
    truth, found = labels_of(y, "y"), labels_of(predicted, "predicted")
    if len(truth) != len(found):
        raise InputError(f"y has {len(truth)} rows, but predicted has {len(found)}: they must agree")
    classes, codes = np.unique(np.concatenate([truth, found]), return_inverse=True)
    codes, guess, c = codes[: len(truth)], codes[len(truth) :], len(classes)
    hits = np.bincount(codes[codes == guess], minlength=c)
    rows, guesses = np.bincount(codes, minlength=c), np.bincount(guess, minlength=c)
    if positive is not None:
        (where,) = np.nonzero(classes == positive)
        if not len(where):
            raise InputError(f"positive must be a label of y or predicted, {classes.tolist()}, got {positive!r}")
        return float(2 * hits[where[0]] / (rows + guesses)[where[0]])
    each = 2 * hits / (rows + guesses)  # every class is in y or predicted
    if average == "none":
        return each
    if average == "micro":
        return float(hits.sum() / len(codes))
    return float(np.average(each, weights=rows if average == "weighted" else None))
