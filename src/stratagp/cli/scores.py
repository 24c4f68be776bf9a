"""How good predictions are, compared with a trivial predictor and with gradient boosting."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import stratagp
from stratagp.cli.output import Console, aligned
from stratagp.cli.table import DataFrame
from stratagp.errors import StrataGPError

Scores = dict[str, float]
Gains = dict[str, dict[str, tuple[float, float]]]
"""By baselines and losses: how much less the model loses in a row, on average, and the standard error of that."""
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
_LEAST_PROBABILITY = float(np.finfo(float).eps)  # of a class, in a log loss: as scikit-learn's
_MOST_CATEGORIES = 255  # that gradient boosting can tell apart
_CROSSED = 20_000  # rows up to which all residuals of boosting are cross-validated, and a third of them above
_MOST_CLASSES = 100  # that it learns in a reasonable time, with a tree for each in every round
_LEVEL = 0.95


class Said(NamedTuple):
    """What a predictor says of rows with known targets.

    Arguments:
        y: the targets.
        parts: means, lower and upper ends of intervals, and log densities of the targets; or probabilities.
        classes: of the columns of probabilities; None for numbers.
        rows: the labels of the rows; None where they are not needed.
    """

    y: np.ndarray
    parts: tuple[np.ndarray, ...]
    classes: np.ndarray | None = None
    rows: np.ndarray | None = None

    @classmethod
    def joined(cls, every: Sequence[Said]) -> Said:
        """What was said of several parts of the rows."""
        y, classes = np.concatenate([each.y for each in every]), None
        if every[0].classes is not None:
            classes = np.unique(np.concatenate([each.classes for each in every if each.classes is not None]))
            every = [each.over(classes) for each in every]
        parts = zip(*(each.parts for each in every), strict=True)
        return cls(y, tuple(np.concatenate(part) for part in parts), classes)

    def of_rows(self, labels: np.ndarray) -> Said:
        """What was said of the rows with these labels."""
        assert self.rows is not None
        kept = np.isin(self.rows, labels)
        return Said(self.y[kept], tuple(part[kept] for part in self.parts), self.classes, self.rows[kept])

    def over(self, classes: np.ndarray) -> Said:
        """The same with a column for each of more classes, whose probability is zero."""
        assert self.classes is not None
        p = np.zeros((len(self.y), len(classes)))
        p[:, np.searchsorted(classes, self.classes)] = self.parts[0]
        return self._replace(parts=(p,), classes=classes)

    def scores(self) -> Scores:
        """The scores that tables show."""
        if self.classes is not None:
            return _of_classes(self)
        mean, lower, upper, density = self.parts
        inside = stratagp.metrics.interval_coverage(self.y, lower, upper)
        return {**_of_means(self.y, mean), "nlpd": -float(np.mean(density)), "coverage95": inside}

    @property
    def farthest(self) -> float:
        """By how many standard deviations the worst prediction of a number is off, by the width of its interval."""
        if self.classes is not None:
            return 0.0
        mean, lower, upper, _ = self.parts
        half = np.maximum((upper - lower) / 2, 1e-300)
        return float(np.max(NormalDist().inv_cdf(0.5 + _LEVEL / 2) * np.abs(self.y - mean) / half))

    def losses(self) -> dict[str, np.ndarray]:
        """What each row costs, by the score that it is a part of: squared errors and negative log densities; or 1 where
        the class is wrong, and log losses."""
        if self.classes is None:
            return {"rmse": np.square(self.y - self.parts[0]), "nlpd": -self.parts[3]}
        return {"accuracy": (~_right(self)).astype(float), "log_loss": _log_losses(self)}


def answers(model: Any, X: Any, y: np.ndarray, task: str) -> Said:
    """What a model says of rows."""
    if task == "classification":
        return Said(y, (model.predict_proba(X),), np.asarray(model.classes_))
    return Said(y, tuple(model.mean_interval_density(X, y, _LEVEL)))


def tested(model: Any, X: Any, y: np.ndarray, task: str, console: Console) -> Said | None:
    """What a model says of held-out rows; None, with a warning, if it cannot, so that the model is not lost."""
    try:
        with console.at_work():
            return answers(model, X, y, task)
    except (StrataGPError, ValueError) as error:
        console.warn(f"held-out rows are not scored: {error}")
        return None


def gains(own: Said, others: Mapping[str, Said]) -> Gains:
    """How much less the model loses than others, row by row.

    >>> ours, theirs = (Said(np.zeros(2), (np.array(error), *[np.zeros(2)] * 3)) for error in ([1.0, 1.0], [2.0, 3.0]))
    >>> gains(ours, {"theirs": theirs})["theirs"]["rmse"]  # of 3 and 8
    (5.5, 2.5)
    """
    found, mine = {}, own.losses()
    for name, other in others.items():
        ahead = {key: losses - mine[key] for key, losses in other.losses().items()}
        found[name] = {key: (float(each.mean()), _standard_error(each)) for key, each in ahead.items()}
    return found


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.inf


def _of_means(y: np.ndarray, mean: np.ndarray) -> Scores:
    spread = float(np.sum((y - y.mean()) ** 2))
    r2 = 1 - float(np.sum((y - mean) ** 2)) / spread if spread > 0 else float("nan")
    return {"rmse": stratagp.metrics.rmse(y, mean), "mae": stratagp.metrics.mae(y, mean), "r2": r2}


def _gaussian(y: np.ndarray, mean: np.ndarray, std: float) -> Said:
    """Gaussians with one standard deviation, which is kept above zero."""
    std = max(std, 1e-12)
    reach = NormalDist().inv_cdf(0.5 + _LEVEL / 2) * std
    density = -0.5 * np.square((y - mean) / std) - math.log(std * math.sqrt(2 * math.pi))
    return Said(y, (mean, mean - reach, mean + reach, density))


def _right(said: Said) -> np.ndarray:
    assert said.classes is not None
    return said.classes[said.parts[0].argmax(1)] == said.y


def _log_losses(said: Said) -> np.ndarray:
    """Of each row; a class that is said to be impossible counts as one of a tiny probability."""
    p, classes = said.parts[0], said.classes
    assert classes is not None
    codes = np.searchsorted(classes, said.y).clip(max=len(classes) - 1)
    of_true = np.where(classes[codes] == said.y, p[np.arange(len(p)), codes], 0.0)
    return -np.log(np.maximum(of_true, _LEAST_PROBABILITY))


def _of_classes(said: Said) -> Scores:
    assert said.classes is not None
    every = np.union1d(said.classes, said.y)  # a training part may lack a class
    p = said.over(every).parts[0]
    error = stratagp.metrics.ece(said.y, p, every)
    return {
        "accuracy": float(np.mean(_right(said))),
        "log_loss": float(np.mean(_log_losses(said))),
        "brier": stratagp.metrics.brier(said.y, p, every),
        "ece": error if error > _ROUNDING else 0.0,
    }


def baselines(
    X: DataFrame, y: np.ndarray, X_test: DataFrame, y_test: np.ndarray, task: str, texts: Sequence[str], seed: int
) -> dict[str, Said]:
    """What a trivial predictor says of test rows, and gradient boosting, which sees no texts."""
    if task == "classification":
        classes, counts = np.unique(y, return_counts=True)
        shares = np.tile(counts / counts.sum(), (len(y_test), 1))
        found = {"shares of the training rows": Said(y_test, (shares,), classes)}
    else:
        found = {"mean of the training rows": _gaussian(y_test, np.full(len(y_test), y.mean()), float(y.std()))}
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


def _boosting(X: DataFrame, X_test: DataFrame, y: np.ndarray, y_test: np.ndarray, task: str, seed: int) -> Said:
    """What scikit-learn's gradient boosting says; cross-validated residuals give the noise of a regression."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import KFold

    if task == "classification":
        stops = (
            "auto" if np.unique(y, return_counts=True)[1].min() > 1 else False
        )  # which holds out a share of every class
        trees = HistGradientBoostingClassifier(
            random_state=seed, categorical_features="from_dtype", early_stopping=stops
        ).fit(X, y)
        return Said(y_test, (trees.predict_proba(X_test),), trees.classes_)
    trees = HistGradientBoostingRegressor(random_state=seed, categorical_features="from_dtype")
    folds = list(KFold(min(3, len(y)), shuffle=True, random_state=seed).split(X))
    folds = folds if len(y) <= _CROSSED else folds[:1]
    residuals = [y[held] - trees.fit(X.iloc[kept], y[kept]).predict(X.iloc[held]) for kept, held in folds]
    std = float(np.sqrt(np.mean(np.square(np.concatenate(residuals)))))
    return _gaussian(y_test, trees.fit(X, y).predict(X_test), std)


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
