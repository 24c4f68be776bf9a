"""Corrections by held-out rows: the exact law of split-conformal coverage, and maps against their definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import BayesianRidge, LogisticRegression

from stratagp import (
    AutoGPRegressor,
    DKLRegressor,
    GPClassifier,
    GPRegressor,
    WishartProcessRegressor,
    calibrate,
    metrics,
)
from stratagp.errors import InputError
from tests.training_length import make_steps

N, ROUNDS, TEST = 39, 250, 100


def rows(n, rng):
    """Noise that varies and has heavy tails: nothing that the models below know of."""
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(X[:, 0]) + (0.1 + 0.1 * X[:, 0]) * rng.standard_t(5, n)


def labels(n, rng):
    X = rng.normal(size=(n, 2))
    scores = np.stack([X[:, 0], X[:, 1], -X.sum(1)], 1) + rng.gumbel(size=(n, 3))
    return X, np.array(["ash", "elm", "oak"])[scores.argmax(1)]


@pytest.fixture(scope="module")
def too_sure():
    """A smooth process with a third of the variance of the noise."""
    return GPRegressor(noise=0.08, max_iterations=0).fit(*rows(60, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def wrong_about_classes():
    """A straight line with its probabilities raised to a power: far too sure."""
    X, y = labels(80, np.random.default_rng(0))
    model = LogisticRegression(C=100).fit(X, y)
    model.coef_ *= 4
    model.intercept_ *= 4
    return model


def check_law(covered, rank):
    """Hits among ``TEST`` rows, round by round: binomial with a probability from Beta(rank, N + 1 − rank)."""
    law = stats.betabinom(TEST, rank, N + 1 - rank)
    error = np.sqrt(law.var() / ROUNDS) / TEST
    assert np.mean(covered) / TEST == pytest.approx(rank / (N + 1), abs=3 * error)
    uniform = law.cdf(covered) - law.pmf(covered) * np.random.default_rng(9).random(ROUNDS)
    assert stats.kstest(uniform, "uniform").pvalue > 0.01


def test_conformal_intervals_have_the_exact_law_of_coverage(too_sure):
    """And quantiles: ``⌈40 · 0.8⌉ = 32`` of 40."""
    rng, ranks = np.random.default_rng(1), {0.9: 36, 0.5: 20, 0.97: 39}
    covered, below = {level: [] for level in ranks}, []
    for _ in range(ROUNDS):
        X, y = rows(N + TEST, rng)
        found = calibrate(too_sure, X[:N], y[:N])
        for level in ranks:
            low, high = found.predict_interval(X[N:], level)
            covered[level].append(np.sum((low <= y[N:]) & (y[N:] <= high)))
        below.append(np.sum(y[N:] <= found.predict_quantiles(X[N:], 0.8)[:, 0]))
    for level, rank in ranks.items():
        check_law(np.array(covered[level]), rank)
    check_law(np.array(below), 32)
    low, high = too_sure.predict_interval(X, 0.9)
    assert metrics.interval_coverage(y, low, high) < 0.82  # the model itself is off


def test_conformal_sets_have_the_exact_law_of_coverage(wrong_about_classes):
    rng, covered = np.random.default_rng(2), []
    for _ in range(ROUNDS):
        X, y = labels(N + TEST, rng)
        sure = calibrate(wrong_about_classes, X[:N], y[:N])
        chosen = sure.predict_set(X[N:], alpha=0.1)
        covered.append(np.sum(chosen[np.arange(TEST), np.searchsorted(sure.classes_, y[N:])]))
    check_law(np.array(covered), 36)


def test_conformal_formula(too_sure):
    X, y = rows(99, np.random.default_rng(4))
    found, new = calibrate(too_sure, X, y), np.array([[1.0], [2.5]])
    mean, std = too_sure.predict(X, return_std=True)
    residuals = (y - mean) / std
    m, s = too_sure.predict(new, return_std=True)
    low, high = found.predict_interval(new, 0.95)
    assert (high - m) / s == pytest.approx(np.full(2, np.sort(np.abs(residuals))[94]), rel=1e-12)
    assert (m - low) / s == pytest.approx((high - m) / s, rel=1e-12)
    assert np.quantile(np.abs(residuals), 95 / 99, method="inverted_cdf") == pytest.approx(((high - m) / s)[0])
    assert found.cdf(new, m) == pytest.approx(np.full(2, ((residuals < 0).sum() + 0.5) / 100))
    assert found.predict(new, return_std=True)[1] == pytest.approx(s * np.sort(np.abs(residuals))[68], rel=1e-12)
    assert found.predict(new) == pytest.approx(m, rel=1e-12)


def test_a_quantile_below_all_ranks_is_the_least_residual(too_sure):
    X, y = rows(30, np.random.default_rng(15))
    found, new = calibrate(too_sure, X, y), np.array([[1.0]])
    mean, std = too_sure.predict(new, return_std=True)
    assert found.predict_quantiles(new, [1e-12, 0.01]) == pytest.approx(
        np.tile(mean + std * found.residuals_.min(), (1, 2)), rel=1e-12
    )


def test_isotonic_distribution(too_sure):
    """On fresh rows its PIT values are even, which those of the model are not; quantiles invert the distribution."""
    rng = np.random.default_rng(5)
    X, y = rows(3000, rng)
    fair = calibrate(too_sure, X[:1500], y[:1500], method="isotonic")
    test, truth = X[1500:], y[1500:]
    assert stats.kstest(too_sure.cdf(test, truth), "uniform").pvalue < 1e-10
    assert np.abs(np.sort(fair.cdf(test, truth)) - np.linspace(0, 1, 1500)).max() < 0.06  # of two samples
    ends = fair.predict_quantiles(test, [0.05, 0.5, 0.95])
    for level, end in zip((0.05, 0.5, 0.95), ends.T, strict=True):
        assert fair.cdf(test, end) == pytest.approx(np.full(1500, level), abs=1e-9)
    low, high = fair.predict_interval(test, 0.9)
    assert np.allclose([low, high], ends[:, [0, 2]].T)
    assert metrics.interval_coverage(truth, low, high) == pytest.approx(0.9, abs=0.03)
    assert fair.predict(test, return_std=True)[1] == pytest.approx(
        0.5 * np.diff(fair.predict_interval(test, 0.6826894921370859), axis=0)[0], rel=1e-9
    )


def test_isotonic_map_passes_through_the_shares(too_sure):
    X, y = rows(50, np.random.default_rng(6))
    fair = calibrate(too_sure, X, y, method="isotonic")
    values = too_sure.cdf(X, y)
    inside = (values > 1e-12) & (values < 1 - 1e-12)
    shares = stats.rankdata(values) / 51
    assert fair.cdf(X[inside], y[inside]) == pytest.approx(shares[inside], abs=1e-8)


def test_isotonic_probabilities_are_those_of_scikit_learn(wrong_about_classes):
    X, y = labels(400, np.random.default_rng(7))
    fair = calibrate(wrong_about_classes, X[:200], y[:200], method="isotonic")
    before, new = wrong_about_classes.predict_proba(X[:200]), wrong_about_classes.predict_proba(X[200:])
    maps = [IsotonicRegression(out_of_bounds="clip").fit(before[:, c], y[:200] == fair.classes_[c]) for c in range(3)]
    assert all(each.y_thresholds_[0] == 0 for each in maps)
    ends = [np.where(each.y_thresholds_ < 1 / 400, 1 / 400, each.y_thresholds_) for each in maps]  # half a row of 200
    each = np.stack([np.interp(new[:, c], maps[c].X_thresholds_, ends[c]) for c in range(3)], 1)
    found = fair.predict_proba(X[200:])
    assert found == pytest.approx(each / each.sum(1, keepdims=True), rel=1e-9)
    assert np.isfinite(metrics.log_loss(y[200:], found, fair.classes_))
    assert found.sum(1) == pytest.approx(np.ones(200), rel=1e-12)
    assert metrics.ece(y[200:], found, fair.classes_) < 0.5 * metrics.ece(y[200:], new, fair.classes_)


def test_temperature_undoes_a_power(wrong_about_classes):
    """Scores were made four times as large, and the model had overfitted a little: T is four or somewhat above."""
    X, y = labels(4000, np.random.default_rng(8))
    fair = calibrate(wrong_about_classes, X, y, method="temperature")
    assert 3.6 < fair.temperature_ < 5.5
    p = np.maximum(wrong_about_classes.predict_proba(X), 1e-12)
    root = p ** (1 / fair.temperature_)
    assert fair.predict_proba(X) == pytest.approx(root / root.sum(1, keepdims=True), rel=1e-9)
    losses = []
    for factor in (0.97, 1, 1.03):
        q = p ** (1 / (factor * fair.temperature_))
        losses.append(metrics.log_loss(y, q / q.sum(1, keepdims=True), fair.classes_))
    assert losses[1] == min(losses)
    assert (fair.predict(X) == wrong_about_classes.predict(X)).all()


def test_distribution_functions_agree_with_quantiles(monkeypatch):
    """``cdf`` of the two families of regressors, at quantiles of theirs."""
    make_steps(monkeypatch, 20)
    X, y = rows(150, np.random.default_rng(10))
    quick = {"n_inducing": 10, "max_epochs": 1, "random_state": 0}
    deep = WishartProcessRegressor(dof=2, n_inducing=5, max_iterations=5)
    for model in [GPRegressor(), deep, AutoGPRegressor(likelihood="student-t", **quick)]:
        ends = model.fit(X, y).predict_quantiles(X[:20], [0.1, 0.7])
        for level, end in zip((0.1, 0.7), ends.T, strict=True):
            assert model.cdf(X[:20], end) == pytest.approx(np.full(20, level), abs=1e-5)


def test_any_model_of_columns_or_frames():
    rng = np.random.default_rng(11)
    X, y = rows(200, rng)
    frame = pd.DataFrame({"time": X[:, 0], "place": rng.choice(["a", "b"], 200)})
    gp = GPRegressor().fit(frame[:60], y[:60])
    found = calibrate(gp, frame[60:], y[60:])
    assert list(found.feature_names_in_) == ["time", "place"]
    low, high = found.predict_interval(frame[60:], 0.8)
    assert np.mean((low <= y[60:]) & (y[60:] <= high)) >= 0.8
    for peer in (BayesianRidge(), GaussianProcessRegressor(alpha=0.1)):
        low, high = calibrate(peer.fit(X[:60], y[:60]), X[60:], y[60:]).predict_interval(X[60:], 0.8)
        assert np.mean((low <= y[60:]) & (y[60:] <= high)) >= 0.8


def test_state_is_plain_arrays(too_sure, wrong_about_classes):
    X, y = rows(50, np.random.default_rng(12))
    Z, t = labels(50, np.random.default_rng(12))
    made = [calibrate(too_sure, X, y, method=method) for method in ("conformal", "isotonic")]
    made += [calibrate(wrong_about_classes, Z, t, method=m) for m in ("conformal", "isotonic", "temperature")]
    for each in made:
        learnt = {name: value for name, value in vars(each).items() if name.endswith("_")}
        for value in learnt.values():
            assert isinstance(value, (np.ndarray, float, int)) or all(isinstance(v, np.ndarray) for v in value)
        with pytest.raises(NotFittedError):
            clone(each).predict(X)


@pytest.mark.parametrize(("level", "needed"), [(0.95, 19), (0.9, 9), (0.99, 99), (0.5, 1)])
def test_too_few_rows_say_how_many_are_needed(too_sure, level, needed):
    X, y = rows(needed, np.random.default_rng(13))
    calibrate(too_sure, X, y).predict_interval(X, level)
    if needed > 1:
        message = (
            f"an interval of level {level:g} needs at least {needed} rows of calibration, but there are {needed - 1}"
        )
        with pytest.raises(InputError, match=message):
            calibrate(too_sure, X[1:], y[1:]).predict_interval(X, level)


def test_errors_name_the_argument(too_sure, wrong_about_classes, monkeypatch):
    make_steps(monkeypatch, 5)
    make_steps(monkeypatch, 5)
    X, y = rows(50, np.random.default_rng(14))
    Z, t = labels(50, np.random.default_rng(14))
    two = GPRegressor(max_iterations=0).fit(X, np.column_stack([y, y]))
    counts = AutoGPRegressor(likelihood="poisson", n_inducing=5, max_epochs=1).fit(X, np.arange(50) % 4)
    mixed = DKLRegressor(likelihood="poisson", network=[2], pretrain_epochs=1, grid_size=8, max_epochs=1)
    mixed.fit(X, np.arange(50) % 4)
    cases = [
        (lambda: calibrate("gp", X, y), "model must be a regressor or a classifier, got str"),
        (lambda: calibrate(too_sure, X, y, "temperature"), "method must be one of 'conformal', 'isotonic' for a reg"),
        (lambda: calibrate(too_sure, X, y[1:]), "X has 50 rows, but y has 49"),
        (lambda: calibrate(too_sure, X, np.where(y > y.mean(), np.nan, y)), "y has NaN or infinity in row"),
        (lambda: calibrate(too_sure, X, 100 * y, "isotonic"), "rows lie where the model's distribution function is 0"),
        (lambda: calibrate(two, X, y), "one is calibrated at a time"),
        (lambda: calibrate(two, X, y, "isotonic"), "one is calibrated at a time"),
        (lambda: calibrate(BayesianRidge().fit(X, y), X, y, "isotonic"), "must have cdf and predict_quantiles"),
        (lambda: calibrate(counts, X, np.arange(50) % 4, "isotonic"), "not for counts"),
        (lambda: calibrate(mixed, X, np.arange(50) % 4, "isotonic"), "not for counts"),
        (lambda: calibrate(wrong_about_classes, Z, np.where(t == "elm", "fir", t)), "y has the class 'fir'"),
        (lambda: calibrate(wrong_about_classes, Z[t != "elm"], t[t != "elm"], "isotonic"), "no row of class 'elm'"),
        (lambda: calibrate(wrong_about_classes, Z, t).predict_set(Z, 0.01), "alpha=0.01 needs at least 99 rows"),
        (lambda: calibrate(wrong_about_classes, Z, t).predict_set(Z, 10), "alpha must lie between 0 and 1"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(NotFittedError):
        calibrate(GPClassifier(), Z, t)
