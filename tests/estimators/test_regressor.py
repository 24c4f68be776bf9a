"""GPRegressor against scikit-learn, brute force and its own promises."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SkRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from stratagp import bounded, means, positive, priors
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import GPRegressor
from stratagp.recipes import choose


def sine(n=60, noise=0.1, seed=0, d=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, d))
    return X, 10 + 3 * np.sin(X[:, 0]) + noise * rng.standard_normal(n)


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor().fit(*sine())


def test_same_optimum_as_scikit_learn():
    X, y = sine(d=2)
    y = y + X[:, 1]
    ours = GPRegressor(k.RBF(ard=True), hyperparameters="ml").fit(X, y)
    theirs = GaussianProcessRegressor(
        ConstantKernel(1.0) * SkRBF([2.0, 2.0], (1e-3, 1e6)) + WhiteKernel(0.1, (1e-8, 1e3)), normalize_y=True
    ).fit(X, y)
    scale = len(y) * np.log(y.std())
    assert ours.log_marginal_likelihood() + scale == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-2)
    mean, std = ours.predict(X[:5] + 0.1, return_std=True)
    expected = theirs.predict(X[:5] + 0.1, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-3)
    np.testing.assert_allclose(std, expected[1], rtol=2e-2)


def test_log_marginal_likelihood_is_the_density_of_the_targets(fitted):
    X, y = sine()
    with torch.no_grad():
        scale = fitted.scale_.scale[0]
        cov = scale**2 * (fitted.kernel_(torch.from_numpy(X)).numpy() + fitted.model_.noise.item() * np.eye(len(y)))
    expected = stats.multivariate_normal(np.full(len(y), y.mean()), cov).logpdf(y)
    assert fitted.log_marginal_likelihood() == pytest.approx(expected, abs=1e-6)


def test_gradient_of_log_marginal_likelihood(fitted):
    theta = fitted.theta_ + 0.1
    _, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    for i in range(len(theta)):
        step = np.eye(len(theta))[i] * 1e-5
        difference = fitted.log_marginal_likelihood(theta + step) - fitted.log_marginal_likelihood(theta - step)
        assert gradient[i] == pytest.approx(difference / 2e-5, rel=1e-5, abs=1e-5)
    np.testing.assert_array_equal(fitted.theta_ + 0.1, theta)


def test_joint_covariance_agrees_with_deviations_and_samples(fitted):
    X = np.linspace(0, 7, 6)[:, None]
    mean, std = fitted.predict(X, return_std=True)
    joint_mean, cov = fitted.predict(X, return_cov=True)
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(cov.diagonal()), std, rtol=1e-6)
    drawn = fitted.sample_y(X, 20_000, random_state=1)
    np.testing.assert_allclose(drawn.mean(1), mean, atol=5 * std.max() / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(drawn), cov, atol=0.05 * cov.max())


def test_function_and_observation_differ_by_the_noise(fitted):
    X = np.array([[1.0], [9.0]])
    _, of_y = fitted.predict(X, return_std=True)
    _, of_f = fitted.predict(X, return_std=True, of="f")
    noise = fitted.hyperparameters_["noise"].value
    np.testing.assert_allclose(of_y**2 - of_f**2, noise, rtol=1e-9)


def test_intervals_and_quantiles_are_those_of_the_normal(fitted):
    X = np.array([[1.0], [8.0]])
    mean, std = fitted.predict(X, return_std=True)
    low, high = fitted.predict_interval(X, 0.9)
    np.testing.assert_allclose(np.stack([low, high]), mean + np.outer([-1, 1], stats.norm.ppf(0.95) * std), rtol=1e-9)
    quantiles = fitted.predict_quantiles(X, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles, np.stack([low, mean, high], 1), rtol=1e-9)
    y = np.array([10.0, 11.0])
    np.testing.assert_allclose(fitted.log_density(X, y), stats.norm(mean, std).logpdf(y), rtol=1e-9)


def test_error_bars_hold():
    X, y = sine(400, noise=0.5, seed=3)
    gp = GPRegressor().fit(X[:200], y[:200])
    low, high = gp.predict_interval(X[200:], 0.9)
    inside = np.mean((y[200:] > low) & (y[200:] < high))
    assert abs(inside - 0.9) < 3 * np.sqrt(0.09 / 200)


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_scale_of_the_target_does_not_matter(scale, fitted):
    X, y = sine()
    mean, std = GPRegressor().fit(X, y * scale).predict(X[:5], return_std=True)
    expected = fitted.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean / scale, expected[0], rtol=1e-5)
    np.testing.assert_allclose(std / scale, expected[1], rtol=1e-3)


def test_scale_of_the_columns_does_not_matter():
    X, y = sine(d=2)
    wild = X * [1e8, 1e-8] + [1e9, 0]
    expected = GPRegressor().fit(X, y).predict(X[:5], return_std=True)
    found = GPRegressor().fit(wild, y).predict(wild[:5], return_std=True)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-2)


def test_hyperparameters_are_in_the_units_of_the_data():
    X, y = sine(200, noise=0.3)
    table = GPRegressor().fit(100 * X, 1000 * y).hyperparameters_
    noise = table["noise"]
    assert noise.lower < 300.0**2 < noise.upper
    assert noise.std == pytest.approx(noise.value * np.sqrt(2 / 200), rel=0.2)  # of a variance from n observations
    assert 50 < table["lengthscale[x0]"].value < 1000


def test_columns_by_name_and_start_values_that_are_given():
    X, y = sine(d=2)
    frame = pd.DataFrame(X, columns=["time", "other"])
    kernel = k.RBF(lengthscale=1.5).on("time") + k.Linear().on("other")
    gp = GPRegressor(kernel, max_iterations=0).fit(frame, y)
    assert gp.kernel_.parts[0].base.lengthscale.item() == pytest.approx(1.5)
    assert "0.base.lengthscale" in str(gp.hyperparameters_)
    assert kernel.parts[0].index is None  # the user's kernel is left alone


def test_categories_and_their_relevance():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "city": rng.choice(["Rome", "Oslo", "Bonn"], 80)})
    y = frame.x + 3 * (frame.city == "Oslo") + 0.1 * rng.normal(size=80)
    gp = GPRegressor().fit(frame, y)
    new = pd.DataFrame({"city": ["Oslo", "Rome"], "x": [0.0, 0.0]})
    np.testing.assert_allclose(gp.predict(new), [3.0, 0.0], atol=0.3)
    assert gp.relevance_.shape == (2,)
    assert gp.relevance_[1] > 0.5
    with pytest.warns(UserWarning, match="the category 'Paris' in column 'city', which was not in the training data"):
        _, std = gp.predict(pd.DataFrame({"x": [0.0, 0.0], "city": ["Paris", "Rome"]}), return_std=True)
    assert std[0] > 3 * std[1]


def test_codes_for_a_kernel_on_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "city": rng.choice(["Rome", "Oslo"], 60)})
    y = frame.x * np.where(frame.city == "Oslo", 1, -1) + 0.05 * rng.normal(size=60)
    kernel = k.Coregionalised(k.RBF(), 2)
    gp = GPRegressor(kernel, encoding="codes").fit(frame, y)
    found = gp.predict(pd.DataFrame({"x": [1.0, 1.0], "city": ["Oslo", "Rome"]}))
    np.testing.assert_allclose(found, [1.0, -1.0], atol=0.2)


def test_missing_inputs_widen_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=150)
    holes = X.copy()
    holes[::5, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        GPRegressor().fit(holes, y)
    gp = GPRegressor(missing="impute").fit(holes, y)
    mean, std = gp.predict([[0.5, 0.0], [np.nan, 0.0]], return_std=True)
    assert mean[0] == pytest.approx(1.0, abs=0.1)
    assert std[0] < 0.2
    assert std[1] == pytest.approx(2.0, rel=0.3)  # the spread of 2x for x ~ N(0, 1)
    low, high = gp.predict_interval([[np.nan, 0.0]], 0.95)
    assert low[0] == pytest.approx(-4, rel=0.3)
    assert high[0] == pytest.approx(4, rel=0.3)
    joint = gp.predict([[0.5, 0.0], [np.nan, 0.0]], return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(joint.diagonal()), std, rtol=0.1)  # by other draws


def test_draws_of_missing_inputs_are_asked_about_together(monkeypatch):
    X = np.random.default_rng(0).normal(size=(30, 2))
    gp = GPRegressor(missing="impute", max_iterations=0).fit(X, X[:, 0])
    asked, predictive = [], gp.fitted_.predictive
    monkeypatch.setattr(gp.fitted_, "predictive", lambda x, of="y": asked.append(len(x)) or predictive(x, of))
    gp.predict([[0.5, 0.0], [np.nan, 0.0], [0.2, np.nan]], return_std=True)
    assert asked == [3, 2 * 16]


def test_weights_divide_the_noise():
    X, y = sine(30)
    weights = np.random.default_rng(0).uniform(0.5, 3, 30)
    weights[4] = 0
    weights *= 29 / weights.sum()  # one on average, where ratios are all that counts
    gp = GPRegressor(k.RBF(1.0, 1.0), noise=0.2, standardise="none", max_iterations=0, mean=means.Constant(10.0))
    found = gp.fit(X, y, sample_weight=weights).predict([[2.0]], return_std=True, of="f")
    kept = weights > 0
    K = np.exp(-0.5 * (X[kept] - X[kept].T) ** 2) + np.diag(0.2 / weights[kept])
    cross = np.exp(-0.5 * (X[kept, 0] - 2.0) ** 2)
    assert found[0][0] == pytest.approx(10 + cross @ np.linalg.solve(K, y[kept] - 10), rel=1e-9)
    assert found[1][0] ** 2 == pytest.approx(1 - cross @ np.linalg.solve(K, cross), rel=1e-7)


def test_several_targets_share_the_kernel():
    X, y = sine(80)
    Y = np.stack([y, 100 * np.cos(X[:, 0])], 1)
    gp = GPRegressor().fit(X, Y)
    mean, std = gp.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7, 2)
    np.testing.assert_allclose(mean[:, 1], Y[:7, 1], atol=15)
    assert gp.predict(X[:7], return_cov=True)[1].shape == (7, 7, 2)
    assert gp.sample_y(X[:7], 3).shape == (7, 2, 3)
    noise = gp.model_.noise[1].item() * Y[:, 1].var()
    one = GPRegressor(gp.kernel_.fix(), noise=noise, max_iterations=0).fit(X, Y[:, 1])
    np.testing.assert_allclose(one.predict(X[:7]), mean[:, 1], rtol=1e-6)


def test_leave_one_out_is_refitting():
    X, y = sine(20)
    gp = GPRegressor().fit(X, y)
    mean, std = gp.leave_one_out()
    rest = np.arange(20) != 7
    frozen = GPRegressor(gp.kernel_.fix(), noise=gp.model_.noise.item(), max_iterations=0, standardise="none").fit(
        X[rest], (y[rest] - y.mean()) / y.std()
    )
    alone = frozen.predict(X[7:8], return_std=True)
    assert mean[7] == pytest.approx(alone[0][0] * y.std() + y.mean(), rel=1e-8)
    assert std[7] == pytest.approx(alone[1][0] * y.std(), rel=1e-8)


@pytest.mark.parametrize("hyperparameters", ["map", "ml", "loo"])
def test_criteria(hyperparameters):
    X, y = sine(50)
    gp = GPRegressor(hyperparameters=hyperparameters).fit(X, y)
    truth = 10 + 3 * np.sin([1.0, 2.0, 4.0])
    np.testing.assert_allclose(gp.predict([[1.0], [2.0], [4.0]]), truth, atol=0.15)


def test_priors_count_in_map():
    X, y = sine(20)
    free = GPRegressor(k.RBF()).fit(X, y)
    held = GPRegressor(k.RBF(lengthscale=positive(0.3, prior=priors.LogNormal(0.3, 0.01)))).fit(X, y)
    assert held.kernel_.lengthscale.item() == pytest.approx(0.3, rel=0.05)
    assert free.kernel_.lengthscale.item() > 1


def test_average_over_hyperparameters_is_wider(monkeypatch):
    monkeypatch.setattr("stratagp.recipes.search.WARM_UP", 50)
    X, y = sine(12, noise=0.3)
    far = np.array([[3.0], [10.0]])
    point = GPRegressor(k.RBF()).fit(X, y)
    gp = GPRegressor(k.RBF(), hyperparameters="bayes", n_draws=8, random_state=0).fit(X, y)
    assert len(gp.fitted_.draws) == 8
    lengthscales = {targets[0].process.prior.kernel.lengthscale.item() for targets in gp.fitted_.draws}
    assert len(lengthscales) > 4
    _, std = gp.predict(far, return_std=True)
    assert std[0] > 0.9 * point.predict(far, return_std=True)[1][0]
    levels = gp.predict_quantiles(far, [0.025, 0.5, 0.975])
    found = gp.predictive(far)
    np.testing.assert_allclose(found.cdf(levels[:, 2:]), 0.975, atol=1e-6)
    assert (np.diff(levels, axis=1) > 0).all()
    assert gp.kernel_.lengthscale.item() == pytest.approx(point.kernel_.lengthscale.item(), rel=0.2)


def test_restarts_find_the_better_optimum():
    rng = np.random.default_rng(0)
    X = np.linspace(0, 20, 80)[:, None]
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=80)
    once = GPRegressor(k.RBF(lengthscale=10.0), hyperparameters="ml").fit(X, y)
    often = GPRegressor(k.RBF(lengthscale=10.0), hyperparameters="ml", n_restarts=10, random_state=1).fit(X, y)
    assert often.log_marginal_likelihood() > once.log_marginal_likelihood() + 20
    again = GPRegressor(k.RBF(lengthscale=10.0), hyperparameters="ml", n_restarts=10, random_state=1).fit(X, y)
    np.testing.assert_array_equal(often.theta_, again.theta_)


def test_a_start_with_little_noise_finds_small_effects():
    """From much noise L-BFGS ends where the second column, a hundredth of the variance, is noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(120, 2))
    y = 2 * np.sin(2 * X[:, 0]) + 0.15 * np.sin(15 * X[:, 1]) + 0.01 * rng.normal(size=120)
    kernel = k.Matern(nu=2.5, ard=True)
    once, twice = GPRegressor(kernel, n_restarts=0).fit(X, y), GPRegressor(kernel).fit(X, y)
    assert twice.log_marginal_likelihood() > once.log_marginal_likelihood() + 50
    assert " of 2 won" in twice.result_.message
    assert twice.model_.noise.item() < 1e-3
    fixed = GPRegressor(kernel, noise=0.01).fit(X, y)  # no noise is learnt, so the restart is random
    assert " of 2 won" in fixed.result_.message


