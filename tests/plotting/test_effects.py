"""Kernels, relevance and effects: what is drawn against the kernels and models themselves."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from stratagp import BayesianGPLVM, GPClassifier, GPRegressor, plotting
from stratagp import kernels as k
from stratagp.data import TableEncoder
from stratagp.errors import InputError
from stratagp.plotting.dependence import Curves, draw_points
from stratagp.plotting.plot_data import PlotData
from stratagp.plotting.style import colours
from tests.plotting.drawn import band, lines, texts, widths

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"dose": RNG.uniform(0, 5, 60), "age": RNG.uniform(20, 80, 60)})
FRAME["town"] = np.array(["Rome", "Oslo", "Bonn"])[np.arange(60) % 3]
Y = FRAME.dose + 0.02 * FRAME.age + (FRAME.town == "Rome") + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def gp():
    return GPRegressor().fit(FRAME, Y)


def test_a_stationary_kernel_is_a_curve_and_others_are_maps():
    grid = np.linspace(1, 4, 50)
    ax = plotting.kernel(k.RBF(lengthscale=0.5, variance=2.0), grid, name="years")
    distance, covariance = lines(ax)[0]
    assert covariance == pytest.approx(2 * np.exp(-0.5 * ((grid - 1) / 0.5) ** 2), rel=1e-9)
    assert distance == pytest.approx(grid - 1)
    assert ax.get_xlabel() == "distance in years"
    ax = plotting.kernel(k.Brownian(), grid)
    matrix = np.asarray(ax.collections[0].get_array()).reshape(50, 50)
    assert matrix == pytest.approx(np.minimum.outer(grid, grid), rel=1e-9)
    ax = plotting.kernel(k.RBF(), grid, style="map")
    assert len(ax.collections) == 1


def test_a_kernel_of_several_columns():
    kernel, grid = k.RBF(lengthscale=1.0).on(0) * k.Linear().on(1), np.linspace(0, 2, 20)
    ax = plotting.kernel(kernel, grid, column=0, at=[0.0, 3.0])
    points = np.column_stack([grid, np.full(20, 3.0)])
    assert lines(ax)[0][1] == pytest.approx(kernel(points)[0].detach().numpy(), rel=1e-9)
    ax = plotting.kernel(kernel, grid + 1, column=1, at=[0.0, 3.0])
    assert len(ax.collections) == 1  # slopes are not stationary


def test_prior_draws_have_the_covariance_of_the_kernel():
    """By 4000 draws: the standard error of a covariance of one is 0.022."""
    grid = np.linspace(0, 3, 5)
    ax = plotting.prior_draws(k.Matern(1.5, lengthscale=1.0), grid, n_samples=4000)
    functions = np.stack([y for _, y in lines(ax)])
    expected = k.Matern(1.5, lengthscale=1.0)(grid[:, None]).detach().numpy()
    assert functions.T @ functions / 4000 == pytest.approx(expected, abs=0.1)
    _, low, high = band(ax.collections[0])
    assert np.allclose([low, high], [np.full(5, -2.0), np.full(5, 2.0)])


def test_relevance_as_bars_from_the_largest(gp):
    names, (values,) = widths(plotting.relevance(gp))
    order = np.argsort(-gp.relevance_)
    assert names == [["dose", "age", "town"][i] for i in order]
    assert values == pytest.approx(gp.relevance_[order])
    names, (values,) = widths(plotting.relevance(gp, top=1))
    assert names == ["dose"]
    arrays = GPRegressor(max_iterations=0).fit(FRAME[["dose", "age"]].to_numpy(), Y)
    assert set(widths(plotting.relevance(arrays))[0]) == {"x0", "x1"}


def test_relevance_of_latent_dimensions():
    t = np.linspace(-1, 1, 20)[:, None]
    gplvm = BayesianGPLVM(2, n_inducing=6, max_iterations=10).fit(np.hstack([t, t**2, np.sin(3 * t)]))
    names, (values,) = widths(plotting.relevance(gplvm))
    assert values == pytest.approx(np.sort(gplvm.relevance_)[::-1])
    assert set(names) == {"dimension 0", "dimension 1"}


def test_anova_effects_are_sobol_indices():
    X = np.random.default_rng(1).uniform(size=(40, 3))
    kernel = k.anova_kernel([k.Measure.uniform(0, 1)] * 3)
    gp = GPRegressor(kernel, noise=1e-2).fit(X, 9 * X[:, 0] + 9 * X[:, 1] * X[:, 2])
    found = gp.sobol_indices()
    names, (alone, more) = widths(plotting.anova_effects(gp))
    order = np.argsort(-found.total)
    assert names == [found.names[i] for i in order]
    assert alone == pytest.approx(found.first[order])
    assert np.add(alone, more) == pytest.approx(found.total[order])
    names, (shares,) = widths(plotting.anova_effects(gp, by="sets"))
    assert dict(zip(names, shares, strict=True)) == pytest.approx(
        {" × ".join(key): share for key, share in found.effects.items()}
    )
    assert "x1 × x2" in names


def test_partial_dependence_by_the_belief(gp):
    line, points = plotting.partial_dependence(gp, FRAME, ["dose", "town"], level=0.95, n_grid=9, target="effect")
    at, low, high = band(line.collections[0])
    grid = np.linspace(FRAME.dose.min(), FRAME.dose.max(), 9)
    mean, std = gp.partial_dependence("dose", grid)
    assert at == pytest.approx(grid)
    assert np.allclose([low, high], [mean - 1.959964 * std, mean + 1.959964 * std], rtol=1e-6)
    assert lines(line)[0][1] == pytest.approx(mean)
    assert (line.get_xlabel(), line.get_ylabel()) == ("dose", "effect")
    mean, std = gp.partial_dependence("town", ["Bonn", "Oslo", "Rome"])
    dots, _, (bars,) = points.containers[0]
    assert dots.get_ydata() == pytest.approx(mean)
    assert [np.ptp(segment[:, 1]) for segment in bars.get_segments()] == pytest.approx(2 * 1.959964 * std, rel=1e-6)
    assert [tick.get_text() for tick in points.get_xticklabels()] == ["Bonn", "Oslo", "Rome"]


@pytest.mark.parametrize("frame", [True, False])
def test_partial_dependence_by_rows_of_any_model(frame):
    X = FRAME[["dose", "age"]] if frame else FRAME[["dose", "age"]].to_numpy()
    forest = RandomForestRegressor(5, random_state=0).fit(X, Y)
    ax = plotting.partial_dependence(forest, X, 1, level=0.8, n_grid=4, max_rows=60)
    grid, curves = np.linspace(FRAME.age.min(), FRAME.age.max(), 4), []
    for value in grid:
        rows = FRAME[["dose", "age"]].assign(age=value)
        curves.append(forest.predict(rows if frame else rows.to_numpy()))
    _, low, high = band(ax.collections[0])
    assert np.allclose([low, high], np.quantile(curves, [0.1, 0.9], axis=1))
    assert lines(ax)[0][1] == pytest.approx(np.mean(curves, 1))
    assert texts(ax) == ["80 % of rows", "average"]
    assert ax.get_xlabel() == ("age" if frame else "x1")


def test_partial_dependence_of_classes():
    X, three = FRAME[["dose", "age"]].to_numpy(), np.digitize(Y, [2, 4])
    forest = RandomForestClassifier(5, random_state=0).fit(X, three)
    ax = plotting.partial_dependence(forest, X, 0, n_grid=3, max_rows=60)
    grid = np.linspace(X[:, 0].min(), X[:, 0].max(), 3)
    for c in range(3):
        expected = [forest.predict_proba(np.column_stack([np.full(60, v), X[:, 1]]))[:, c].mean() for v in grid]
        assert lines(ax)[c][1] == pytest.approx(expected)
    assert len({line.get_linestyle() for line in ax.get_lines()[:3]}) == 3  # and not by colour alone
    words = FRAME.town.to_numpy()[:, None] == ["Bonn", "Oslo", "Rome"]
    points = points_of(words @ np.eye(3))
    assert len({each[0].get_marker() for each in points.containers}) == 3
    two = GPClassifier(max_iterations=0).fit(FRAME, np.where(three > 0, "up", "down"))
    left, right = plotting.partial_dependence(two, FRAME, ["dose", "town"], n_grid=3)
    assert left.get_ylabel() == right.get_ylabel() == "probability of up"
    expected = [two.predict_proba(FRAME.assign(town=town))[:, 1].mean() for town in ("Bonn", "Oslo", "Rome")]
    assert right.containers[0][0].get_ydata() == pytest.approx(expected)


def points_of(mean):
    """Points of as many classes as there are columns, on new axes."""
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    curves = Curves(mean, mean - 0.1, mean + 0.1, "all", [str(c) for c in range(mean.shape[1])])
    draw_points(ax, np.arange(len(mean)).astype(object), curves)
    return ax


@pytest.mark.parametrize("count", [2, 6, 7, 12, 30])
def test_colours_stand_out_from_both_grounds(count):
    """Contrast as the WCAG defines it, of at least 1.6 to white and to black."""
    rgb = np.array([pytest.importorskip("matplotlib.colors").to_rgb(shade) for shade in colours(count)])
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    assert len(np.unique(rgb, axis=0)) == count
    assert (1.05 / (light + 0.05)).min() > 1.6
    assert ((light + 0.05) / 0.05).min() > 1.6


def test_partial_dependence_on_a_date():
    frame = FRAME[["age"]].assign(day=pd.date_range("2024-01-01", periods=60))
    gp = GPRegressor().fit(frame, np.arange(60) / 10)
    ax = plotting.partial_dependence(gp, frame, "day", n_grid=3)
    expected = [gp.predict(frame.assign(day=day)).mean() for day in frame.day.iloc[[0, -1]]]
    assert ax.get_lines()[0].get_ydata()[[0, -1]] == pytest.approx(expected, rel=1e-6)
    objects = frame.assign(day=frame.day.dt.date.astype(object))  # as databases and Parquet give them
    ax = plotting.partial_dependence(gp, objects, "day", n_grid=3)
    assert ax.get_lines()[0].get_ydata()[[0, -1]] == pytest.approx(expected, rel=1e-6)
    objects.loc[4, "day"] = None
    assert PlotData(objects).grid(1, 2).astype("datetime64[D]").astype(str).tolist() == ["2024-01-01", "2024-02-29"]


def test_codes_of_digits_stay_categories():
    codes = pd.DataFrame({"zip": np.tile(["01067", "80331", "99084"], 20), "age": FRAME["age"]})
    gp = GPRegressor(max_iterations=0).fit(codes, Y)
    assert PlotData(codes, gp).levels(0) == ["01067", "80331", "99084"]
    ax = plotting.partial_dependence(gp, codes, "zip")
    expected = [gp.predict(codes.assign(zip=code)).mean() for code in ("01067", "80331", "99084")]
    assert ax.containers[0][0].get_ydata() == pytest.approx(expected)


def test_the_typical_text_is_the_most_frequent_one():
    """Also where the model sees texts as points."""
    notes = pd.DataFrame({"size": [1.0, 2.0, 4.0], "note": ["old roof", "garden", "old roof"]})
    model = SimpleNamespace(inputs_=SimpleNamespace(encoder=TableEncoder(texts=["note"])))
    model.inputs_.encoder.fit(notes)
    rows = PlotData(notes, model)
    assert [rows.typical(j, model) for j in (0, 1)] == [2.0, "old roof"]


def test_categories_of_pandas_stay_categories():
    frame = FRAME.assign(town=FRAME.town.astype("category"))
    gp = GPClassifier(max_iterations=0).fit(frame, Y > 3)
    ax = plotting.partial_dependence(gp, frame, "town")
    expected = [gp.predict_proba(FRAME.assign(town=town))[:, 1].mean() for town in ("Bonn", "Oslo", "Rome")]
    assert ax.containers[0][0].get_ydata() == pytest.approx(expected)


def test_errors_say_what_to_give(gp):
    grid = np.linspace(0, 1, 5)
    cases = [
        (lambda: plotting.kernel("rbf", grid), "kernel must be a kernel"),
        (lambda: plotting.kernel(k.Spectrum(2), grid), "kernel acts on objects"),
        (lambda: plotting.kernel(k.RBF(), [1.0, 0.0]), "grid must be at least two increasing numbers"),
        (lambda: plotting.kernel(k.RBF(), [0.0, 1.0, 3.0]), "grid must be evenly spaced"),
        (lambda: plotting.kernel(k.RBF(), grid, column=1), "column must be one of the 1 columns of at"),
        (lambda: plotting.kernel(k.RBF(), grid, style="bars"), "style must be"),
        (lambda: plotting.prior_draws(k.RBF(), grid, n_samples=0), "n_samples must be"),
        (lambda: plotting.relevance(GPRegressor()), "relevance needs a fitted model"),
        (lambda: plotting.relevance(gp, top=0), "top must be a whole number"),
        (lambda: plotting.anova_effects(gp, by="rows"), "by must be"),
        (lambda: plotting.anova_effects(GPClassifier()), "anova_effects needs a GPRegressor"),
        (lambda: plotting.partial_dependence(gp, FRAME, "height"), "'height' is not a column of X"),
        (lambda: plotting.partial_dependence(gp, FRAME, []), "columns must name at least one"),
        (lambda: plotting.partial_dependence(gp, FRAME.dose, 0), "X must be a non-empty table"),
        (lambda: plotting.partial_dependence(gp, FRAME, "dose", level=90), "level must lie between"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
