"""How good predictions of numbers are, and whether their error bars hold."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from stratagp.errors import InputError
from stratagp.estimators.calibration_rows import is_of_counts
from stratagp.plotting.answers import answers, interval, moments, promised
from stratagp.plotting.calibration import LEVELS
from stratagp.report.plain import short, some, standard_error

_WIDE = 0.95  # the level of the intervals that tables show
_PIT_BINS = 10
_POINTS = 400  # of the pictures
_LEAST = 1e-300  # deviations are divided by


class NumberAnswers(NamedTuple):
    """What a model says of n rows: moments, ends and probabilities of intervals, P(Y ≤ y), log densities if known.

    Intervals are by level. Of ``counts`` these end on whole numbers, and ``below`` is P(Y < y); else it is ``pit``.
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

    @property
    def z(self) -> Float[np.ndarray, " n"]:
        """Residuals in standard deviations."""
        return (self.y - self.mean) / np.maximum(self.std, _LEAST)


def left_out(model: Any, y: np.ndarray) -> NumberAnswers | None:
    """Each training row predicted from all others, where the model has that in closed form; Gaussian intervals."""
    if not answers(model, "leave_one_out"):
        return None
    try:
        mean, std = model.leave_one_out()
    except InputError:  # its message says for which models there is none
        return None
    if len(mean) != len(y):  # rows of weight zero were not learnt from
        return None
    reach = {level: NormalDist().inv_cdf(0.5 + level / 2) * std for level in LEVELS}
    z = (y - mean) / np.maximum(std, _LEAST)
    log_density = -0.5 * z**2 - np.log(np.maximum(std, _LEAST)) - 0.5 * np.log(2 * np.pi)
    ends = {level: (mean - half, mean + half) for level, half in reach.items()}
    return NumberAnswers(y, mean, std, ends, list(LEVELS), False, ndtr(z), ndtr(z), log_density)


def ask(model: Any, X: Any, y: np.ndarray) -> NumberAnswers:
    """The model's own answers about rows and their targets."""
    mean, std = moments(model, X)
    density = np.asarray(model.log_density(X, y)) if answers(model, "log_density") else None
    pit = np.asarray(model.cdf(X, y)) if answers(model, "cdf") else ndtr((y - mean) / np.maximum(std, _LEAST))
    ends, counts = _ends(model, X), is_of_counts(model)
    wanted = [promised(model, X, each, level) for level, each in ends.items()]
    below = np.asarray(model.cdf(X, y - 1)) if counts else pit
    return NumberAnswers(y, mean, std, ends, wanted, counts, below, pit, density)


def performance(found: NumberAnswers) -> dict[str, dict[str, float | None]]:
    """Scores with standard errors over rows: RMSE, MAE, R², and density and coverage where these are known."""
    error, n = found.y - found.mean, len(found.y)
    rmse = float(np.sqrt(np.mean(error**2)))
    scores = {
        "rmse": (rmse, standard_error(error**2) / (2 * rmse) if rmse > 0 else 0.0),
        "mae": (float(np.mean(np.abs(error))), standard_error(np.abs(error))),
    }
    if n > 1 and np.ptp(found.y) > 0:
        scores["r2"] = (1 - rmse**2 / float(np.var(found.y)), np.nan)
    if found.log_density is not None and np.isfinite(found.log_density).all():
        scores["nlpd"] = (-float(np.mean(found.log_density)), standard_error(found.log_density))
    if _WIDE in found.ends:
        low, high = found.ends[_WIDE]
        scores["coverage95"] = (float(np.mean((low <= found.y) & (found.y <= high))), np.nan)
    return {name: {"value": value, "error": error} for name, (value, error) in scores.items()}


def calibration(found: NumberAnswers) -> dict[str, Any]:
    """How many targets lie inside the intervals of each level, how wide the widest are, and the bins of P(Y ≤ y)."""
    inside = [int(np.sum((low <= found.y) & (found.y <= high))) for low, high in found.ends.values()]
    width = float(np.mean(found.ends[_WIDE][1] - found.ends[_WIDE][0])) if _WIDE in found.ends else None
    return {
        "rows": len(found.y),
        "levels": list(found.ends),
        "promised": found.promised,
        "counts": found.counts,
        "inside": inside,
        "pit": _bins(found),
        "width": width,
    }


def _bins(found: NumberAnswers) -> list[Any]:
    """How many rows have P(Y ≤ y) in each bin.

    Each count stands evenly for all of ``P(Y < y)`` to ``P(Y ≤ y)``, so that bins are even on average where the model
    is right (Czado, Gneiting and Held 2009).
    """
    if not found.counts:
        return np.histogram(np.clip(found.pit, 0, 1), bins=_PIT_BINS, range=(0, 1))[0].tolist()
    edges, mass = np.linspace(0, 1, _PIT_BINS + 1), np.maximum(found.pit - found.below, _LEAST)
    under = np.clip((edges - found.below[:, None]) / mass[:, None], 0, 1)
    return short(np.diff(under.sum(0)))


def points(found: NumberAnswers, seed: int) -> dict[str, Any]:
    """Some rows for the pictures: what was predicted, what was true, and how many deviations lie between."""
    rows = some(len(found.y), _POINTS, seed)
    names = {"predicted": found.mean, "true": found.y, "z": found.z}
    return {name: short(values[rows]) for name, values in names.items()}


def worst(found: NumberAnswers, count: int) -> list[tuple[int, dict[str, Any]]]:
    """The rows that lie most standard deviations off, with the widest interval that the model has given."""
    size = np.abs(found.z)
    rows = np.argsort(-size, kind="stable")[:count]
    level = max(found.ends, default=None)
    low, high = (found.mean, found.mean) if level is None else found.ends[level]
    return [
        (
            int(i),
            {
                "true": float(found.y[i]),
                "predicted": float(found.mean[i]),
                "low": float(low[i]),
                "high": float(high[i]),
                "off": float(found.z[i]),
            },
        )
        for i in rows
    ]


def _ends(model: Any, X: Any) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """The model's own intervals of all levels, by one call where it can; levels that it refuses are left out."""
    if answers(model, "_intervals"):  # conformal ones, whose ends are no quantiles
        own: dict[float, tuple[np.ndarray, np.ndarray]] = model._intervals(X, LEVELS)
        return own
    if answers(model, "predict_quantiles"):
        tails = [0.5 - level / 2 for level in LEVELS] + [0.5 + level / 2 for level in LEVELS]
        try:
            quantiles = np.asarray(model.predict_quantiles(X, tails))
        except InputError:  # one of them, perhaps
            return _ends_each(model, X)
        return {level: (quantiles[:, i], quantiles[:, len(LEVELS) + i]) for i, level in enumerate(LEVELS)}
    return _ends_each(model, X)


def _ends_each(model: Any, X: Any) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    found: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for level in LEVELS:
        try:
            found[level] = interval(model, X, level)
        except InputError:
            continue
    return found
