"""GPRegressor by Vecchia's approximation: units, several targets, known noise, missing entries, draws."""

import numpy as np
import pytest
import torch

from stratagp import GPRegressor, means
from stratagp import kernels as k
from stratagp.errors import InputError

QUICK = {"inference": "vecchia", "n_neighbours": 30, "max_iterations": 20, "random_state": 0}


def waves(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2)) * [1.0, 100.0] + [0.0, 1e4]
    return X, 500 + 30 * np.sin(2 * X[:, 0]) + 0.1 * (X[:, 1] - 1e4), rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, f, noise = waves()
    return GPRegressor(**{**QUICK, "n_neighbours": 150}).fit(X, f + 3 * noise)


def test_it_predicts_like_the_exact_process_with_its_values(fitted):
    X, f, noise = waves()
    new = waves(50, 1)[0]
    own = fitted.kernel_
    kernel = k.Matern(own.nu, own.lengthscale.detach().numpy().ravel(), own.variance.item())
    exact = GPRegressor(kernel, noise=fitted.model_.noise.item() * np.var(f + 3 * noise), max_iterations=0)
    exact.fit(X, f + 3 * noise)
    mean, std = fitted.predict(new, return_std=True)
    truth, spread = exact.predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.1 * spread.mean()
    np.testing.assert_allclose(std, spread, rtol=0.03)
    assert np.sqrt(np.mean((mean - waves(50, 1)[1]) ** 2)) < 2


def test_a_rough_model_says_nearly_the_same(fitted):
    new = fitted.fitted_.points[:40]
    rough, spread = fitted.fitted_.rough(), np.sqrt(fitted.fitted_.predictive(new, of="f").var)
    assert rough.draws[0][0].process.n_neighbours == 50
    assert rough.sets.given.shape[1] == 30
    assert np.sqrt(np.mean((rough.function(new) - fitted.fitted_.function(new)) ** 2)) < spread.mean()
    assert rough.score().item() == pytest.approx(fitted.fitted_.score().item(), abs=0.05 * len(fitted.fitted_.data))


def test_its_error_bars_hold(fitted):
    X, f, noise = waves(400, 2)
    low, high = fitted.predict_interval(X, level=0.9)
    assert 0.85 < np.mean((low < f + 3 * noise) & (f + 3 * noise < high)) < 0.95


def test_leave_one_out_has_the_error_of_new_rows(fitted):
    _, f, noise = waves()
    mean, std = fitted.leave_one_out()
    assert np.std((f + 3 * noise - mean) / std) == pytest.approx(1, abs=0.12)


def test_joint_draws_agree_with_the_joint_covariance(fitted):
    new = waves(4, 3)[0]
    mean, cov = fitted.predict(new, return_cov=True)
    draws = fitted.sample_y(new, 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(1) if draws.shape[0] == 4 else draws.mean(0), mean, atol=0.3)
    np.testing.assert_allclose(np.cov(draws if draws.shape[0] == 4 else draws.T), cov, atol=0.08 * cov.max())


def test_several_targets_weights_a_mean_and_known_noise():
    X, f, noise = waves(120)
    both = GPRegressor(**QUICK).fit(X, np.c_[f + noise, -f], sample_weight=np.linspace(0.5, 2, 120))
    np.testing.assert_allclose(both.predict(X)[:, 1], -f, atol=8)
    known = GPRegressor(k.RBF(ard=True), mean=means.Constant(), noise=np.full(120, 1.0), **QUICK).fit(X, f + noise)
    assert known.model_.noise.item() == pytest.approx(1 / np.var(f + noise), rel=1e-6)
    assert np.sqrt(np.mean((known.predict(X) - f) ** 2)) < 1.5


def test_missing_entries_widen_the_error_bars():
    X, f, noise = waves(150)
    gaps = X.copy()
    gaps[::5, 0] = np.nan
    gp = GPRegressor(missing="impute", **QUICK).fit(gaps, f + noise)
    whole, lacking = X[:1], np.array([[np.nan, X[0, 1]]])
    assert gp.predict(lacking, return_std=True)[1][0] > 3 * gp.predict(whole, return_std=True)[1][0]


def test_the_rough_and_the_smooth_are_told_apart():
    x = np.linspace(0, 20, 400)[:, None]
    generator = torch.Generator().manual_seed(0)
    for nu, wanted in ((0.5, 0.5), (2.5, 2.5)):
        covariance = k.Matern(nu, lengthscale=1.0)(x).detach() + 1e-6 * torch.eye(400)
        y = (torch.linalg.cholesky(covariance) @ torch.randn(400, generator=generator, dtype=torch.float64)).numpy()
        assert GPRegressor(**QUICK).fit(x, y).kernel_.nu == wanted


def test_what_it_cannot_do_is_said():
    X, f, _ = waves(40)
    with pytest.raises(InputError, match="hyperparameters='bayes' needs inference='exact' or 'sparse'"):
        GPRegressor(inference="vecchia", hyperparameters="bayes").fit(X, f)
    with pytest.raises(InputError, match="needs noise above 0"):
        GPRegressor(noise=0, **QUICK).fit(X, f)
