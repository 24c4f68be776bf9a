"""The latent variable model as a transformer."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from stratagp.errors import InputError
from stratagp.estimators import BayesianGPLVM
from stratagp.kernels import RBF, Linear

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose

T = np.linspace(-1.2, 1.2, 40)[:, None]
X = 100 + 7 * np.hstack([np.sin(T), np.cos(T), np.sin(2 * T)]) + 0.2 * np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([BayesianGPLVM(n_components=1, n_inducing=6, max_iterations=2)])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def test_there_and_back():
    gplvm = BayesianGPLVM(n_inducing=10, max_iterations=100)
    latent = gplvm.fit_transform(X)
    assert np.sqrt(np.mean((gplvm.inverse_transform(latent) - X) ** 2)) < 0.6  # the rows have a spread of 4
    mean, std = gplvm.transform(X[:5], return_std=True)
    np.testing.assert_allclose(mean, latent[:5], atol=0.1)
    assert bool((std > 0).all())
    assert gplvm.relevance_.shape == (2,)


@pytest.mark.parametrize("kernel", [None, RBF() + Linear()])
def test_the_unit_of_rows_does_not_matter(kernel):
    given = BayesianGPLVM(n_components=1, n_inducing=8, kernel=kernel, standardise=False, max_iterations=60)
    latent = given.fit_transform(X)
    np.testing.assert_allclose(given.fit_transform(100 * X), latent, atol=1e-2)  # of a spread of 1
    np.testing.assert_allclose(given.inverse_transform(latent), 100 * X, atol=100)  # five times the noise


def test_bad_input():
    with pytest.raises(InputError, match="n_components must be at most 3"):
        BayesianGPLVM(n_components=4).fit(X)
    with pytest.raises(InputError, match="latent points"):
        BayesianGPLVM(n_components=1, n_inducing=5, max_iterations=2).fit(X).inverse_transform(X)
