"""How good predictions are, compared with a trivial predictor and with gradient boosting."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import stratagp
from stratagp.cli.output import Console, aligned
from stratagp.cli.table import DataFrame
from stratagp.errors import StrataGPError

Scores = dict[str, float]
_HEADINGS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "nlpd": "NLPD",
    "coverage95": "in 95 %",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "brier": "Brier",
    "ece": "ECE",
}
_ROUNDING = 1e-12  # errors up to this count as zero
_MOST_CATEGORIES = 255  # that gradient boosting can tell apart
_MOST_CLASSES = 100  # that it learns in a reasonable time, with a tree for each in every round
_LEVEL = 0.95


def answers(model: Any, X: Any, y: np.ndarray, task: str) -> tuple[np.ndarray, ...]:
    """What a model predicts for rows, as scores need it: probabilities; or means, interval ends and log densities."""
    if task == "classification":
        return (model.predict_proba(X),)
    return model.predict(X), *model.predict_interval(X, _LEVEL), model.log_density(X, y)


def scored(model: Any, y: np.ndarray, found: Sequence[np.ndarray], task: str) -> Scores:
    """The scores of such answers."""
    if task == "classification":
        return _of_classes(y, found[0], model.classes_)
    mean, lower, upper, density = found
    inside = stratagp.metrics.interval_coverage(y, lower, upper)
    return {**_of_means(y, mean), "nlpd": -float(np.mean(density)), "coverage95": inside}


def tested(model: Any, X: Any, y: np.ndarray, task: str, console: Console) -> Scores:
    """Scores on held-out rows; if these cannot be predicted, a warning and no scores, so that the model is not lost."""
    try:
        with console.at_work():
            return scored(model, y, answers(model, X, y, task), task)
    except (StrataGPError, ValueError) as error:
        console.warn(f"held-out rows are not scored: {error}")
        return {}


def _of_means(y: np.ndarray, mean: np.ndarray) -> Scores:
    spread = float(np.sum((y - y.mean()) ** 2))
    r2 = 1 - float(np.sum((y - mean) ** 2)) / spread if spread > 0 else float("nan")
    return {"rmse": stratagp.metrics.rmse(y, mean), "mae": stratagp.metrics.mae(y, mean), "r2": r2}


def _of_gaussians(y: np.ndarray, mean: np.ndarray, std: float) -> Scores:
    """Scores of Gaussians with one standard deviation, which is kept above zero."""
    spread = np.full(len(y), max(std, 1e-12))
    inside = stratagp.metrics.coverage(y, mean, spread, _LEVEL)
    return {**_of_means(y, mean), "nlpd": stratagp.metrics.nlpd(y, mean, spread), "coverage95": inside}


def _of_classes(y: np.ndarray, probability: np.ndarray, classes: np.ndarray) -> Scores:
    right = classes[probability.argmax(1)] == y
    error = stratagp.metrics.ece(y, probability, classes)
    return {
        "accuracy": float(np.mean(right)),
        "log_loss": stratagp.metrics.log_loss(y, probability, classes),
        "brier": stratagp.metrics.brier(y, probability, classes),
        "ece": error if error > _ROUNDING else 0.0,
    }


def baselines(
    X: DataFrame, y: np.ndarray, X_test: DataFrame, y_test: np.ndarray, task: str, texts: Sequence[str], seed: int
) -> dict[str, Scores]:
    """Scores of a trivial predictor and of gradient boosting, which sees no texts."""
    if task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        shares = np.tile(counts / counts.sum(), (len(y_test), 1))
        found = {"shares of the training rows": _of_classes(y_test, shares, classes)}
    else:
        found = {"mean of the training rows": _of_gaussians(y_test, np.full(len(y_test), y.mean()), float(y.std()))}
    seen, new = X.drop(columns=list(texts)), X_test.drop(columns=list(texts))
    few = task == "regression" or len(np.unique(y)) <= _MOST_CLASSES
    if seen.shape[1] and few:
        try:
            found["gradient boosting"] = _boosting(*_for_trees(seen, new), y, y_test, task, seed)
        except ValueError as error:  # the trained model is worth more than the comparison
            warnings.warn(
                f"gradient boosting failed and is left out of the comparison: {error}", UserWarning, stacklevel=2
            )
    return found


def _boosting(X: DataFrame, X_test: DataFrame, y: np.ndarray, y_test: np.ndarray, task: str, seed: int) -> Scores:
    """Scores of scikit-learn's gradient boosting; cross-validated residuals give the noise of a regression."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    if task == "classification":
        stops = (
            "auto" if np.unique(y, return_counts=True)[1].min() > 1 else False
        )  # which holds out a share of every class
        trees = HistGradientBoostingClassifier(
            random_state=seed, categorical_features="from_dtype", early_stopping=stops
        ).fit(X, y)
        return _of_classes(y_test, trees.predict_proba(X_test), trees.classes_)
    trees = HistGradientBoostingRegressor(random_state=seed, categorical_features="from_dtype")
    folds = KFold(min(3, len(y)), shuffle=True, random_state=seed)
    residuals = y - cross_val_predict(trees, X, y, cv=folds)
    return _of_gaussians(y_test, trees.fit(X, y).predict(X_test), float(np.sqrt(np.mean(residuals**2))))


def _for_trees(X: DataFrame, X_test: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Numbers as they are, dates in days, categories as such (as codes where there are too many)."""
    X, X_test = X.copy(), X_test.copy()
    for name in X.columns:
        if X[name].dtype.kind == "M":
            for frame in (X, X_test):
                frame[name] = (frame[name] - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
        elif X[name].dtype.kind not in "iuf":
            known = X[name].astype("category").cat.categories
            for frame in (X, X_test):
                coded = frame[name].astype("category").cat.set_categories(known)
                frame[name] = coded if len(known) <= _MOST_CATEGORIES else coded.cat.codes
    return X, X_test


def as_table(found: Mapping[str, Scores]) -> str:
    """Scores as a table, with a row for each predictor.

    >>> print(as_table({"StrataGP": {"rmse": 1.234, "coverage95": 0.95}}))
               RMSE  in 95 %
    StrataGP  1.234     95 %
    """
    names = list(next(iter(found.values())))
    rows = [["", *(_HEADINGS[name] for name in names)]]
    for who, each in found.items():
        rows.append([who, *(_shown(name, each[name]) for name in names)])
    return aligned(rows, numbers=True)


def _shown(name: str, value: float) -> str:
    """A score as text; a dash where it is unknown.

    >>> _shown("log_loss", float("nan")), _shown("log_loss", float("inf")), _shown("nlpd", 1e-15)
    ('–', 'inf', '0')
    """
    if math.isnan(value):
        return "–"
    if name in ("coverage95", "accuracy"):
        return f"{100 * value:.3g} %"
    return f"{0 if abs(value) <= _ROUNDING else value:.4g}"
