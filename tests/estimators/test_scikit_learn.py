"""scikit-learn's own checks, all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp.estimators import GPClassifier, GPRegressor, StudentTProcessRegressor

WEIGHTS = "a weight divides the noise of its row; the evidence of a repeated row differs, and so do hyperparameters"


def expected_failures(estimator):
    if isinstance(estimator, GPRegressor):
        return {
            "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
            "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        }
    return {}


ESTIMATORS = [
    GPRegressor(n_restarts=0, max_iterations=2),
    GPRegressor(inference="sparse", n_inducing=8, n_restarts=0, max_iterations=2),
    GPRegressor(inference="vecchia", n_neighbours=8, n_restarts=0, max_iterations=1),
    GPClassifier(max_iterations=1),
    GPClassifier(inference="vecchia", n_neighbours=8, max_iterations=1),
    StudentTProcessRegressor(n_restarts=0, max_iterations=2),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