def test_sparse_is_close_to_exact_and_says_how_close():
    X, y = sine(600, noise=0.3)
    exact = GPRegressor(k.RBF(), inference="exact").fit(X, y)
    sparse = GPRegressor(k.RBF(), inference="sparse", n_inducing=30).fit(X, y)
    np.testing.assert_allclose(sparse.predict(X[:50]), exact.predict(X[:50]), atol=0.02)
    lower, upper = sparse.evidence_bounds_
    assert lower <= upper + 1e-6
    assert upper - lower < 1
    assert lower == pytest.approx(exact.log_marginal_likelihood(), abs=1)
    assert sparse.predict(X[:4], return_cov=True)[1].shape == (4, 4)


def test_auto_says_what_it_chose_and_why(caplog):
    with caplog.at_level("INFO", logger="stratagp"):
        gp = GPRegressor().fit(*sine())
    assert gp.inference_ == "exact"
    assert gp.inference_reason_ == "60 rows are at most 4,000: the exact process, in less than 1 s on two cores"
    assert any("exact" in record.message for record in caplog.records)
    kind, why = choose.of_numbers("auto", 100_000, None, False, "map", 32)
    near = (
        "100,000 rows are more than 4,000: each prediction comes from the nearest of them, in about 50 s on two cores"
    )
    assert (kind, why) == ("vecchia", near)
    with pytest.raises(InputError, match="loo"):
        choose.of_numbers("auto", 100_000, None, False, "loo", 1)
    with pytest.raises(InputError, match="bayes"):
        choose.of_numbers("auto", 1_000_000, None, False, "bayes", 1)


