"""What a model predicts for rows with known targets: how good that is, and whether its uncertainty holds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr
from sklearn.base import BaseEstimator

from stratagp import ConformalRegressor, metrics
from stratagp.errors import InputError
from stratagp.estimators.regression import is_of_counts
from stratagp.metrics.classes import brier_scores, log_losses
from stratagp.plotting.answers import answers, interval, moments, promised
from stratagp.plotting.calibration import LEVELS
from stratagp.report.values import short, some, standard_error

_WIDE = 0.95  # the level of the intervals that tables show
_PIT_BINS = 10
_POINTS = 400  # in a picture
_LEAST = 1e-300  # the smallest deviation to divide by
_MOST = 12  # classes in a table of confusions
_MOST_LOSS = 690.0  # about −ln 10⁻³⁰⁰, instead of infinity for a class of probability zero

Scores = dict[str, dict[str, float | None]]
"""Values and standard errors by the names of scores."""
Worst = list[tuple[int, dict[str, Any]]]
"""Numbers of rows, and what was predicted for them."""


class NumberAnswers(NamedTuple):
    """Predictions for n rows: moments, ends and probabilities of intervals by level, P(Y ≤ y), log densities if known.

    Intervals of ``counts`` end on whole numbers, and ``below`` is P(Y < y); otherwise it equals ``pit``.
    """

    y: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    ends: dict[float, tuple[np.ndarray, np.ndarray]]
    promised: list[float]
    counts: bool
    below: Float[np.ndarray, " n"]
    pit: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"] | None

    @classmethod
    def of(cls, model: BaseEstimator, X: Any, y: np.ndarray) -> NumberAnswers:
        """The model's own predictions for rows and their targets."""
        mean, std = moments(model, X)
        density = np.asarray(model.log_density(X, y)) if answers(model, "log_density") else None
        pit = np.asarray(model.cdf(X, y)) if answers(model, "cdf") else ndtr((y - mean) / np.maximum(std, _LEAST))
        ends, counts = intervals(model, X), is_of_counts(model)
        wanted = [promised(model, X, each, level) for level, each in ends.items()]
        below = np.asarray(model.cdf(X, y - 1)) if counts else pit
        return cls(y, mean, std, ends, wanted, counts, below, pit, density)

    @classmethod
    def left_out(cls, model: BaseEstimator, y: np.ndarray) -> NumberAnswers | None:
        """Each training row predicted from all others, if the model can in closed form; with Gaussian intervals."""
        if not answers(model, "leave_one_out"):
            return None
        try:
            mean, std = model.leave_one_out()
        except InputError:  # which says for which models there is none
            return None
        if len(mean) != len(y):  # rows of weight zero were left out
            return None
        reach = {level: NormalDist().inv_cdf(0.5 + level / 2) * std for level in LEVELS}
        z = (y - mean) / np.maximum(std, _LEAST)
        log_density = -0.5 * z**2 - np.log(np.maximum(std, _LEAST)) - 0.5 * np.log(2 * np.pi)
        ends = {level: (mean - half, mean + half) for level, half in reach.items()}
        return cls(y, mean, std, ends, list(LEVELS), False, ndtr(z), ndtr(z), log_density)

    @classmethod
    def joined(cls, parts: Sequence[NumberAnswers]) -> NumberAnswers:
        """The answers of several models about rows of their own, with the levels that all of them know."""
        first, rows = parts[0], [len(each.y) for each in parts]
        levels = [level for level in first.ends if all(level in each.ends for each in parts)]

        def whole(name: str) -> np.ndarray:
            return np.concatenate([getattr(each, name) for each in parts])

        ends = {
            level: (
                np.concatenate([e.ends[level][0] for e in parts]),
                np.concatenate([e.ends[level][1] for e in parts]),
            )
            for level in levels
        }
        each_promised = [[dict(zip(e.ends, e.promised, strict=True))[level] for e in parts] for level in levels]
        promises = [float(np.average(each, weights=rows)) for each in each_promised]
        density = None if any(each.log_density is None for each in parts) else whole("log_density")
        moments_ = whole("y"), whole("mean"), whole("std")
        return cls(*moments_, ends, promises, first.counts, whole("below"), whole("pit"), density)

    @property
    def z(self) -> Float[np.ndarray, " n"]:
        """Residuals in standard deviations."""
        return (self.y - self.mean) / np.maximum(self.std, _LEAST)

    def performance(self) -> Scores:
        """Scores with standard errors over rows: RMSE, MAE, R²; density and coverage if known."""
        error, n = self.y - self.mean, len(self.y)
        rmse = float(np.sqrt(np.mean(error**2)))
        scores = {
            "rmse": (rmse, standard_error(error**2) / (2 * rmse) if rmse > 0 else 0.0),
            "mae": (float(np.mean(np.abs(error))), standard_error(np.abs(error))),
        }
        if n > 1 and np.ptp(self.y) > 0:
            scores["r2"] = (1 - rmse**2 / float(np.var(self.y)), np.nan)
        if self.log_density is not None and np.isfinite(self.log_density).all():
            scores["nlpd"] = (-float(np.mean(self.log_density)), standard_error(self.log_density))
        if _WIDE in self.ends:
            low, high = self.ends[_WIDE]
            scores["coverage95"] = (float(np.mean((low <= self.y) & (self.y <= high))), np.nan)
        return {name: {"value": value, "error": error} for name, (value, error) in scores.items()}

    def calibration(self) -> dict[str, Any]:
        """How many targets lie inside intervals of each level, how wide the widest are, and the bins of P(Y ≤ y).

        A count is spread evenly from ``P(Y < y)`` to ``P(Y ≤ y)``, so that bins are even on average if the model is
        right (Czado, Gneiting and Held 2009).
        """
        inside = [int(np.sum((low <= self.y) & (self.y <= high))) for low, high in self.ends.values()]
        width = float(np.mean(self.ends[_WIDE][1] - self.ends[_WIDE][0])) if _WIDE in self.ends else None
        if self.counts:
            edges, mass = np.linspace(0, 1, _PIT_BINS + 1), np.maximum(self.pit - self.below, _LEAST)
            under = np.clip((edges - self.below[:, None]) / mass[:, None], 0, 1)
            bins: list[Any] = short(np.diff(under.sum(0)))
        else:
            bins = np.histogram(np.clip(self.pit, 0, 1), bins=_PIT_BINS, range=(0, 1))[0].tolist()
        found = {"levels": list(self.ends), "promised": self.promised, "counts": self.counts, "inside": inside}
        return {"rows": len(self.y), **found, "pit": bins, "width": width}

    def points(self, seed: int) -> dict[str, Any]:
        """Some rows for pictures: what was predicted, what was true, and how many deviations lie between."""
        rows = some(len(self.y), _POINTS, seed)
        names = {"predicted": self.mean, "true": self.y, "z": self.z}
        return {name: short(values[rows]) for name, values in names.items()}

    def worst(self, count: int) -> Worst:
        """The rows that are most standard deviations off, with the widest interval of the model."""
        level = max(self.ends, default=None)
        low, high = (self.mean, self.mean) if level is None else self.ends[level]
        names = {"true": self.y, "predicted": self.mean, "low": low, "high": high, "off": self.z}
        rows = np.argsort(-np.abs(self.z), kind="stable")[:count]
        return [(int(i), {name: float(values[i]) for name, values in names.items()}) for i in rows]


