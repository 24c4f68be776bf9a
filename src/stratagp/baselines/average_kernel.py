"""A support vector machine on the mean of several kernels."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from stratagp.baselines.kernels_of_views import KernelsClassifier
from stratagp.errors import InputError

_FOLDS = 5


class AverageKernelSVC(KernelsClassifier):
    """A support vector machine on the mean of the kernels; its cost has the best F1 of the second class in five folds.

    Arguments:
        costs: to choose from; the smallest of those that do equally well.
        precomputed: whether ``X`` holds kernels instead of views.
        random_state: of the folds.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> svm = AverageKernelSVC().fit([X[:, :1], X[:, 1:]], X.sum(1) > 0)
    >>> svm.predict([[[2.0]], [[2.0]]])
    array([ True])
    """

    def __init__(
        self,
        costs: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        precomputed: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.costs, self.precomputed, self.random_state = costs, precomputed, random_state

    def _learn(self, kernels: np.ndarray, y: np.ndarray) -> None:
        if not self.costs or min(self.costs) <= 0:
            raise InputError(f"costs must be positive numbers, got {self.costs!r}")
        if (fewest := int(min((y > 0).sum(), (y < 0).sum()))) < _FOLDS:
            raise InputError(
                f"y needs at least {_FOLDS} rows of each class, because folds choose the cost; got {fewest}"
            )
        kernel = kernels.mean(0)
        folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=self.random_state).split(kernel, y))
        scores = [np.mean([_score(kernel, y, cost, *fold) for fold in folds]) for cost in self.costs]
        self.cost_ = float(self.costs[int(np.argmax(scores))])
        self.score_ = float(max(scores))
        self.machine_ = _machine(self.cost_).fit(kernel, y)

    def _decision(self, cross: np.ndarray) -> np.ndarray:
        return np.asarray(self.machine_.decision_function(cross.mean(0)))


def _score(kernel: np.ndarray, y: np.ndarray, cost: float, train: np.ndarray, held: np.ndarray) -> float:
    machine = _machine(cost).fit(kernel[np.ix_(train, train)], y[train])
    return float(f1_score(y[held], machine.predict(kernel[np.ix_(held, train)]), zero_division=0.0))


def _machine(cost: float) -> SVC:
    return SVC(C=cost, kernel="precomputed")