def test_known_noise_of_each_row():
    X, y = sine(40, noise=0)
    level = np.where(np.arange(40) < 20, 1e-4, 4.0)
    gp = GPRegressor(noise=level).fit(X, y)
    assert gp.model_.noise.item() == pytest.approx(level.mean() / y.var(), rel=1e-9)
    interpolating = GPRegressor(k.Matern(1.5), noise=0).fit(X, y)
    np.testing.assert_allclose(interpolating.predict(X), y, atol=1e-3)


def test_objects():
    def shared(a, b):
        return len(set(a) & set(b)) / np.sqrt(len(set(a)) * len(set(b)))

    words = ["apple", "maple", "plum", "lump", "pear", "reap", "kiwi", "wiki"]
    y = np.array([5.0, 5.2, 4.0, 4.1, 3.0, 3.1, 1.0, 1.1])
    gp = GPRegressor(k.PairFunction(shared)).fit(words, y)
    assert gp.predict(["ample"])[0] > gp.predict(["wik"])[0] + 1
    with pytest.raises(InputError, match="objects"):
        _ = gp.relevance_


def test_life_in_scikit_learn(fitted):
    X, y = sine()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    copy = clone(GPRegressor(k.RBF(lengthscale=0.5), n_restarts=2))
    assert copy.kernel.lengthscale.item() == pytest.approx(0.5)
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), GPRegressor()).fit(X, y)
    assert pipe.score(X, y) > 0.9
    search = GridSearchCV(GPRegressor(), {"kernel": [k.RBF(), k.Matern(0.5)]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    parallel = Parallel(n_jobs=2, prefer="threads")(delayed(fitted.predict)(X[i::2]) for i in range(2))
    np.testing.assert_allclose(np.concatenate(parallel), np.concatenate([fitted.predict(X[i::2]) for i in range(2)]))


def test_prediction_in_chunks_is_the_same(fitted, monkeypatch):
    X = np.linspace(0, 6, 25)[:, None]
    whole = fitted.predict(X, return_std=True)
    monkeypatch.setattr("stratagp.models.fitted._ROWS", 10)
    for part, one in zip(fitted.predict(X, return_std=True), whole, strict=True):
        np.testing.assert_allclose(part, one, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict(X), whole[0], rtol=1e-12)


def test_varying_noise():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 4, 120))[:, None]
    y = 20 * np.sin(X[:, 0]) + (0.5 + 2 * X[:, 0]) * rng.normal(size=120)
    gp = GPRegressor(noise="heteroscedastic").fit(X, y)
    _, std = gp.predict([[0.3], [3.7]], return_std=True)
    assert std[1] > 2.5 * std[0]
    low, high = gp.predict_interval(X, 0.9)
    assert abs(np.mean((y > low) & (y < high)) - 0.9) < 0.08
    found = gp.predictive([[0.3]])
    assert found.cdf(gp.predict_quantiles([[0.3]], [0.3])) == pytest.approx(0.3, abs=1e-6)


