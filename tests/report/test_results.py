"""What is gathered agrees with what the model says when asked by hand, and is plain."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, poisson
from sklearn.base import BaseEstimator

from stratagp import AutoGPRegressor, GPRegressor, metrics
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.report import learnt
from stratagp.report.answers import NumberAnswers
from stratagp.report.learnt import averaged_over, histories
from stratagp.report.results import gather
from stratagp.report.summary import read_inputs
from stratagp.report.values import entry
from stratagp.report.words import bars_verdict, what_it_learnt
from stratagp.training.loop import History
from tests.plotting.rates import Rates
from tests.report.conftest import PLAINLY, pd, trial
from tests.training_length import make_steps


def test_scores_of_numbers_are_those_of_the_model(regression):
    model, (X, y), found = regression
    mean, std = model.predict(X, return_std=True)
    scores = {name: each["value"] for name, each in found["performance"]["scores"].items()}
    assert scores["rmse"] == pytest.approx(metrics.rmse(y, mean), rel=1e-12)
    assert scores["mae"] == pytest.approx(metrics.mae(y, mean), rel=1e-12)
    assert scores["r2"] == pytest.approx(model.score(X, y), rel=1e-12)
    assert scores["nlpd"] == pytest.approx(metrics.nlpd(y, mean, std), rel=1e-9)
    error = np.square(np.asarray(y) - mean)
    by_hand = error.std(ddof=1) / math.sqrt(30) / (2 * scores["rmse"])  # the delta method
    assert found["performance"]["scores"]["rmse"]["error"] == pytest.approx(by_hand, rel=1e-12)


def test_coverage_and_pit_are_those_of_the_model(regression):
    model, (X, y), found = regression
    calibration = found["calibration"]
    for level, inside in zip(calibration["levels"], calibration["inside"], strict=True):
        low, high = model.predict_interval(X, level)
        assert inside == round(30 * metrics.interval_coverage(y, low, high))
    assert calibration["pit"] == np.histogram(model.cdf(X, y), 10, (0, 1))[0].tolist()
    low, high = model.predict_interval(X, 0.95)
    assert calibration["width"] == pytest.approx(metrics.interval_width(low, high), rel=1e-9)


def test_every_score_of_a_baseline_stands_beside_one_of_the_model(regression, classification):
    from_model = regression[2]["performance"]["scores"]
    model, (X, y), _ = regression
    low, high = model.predict_interval(X, 0.95)
    assert from_model["coverage95"]["value"] == pytest.approx(np.mean((low <= y) & (y <= high)))
    model, (X, y), found = classification
    expected = metrics.ece(y, model.predict_proba(X), model.classes_)
    assert found["performance"]["scores"]["ece"]["value"] == pytest.approx(expected, rel=1e-9)


def test_a_column_of_texts_keeps_its_name_and_labels():
    texts = pd.Series(["abc", "bcd"], index=[7, 9], name="gene")
    found = read_inputs(texts, None)
    assert (found.names, found.labels, found.row(1, [0])) == (["gene"], ["7", "9"], ["bcd"])


def test_the_worst_rows_are_the_farthest_off(regression):
    model, (X, y), found = regression
    mean, std = model.predict(X, return_std=True)
    z = (np.asarray(y) - mean) / std
    first = found["worst"]["rows"][0]
    i = int(np.abs(z).argmax())
    assert first["row"] == str(X.index[i])
    assert (first["true"], first["predicted"], first["off"]) == pytest.approx((y.iloc[i], mean[i], z[i]), rel=1e-12)
    named = dict(zip(found["worst"]["columns"], first["inputs"], strict=True))
    assert named["dose (mg)"] == X["dose (mg)"].iloc[i]
    assert named["town"] == X.town.iloc[i]
    low, high = model.predict_interval(X.iloc[[i]], found["worst"]["level"])
    assert (first["low"], first["high"]) == pytest.approx((low[0], high[0]), rel=1e-9)


def test_what_was_learnt_is_in_the_users_units(regression):
    model, _, found = regression
    scales = {each["column"]: each["value"] for each in found["model"]["lengthscales"]}
    assert scales["dose (mg)"] == model.hyperparameters_["kernel.0.base.lengthscale[dose (mg)]"].value
    assert found["model"]["noise"] == pytest.approx(math.sqrt(model.hyperparameters_["noise"].value), rel=1e-12)
    X, y = trial()
    both = GPRegressor(standardise="both", max_iterations=0).fit(X[["dose (mg)"]], y)
    again = gather(both, X[["dose (mg)"]], y, None, None, **PLAINLY)["model"]["lengthscales"]
    by_hand = both.hyperparameters_["lengthscale[dose (mg)]"].value * float(both.inputs_.scale[0])
    assert again == [{"column": "dose (mg)", "value": pytest.approx(by_hand, rel=1e-12)}]


def test_relevance_and_curves_are_those_of_the_model(regression):
    model, _, found = regression
    shares = {each["name"]: each["share"] for each in found["effects"]["relevance"]}
    assert list(shares.values()) == sorted(model.relevance_, reverse=True)
    assert shares["town"] == model.relevance_[2]
    curve = next(each for each in found["effects"]["curves"] if each["name"] == "dose (mg)")
    mean, std = model.partial_dependence("dose (mg)", curve["values"])
    assert curve["curves"][0]["mean"] == pytest.approx(mean, rel=1e-4)
    assert np.array(curve["curves"][0]["high"]) - mean == pytest.approx(1.644854 * std, abs=1e-4)


def test_scores_of_classes_are_those_of_the_model(classification):
    model, (X, y), found = classification
    p = model.predict_proba(X)
    scores = {name: each["value"] for name, each in found["performance"]["scores"].items()}
    assert scores["accuracy"] == model.score(X, y)
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(y, p, model.classes_), rel=1e-9)
    assert scores["brier"] == pytest.approx(metrics.brier(y, p, model.classes_), rel=1e-9)
    assert found["calibration"]["error"] == pytest.approx(metrics.ece(y, p, model.classes_), rel=1e-12)
    assert found["calibration"]["confidence"] == pytest.approx(p.max(1).mean(), rel=1e-12)
    worst = found["worst"]["rows"][0]
    of_true = p[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert worst["p_true"] == of_true.min()
    assert worst["row"] == str(X.index[of_true.argmin()])
    confusion = np.array(found["performance"]["confusion"]["counts"])
    assert confusion.sum() == len(y)
    assert confusion.trace() == found["calibration"]["right"] == (model.predict(X) == y).sum()


def test_without_held_out_rows_each_is_left_out():
    X, y = trial(25)
    model = GPRegressor(max_iterations=0).fit(X, y)
    found = gather(model, X, y, None, None, **PLAINLY)
    mean, _ = model.leave_one_out()
    assert found["performance"]["evidence"] == "leave-one-out"
    assert found["performance"]["scores"]["rmse"]["value"] == pytest.approx(metrics.rmse(y, mean), rel=1e-12)


def test_counts_are_judged_by_what_their_intervals_promise():
    """By the right model, whose intervals of whole numbers hold more than their level."""
    rate = np.random.default_rng(0).uniform(0.5, 3, (20_000, 1))
    y = np.random.default_rng(1).poisson(rate[:, 0]).astype(float)
    found = NumberAnswers.of(Rates().fit(rate), rate, y).calibration()
    for level, promised, inside in zip(found["levels"], found["promised"], found["inside"], strict=True):
        ends = Rates().predict_interval(rate, level)
        inner = [(low <= k) & (k <= high) for k in range(30) for low, high in [ends]]
        mass = sum(kept * poisson.pmf(k, rate[:, 0]) for k, kept in enumerate(inner))
        assert promised == pytest.approx(mass.mean(), rel=1e-9)
        assert promised > level
        assert inside / 20_000 == pytest.approx(promised, abs=3 * 0.5 / math.sqrt(20_000))
    np.testing.assert_allclose(found["pit"], 2000, atol=4 * math.sqrt(20_000 * 0.09))
    assert sum(found["pit"]) == pytest.approx(20_000, abs=1)


def test_a_right_model_of_counts_is_rarely_blamed():
    rng, kinds = np.random.default_rng(2), []
    for _ in range(100):
        rate = rng.uniform(0.5, 3, (500, 1))
        found = NumberAnswers.of(Rates().fit(rate), rate, rng.poisson(rate[:, 0]).astype(float))
        performance = {"evidence": "held-out"}
        results = {"task": "regression", "performance": performance, "calibration": found.calibration()}
        kinds.append(bars_verdict(results).kind)
    assert kinds.count("about right") >= binom.ppf(0.001, 100, 0.95)


@pytest.mark.parametrize(("likelihood", "power"), [("gaussian", 0.5), ("log-normal", None)])
def test_noise_in_the_unit_of_the_target_is_gaussian(likelihood, power, monkeypatch):
    make_steps(monkeypatch, 5)
    X = np.random.default_rng(0).uniform(size=(60, 1))
    y = 1000 * np.exp(X[:, 0])
    model = AutoGPRegressor(likelihood=likelihood, n_inducing=5, max_epochs=1, random_state=0).fit(X, y)
    found = gather(model, X, y, None, None, **PLAINLY)
    noise = model.hyperparameters_["likelihood.noise"].value
    assert found["model"]["noise"] == (None if power is None else pytest.approx(noise**power, rel=1e-12))
    assert any("differ by about" in said for said in what_it_learnt(found)) == (power is not None)


def test_lengthscales_on_a_circle_are_no_distances():
    X = np.random.default_rng(0).uniform(0, 9, size=(40, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    for kernel, columns in (
        (k.Periodic(ard=2), []),
        (k.RBF(ard=True).on(0) * k.Periodic(ard=1).on(0) + k.RBF(ard=True).on(1), ["x1"]),
        (k.RBF(ard=True) + k.Periodic(), []),  # which sees all columns
        (k.RBF(ard=True), ["x0", "x1"]),
    ):
        model = GPRegressor(kernel, max_iterations=0).fit(X, y)
        found = gather(model, X, y, None, None, **PLAINLY)["model"]["lengthscales"]
        assert [each["column"] for each in found] == columns


def test_curves_are_of_the_most_frequent_values():
    towns = np.repeat([f"town {i:02d}" for i in range(14)], np.arange(1, 15))
    X = pd.DataFrame({"town": towns, "size": np.random.default_rng(0).normal(size=len(towns))})
    model = GPRegressor(max_iterations=0).fit(X, X["size"] + (X.town == "town 13"))
    found = gather(model, X, X["size"], None, None, **PLAINLY)
    curve = next(each for each in found["effects"]["curves"] if each["name"] == "town")
    assert curve["values"] == [f"town {i:02d}" for i in range(13, 3, -1)]
    assert (curve["more_values"], curve["more_curves"], found["effects"]["more"]) == (4, 0, 0)


def test_phases_of_training_keep_their_numbers():
    class Phased(BaseEstimator):
        fitted_ = None
        histories_ = (History([-3.0]), History([]), History([-1.5, -1.0]))

    found = histories(Phased())
    assert [(each["number"], each["epochs"], each["values"]) for each in found] == [
        (1, [1], [-3.0]),
        (3, [1, 2], [-1.5, -1.0]),
    ]
    Phased.histories_ = (History([-3.0]),)  # of which no curve can be drawn
    assert histories(Phased()) == []


def test_the_data_are_described(regression):
    found = regression[2]["data"]
    X, y = trial()
    town = found["columns"][2]
    assert [column["kind"] for column in found["columns"]] == ["number", "number", "category"]
    assert dict(map(tuple, town["top"])) == X.town[:40].value_counts().to_dict()
    assert found["columns"][0]["middle"] == pytest.approx(X["dose (mg)"][:40].median(), rel=1e-12)
    assert found["target"]["mean"] == pytest.approx(y[:40].mean(), rel=1e-12)
    assert sum(found["target"]["counts"]) == found["rows"] == 40


def test_missing_entries_and_dates_are_told():
    X, y = trial(30)
    X["seen"] = pd.date_range("2020-01-01", periods=30)
    X.loc[:4, "dose (mg)"] = np.nan
    model = GPRegressor(missing="impute", max_iterations=0).fit(X, y)
    columns = gather(model, X, y, None, None, **PLAINLY)["data"]["columns"]
    assert [column["missing"] for column in columns] == [5, 0, 0, 0]
    assert (columns[3]["kind"], columns[3]["low"], columns[3]["high"]) == ("date", "2020-01-01", "2020-01-30")


@pytest.mark.parametrize("which", ["regression", "classification"])
def test_results_survive_json(which, request):
    found = request.getfixturevalue(which)[2]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert len(json.dumps(found)) < 100_000


def test_many_rows_are_thinned():
    X = np.random.default_rng(0).uniform(size=(30_000, 1))
    model = GPRegressor(max_iterations=0).fit(X[:30], X[:30, 0])
    found = gather(model, X[:30], X[:30, 0], X, X[:, 0], **PLAINLY)
    assert (found["performance"]["rows"], found["performance"]["of"]) == (20_000, 30_000)
    assert len(json.dumps(found)) < 100_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baselines": {"mean": 3.0}}, "baselines must be a dict of dicts"),
        ({"settings": None}, "settings must be a dict"),
        ({"assumptions": "none"}, "assumptions must be a list"),
        ({"title": 3}, "title must be a string"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_arguments_are_named(regression, changes, message):
    model, (X, y), _ = regression
    with pytest.raises(InputError, match=message):
        gather(model, X, y, X, y, **{**PLAINLY, **changes})


def test_other_bad_input(regression, classification):
    model, (X, y), _ = regression
    with pytest.raises(InputError, match="give both X_test and y_test"):
        gather(model, X, y, X, None, **PLAINLY)
    with pytest.raises(InputError, match="fitted regressor or classifier, got str"):
        gather("model", X, y, X, y, **PLAINLY)
    two = GPRegressor(max_iterations=0).fit(X[["dose (mg)"]], np.column_stack([y, y]))
    with pytest.raises(InputError, match="targets"):
        gather(two, X[["dose (mg)"]], y, X[["dose (mg)"]], y, **PLAINLY)
    model, (X, label), _ = classification
    with pytest.raises(InputError, match="the class 'odd', which the model does not know"):
        gather(model, X, label, X, np.where(label == "high", "odd", label), **PLAINLY)


def test_entries_are_short_texts_and_numbers():
    assert entry(pd.Timestamp("2021-03-04 05:06:07")) == "2021-03-04 05:06:07"
    assert entry(pd.NaT) is None
    assert entry(np.nan) is None
    assert entry(np.int64(3)) == 3
    assert entry(True) == "True"
    assert entry("a  b\nc") == "a b c"


@pytest.mark.parametrize("asked", [False, True])
def test_with_many_rows_standard_errors_are_shown_only_if_known_already(monkeypatch, asked):
    X, y = trial()
    model = GPRegressor(n_restarts=0).fit(X[:40], y[:40])
    monkeypatch.setattr(learnt, "_MOST_ROWS", 39)
    if asked:
        assert len(model.hyperparameters_)
    found = learnt.describe(model, read_inputs(X[:40], model), 40)
    assert found["has_errors"] == asked
    assert found["values"]
    assert np.isfinite(
        [row.std for row in model.hyperparameters_ if row.trainable]
    ).all()  # the model itself is as before


def test_curves_average_over_rows_without_gaps():
    X = np.random.default_rng(0).normal(size=(80, 2))
    X[:30, 1] = np.nan
    inputs = read_inputs(X, None)
    np.testing.assert_array_equal(inputs.complete, np.arange(30, 80))
    model = GPRegressor(missing="impute", max_iterations=0).fit(X, X[:, 0])
    assert set(averaged_over(model, inputs, 0)) == set(range(30, 80))
    X[:60, 1] = np.nan  # too few without
    assert len(averaged_over(model, read_inputs(X, None), 0)) == 30