def intervals(model: BaseEstimator, X: Any) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """The model's own intervals of all levels, from one call if possible; levels that it refuses are left out."""
    if isinstance(model, ConformalRegressor):  # whose ends are no quantiles
        return model._intervals(X, LEVELS)
    if answers(model, "predict_quantiles"):
        tails = [0.5 - level / 2 for level in LEVELS] + [0.5 + level / 2 for level in LEVELS]
        try:
            quantiles = np.asarray(model.predict_quantiles(X, tails))
        except InputError:  # perhaps of one level only
            pass
        else:
            return {level: (quantiles[:, i], quantiles[:, len(LEVELS) + i]) for i, level in enumerate(LEVELS)}
    found: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for level in LEVELS:
        try:
            found[level] = interval(model, X, level)
        except InputError:
            continue
    return found


class ClassAnswers(NamedTuple):
    """Probabilities of c classes in n rows, the numbers of the true classes, and the names of all."""

    codes: Int[np.ndarray, " n"]
    p: Float[np.ndarray, "n c"]
    names: list[str]

    @classmethod
    def of(cls, model: BaseEstimator, X: Any, y: np.ndarray) -> ClassAnswers:
        """The model's probabilities for rows and their classes."""
        names = [str(label) for label in np.asarray(model.classes_).tolist()]
        places, labels = {name: code for code, name in enumerate(names)}, [str(label) for label in y.tolist()]
        if unknown := sorted(set(labels) - set(names)):
            raise InputError(f"y_test has the class {unknown[0]!r}, which the model does not know: drop such rows")
        codes = np.array([places[label] for label in labels], dtype=int)
        return cls(codes, np.asarray(model.predict_proba(X), dtype=float), names)

    @classmethod
    def joined(cls, parts: Sequence[ClassAnswers]) -> ClassAnswers:
        """The probabilities of several models about rows of their own; of all classes that one of them knows."""
        names = list(dict.fromkeys(name for each in parts for name in each.names))
        places = [np.array([names.index(name) for name in each.names]) for each in parts]
        codes = np.concatenate([place[each.codes] for each, place in zip(parts, places, strict=True)])
        spread = [np.zeros((len(each.p), len(names))) for each in parts]
        for p, each, place in zip(spread, parts, places, strict=True):
            p[:, place] = each.p
        return cls(codes, np.concatenate(spread), names)

    @property
    def chosen(self) -> Int[np.ndarray, " n"]:
        """The most probable class of each row."""
        return self.p.argmax(1)

    def performance(self) -> Scores:
        """Accuracy, log loss, Brier score and calibration error, with standard errors over rows.

        An accuracy has none, since it would be zero if all rows are right: pages give its binomial interval.
        """
        loss = np.minimum(log_losses(self.codes, self.p), _MOST_LOSS)
        rows = {"log_loss": loss, "brier": brier_scores(self.codes, self.p)}
        right = float(np.mean(self.chosen == self.codes))
        error = metrics.ece(self.codes, self.p, range(len(self.names)))
        return {
            "accuracy": {"value": right, "error": None},
            **{name: {"value": float(values.mean()), "error": standard_error(values)} for name, values in rows.items()},
            "ece": {"value": error, "error": None},
        }

    def calibration(self, seed: int) -> dict[str, Any]:
        """The calibration error, and the shares of right rows in bins of the highest probability."""
        order = range(len(self.names))
        bins = metrics.reliability(self.codes, self.p, order)
        low, high = metrics.ece_interval(self.codes, self.p, order, random_state=seed)
        return {
            "rows": len(self.p),
            "right": int((self.chosen == self.codes).sum()),
            "confidence": float(self.p.max(1).mean()),
            "error": metrics.ece(self.codes, self.p, order),
            "error_low": low,
            "error_high": high,
            "bins": {name: short(values) for name, values in bins._asdict().items()},
        }

    def confusion(self) -> dict[str, Any] | None:
        """How many rows of each class were taken for each class; None if there are too many classes for a table."""
        c = len(self.names)
        if c > _MOST:
            return None
        counts = np.bincount(self.codes * c + self.chosen, minlength=c * c).reshape(c, c)
        return {"classes": self.names, "counts": counts.tolist()}

    def worst(self, count: int) -> Worst:
        """The rows whose true class was least probable."""
        of_true = self.p[np.arange(len(self.p)), self.codes]
        found: Worst = []
        for i in np.argsort(of_true, kind="stable")[:count]:
            names = {"true": self.names[self.codes[i]], "predicted": self.names[self.chosen[i]]}
            found.append((int(i), {**names, "p_true": float(of_true[i]), "p_predicted": float(self.p[i].max())}))
        return found
