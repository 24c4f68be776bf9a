"""Split-conformal prediction: intervals and sets of classes that hold the truth as often as they say.

Scores of n held-out rows and of a new one are exchangeable if the rows are. So the new score is at most the
``k = ⌈(n + 1)(1 − α)⌉``-th smallest of the n, their quantile of level ``k/n``, with probability ``k/(n + 1) ≥ 1 − α``
at least, for any model and any distribution; without ties with probability ``k/(n + 1)`` exactly. This is on average
over the held-out rows: given these, without ties, the probability is a draw from Beta(k, n + 1 − k) (Vovk 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.estimators.calibration_rows import (
    ONE_DEVIATION,
    Calibration,
    adopt_columns,
    codes,
    enough_rows,
    numbers,
    order_statistic,
    predicted,
    probabilities,
)
from stratagp.estimators.targets import check_level, check_quantiles


class ConformalRegressor(Calibration, RegressorMixin, BaseEstimator):
    """Intervals of a fitted regressor that hold ``level`` of new observations at least, whatever it got wrong.

    With residuals ``rᵢ = (yᵢ − mᵢ)/sᵢ`` of n held-out rows, by the predicted mean and standard deviation, the interval
    at ``x`` is ``m(x) ± s(x) q``, where ``q`` is the ``⌈(n + 1) level⌉``-th smallest ``|rᵢ|``. If the rows are
    exchangeable with new ones, ``P(y ∈ interval) ≥ level``.

    Arguments:
        model: a fitted regressor with ``predict(X, return_std=True)``.

    After ``fit``: ``residuals_``, sorted.

    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.3 * np.cos(40 * X[:, 0])
    >>> gp = GPRegressor(noise=0.01, max_iterations=0).fit(X[::2], y[::2])
    >>> low, high = ConformalRegressor(gp).fit(X[1::2], y[1::2]).predict_interval(X[1::2], level=0.9)
    >>> int(np.sum((low <= y[1::2]) & (y[1::2] <= high)))  # of the n = 30 rows themselves ⌈31 · 0.9⌉
    28
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> ConformalRegressor:
        """Learn the residuals of rows that the model has not seen."""
        mean, std = predicted(self.model, X)
        self.residuals_ = np.sort((numbers(y, len(mean)) - mean) / std)
        adopt_columns(self, self.model)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean that the model predicts, and half the width of the 68.3 % interval if asked for."""
        check_is_fitted(self, "residuals_")
        if not return_std:
            return self.model.predict(X)
        mean, std = predicted(self.model, X)
        return mean, std * self._reach(ONE_DEVIATION)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level`` at least."""
        check_is_fitted(self, "residuals_")
        reach = self._reach(check_level(level))
        mean, std = predicted(self.model, X)
        return mean - reach * std, mean + reach * std

    def mean_std_interval(self, X: Any, level: float = 0.95) -> list[np.ndarray]:
        """Mean, standard deviation, and both ends of the interval."""
        return [*self.predict(X, return_std=True), *self.predict_interval(X, level)]

    def _intervals(self, X: Any, levels: Sequence[float]) -> dict[float, tuple[np.ndarray, np.ndarray]]:
        """Intervals of several levels, without those that need more rows of calibration; the model is asked once."""
        mean, std = predicted(self.model, X)
        n = len(self.residuals_)
        reach = {level: self._reach(level) for level in levels if enough_rows(n, level)}
        return {level: (mean - half * std, mean + half * std) for level, half in reach.items()}

    def predict_quantiles(self, X: Any, quantiles: Any) -> Float[np.ndarray, "n q"]:
        """Values that an observation stays below with probability ``τ`` to ``τ + 1/(n + 1)``, a column for each.

        ``m(x) + s(x) r`` with the ``⌈(n + 1) τ⌉``-th smallest residual.
        """
        check_is_fitted(self, "residuals_")
        n = len(self.residuals_)
        ranks = [order_statistic(n, level, f"the quantile {level:g}") for level in check_quantiles(quantiles)]
        mean, std = predicted(self.model, X)
        return mean[:, None] + std[:, None] * self.residuals_[np.array(ranks) - 1]

    def cdf(self, X: Any, y: Any) -> Float[np.ndarray, " n"]:
        """The share of residuals below that of ``y``: ``(#{rᵢ < r} + ½ #{rᵢ = r} + ½)/(n + 1)``."""
        check_is_fitted(self, "residuals_")
        mean, std = predicted(self.model, X)
        new = (numbers(y, len(mean)) - mean) / std
        ends = (np.searchsorted(self.residuals_, new, side) for side in ("left", "right"))
        return (sum(ends) + 1) / (2 * len(self.residuals_) + 2)

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about its example, at the least, the middle and the largest residual."""
        n = len(self.residuals_)
        levels = np.array([1, (n + 1) // 2, n]) / (n + 1)
        return {"mean": self.predict(self._example), "quantiles": self.predict_quantiles(self._example, levels)}

    def _reach(self, level: float) -> float:
        """The interval's half width, in predicted standard deviations."""
        rank = order_statistic(len(self.residuals_), level, f"an interval of level {level:g}")
        return float(np.sort(np.abs(self.residuals_))[rank - 1])


class ConformalClassifier(Calibration, ClassifierMixin, BaseEstimator):
    """Sets of classes that hold the true one with probability ``1 − α`` at least, whatever the model got wrong.

    The score of a held-out row is ``1 − p(yᵢ)`` by the model. The set at ``x`` has all classes of probability
    ``p(c) ≥ 1 − q``, where ``q`` is the ``⌈(n + 1)(1 − α)⌉``-th smallest score. If the rows are exchangeable with new
    ones, ``P(y ∈ set) ≥ 1 − α``. Where the model's probabilities are right, no sets of that probability are smaller on
    average (Sadinle et al. 2019). A set may be empty: nothing is as probable as true classes mostly are.

    Arguments:
        model: a fitted classifier with ``predict_proba``.

    After ``fit``: ``scores_``, sorted, and ``classes_``.

    >>> from stratagp import GPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 1))
    >>> y = np.where(X[:, 0] + rng.normal(size=300) > 0, "up", "down")
    >>> sure = ConformalClassifier(GPClassifier().fit(X[:100], y[:100])).fit(X[100:], y[100:])
    >>> sure.predict_set([[-2.0], [0.0], [2.0]], alpha=0.1)  # of "down" and "up"
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> ConformalClassifier:
        """Learn the scores of rows that the model has not seen."""
        p = probabilities(self.model, X)
        true = codes(self.model, y, len(p))
        self.classes_ = self.model.classes_
        self.scores_ = np.sort(1 - p[np.arange(len(p)), true])
        adopt_columns(self, self.model)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The class that the model finds most probable, row by row."""
        check_is_fitted(self, "scores_")
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """The probability of each class as the model has it."""
        check_is_fitted(self, "scores_")
        return self.model.predict_proba(X)

    def predict_set(self, X: Any, alpha: float = 0.1) -> Bool[np.ndarray, "n c"]:
        """Which classes belong to the set of each row, in the order of ``classes_``: it misses the true one at most
        with probability ``alpha``.
        """
        check_is_fitted(self, "scores_")
        level = 1 - check_level(alpha, "alpha")
        rank = order_statistic(len(self.scores_), level, f"a set of alpha={alpha:g}")
        return 1 - probabilities(self.model, X) <= self.scores_[rank - 1]

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about its example, with the set that the largest score allows."""
        found = self.predict_set(self._example, 1 / (len(self.scores_) + 1))
        return {"probabilities": self.predict_proba(self._example), "set": found.astype(float)}
