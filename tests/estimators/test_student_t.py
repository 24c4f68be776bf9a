"""StudentTProcessRegressor against its closed forms and the Gaussian process it tends to."""

import numpy as np
import pytest
from scipy import stats

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import GPRegressor, StudentTProcessRegressor


def data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 1))
    return X, 100 + 30 * np.sin(X[:, 0]) + 3 * rng.standard_normal(n)


def test_predictions_are_t_distributions():
    X, y = data()
    tp = StudentTProcessRegressor(dof=4.0).fit(X, y)
    mean, std = tp.predict([[2.0]], return_std=True)
    nu = tp.dof_ + len(y)
    law = stats.t(nu, mean, std * np.sqrt((nu - 2) / nu))
    low, high = tp.predict_interval([[2.0]], 0.9)
    np.testing.assert_allclose([low, high], [law.ppf(0.05), law.ppf(0.95)], rtol=1e-9)
    np.testing.assert_allclose(tp.log_density([[2.0]], [130.0]), law.logpdf(130.0), rtol=1e-9)


def test_degrees_of_freedom_that_are_given_stay():
    """And the evidence is scipy's density of the targets; left out, they are learnt to a higher one."""
    X, y = data()
    tp, learnt = StudentTProcessRegressor(k.RBF(), dof=3.0).fit(X, y), StudentTProcessRegressor(k.RBF()).fit(X, y)
    assert tp.dof_ == pytest.approx(3.0, rel=1e-12)
    assert learnt.dof_ != pytest.approx(5.0, rel=1e-2)
    assert learnt.log_marginal_likelihood() > tp.log_marginal_likelihood()
    scaled = (y - y.mean()) / y.std()
    noise = tp.model_.gaussian.noise.item()
    K = tp.kernel_(tp.inputs_.points(tp, X).values).detach().numpy() + noise * np.eye(len(y))
    density = stats.multivariate_t(df=3.0, shape=K / 3).logpdf(scaled) - len(y) * np.log(y.std())
    assert tp.log_marginal_likelihood() == pytest.approx(density, rel=1e-9)


def test_many_degrees_of_freedom_are_gaussian():
    X, y = data()
    kernel = k.RBF(1.5, 1.2)
    gp = GPRegressor(kernel, noise=0.1 * y.var(), max_iterations=0).fit(X, y)
    tp = StudentTProcessRegressor(kernel, dof=1e8, max_iterations=0).fit(X, y)
    for ours, gaussian in zip(tp.predict(X, return_std=True), gp.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(ours, gaussian, rtol=1e-5)
    assert tp.log_marginal_likelihood() == pytest.approx(gp.log_marginal_likelihood(), abs=1e-3)


def test_joint_samples_have_the_right_covariance_and_share_a_scale():
    X, y = data(8)
    tp = StudentTProcessRegressor(k.RBF(1.0), dof=3.0, max_iterations=0).fit(X, y)
    new = np.array([[20.0], [40.0]])
    _, cov = tp.predict(new, return_cov=True)
    drawn = tp.sample_y(new, 100_000, random_state=0)
    np.testing.assert_allclose(np.cov(drawn), cov, atol=0.05 * cov.max())
    squares = np.corrcoef((drawn - drawn.mean(1, keepdims=True)) ** 2)
    assert squares[0, 1] > 0.05  # independent Gaussians would have none


def test_one_target_and_its_options():
    X, y = data()
    with pytest.raises(InputError, match="hyperparameters must be one of 'map', 'ml'"):
        StudentTProcessRegressor(hyperparameters="loo").fit(X, y)
    with pytest.raises(InputError, match="dof must be above 2"):
        StudentTProcessRegressor(dof=1.0).fit(X, y)


def test_rows_that_are_there_twice_without_noise():
    """The evidence has no end there; near 2 degrees of freedom noise became rounding (an error of 0.23, now 0.085)."""
    X = np.random.default_rng(2).uniform(-2, 2, (320, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    tp = StudentTProcessRegressor(random_state=0).fit(np.tile(X[:20], (2, 1)), np.tile(y[:20], 2))
    assert tp.dof_ > 2.5
    error = np.sqrt(np.mean((tp.predict(X[20:]) - y[20:]) ** 2)) / y.std()
    assert error < 0.12
    low, high = tp.predict_interval(X[20:])
    assert np.mean((low <= y[20:]) & (y[20:] <= high)) > 0.97
