"""Gaussian imputation against brute-force maximum likelihood, closed forms and Monte Carlo."""

import numpy as np
import pytest
from scipy.optimize import minimize

from stratagp.data import GaussianImputer, TableEncoder
from stratagp.errors import ConvergenceWarning, InputError

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.9, -0.4], [0.9, 1.0, 0.1], [-0.4, 0.1, 0.7]])


def holed(n=40, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.multivariate_normal(MEAN, COVARIANCE, n)
    missing = rng.random(values.shape) < share
    return np.where(missing, np.nan, values), missing


def penalised_log_likelihood(mean, covariance, values, missing, ridge):
    total = -0.5 * ridge * (np.trace(np.linalg.inv(covariance)) + np.linalg.slogdet(covariance)[1])
    for row, absent in zip(values, missing, strict=True):
        o = ~absent
        part, gap = covariance[o][:, o], row[o] - mean[o]
        total -= 0.5 * (np.linalg.slogdet(2 * np.pi * part)[1] + gap @ np.linalg.solve(part, gap))
    return total


@pytest.mark.parametrize("ridge", [1e-6, 2.0])
def test_em_reaches_the_maximum_that_a_general_optimiser_finds(ridge):
    values, missing = holed(25)
    unit = (values - np.nanmean(values, 0)) / np.nanstd(values, 0)  # the ridge is stated in standard units
    imputer = GaussianImputer(ridge, tolerance=1e-11, max_steps=10_000).fit(unit, missing)

    def unpacked(theta):
        factor = np.zeros((3, 3))
        factor[np.tril_indices(3)] = theta[3:]
        return theta[:3], factor @ factor.T

    start = np.concatenate([np.zeros(3), np.eye(3)[np.tril_indices(3)]])
    best = minimize(lambda t: -penalised_log_likelihood(*unpacked(t), unit, missing, ridge), start)
    mean, covariance = unpacked(best.x)
    np.testing.assert_allclose(imputer.mean, mean, atol=1e-4)
    np.testing.assert_allclose(imputer.covariance, covariance, atol=1e-4)
    ours = penalised_log_likelihood(imputer.mean, imputer.covariance, unit, missing, ridge)
    assert ours >= -best.fun - 1e-9


def test_the_order_in_memory_does_not_matter():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 12))  # more columns than a byte has bits
    missing = rng.random(values.shape) < 0.1
    plain = GaussianImputer().fit(np.where(missing, np.nan, values), missing)
    turned = GaussianImputer().fit(np.asfortranarray(np.where(missing, np.nan, values)), np.asfortranarray(missing))
    np.testing.assert_allclose(turned.covariance, plain.covariance, rtol=1e-10)


def test_complete_data_give_the_sample_moments():
    values = np.random.default_rng(1).multivariate_normal(MEAN, COVARIANCE, 500)
    imputer = GaussianImputer(ridge=1e-10).fit(values)
    np.testing.assert_allclose(imputer.mean, values.mean(0), rtol=1e-10)
    np.testing.assert_allclose(imputer.covariance, np.cov(values.T, bias=True), rtol=1e-8)
    filled = imputer.impute(values)
    np.testing.assert_array_equal(filled.mean, values)
    assert not filled.variance.any()
    assert filled.draws is None


def test_many_rows_recover_the_truth():
    values, missing = holed(20_000, 0.4)
    imputer = GaussianImputer().fit(values, missing)
    np.testing.assert_allclose(imputer.mean, MEAN, atol=0.05)
    np.testing.assert_allclose(imputer.covariance, COVARIANCE, atol=0.06)