def test_kernels_on_a_category_by_its_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Rome", "Oslo"], 40), "x": rng.normal(size=40)})
    y = frame.x + (frame.city == "Oslo")
    gp = GPRegressor(k.RBF().on("x") + k.RBF().on("city")).fit(frame, y)
    assert [part.index for part in gp.kernel_.parts] == [[2], [0, 1]]
    np.testing.assert_allclose(gp.predict(frame), y, atol=0.05)


def test_mini_batches_come_close_to_exact(monkeypatch):
    monkeypatch.setattr("stratagp.recipes.stochastic._LEAST_STEPS", 100)
    X, y = sine(1000, noise=0.3)
    Y = np.stack([y, np.cos(X[:, 0])], 1)
    exact = GPRegressor(k.RBF(), inference="exact", n_restarts=0).fit(X[:300], y[:300])
    gp = GPRegressor(k.RBF(), inference="stochastic", n_inducing=20, max_epochs=25, random_state=0).fit(X, y)
    mean, std = gp.predict(X[:50], return_std=True)
    np.testing.assert_allclose(mean, exact.predict(X[:50]), atol=0.15)
    np.testing.assert_allclose(std, 0.3, rtol=0.15)
    cov = gp.predict(X[:5], return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(cov.diagonal()), std[:5], rtol=1e-4)
    assert gp.hyperparameters_["noise"].value == pytest.approx(0.09, rel=0.2)
    assert gp.log_marginal_likelihood() < 0
    two = GPRegressor(k.RBF(), inference="stochastic", n_inducing=20, max_epochs=1, random_state=0).fit(X, Y)
    assert two.predict(X[:3]).shape == (3, 2)
    with pytest.raises(InputError, match="sample weights"):
        gp.fit(X, y, sample_weight=np.ones(1000))


