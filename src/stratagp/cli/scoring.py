"""How good predictions are, beside those of the trivial predictor and of gradient boosting."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from stratagp import metrics
from stratagp.cli.console import Console
from stratagp.cli.scores import ROUNDING, Scores
from stratagp.errors import StrataGPError

TRIVIAL, BOOSTING = "mean of the training rows", "gradient boosting"
COMMON = "shares of the training rows"
_MOST_CATEGORIES = 255  # that gradient boosting tells apart
_LEVEL = 0.95


def answers(model: Any, X: Any, y: np.ndarray, task: str) -> tuple[np.ndarray, ...]:
    """What scores need of a fitted model about rows: probabilities; or means, ends of intervals and log densities."""
    if task == "classification":
        return (model.predict_proba(X),)
    return model.predict(X), *model.predict_interval(X, _LEVEL), model.log_density(X, y)


def scored(model: Any, y: np.ndarray, said: Sequence[np.ndarray], task: str) -> Scores:
    """Errors of such answers."""
    if task == "classification":
        return _of_classes(y, said[0], model.classes_)
    mean, lower, upper, density = said
    inside = metrics.interval_coverage(y, lower, upper)
    return {**_of_means(y, mean), "nlpd": -float(np.mean(density)), "coverage95": inside}


def scores(model: Any, X: Any, y: np.ndarray, task: str) -> Scores:
    """Errors of a fitted model on rows that it has not seen."""
    return scored(model, y, answers(model, X, y, task), task)


def tested(model: Any, X: Any, y: np.ndarray, task: str, console: Console) -> Scores:
    """The same, or none and a warning where these rows have no answer: a trained model is not lost for its test."""
    try:
        with console.at_work():
            return scores(model, X, y, task)
    except (StrataGPError, ValueError) as error:
        console.warn(f"the rows held out are not scored: {error}")
        return {}


def _of_means(y: np.ndarray, mean: np.ndarray) -> Scores:
    spread = float(np.sum((y - y.mean()) ** 2))
    r2 = 1 - float(np.sum((y - mean) ** 2)) / spread if spread > 0 else float("nan")
    return {"rmse": metrics.rmse(y, mean), "mae": metrics.mae(y, mean), "r2": r2}


def _of_gaussians(y: np.ndarray, mean: np.ndarray, std: float) -> Scores:
    """Of Gaussians with one standard deviation, which is kept above zero."""
    spread = np.full(len(y), max(std, 1e-12))
    inside = metrics.coverage(y, mean, spread, _LEVEL)
    return {**_of_means(y, mean), "nlpd": metrics.nlpd(y, mean, spread), "coverage95": inside}


def _of_classes(y: np.ndarray, probability: np.ndarray, classes: np.ndarray) -> Scores:
    right = classes[probability.argmax(1)] == y
    error = metrics.ece(y, probability, classes)
    return {
        "accuracy": float(np.mean(right)),
        "log_loss": metrics.log_loss(y, probability, classes),
        "brier": metrics.brier(y, probability, classes),
        "ece": error if error > ROUNDING else 0.0,
    }


def baselines(
    X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray, task: str, texts: Sequence[str], seed: int
) -> dict[str, Scores]:
    """Scores of the trivial predictor and of gradient boosting, which sees no texts."""
    if task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        shares = np.tile(counts / counts.sum(), (len(y_test), 1))
        found = {COMMON: _of_classes(y_test, shares, classes)}
    else:
        found = {TRIVIAL: _of_gaussians(y_test, np.full(len(y_test), y.mean()), float(y.std()))}
    seen, new = X.drop(columns=list(texts)), X_test.drop(columns=list(texts))
    if seen.shape[1]:
        try:
            found[BOOSTING] = _boosting(*_for_trees(seen, new), y, y_test, task, seed)
        except ValueError as error:  # the model is trained by now, and is worth more than what it is compared with
            warnings.warn(f"gradient boosting stands not beside the model: {error}", UserWarning, stacklevel=2)
    return found


def _boosting(X: Any, X_test: Any, y: np.ndarray, y_test: np.ndarray, task: str, seed: int) -> Scores:
    """Gradient boosting as scikit-learn has it; the noise of regression is that of residuals of rows held out."""
    if task == "classification":
        stops = "auto" if np.unique(y, return_counts=True)[1].min() > 1 else False  # by a share of every class
        trees = HistGradientBoostingClassifier(
            random_state=seed, categorical_features="from_dtype", early_stopping=stops
        ).fit(X, y)
        return _of_classes(y_test, trees.predict_proba(X_test), trees.classes_)
    trees = HistGradientBoostingRegressor(random_state=seed, categorical_features="from_dtype")
    folds = KFold(min(3, len(y)), shuffle=True, random_state=seed)
    residuals = y - cross_val_predict(trees, X, y, cv=folds)
    return _of_gaussians(y_test, trees.fit(X, y).predict(X_test), float(np.sqrt(np.mean(residuals**2))))


def _for_trees(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Numbers as they are, dates in days, categories as such (their numbers where there are too many)."""
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
