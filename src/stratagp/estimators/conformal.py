"""Split-conformal prediction: intervals and sets of classes that hold the truth as often as they say.

Scores of n held-out rows and of a new one are exchangeable if the rows are. So the new score is at most the
``k = ⌈(n + 1)(1 − α)⌉``-th smallest of the n, their quantile of level ``k/n``, with probability ``k/(n + 1) ≥ 1 − α``
at least, for any model and any distribution; without ties with probability ``k/(n + 1)`` exactly. This is on average
over the held-out rows: given these, without ties, the probability is a draw from Beta(k, n + 1 − k) (Vovk 2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.calibrated import CalibratedRegressor, Calibration, codes, numbers, probabilities
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.targets import check_level, check_quantiles

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class ConformalRegressor(CalibratedRegressor):
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

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:
        """Learn the residuals of rows that the model has not seen."""
        mean, std = _predicted(self.model, X)
        self.residuals_ = np.sort((numbers(y, len(mean)) - mean) / std)
        self._adopt_columns()
        return self

    def predict_interval(self, X: RowsLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level`` at least."""
        check_is_fitted(self, "residuals_")
        reach = self._reach(check_level(level))
        mean, std = _predicted(self.model, X)
        return mean - reach * std, mean + reach * std

    def _intervals(self, X: RowsLike, levels: Sequence[float]) -> dict[float, tuple[np.ndarray, np.ndarray]]:
        """Intervals of several levels, without those that need more rows of calibration; the model is asked once."""
        mean, std = _predicted(self.model, X)
        n = len(self.residuals_)
        reach = {level: self._reach(level) for level in levels if _enough_rows(n, level)}
        return {level: (mean - half * std, mean + half * std) for level, half in reach.items()}

    def predict_quantiles(self, X: RowsLike, quantiles: ArrayLike) -> Float[np.ndarray, "n q"]:
        """Values that an observation stays below with probability ``τ`` to ``τ + 1/(n + 1)``, a column for each.

        ``m(x) + s(x) r`` with the ``⌈(n + 1) τ⌉``-th smallest residual.
        """
        check_is_fitted(self, "residuals_")
        n = len(self.residuals_)
        ranks = [_order_statistic(n, level, f"the quantile {level:g}") for level in check_quantiles(quantiles)]
        mean, std = _predicted(self.model, X)
        return mean[:, None] + std[:, None] * self.residuals_[np.array(ranks) - 1]

    def cdf(self, X: RowsLike, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """The share of residuals below that of ``y``: ``(#{rᵢ < r} + ½ #{rᵢ = r} + ½)/(n + 1)``."""
        check_is_fitted(self, "residuals_")
        mean, std = _predicted(self.model, X)
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
        rank = _order_statistic(len(self.residuals_), level, f"an interval of level {level:g}")
        return float(np.sort(np.abs(self.residuals_))[rank - 1])


@dataclass(eq=False, repr=False)
class ConformalClassifier(ClassifierMixin, Calibration):
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

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:
        """Learn the scores of rows that the model has not seen."""
        p = probabilities(self.model, X)
        true = codes(self.model, y, len(p))
        self.classes_ = self.model.classes_
        self.scores_ = np.sort(1 - p[np.arange(len(p)), true])
        self._adopt_columns()
        return self

    def predict(self, X: RowsLike) -> np.ndarray:
        """The class that the model finds most probable, row by row."""
        check_is_fitted(self, "scores_")
        return self.model.predict(X)

    def predict_proba(self, X: RowsLike) -> Float[np.ndarray, "n c"]:
        """The probability of each class as the model has it."""
        check_is_fitted(self, "scores_")
        return self.model.predict_proba(X)

    def predict_set(self, X: RowsLike, alpha: float = 0.1) -> Bool[np.ndarray, "n c"]:
        """Which classes belong to the set of each row, in the order of ``classes_``: it misses the true one at most
        with probability ``alpha``.
        """
        check_is_fitted(self, "scores_")
        level = 1 - check_level(alpha, "alpha")
        rank = _order_statistic(len(self.scores_), level, f"a set of alpha={alpha:g}")
        return 1 - probabilities(self.model, X) <= self.scores_[rank - 1]

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about its example, with the set that the largest score allows."""
        found = self.predict_set(self._example, 1 / (len(self.scores_) + 1))
        return {"probabilities": self.predict_proba(self._example), "set": found.astype(float)}


def _predicted(model: BaseEstimator, X: RowsLike) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Mean and standard deviation of one target at each row."""
    check_is_fitted(model)
    try:
        mean, std = (np.asarray(part, dtype=float) for part in model.predict(X, return_std=True))
    except TypeError:
        raise InputError(f"model must have predict(X, return_std=True), but {type(model).__name__} does not") from None
    if mean.ndim != 1:
        raise InputError(
            f"model predicts targets of shape {mean.shape}, but one is calibrated at a time: fit a model for each, "
            "with y of shape (n,)"
        )
    if not (np.isfinite(std) & (std > 0)).all():
        row = int(np.flatnonzero(~(np.isfinite(std) & (std > 0)))[0])
        raise InputError(f"model predicts a standard deviation of {std[row]:g} in row {row}: it must be positive")
    return mean, std


def _enough_rows(n: int, level: float) -> bool:
    """Whether n scores have a rank that one more stays below with probability ``level``.

    >>> _enough_rows(19, 0.95), _enough_rows(18, 0.95)
    (True, False)
    """
    return math.ceil((n + 1) * level - 1e-9) <= n


def _order_statistic(n: int, level: float, name: str) -> int:
    """``⌈(n + 1) level⌉``, the rank among n scores that one more stays below with probability ``level``; from one.

    >>> _order_statistic(19, 0.95, "it"), _order_statistic(19, 1e-12, "it")
    (19, 1)
    """
    rank = max(1, math.ceil((n + 1) * level - 1e-9))
    if not _enough_rows(n, level):
        needed = math.ceil(level / (1 - level) - 1e-9)
        raise InputError(f"{name} needs at least {needed} rows of calibration, but there are {n}: give more of them")
    return rank
