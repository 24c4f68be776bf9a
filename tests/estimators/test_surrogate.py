"""Surrogate questions of a fitted regressor against plain averages, Monte Carlo and known Sobol indices."""

import sys

import numpy as np
import pandas as pd
import pytest

from stratagp import GPRegressor, StudentTProcessRegressor
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators.surrogate import partial_dependence, predict_uncertain, sobol_indices


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 60), "dose": rng.uniform(0, 1, 60)})
    frame["city"] = rng.choice(["Oslo", "Rome"], 60)
    y = 100 + 0.5 * frame.age + 20 * np.sin(3 * frame.dose) + 7 * (frame.city == "Rome") + 0.1 * rng.normal(size=60)
    return frame, y


@pytest.mark.parametrize("standardise", ["targets", "both", "none"])
def test_partial_dependence_is_the_mean_of_predictions(table, standardise):
    frame, y = table
    gp = GPRegressor(standardise=standardise, max_iterations=60).fit(frame, y - 130)
    mean, std = partial_dependence(gp, "dose", [0.2, 0.9])
    for i, value in enumerate([0.2, 0.9]):
        each, cov = gp.predict(frame.assign(dose=value), return_cov=True, of="f")
        assert mean[i] == pytest.approx(each.mean(), rel=1e-8)
        assert std[i] == pytest.approx(np.sqrt(cov.mean()), rel=1e-6)


@pytest.mark.parametrize("encoding", ["one-hot", "codes"])
def test_partial_dependence_of_a_category_and_of_two_columns(table, encoding):
    frame, y = table
    gp = GPRegressor(encoding=encoding, standardise="both", max_iterations=60).fit(frame, y)
    mean, _ = partial_dependence(gp, "city", ["Oslo", "Rome"])
    assert mean == pytest.approx([gp.predict(frame.assign(city=city)).mean() for city in ("Oslo", "Rome")], rel=1e-9)
    mean, _ = partial_dependence(gp, ["city", 0], [("Rome", 30.0), ("Oslo", 60.0)])
    both = [gp.predict(frame.assign(city=city, age=age)).mean() for city, age in (("Rome", 30.0), ("Oslo", 60.0))]
    assert mean == pytest.approx(both, rel=1e-9)


@pytest.mark.parametrize("standardise", ["targets", "both"])
def test_uncertain_inputs_agree_with_monte_carlo_on_the_model(table, standardise):
    frame, y = table
    gp = GPRegressor(k.RBF(ard=True), standardise=standardise, max_iterations=60).fit(frame, y)
    row = pd.DataFrame({"age": [40.0], "dose": [0.5], "city": ["Rome"]})
    drawn = pd.concat([row] * 20_000, ignore_index=True)
    rng = np.random.default_rng(1)
    drawn["age"] += 5 * rng.standard_normal(len(drawn))
    drawn["dose"] += 0.1 * rng.standard_normal(len(drawn))
    for of in ("y", "f"):
        mean, std = predict_uncertain(gp, row, {"age": 5.0, "dose": 0.1}, of=of)
        each, own = gp.predict(drawn, return_std=True, of=of)
        assert mean[0] == pytest.approx(each.mean(), abs=5 * each.std() / np.sqrt(len(drawn)))
        assert std[0] == pytest.approx(np.sqrt(each.var() + np.mean(own**2)), rel=0.02)


def test_ways_to_say_the_spread_agree_and_none_is_the_prediction(table):
    frame, y = table
    gp = GPRegressor(k.RBF(ard=True), max_iterations=60).fit(frame[["age", "dose"]], y)
    rows = frame[["age", "dose"]][:3]
    named = predict_uncertain(gp, rows, {"dose": 0.1})
    assert predict_uncertain(gp, rows, [0.0, 0.1])[1] == pytest.approx(named[1], rel=1e-12)
    given = pd.DataFrame({"dose": [0.1] * 3, "age": [0.0] * 3})
    assert predict_uncertain(gp, rows, given)[1] == pytest.approx(named[1], rel=1e-12)
    known, std = predict_uncertain(gp, rows, {})
    mean, own = gp.predict(rows, return_std=True)
    assert known == pytest.approx(mean, rel=1e-6)
    assert std == pytest.approx(own, rel=1e-3)


def test_several_targets_and_draws_of_hyperparameters():
    x = np.linspace(-3, 3, 25)[:, None]
    y = np.column_stack([10 * np.sin(x[:, 0]), 5 + np.cos(x[:, 0])])
    gp = GPRegressor(k.RBF(), noise=1e-4).fit(x, y)
    mean, std = predict_uncertain(gp, [[0.0], [1.0]], [0.2], of="f")
    decay = np.exp(-0.02)  # E sin(x) = sin(m) exp(−s²/2)
    assert mean == pytest.approx(np.array([[0, 5 + decay], [10 * decay * np.sin(1), 5 + decay * np.cos(1)]]), abs=5e-3)
    assert std[0, 0] == pytest.approx(10 * np.sqrt((1 - np.exp(-0.08)) / 2), rel=1e-2)
    assert partial_dependence(gp, 0, [0.5])[0][0] == pytest.approx(gp.predict([[0.5]])[0], rel=1e-8)