def test_correlated_outputs_help_one_another():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, 80))[:, None]
    signal = np.sin(X[:, 0]) + np.sin(2.7 * X[:, 0])
    Y = np.column_stack([5 + 2 * signal, -300 * signal]) + rng.normal(size=(80, 2)) * [0.1, 15]
    hidden = (X[:, 0] > 4) & (X[:, 0] < 8)
    gappy = Y.copy()
    gappy[hidden, 0] = np.nan
    together = GPRegressor(k.RBF(), outputs="correlated").fit(X, gappy)
    alone = GPRegressor(k.RBF()).fit(X[~hidden], Y[~hidden, 0])
    truth = 5 + 2 * signal[hidden]
    mean, std = together.predict(X[hidden], return_std=True)
    assert np.abs(mean[:, 0] - truth).mean() < 0.3 < 1 < np.abs(alone.predict(X[hidden]) - truth).mean()
    assert np.mean(np.abs(mean[:, 0] - Y[hidden, 0]) < 2 * std[:, 0]) > 0.8
    noise = [together.hyperparameters_[f"noise[{j}]"].value for j in range(2)]
    np.testing.assert_allclose(np.sqrt(noise), [0.1, 15], rtol=0.3)
    assert together.predict(X[:4], return_cov=True)[1].shape == (4, 4, 2)
    assert together.relevance_ == pytest.approx([1.0])
    with pytest.raises(InputError, match="column 1"):
        together.fit(X, np.column_stack([Y[:, 0], np.full(80, np.nan)]))
    with pytest.raises(InputError, match="correlated"):
        GPRegressor(outputs="correlated", noise=0.1).fit(X, Y)


