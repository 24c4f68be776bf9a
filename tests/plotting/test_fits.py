"""Fits and maps: what is drawn is what the model predicts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression

from stratagp import GPClassifier, GPRegressor, calibrate, plotting
from stratagp.errors import InputError
from tests.plotting.drawn import band, lines, texts

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (40, 1))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=40)
X3 = RNG.normal(size=(60, 3))
Y3 = X3[:, 0] * X3[:, 1] + X3[:, 2]


@pytest.fixture(scope="module")
def gp():
    return GPRegressor().fit(X, Y)


@pytest.fixture(scope="module")
def gp3():
    return GPRegressor().fit(X3, Y3)


def test_fit_draws_mean_bands_draws_and_data(gp):
    ax = plotting.fit_1d(gp, X, Y, levels=(0.5, 0.9), n_samples=2, n_grid=30, margin=0.1)
    reach = 0.1 * np.ptp(X)
    grid = np.linspace(X.min() - reach, X.max() + reach, 30)
    for level, collection in zip((0.9, 0.5), ax.collections, strict=True):
        at, low, high = band(collection)
        assert at == pytest.approx(grid)
        assert np.allclose([low, high], gp.predict_interval(grid[:, None], level), atol=1e-9)
    found = lines(ax)
    assert np.allclose(np.stack([found[0][1], found[1][1]], 1), gp.sample_y(grid[:, None], 2, of="f"), atol=1e-9)
    assert found[2][1] == pytest.approx(gp.predict(grid[:, None]))
    assert np.array_equal(found[3], [X[:, 0], Y])
    assert texts(ax) == ["90 % of y", "50 % of y", "draws", "mean", "data"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "y")


def test_fit_of_frames_has_their_names(gp):
    frame, y = pd.DataFrame({"time (s)": X[:, 0]}), pd.Series(Y, name="height (m)")
    ax = plotting.fit_1d(GPRegressor(max_iterations=0).fit(frame, y), frame, y)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (s)", "height (m)")
    assert plotting.fit_1d(gp, X, target="depth").get_ylabel() == "depth"


def test_fit_over_dates():
    days = pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame({"day": days})
    gp = GPRegressor(max_iterations=0).fit(frame, Y)
    ax = plotting.fit_1d(gp, frame, Y, margin=0.0)
    line = ax.get_lines()[0]
    assert np.array_equal(line.get_xdata(orig=True)[[0, -1]], days[[0, -1]].to_numpy())
    assert line.get_ydata()[[0, -1]] == pytest.approx(gp.predict(frame)[[0, -1]], rel=1e-6)


def test_bands_of_the_function_are_narrower(gp):
    at, low, high = band(plotting.fit_1d(gp, X, of="f", levels=[0.95]).collections[0])
    assert np.allclose([low, high], gp.predict_interval(at[:, None], 0.95, of="f"), atol=1e-9)


def test_fits_of_other_models():
    fair = calibrate(GPRegressor(max_iterations=0).fit(X[:20], Y[:20]), X[20:], Y[20:])
    at, low, high = band(plotting.fit_1d(fair, X, levels=[0.9]).collections[0])
    assert np.allclose([low, high], fair.predict_interval(at[:, None], 0.9))
    peer = GaussianProcessRegressor(alpha=0.04).fit(X, Y)
    at, low, high = band(plotting.fit_1d(peer, X, levels=[0.95]).collections[0])
    mean, std = peer.predict(at[:, None], return_std=True)
    assert np.allclose([low, high], [mean - 1.959964 * std, mean + 1.959964 * std], atol=1e-5)


def test_maps_are_predictions_over_a_grid(gp3):
    panels = plotting.maps_2d(gp3, X3, Y3, columns=[2, 0], at={1: 0.5}, n_grid=7, target="depth (m)")
    first, second = (np.linspace(X3[:, j].min(), X3[:, j].max(), 7) for j in (2, 0))
    rows = np.array([[b, 0.5, a] for b in second for a in first])
    found = gp3.predict(rows, return_std=True)
    for panel, surface in zip(panels, found, strict=True):
        mesh = panel.collections[0].get_array()
        assert np.asarray(mesh).ravel() == pytest.approx(surface, rel=1e-9)
    for panel in panels:  # the map is about rows whose x1 is 0.5, and their colours are not theirs
        assert np.array_equal(panel.collections[1].get_offsets(), X3[:, [2, 0]])
        assert panel.collections[1].get_array() is None
    assert (panels[0].get_xlabel(), panels[0].get_ylabel()) == ("x2", "x0")
    labels = [bar.get_ylabel() for bar in panels[0].figure.axes[2:]]
    assert labels == ["mean of depth (m)", "std of depth (m)"]


def test_points_have_the_colours_of_their_targets_where_there_are_no_other_columns():
    gp = GPRegressor(max_iterations=0).fit(X3[:, :2], Y3)
    left, right = plotting.maps_2d(gp, X3[:, :2], Y3, n_grid=4)
    assert np.array_equal(left.collections[1].get_array(), Y3)
    assert left.collections[1].norm is left.collections[0].norm
    assert right.collections[1].get_array() is None
    three = np.digitize(X3[:, 2], [-0.5, 0.5])
    left, _ = plotting.maps_2d(LogisticRegression().fit(X3, three), X3, three, columns=[0, 1], n_grid=4)
    assert len(left.collections) == 2  # one for all rows, and none for each class
    assert texts(left) == ["0", "1", "2"]


def test_other_columns_are_typical():
    frame = pd.DataFrame(X3[:, :2], columns=["a", "b"]).assign(c=X3[:, 2], town=["Rome", "Oslo", "Rome"] * 20)
    gp = GPRegressor(max_iterations=0).fit(frame, Y3)
    panels = plotting.maps_2d(gp, frame, columns=["a", "b"], n_grid=3)
    first, second = (np.linspace(frame[name].min(), frame[name].max(), 3) for name in "ab")
    rows = pd.DataFrame({"a": np.tile(first, 3), "b": np.repeat(second, 3), "c": frame.c.median(), "town": "Rome"})
    assert np.asarray(panels[0].collections[0].get_array()).ravel() == pytest.approx(gp.predict(rows), rel=1e-9)


def test_maps_of_classes():
    two = np.where(X3[:, 0] > 0, "yes", "no")
    gp = GPClassifier(max_iterations=0).fit(X3[:, :2], two)
    panels = plotting.maps_2d(gp, X3[:, :2], two, n_grid=5)
    grid = [np.linspace(X3[:, j].min(), X3[:, j].max(), 5) for j in (0, 1)]
    rows = np.array([[a, b] for b in grid[1] for a in grid[0]])
    p = gp.predict_proba(rows)
    entropy = -(p * np.log2(p)).sum(1)
    for panel, surface in zip(panels, (p[:, 1], entropy), strict=True):
        assert np.asarray(panel.collections[0].get_array()).ravel() == pytest.approx(surface, rel=1e-9)
    assert texts(panels[0]) == ["no", "yes"]
    assert len(panels[0].collections[1].get_offsets()) == (two == "no").sum()
    three = np.digitize(Y3, [-0.5, 0.5])
    model = LogisticRegression().fit(X3[:, :2], three)
    panels = plotting.maps_2d(model, X3[:, :2], n_grid=5)
    assert np.array_equal(np.asarray(panels[0].collections[0].get_array()).ravel(), model.predict(rows))
    assert texts(panels[0]) == ["0", "1", "2"]
    key = [patch.get_facecolor()[:3] for patch in panels[0].get_legend().get_patches()]
    assert key == [panels[0].collections[0].cmap(c)[:3] for c in range(3)]


def test_axes_that_are_given_are_drawn_on(gp, gp3):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, (one, two) = plt.subplots(1, 2)
    assert plotting.fit_1d(gp, X, ax=one) is one
    assert list(plotting.maps_2d(gp3, X3, columns=[0, 1], n_grid=3, ax=[one, two])) == [one, two]


@pytest.mark.filterwarnings("ignore")
def test_errors_say_what_to_give(gp, gp3):
    several = GPRegressor(max_iterations=0).fit(X, np.column_stack([Y, Y]))
    cases = [
        (lambda: plotting.fit_1d(gp3, X3), "it has x0, x1, x2: use partial_dependence"),
        (lambda: plotting.fit_1d(LogisticRegression().fit(X, Y > 0), X), "fit_1d needs a regressor"),
        (lambda: plotting.fit_1d(gp, X, Y[1:]), "y must have one number for each of the 40 rows"),
        (lambda: plotting.fit_1d(gp, X, levels=[95]), "levels must lie between 0 and 1"),
        (lambda: plotting.fit_1d(gp, X, n_samples=-1), "n_samples must be a whole number"),
        (lambda: plotting.fit_1d(gp, X, ax=3), "ax must be matplotlib Axes, got int"),
        (lambda: plotting.fit_1d(several, X), "the model predicts 2 targets"),
        (lambda: plotting.fit_1d(calibrate(gp, X, Y), X, of="f"), "of must be 'y': this model"),
        (lambda: plotting.fit_1d(calibrate(gp, X, Y), X, n_samples=2), "n_samples must be 0 for ConformalRegressor"),
        (lambda: plotting.maps_2d(gp3, X3), r"X has 3: x0, x1, x2; choose columns=\[…, …\]"),
        (lambda: plotting.maps_2d(gp3, X3, columns=[0, 0]), "columns must be two different columns"),
        (lambda: plotting.maps_2d(gp3, X3, columns=[0, "age"]), "'age' is not a column of X"),
        (lambda: plotting.maps_2d(gp3, X3, columns=[0, 1], at={0: 1.0}), "at must name columns other than the two"),
        (lambda: plotting.maps_2d(gp3, X3, columns=[0, 1], ax=[1]), "ax must be 2 matplotlib Axes"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