def test_each_row_is_conditioned_in_closed_form():
    values, missing = holed()
    imputer = GaussianImputer().fit(values, missing)
    result = imputer.impute(values, missing)
    mu, sigma = imputer.mean, imputer.covariance
    assert missing.all(1).any()  # rows of which nothing is known are among them
    for i, absent in enumerate(missing):
        o, m = ~absent, absent
        slopes = sigma[np.ix_(m, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
        mean, covariance = values[i].copy(), np.zeros((3, 3))
        mean[m] = mu[m] + slopes @ (values[i, o] - mu[o])
        covariance[np.ix_(m, m)] = sigma[np.ix_(m, m)] - slopes @ sigma[np.ix_(o, m)]
        np.testing.assert_allclose(result.mean[i], mean, rtol=1e-10)
        np.testing.assert_allclose(result.covariance[result.pattern[i]], covariance, atol=1e-12)
        np.testing.assert_allclose(result.variance[i], np.diag(covariance), atol=1e-12)


def test_draws_have_the_conditional_moments_and_keep_what_was_observed():
    values, missing = holed(6, 0.5, seed=3)
    imputer = GaussianImputer().fit(*holed())
    result = imputer.impute(values, missing, n_draws=40_000, seed=0)
    assert result.draws.shape == (40_000, 6, 3)
    assert (result.draws[:, ~missing] == values[~missing]).all()
    np.testing.assert_allclose(result.draws.mean(0), result.mean, atol=0.04)  # about 5 standard errors
    for i in range(6):
        found = np.cov(result.draws[:, i].T, bias=True)
        np.testing.assert_allclose(found, result.covariance[result.pattern[i]], atol=0.1)


def test_draws_repeat_with_their_seed():
    values, missing = holed()
    imputer = GaussianImputer().fit(values, missing)
    first, second, third = (imputer.impute(values, missing, 2, seed).draws for seed in (0, np.random.default_rng(0), 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_the_order_of_rows_and_the_units_of_columns_do_not_matter():
    values, missing = holed()
    order, units = np.random.default_rng(5).permutation(len(values)), np.array([1e6, 1e-6, 1.0])
    plain = GaussianImputer().fit(values, missing).impute(values, missing)
    other = GaussianImputer().fit(values[order] * units, missing[order]).impute(values[order] * units, missing[order])
    np.testing.assert_allclose(other.mean / units, plain.mean[order], rtol=1e-8)
    np.testing.assert_allclose(other.variance / units**2, plain.variance[order], rtol=1e-8, atol=1e-14)


def test_rows_in_bulk_are_reduced_without_loss():
    values, missing = holed(30)
    once = GaussianImputer(2.0, 1e-10, 10_000).fit(values, missing)
    often = GaussianImputer(100.0, 1e-10, 10_000).fit(np.tile(values, (50, 1)), np.tile(missing, (50, 1)))
    np.testing.assert_allclose(often.mean, once.mean, rtol=1e-7)
    np.testing.assert_allclose(often.covariance, once.covariance, rtol=1e-7)


def test_constant_and_repeated_columns_and_more_columns_than_rows():
    rng = np.random.default_rng(2)
    base = rng.normal(size=(8, 6))
    values = np.column_stack([base, base, np.full(8, 3.0)])
    missing = rng.random(values.shape) < 0.2
    missing[:, -1] = np.arange(8) % 2 == 0
    imputer = GaussianImputer().fit(values, missing)
    result = imputer.impute(values, missing, n_draws=3, seed=0)
    assert np.isfinite(result.mean).all()
    assert (result.variance >= 0).all()
    assert (result.draws[:, :, -1] == 3.0).all()
    assert not result.variance[:, -1].any()


def test_a_missing_category_is_expected_indicators():
    table = [[0.0, "a"], [0.1, "a"], [1.0, "b"], [1.1, "b"], [1.05, None], [0.05, None]]
    values, missing = TableEncoder(categorical=[1], missing="impute").fit_transform(table)
    filled = GaussianImputer(ridge=0.1).fit(values, missing).impute(values, missing).mean
    np.testing.assert_allclose(filled[:, 1:].sum(1), 1, atol=0.01)
    assert filled[4, 2] > 0.9
    assert filled[5, 1] > 0.9


def test_it_says_when_it_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="2 EM steps"):
        GaussianImputer(max_steps=2).fit(*holed())


def test_what_is_refused():
    values, missing = holed()
    gone = missing.copy()
    gone[:, 1] = True
    with pytest.raises(InputError, match="column 'b' is missing in every row"):
        GaussianImputer().fit(values, gone, ["a", "b", "c"])
    with pytest.raises(InputError, match="column 1 is missing"):
        GaussianImputer().fit(values, gone)
    with pytest.raises(InputError, match="mark it in missing"):
        GaussianImputer().fit(values)
    with pytest.raises(InputError, match="missing must be"):
        GaussianImputer().fit(values, missing[:, :2])
    with pytest.raises(InputError, match="values must be a table"):
        GaussianImputer().fit(values[0])
    with pytest.raises(InputError, match="call fit first"):
        GaussianImputer().impute(values, missing)
    with pytest.raises(InputError, match="2 columns"):
        GaussianImputer().fit(values, missing).impute(values[:, :2], missing[:, :2])
    with pytest.raises(InputError, match="n_draws"):
        GaussianImputer().fit(values, missing).impute(values, missing, n_draws=0)
    with pytest.raises(InputError, match="ridge"):
        GaussianImputer(ridge=0.0)