def test_correlated_outputs_are_one_gaussian():
    X, y = sine(15)
    Y = np.column_stack([y, y**2])
    Y[3, 1] = np.nan
    gp = GPRegressor(k.RBF() + k.Matern(0.5), outputs="correlated", max_iterations=0).fit(X, Y)
    engine = gp.fitted_
    with torch.no_grad():
        scale = gp.scale_.scale[engine.data.x[:, -1].long()]
        cov = (
            np.outer(scale, scale)
            * (engine.prior.kernel(engine.data.x) + torch.diag(engine.prior.noise[engine.data.x[:, -1].long()])).numpy()
        )
    seen = ~np.isnan(Y.T.ravel())
    mean = np.repeat(gp.scale_.mean, 15)[seen]
    expected = stats.multivariate_normal(mean, cov).logpdf(Y.T.ravel()[seen])
    assert gp.log_marginal_likelihood() == pytest.approx(expected, abs=1e-6)


def test_components_add_up():
    X, y = sine(40)
    gp = GPRegressor(k.RBF() + k.Linear()).fit(X, y)
    wave, wave_std = gp.predict_component(X, 0, return_std=True)
    line = gp.predict_component(X, 1)
    np.testing.assert_allclose(wave + line + y.mean(), gp.predict(X), rtol=1e-9)
    belief = gp.fitted_.draws[0][0].process.component(gp.kernel_.parts[0], torch.from_numpy(X))
    np.testing.assert_allclose(wave_std, y.std() * belief.var[:, 0].sqrt(), rtol=1e-9)
    with pytest.raises(InputError, match="part must be a summand of the kernel, 0 to 1"):
        gp.predict_component(X, 2)


def test_rows_may_miss_entries_at_prediction_only():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50), "c": rng.choice(["u", "v"], 50)})
    gp = GPRegressor(missing="impute").fit(frame, frame.a + frame.b)
    _, std = gp.predict(frame.assign(b=np.nan), return_std=True)
    assert std.min() > 0.5


