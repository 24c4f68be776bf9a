"""Predictive distributions and probabilities of classes through a map that held-out rows tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.calibrated import (
    CalibratedRegressor,
    Calibration,
    HasDistribution,
    codes,
    numbers,
    probabilities,
)
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.regression import Regressor, is_of_counts
from stratagp.estimators.targets import check_level, check_quantiles

if TYPE_CHECKING:
    from typing_extensions import Self

_EDGE = 1e-12  # of levels that the model is asked for
_BEYOND = 0.01  # the share of rows that may lie beyond these levels
_LEAST = 1e-12  # probability, whose log a temperature divides
_LOG_TEMPERATURES = (-4.0, 4.0)


@dataclass(eq=False, repr=False)
class RecalibratedRegressor(CalibratedRegressor):
    """The predictive distribution of a fitted regressor through an increasing map (Kuleshov et al. 2018).

    ``F'(y) = R(F(y))``, where ``F`` is the model's distribution function and ``R`` the isotonic regression of the
    shares ``i/(n + 1)`` on the sorted values ``F(yᵢ)`` of held-out rows, with lines between them and to (0, 0) and
    (1, 1). As shares rise with the values, the regression only joins ties. With many rows, quantiles hold what they
    say; for few there is no guarantee, such as :class:`ConformalRegressor` has, but the whole distribution.

    Arguments:
        model: a fitted regressor with ``cdf`` and ``predict_quantiles``, of one target that is no count.

    After ``fit``: ``levels_``, ``shares_``: the points of ``R``.

    >>> from stratagp import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (1100, 1))
    >>> y = np.sin(X[:, 0]) + rng.exponential(0.5, 1100)  # noise to one side, which the model takes for normal
    >>> gp = GPRegressor(max_iterations=0, noise=0.25).fit(X[:100], y[:100])
    >>> fair = RecalibratedRegressor(gp).fit(X[100:600], y[100:600])
    >>> shares = [np.mean(y[600:] < model.predict_quantiles(X[600:], 0.05)[:, 0]) for model in (gp, fair)]
    >>> [round(float(share), 2) for share in shares]  # of 0.05
    [0.0, 0.06]
    """

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:
        """Learn the map from rows that the model has not seen."""
        check_is_fitted(self.model)
        _check_distribution(self.model)
        rows: Any = X
        targets = numbers(y, len(rows))
        if len(targets) < 2:
            raise InputError("X must have at least 2 rows, better a few hundred, to learn a map from")
        found = np.asarray(self.model.cdf(X, targets))
        _check_reach(found)
        values, ties = np.unique(np.clip(found, _EDGE, 1 - _EDGE), return_counts=True)
        shares = (np.cumsum(ties) - (ties - 1) / 2) / (len(targets) + 1)  # ties share the average of their ranks
        self.levels_ = np.concatenate([[0.0], values, [1.0]])
        self.shares_ = np.concatenate([[0.0], shares, [1.0]])
        self._adopt_columns()
        return self

    def predict_interval(self, X: RowsLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that an observation lies between with probability ``level``, as much outside each."""
        check_level(level)
        ends = self.predict_quantiles(X, [0.5 - level / 2, 0.5 + level / 2])
        return ends[:, 0], ends[:, 1]

    def predict_quantiles(self, X: RowsLike, quantiles: ArrayLike) -> Float[np.ndarray, "n q"]:
        """The given quantiles at each row, ``F⁻¹(R⁻¹(τ))``: one column for each."""
        check_is_fitted(self, "levels_")
        levels = np.interp(check_quantiles(quantiles), self.shares_, self.levels_)
        return self.model.predict_quantiles(X, np.clip(levels, _EDGE, 1 - _EDGE))

    def cdf(self, X: RowsLike, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """``R(F(yᵢ))`` of each row."""
        check_is_fitted(self, "levels_")
        return np.interp(self.model.cdf(X, y), self.levels_, self.shares_)

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about its example."""
        found = self.predict_quantiles(self._example, [0.05, 0.5, 0.95])
        return {"mean": self.predict(self._example), "quantiles": found}


@dataclass(eq=False, repr=False)
class RecalibratedClassifier(ClassifierMixin, Calibration):
    """Probabilities of a fitted classifier through a map, so that they are shares.

    Arguments:
        model: a fitted classifier with ``predict_proba``.
        method: "isotonic": ``p'(c) ∝ R_c(p(c))``, where ``R_c`` is the isotonic regression of ``1[y = c]`` on ``p(c)``
            over n held-out rows (Zadrozny and Elkan 2002), whose shares are ``1/(2n)`` at least, half a row: that no
            row of a class was seen there does not make it impossible. "temperature": ``p'(c) ∝ p(c)^(1/T)``, where
            ``T`` has the least log loss on held-out rows (Guo et al. 2017): one number, for few rows; the most probable
            class stays the same.

    After ``fit``: ``classes_``, and ``levels_``, ``shares_`` (the points of each ``R_c``) or ``temperature_``.

    >>> from stratagp import GPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = X[:, 0] + rng.normal(size=400) > 0
    >>> gp = GPClassifier().fit(X[:100], y[:100])
    >>> softer = RecalibratedClassifier(gp, "temperature").fit(X[100:], y[100:])
    >>> 0.5 < softer.temperature_ < 1.5  # little to mend here
    True
    """

    method: Literal["isotonic", "temperature"] = "isotonic"

    def fit(self, X: RowsLike, y: ArrayLike) -> Self:
        """Learn the map from rows that the model has not seen."""
        if self.method not in ("isotonic", "temperature"):
            raise InputError(f"method must be 'isotonic' or 'temperature', got {self.method!r}")
        p = probabilities(self.model, X)
        true = codes(self.model, y, len(p))
        self.classes_ = self.model.classes_
        if self.method == "temperature":
            self.temperature_ = _temperature(p, true)
        else:
            absent = np.setdiff1d(np.arange(len(self.classes_)), true)
            if len(absent):
                label = self.classes_[absent].tolist()[0]
                raise InputError(f"y has no row of class {label!r}: give rows of each class, or method='temperature'")
            from sklearn.isotonic import IsotonicRegression  # a fifth of a second, which loading a model is spared

            maps = [IsotonicRegression(y_min=0, y_max=1).fit(p[:, c], true == c) for c in range(p.shape[1])]
            self.levels_ = [each.X_thresholds_ for each in maps]
            self.shares_ = [np.maximum(each.y_thresholds_, 0.5 / len(p)) for each in maps]
        self._adopt_columns()
        return self

    def predict(self, X: RowsLike) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self, "classes_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: RowsLike) -> Float[np.ndarray, "n c"]:
        """The corrected probability of each class, in the order of ``classes_``."""
        check_is_fitted(self, "classes_")
        p = probabilities(self.model, X)
        if self.method == "temperature":
            return softmax(np.log(np.maximum(p, _LEAST)) / self.temperature_, axis=1)
        pairs = zip(p.T, self.levels_, self.shares_, strict=True)
        found = np.stack([np.interp(said, levels, shares) for said, levels, shares in pairs], axis=1)
        return found / found.sum(1, keepdims=True)

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about its example."""
        return {"probabilities": self.predict_proba(self._example)[:, np.arange(len(self.classes_))]}


def _check_distribution(model: BaseEstimator) -> None:
    name = type(model).__name__
    if not isinstance(model, HasDistribution):
        raise InputError(f"model must have cdf and predict_quantiles, but {name} does not: use method='conformal'")
    if isinstance(model, Regressor) and not model.one_target_:
        raise InputError(
            "model was fitted to a table of targets, but one is calibrated at a time: fit a model for each, with y of "
            "shape (n,)"
        )
    if is_of_counts(model):
        raise InputError("an increasing map is for continuous targets, not for counts: use method='conformal'")


def _check_reach(found: np.ndarray) -> None:
    beyond = int(np.sum((found < _EDGE) | (found > 1 - _EDGE)))
    if beyond > _BEYOND * len(found):
        raise InputError(
            f"{beyond} of {len(found)} rows lie where the model's distribution function is 0 or 1 to rounding, so that "
            "no map of it can reach them: take method='conformal'"
        )


def _temperature(p: np.ndarray, true: np.ndarray) -> float:
    """What the log loss is least at; it is convex in 1/T, so that there is one."""
    scores = np.log(np.maximum(p, _LEAST))

    def loss(log_temperature: float) -> float:
        z = scores * np.exp(-log_temperature)
        return float(np.mean(logsumexp(z, axis=1) - z[np.arange(len(z)), true]))

    found = scipy.optimize.minimize_scalar(loss, bounds=_LOG_TEMPERATURES, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))
