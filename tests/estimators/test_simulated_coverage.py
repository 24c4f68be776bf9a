"""Intervals and probabilities hold what they claim on draws from processes; the tasks are those of a benchmark."""

import numpy as np
import pytest
from scipy import stats

from bad_inputs import CLASSIFIERS, REGRESSORS
from calibration import LEVELS, gaps, measured, sureness, task

CLAIMS = [
    "GPRegressor",
    "GPRegressor sparse",
    "StudentTProcessRegressor",
    "ConformalRegressor",
    "RecalibratedRegressor",
]
CLAIMS += ["GPClassifier laplace", "GPClassifier variational"]


class Oracle:
    """A normal distribution around the truth that is too wide by a factor."""

    def __init__(self, factor):
        self.factor = factor

    def fit(self, X, y):
        self.spread = y.std()
        return self

    def predict_interval(self, X, level):
        half = np.full(len(X), self.factor * self.spread * stats.norm.ppf(0.5 + level / 2))
        return 5 - half, 5 + half


@pytest.mark.parametrize("model", CLAIMS)
def test_claims_hold(model):
    """Within three standard errors over twelve tasks and 0.03, from 50 rows each."""
    of_classes = model in CLASSIFIERS
    make = (CLASSIFIERS if of_classes else REGRESSORS)[model]
    rows = [measured(make, seed, of_classes, rows=50) for seed in range(12)]
    assert sureness(rows) == "yes", gaps(rows)


def test_wrong_claims_are_found():
    for factor, word in ((0.5, "too sure"), (3.0, "too cautious")):
        assert sureness([measured(lambda factor=factor: Oracle(factor), seed, False) for seed in range(20)]) == word


def test_gaps_are_means_and_standard_errors():
    rows = [{"inside": [0.4, 0.8, 1.0]}, {"inside": [0.6, 0.8, 0.9]}]
    claimed, held, error = np.array(gaps(rows)).T
    np.testing.assert_allclose(claimed, LEVELS)
    np.testing.assert_allclose(held, [0.5, 0.8, 0.95])
    np.testing.assert_allclose(error, [0.1, 0.0, 0.05], atol=1e-12)


def test_tasks_are_draws_from_processes():
    """Over many tasks the squared function has its variance, 9 times (1 + E noise²): 9 · (1 + (0.5³ − 0.1³)/1.2)."""
    y = np.concatenate([task(seed)[1] for seed in range(100)]) - 5
    assert np.mean(y**2) == pytest.approx(9 * (1 + (0.5**3 - 0.1**3) / 1.2), rel=0.15)
