"""Calibration, training, latent spaces and certainty: what is drawn against metrics and models."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, poisson
from sklearn.linear_model import LinearRegression, LogisticRegression

from stratagp import BayesianGPLVM, DRFClassifier, GPRegressor, metrics, plotting
from stratagp.errors import InputError
from stratagp.training.loop import History
from tests.plotting.drawn import band, lines, texts
from tests.plotting.rates import Rates
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (120, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=120)
CLASSES = np.where(Y > 0.3, "up", np.where(Y < -0.3, "down", "flat"))


@pytest.fixture(scope="module")
def gp():
    return GPRegressor().fit(X[:60], Y[:60])


@pytest.fixture(scope="module")
def drf():
    with pytest.MonkeyPatch.context() as patch:
        make_steps(patch, 60)
        options = {"width": 2, "n_features": 10, "n_samples": 1, "max_epochs": 1, "random_state": 0}
        return DRFClassifier(**options, validation=0.2).fit(X[:60], CLASSES[:60])


def test_coverage_of_intervals(gp):
    levels = [0.9, 0.3, 0.6]
    ax = plotting.coverage_curve(gp, X[60:], Y[60:], levels=levels)
    at, low, high = band(ax.collections[0])
    assert at == pytest.approx([0.3, 0.6, 0.9])
    assert low * 60 == pytest.approx(binom.ppf(0.025, 60, at))
    assert high * 60 == pytest.approx(binom.ppf(0.975, 60, at))
    shares = [metrics.interval_coverage(Y[60:], *gp.predict_interval(X[60:], level)) for level in sorted(levels)]
    assert lines(ax)[1][1] == pytest.approx(shares)


def test_coverage_of_counts_stands_at_what_their_intervals_promise():
    rate = RNG.uniform(0.5, 3, (50, 1))
    drawn = RNG.poisson(rate[:, 0])
    ax = plotting.coverage_curve(Rates().fit(rate), rate, drawn, levels=[0.5, 0.8])
    expected = []
    for level in (0.5, 0.8):
        pairs = zip(*Rates().predict_interval(rate, level), rate[:, 0], strict=True)
        expected.append(np.mean([poisson.pmf(np.arange(low, high + 1), lam).sum() for low, high, lam in pairs]))
    assert lines(ax)[1][0] == pytest.approx(expected, rel=1e-9)
    assert ax.get_xlabel() == "probability of the interval"


def test_residuals_in_standard_deviations(gp):
    frame = pd.DataFrame(X, columns=["time", "place"])
    model = GPRegressor().fit(frame[:60], Y[:60])
    mean, std = gp.predict(X[60:], return_std=True)
    ax = plotting.residuals(gp, X[60:], Y[60:], target="height (m)")
    at, z = lines(ax)[1]
    assert at == pytest.approx(mean)
    assert z == pytest.approx((Y[60:] - mean) / std)
    assert ax.get_xlabel() == "predicted height (m)"
    inside = 100 * np.mean(np.abs(z) <= 1.959964)
    assert texts(ax) == [f"95 % expected, {inside:.3g} % found"]
    at_levels = lines(plotting.coverage_curve(model, frame[60:], Y[60:], levels=[0.5, 0.9]))[1][1]
    ends = [model.predict_interval(frame[60:], level) for level in (0.5, 0.9)]
    assert at_levels == pytest.approx([metrics.interval_coverage(Y[60:], *each) for each in ends])
    ax = plotting.residuals(model, frame[60:], Y[60:], against="place")
    assert lines(ax)[1][0] == pytest.approx(X[60:, 1])
    assert ax.get_xlabel() == "place"


@pytest.mark.parametrize("of", [None, "up"])
def test_reliability_of_classes(of):
    model = LogisticRegression().fit(X[:60], CLASSES[:60])
    ax = plotting.reliability(model, X[60:], CLASSES[60:], of=of, bins=5)
    p = model.predict_proba(X[60:])
    found = metrics.reliability(CLASSES[60:], p, model.classes_, of, 5)
    some = found.rows > 0
    dots, _, (bars,) = ax.containers[0]
    assert dots.get_xdata() == pytest.approx(found.probability[some])
    assert dots.get_ydata() == pytest.approx(found.share[some])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(np.stack([found.lower, found.upper], 1)[some])
    assert ax.get_ylabel() == ("share that is right" if of is None else "share that is up")
    counts = ax.figure.axes[1]
    assert [bar.get_height() for bar in counts.containers[0]] == pytest.approx(found.rows)
    assert counts.get_ylabel() == "rows (bars)"
    assert counts.get_yticks().tolist() == [0, found.rows.max()]
    assert ax.get_zorder() > counts.get_zorder()
    assert f"error {metrics.ece(CLASSES[60:], p, model.classes_, of, 5):.3f}" in texts(ax)[1]


def test_learning_curves(drf):
    (history,) = drf.histories_
    at, values = lines(plotting.learning_curve(drf))[0]
    assert np.array_equal(at, np.arange(1, len(history.values) + 1))
    assert np.array_equal(values, history.values)
    at, values = lines(plotting.learning_curve(drf, what="score", against="seconds"))[0]
    assert np.array_equal(at, history.times)
    assert np.array_equal(values, history.scores)


def test_phases_of_training_follow_one_another():
    class Phased:
        histories_ = (History([-3.0, -2.0], times=[1.0, 2.0]), History([-1.5, -1.0, -0.9], times=[0.5, 1.0, 1.5]))

    ax = plotting.learning_curve(Phased())
    assert np.array_equal(lines(ax)[0][0], [1, 2])
    assert np.array_equal(lines(ax)[2][0], [3, 4, 5])  # after the line between
    assert np.array_equal(lines(plotting.learning_curve(Phased(), against="seconds"))[2][0], [2.5, 3.0, 3.5])
    assert texts(ax) == ["phase 1: finished", "phase 2: finished"]

    class Stochastic:  # GPRegressor(inference="stochastic") keeps its only history so
        result_ = Phased.histories_[0]

    assert np.array_equal(lines(plotting.learning_curve(Stochastic()))[0][1], [-3.0, -2.0])


@pytest.fixture(scope="module")
def gplvm():
    t = np.linspace(-1, 1, 30)[:, None]
    rows = np.hstack([t, t**2, np.sin(3 * t), np.cos(2 * t)])
    return BayesianGPLVM(3, n_inducing=8, max_iterations=10).fit(rows), rows


def test_latent_coordinates(gplvm):
    model, rows = gplvm
    mean, std = model.transform(rows, return_std=True)
    first, second = np.argsort(-model.relevance_)[:2]
    y = pd.Series(rows[:, 0], name="angle (rad)")
    ax = plotting.latent_manifold(model, rows, y)
    dots = ax.collections[-1]
    assert np.asarray(dots.get_offsets()) == pytest.approx(mean[:, [first, second]])
    assert np.array_equal(dots.get_array(), y)
    assert ax.figure.axes[1].get_ylabel() == "angle (rad)"
    across = [np.ptp(segment[:, 0]) for segment in ax.collections[0].get_segments()]
    assert across == pytest.approx(2 * std[:, first])
    assert ax.get_xlabel() == f"latent dimension {first}"
    frame = pd.DataFrame(rows, columns=list("abcd"))
    named = BayesianGPLVM(2, n_inducing=5, max_iterations=3).fit(frame)
    ax = plotting.latent_manifold(named, frame, np.where(rows[:, 0] > 0, "b", "a"), dimensions=[1, 0], spread=False)
    assert texts(ax) == ["a", "b"]
    shown = np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections])
    assert shown == pytest.approx(named.transform(frame)[:, [1, 0]])


@pytest.mark.parametrize("frame", [True, False])
def test_certainty_of_right_and_wrong_rows(drf, frame):
    if frame:
        rows = pd.DataFrame(X, columns=["x0", "x1"])
        with pytest.MonkeyPatch.context() as patch:
            make_steps(patch, 5)
            drf = DRFClassifier(width=2, n_features=5, n_samples=1, max_epochs=1, random_state=0).fit(rows, CLASSES)
        test, truth = rows, CLASSES
    else:
        test, truth = X[60:], CLASSES[60:]
    ax = plotting.certainty_histogram(drf, test, truth, bins=8)
    margin, right = drf.certainty(test), drf.predict(test) == truth
    assert 0 < right.sum() < len(truth)
    assert texts(ax) == [f"right: {right.sum()} rows", f"wrong: {(~right).sum()} rows", "medians"]
    assert ax.get_xscale() == "log"
    for group, bars in zip((right, ~right), ax.containers, strict=True):
        edges = np.array([bar.get_x() for bar in bars] + [bars[-1].get_x() + bars[-1].get_width()])
        assert np.diff(np.log(edges)) == pytest.approx(np.full(8, np.log(margin.max() / margin.min()) / 8))
        edges[[0, -1]] = 0, np.inf
        counts, _ = np.histogram(margin[group], edges)
        assert [bar.get_height() * group.sum() for bar in bars] == pytest.approx(counts)
        assert sum(counts) == group.sum()


def test_errors_say_what_to_give(gp, drf, gplvm):
    model, rows = gplvm
    one = BayesianGPLVM(1, n_inducing=5, max_iterations=2).fit(rows)
    linear = LinearRegression().fit(X, Y)
    cases = [
        (lambda: plotting.reliability(gp, X, Y), "reliability needs a classifier, got GPRegressor"),
        (lambda: plotting.reliability(drf, X, CLASSES[1:]), "y has 119 rows"),
        (lambda: plotting.coverage_curve(drf, X, Y), "coverage_curve needs a regressor"),
        (lambda: plotting.coverage_curve(gp, X, Y, levels=[1.0]), "levels must lie between 0 and 1"),
        (lambda: plotting.residuals(linear, X, Y), "LinearRegression has no standard deviations"),
        (lambda: plotting.residuals(gp, X, Y[:3]), "y must have one number for each of the 120 rows"),
        (lambda: plotting.residuals(gp, X, Y, against="depth"), "'depth' is not a column"),
        (lambda: plotting.learning_curve(gp), "GPRegressor has no history"),
        (lambda: plotting.learning_curve(drf, what="loss"), "what must be"),
        (lambda: plotting.learning_curve(drf, against="days"), "against must be"),
        (lambda: plotting.latent_manifold(gp, X), "GPRegressor does not have"),
        (lambda: plotting.latent_manifold(one, rows), "the model has one latent dimension"),
        (lambda: plotting.latent_manifold(model, rows, dimensions=[0, 7]), "dimensions must be two of 0 to 2"),
        (lambda: plotting.latent_manifold(model, rows, [1, 2]), "y must have one value for each of the 30 rows"),
        (lambda: plotting.certainty_histogram(drf, X, CLASSES[1:]), "y must have one class for each of the 120 rows"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