def test_draws_of_hyperparameters_are_averaged_over():
    x = np.linspace(-3, 3, 12)[:, None]
    models = [GPRegressor(k.RBF(scale, variance=1.0), max_iterations=0).fit(x, np.sin(x[:, 0])) for scale in (0.5, 2.0)]
    both = models[0]
    both.fitted_.draws = [model.fitted_.draws[0] for model in models]  # as draws would be held
    mean, own = both.predict([[4.0]], return_std=True)
    assert predict_uncertain(both, [[4.0]], [0.0]) == (pytest.approx(mean, rel=1e-6), pytest.approx(own, rel=1e-4))
    mean, own = both.predict([[0.5]], return_std=True, of="f")
    assert partial_dependence(both, 0, [0.5]) == (pytest.approx(mean, rel=1e-6), pytest.approx(own, rel=1e-4))


def test_sobol_indices_of_a_sum_with_an_interaction():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (80, 2)), columns=["a", "b"])
    y = 50 + 30 * frame.a + 20 * frame.b + 30 * frame.a * frame.b  # variances 300, 133.3, 100
    gp = GPRegressor(k.anova_kernel([k.Measure.uniform(-1, 1)] * 2), noise=1e-2).fit(frame, y)
    found = sobol_indices(gp)
    assert found.variance == pytest.approx(1600 / 3, rel=1e-3)
    assert found.first == pytest.approx([0.5625, 0.25], abs=1e-3)
    assert found.total == pytest.approx([0.75, 0.4375], abs=1e-3)
    assert found.effects["a", "b"] == pytest.approx(0.1875, abs=1e-3)
    assert found.unresolved < 1e-3 * found.variance
    assert set(sobol_indices(gp, order=1).effects) == {("a",), ("b",)}
    name, first, total = str(found).splitlines()[1].split()
    assert name == "a"
    assert (float(first), float(total)) == pytest.approx((0.5625, 0.75), abs=2e-3)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda gp: partial_dependence(gp, "weight", [1.0]), "no column of X; its columns are age, dose, city"),
        (lambda gp: partial_dependence(gp, ["age", "dose"], [(1.0,)]), "each of 2 columns"),
        (lambda gp: predict_uncertain(gp, [[50.0, 0.5, "Rome"]], [1.0, 0.1, 0.0], of="g"), "of must be"),
        (lambda gp: predict_uncertain(gp, [[50.0, 0.5, "Rome"]], [1.0, 0.1]), "one number for each of 3"),
        (lambda gp: predict_uncertain(gp, [[50.0, 0.5, "Rome"]], [1.0, -0.1, 0.0]), "not negative"),
        (lambda gp: predict_uncertain(gp, [[50.0, 0.5, "Rome"]], [1.0, 0.1, 1.0]), "a category cannot be normal"),
        (lambda gp: sobol_indices(gp), "anova_kernel"),
    ],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_mistakes_are_named(table, question, message):
    gp = GPRegressor(max_iterations=0).fit(*table)
    with pytest.raises(InputError, match=message):
        question(gp)


def test_models_without_these_answers_say_so():
    x, y = np.linspace(0, 1, 20)[:, None], np.sin(np.linspace(0, 5, 20))
    for gp in (GPRegressor(inference="sparse", n_inducing=5), StudentTProcessRegressor()):
        with pytest.raises(InputError, match="inference='exact'"):
            predict_uncertain(gp.fit(x, y), [[0.5]], [0.1])
    words = GPRegressor(k.PairFunction(lambda a, b: len(set(a) & set(b))), max_iterations=0)
    with pytest.raises(InputError, match="objects"):
        partial_dependence(words.fit(["ab", "bc", "cd"], [0.0, 1.0, 2.0]), 0, [1.0])


def test_botorch_is_asked_for_where_it_is_missing(monkeypatch):
    for name in ("stratagp.export.botorch_model", "botorch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"stratagp\[botorch\]"):
        GPRegressor(max_iterations=0).fit([[0.0], [1.0]], [0.0, 1.0]).to_botorch()


def test_a_date_is_known_where_times_of_the_year_follow_from_it():
    rng = np.random.default_rng(0)
    day = pd.date_range("2024-01-01", periods=400, freq="3D")[rng.permutation(400)[:60]]
    frame = pd.DataFrame({"day": day, "dose": rng.uniform(0, 1, 60)})
    y = 20 * np.sin(3 * frame.dose) + 0.1 * rng.normal(size=60)
    gp = GPRegressor(max_iterations=0).fit(frame, y)
    with pytest.raises(InputError, match="std of a date must be 0"):
        predict_uncertain(gp, frame[:3], {"day": 2.0})
    assert np.isfinite(predict_uncertain(gp, frame[:3], {"dose": 0.1})[1]).all()