def test_relevance_is_the_total_effect():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    gp = GPRegressor().fit(X, 3 * X[:, 0] + 2 * X[:, 1] + 0.01 * rng.normal(size=300))
    np.testing.assert_allclose(gp.relevance_, [9 / 13, 4 / 13, 0], atol=0.03)


def test_each_target_has_its_own_noise():
    X, _ = sine(150)
    rng = np.random.default_rng(1)
    clean = np.sin(X[:, 0])
    Y = np.column_stack([clean + 0.02 * rng.normal(size=150), 1000 * clean + 500 * rng.normal(size=150)])
    _, std = GPRegressor().fit(X, Y).predict(X, return_std=True)
    np.testing.assert_allclose(std.mean(0), [0.02, 500], rtol=0.25)
    known = GPRegressor(noise=0.09, max_iterations=0).fit(X, Y).predict(X, return_std=True)[1]
    alone = GPRegressor(noise=0.09, max_iterations=0).fit(X, Y[:, 0]).predict(X, return_std=True)[1]
    np.testing.assert_allclose(known[:, 0], alone, rtol=1e-6)


def test_only_ratios_of_weights_count():
    X, y = sine(40)
    weights = np.random.default_rng(0).uniform(0.5, 2, 40)
    one = GPRegressor().fit(X, y, sample_weight=weights).predict(X, return_std=True)
    other = GPRegressor().fit(X, y, sample_weight=1e4 * weights).predict(X, return_std=True)
    np.testing.assert_allclose(one, other, rtol=1e-6)
    noise = np.full(40, 0.01)
    weights[3] = 0
    assert GPRegressor(noise=noise).fit(X, y, sample_weight=weights).predict(X).shape == (40,)


def test_samples_of_correlated_outputs_are_joint():
    X, y = sine(40)
    gp = GPRegressor(k.RBF(), outputs="correlated").fit(X, np.column_stack([y, -2 * y + 0.01 * X[:, 0]]))
    far = np.array([[30.0]])
    drawn = gp.sample_y(far, 4000, of="f")
    assert np.corrcoef(drawn[0])[0, 1] < -0.5
    np.testing.assert_allclose(drawn.std(-1)[0], gp.predict(far, return_std=True, of="f")[1][0], rtol=0.05)


def test_a_failed_refit_leaves_the_model_as_it_was():
    X, y = sine()
    gp = GPRegressor(standardise="both").fit(X, y)
    before = gp.predict(X)
    with pytest.raises(InputError, match="y contains NaN"):
        gp.fit(100 * X, np.full(60, np.nan))
    np.testing.assert_array_equal(gp.predict(X), before)


def test_missing_entries_do_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[::4, 0] = np.nan
    gp = GPRegressor(missing="impute").fit(X, rng.normal(size=60) + np.nan_to_num(X[:, 0]))
    together = gp.predict(X, return_std=True)
    for i in (0, 4, 5):
        alone = gp.predict(X[i : i + 1], return_std=True)
        np.testing.assert_allclose([alone[0][0], alone[1][0]], [together[0][i], together[1][i]], rtol=1e-9)


def test_bounded_parameters_are_sampled_inside(monkeypatch):
    monkeypatch.setattr("stratagp.recipes.search.WARM_UP", 40)
    X, y = sine(15)
    gp = GPRegressor(k.RBF(lengthscale=bounded(2, 0.01, 100)), hyperparameters="bayes", n_draws=5, random_state=0)
    drawn = [targets[0].process.prior.kernel.lengthscale.item() for targets in gp.fit(X, y).fitted_.draws]
    assert all(0.3 < value < 20 for value in drawn)


def test_priors_count_in_every_inference():
    X, y = sine(100)
    kernel = k.RBF(lengthscale=positive(0.3, prior=priors.LogNormal(0.3, 0.01)))
    for inference in ("exact", "sparse", "stochastic"):
        gp = GPRegressor(kernel, inference=inference, n_inducing=30, random_state=0).fit(X, y)
        assert gp.kernel_.lengthscale.item() == pytest.approx(0.3, rel=0.1)
