"""How good predictions of classes are, and whether their probabilities are shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from stratagp import metrics
from stratagp.errors import InputError
from stratagp.metrics.classes import brier_scores, log_losses
from stratagp.report.plain import short, standard_error

_MOST = 12  # classes of a table of confusions
_MOST_LOSS = 690.0  # about −ln 10⁻³⁰⁰, in place of the infinite loss of a class that was called impossible


class ClassAnswers(NamedTuple):
    """Probabilities of c classes in n rows, the numbers of the true ones, and the names of all."""

    codes: Int[np.ndarray, " n"]
    p: Float[np.ndarray, "n c"]
    names: list[str]

    @property
    def chosen(self) -> Int[np.ndarray, " n"]:
        """The most probable class of each row."""
        return self.p.argmax(1)

    @property
    def of_true(self) -> Float[np.ndarray, " n"]:
        """The probability of the true class."""
        return self.p[np.arange(len(self.p)), self.codes]


def ask(model: Any, X: Any, y: np.ndarray) -> ClassAnswers:
    """The model's probabilities of rows and their classes."""
    known = np.asarray(model.classes_)
    strangers = sorted({str(label) for label in y.tolist()} - {str(label) for label in known.tolist()})
    if strangers:
        raise InputError(f"y_test has the class {strangers[0]!r}, which the model has not learnt: drop those rows")
    names = [str(label) for label in known.tolist()]
    codes = np.array([names.index(str(label)) for label in y.tolist()], dtype=int)
    return ClassAnswers(codes, np.asarray(model.predict_proba(X), dtype=float), names)


def performance(found: ClassAnswers) -> dict[str, dict[str, float | None]]:
    """Accuracy, log loss, Brier score and calibration error, with standard errors over rows where these say much.

    That of an accuracy does not, as it is zero where all rows are right: pages give its binomial interval.
    """
    loss = np.minimum(log_losses(found.codes, found.p), _MOST_LOSS)
    rows = {"log_loss": loss, "brier": brier_scores(found.codes, found.p)}
    right = float(np.mean(found.chosen == found.codes))
    error = metrics.ece(found.codes, found.p, range(len(found.names)))
    return {
        "accuracy": {"value": right, "error": None},
        **{name: {"value": float(values.mean()), "error": standard_error(values)} for name, values in rows.items()},
        "ece": {"value": error, "error": None},
    }


def calibration(found: ClassAnswers, seed: int) -> dict[str, Any]:
    """Shares of right rows in bins of the probability of the most probable class, and the calibration error."""
    order = range(len(found.names))
    bins = metrics.reliability(found.codes, found.p, order)
    low, high = metrics.ece_interval(found.codes, found.p, order, random_state=seed)
    return {
        "rows": len(found.p),
        "right": int((found.chosen == found.codes).sum()),
        "confidence": float(found.p.max(1).mean()),
        "error": metrics.ece(found.codes, found.p, order),
        "error_low": low,
        "error_high": high,
        "bins": {name: short(values) for name, values in bins._asdict().items()},
    }


def confusion(found: ClassAnswers) -> dict[str, Any] | None:
    """How many rows of each class were taken for each; None where there are too many classes for a table."""
    c = len(found.names)
    if c > _MOST:
        return None
    counts = np.bincount(found.codes * c + found.chosen, minlength=c * c).reshape(c, c)
    return {"classes": found.names, "counts": counts.tolist()}


def worst(found: ClassAnswers, count: int) -> list[tuple[int, dict[str, Any]]]:
    """The rows whose true class was least probable."""
    rows = np.argsort(found.of_true, kind="stable")[:count]
    return [
        (
            int(i),
            {
                "true": found.names[found.codes[i]],
                "predicted": found.names[found.chosen[i]],
                "p_true": float(found.of_true[i]),
                "p_predicted": float(found.p[i].max()),
            },
        )
        for i in rows
    ]
