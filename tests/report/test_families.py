"""A page about every family of estimators, of columns and of objects."""

import json

import numpy as np
import pytest

import stratagp
from stratagp import kernels as k
from stratagp.report import gather, write_report
from stratagp.report.answers import intervals
from tests.report.conftest import PLAINLY
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
LABELS = np.where(Y > 0, "up", "down")
WORDS = ["".join(RNG.choice(list("abcd"), size=8)) for _ in range(60)]
BATCHES = {"max_epochs": 1, "random_state": 0}
FEATURES = {"n_layers": 1, "n_features": 5, "n_samples": 1, **BATCHES}
DEEP = {"n_hidden": 1, "n_inducing": 5}

REGRESSORS = {
    "StrataRegressor": {"plan": ["extra trees", "squared exponential"]},
    "GPRegressor": {"max_iterations": 0},
    "StudentTProcessRegressor": {"max_iterations": 0},
    "AutoGPRegressor": {"n_inducing": 5, **BATCHES},
    "DKLRegressor": {"network": [4, 2], "pretrain_epochs": 1, "grid_size": 8, **BATCHES},
    "DFGPRegressor": {**DEEP, "n_starts": 1, "max_iterations": 3},
    "WishartProcessRegressor": {"dof": 2, "n_inducing": 5, "n_starts": 1, "max_iterations": 3},
    "DRFRegressor": FEATURES,
    "GPDRFRegressor": {"n_processes": 2, "n_inducing": 5, **FEATURES},
}
CLASSIFIERS = {
    "StrataClassifier": {"plan": ["extra trees", "squared exponential"]},
    "GPClassifier": {"max_iterations": 0},
    "AutoGPClassifier": {"n_inducing": 5, **BATCHES},
    "DKLClassifier": {"network": [4, 2], "pretrain_epochs": 1, "grid_size": 8, **BATCHES},
    "DFGPClassifier": {**DEEP, "propagate": "moments", **BATCHES},
    "DRFClassifier": FEATURES,
    "GPDRFClassifier": {"n_processes": 2, "n_inducing": 5, **FEATURES},
}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Toys need no thousands of steps."""
    make_steps(monkeypatch, 3)


def check(results, tmp_path):
    """The page holds the scores, and JSON the results."""
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    page = write_report(results, tmp_path / "page.html").read_text(encoding="utf-8")
    assert results["model"]["name"] in page
    assert len(page.encode()) < 1_500_000


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers(name, tmp_path):
    model = getattr(stratagp, name)(**REGRESSORS[name]).fit(X[:40], Y[:40])
    results = gather(model, X[:40], Y[:40], X[40:], Y[40:], **PLAINLY)
    error = Y[40:] - model.predict(X[40:])
    assert results["performance"]["scores"]["rmse"]["value"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)
    low, high = model.predict_interval(X[40:], 0.5)
    inside = dict(zip(results["calibration"]["levels"], results["calibration"]["inside"], strict=True))
    assert inside[0.5] == np.sum((low <= Y[40:]) & (Y[40:] <= high))
    assert len(results["effects"]["curves"]) == 2
    check(results, tmp_path)


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes(name, tmp_path):
    model = getattr(stratagp, name)(**CLASSIFIERS[name]).fit(X[:40], LABELS[:40])
    results = gather(model, X[:40], LABELS[:40], X[40:], LABELS[40:], **PLAINLY)
    assert results["performance"]["scores"]["accuracy"]["value"] == pytest.approx(model.score(X[40:], LABELS[40:]))
    check(results, tmp_path)


@pytest.mark.parametrize("inference", ["sparse", "stochastic"])
def test_ways_of_inference(inference, tmp_path, monkeypatch):
    monkeypatch.setattr("stratagp.recipes.stochastic._LEAST_STEPS", 5)
    model = stratagp.GPRegressor(inference=inference, n_inducing=5, max_iterations=0, max_epochs=1).fit(X, Y)
    results = gather(model, X, Y, None, None, **PLAINLY)
    assert results["performance"]["evidence"] == "training"
    assert results["model"]["inference"] == inference
    check(results, tmp_path)


@pytest.mark.parametrize("method", ["conformal", "isotonic"])
def test_calibrated_models(method, tmp_path):
    model = stratagp.calibrate(
        stratagp.GPRegressor(max_iterations=0).fit(X[:20], Y[:20]), X[20:30], Y[20:30], method=method
    )
    results = gather(model, X[:20], Y[:20], X[30:], Y[30:], **PLAINLY)
    assert results["model"]["inner"] == "GPRegressor"
    if method == "conformal":
        assert 0.95 not in results["calibration"]["levels"]  # which 10 rows cannot give
    check(results, tmp_path)
    soft = stratagp.calibrate(
        stratagp.GPClassifier(max_iterations=0).fit(X[:20], LABELS[:20]), X[20:50], LABELS[20:50], method=method
    )
    check(gather(soft, X[:20], LABELS[:20], X[50:], LABELS[50:], **PLAINLY), tmp_path)


@pytest.mark.parametrize("method", ["conformal", "isotonic"])
def test_a_calibrated_model_is_asked_once_for_its_own_intervals(method, monkeypatch):
    inner = stratagp.GPRegressor(max_iterations=0).fit(X[:20], Y[:20])
    model = stratagp.calibrate(inner, X[20:30], Y[20:30], method=method)
    by_hand = {level: model.predict_interval(X[30:], level) for level in (0.5, 0.9)}
    asked = []
    for name in ("predict", "predict_quantiles"):
        own = getattr(inner, name)
        monkeypatch.setattr(inner, name, lambda *a, own=own, **kw: asked.append(1) or own(*a, **kw), raising=False)
    found = intervals(model, X[30:])
    assert len(asked) == 1
    for level, ends in by_hand.items():
        np.testing.assert_allclose(found[level], ends, rtol=1e-12)


def test_objects(tmp_path):
    model = stratagp.GPRegressor(k.Spectrum(2), max_iterations=0).fit(WORDS[:40], Y[:40])
    results = gather(model, WORDS[:40], Y[:40], WORDS[40:], Y[40:], **PLAINLY)
    assert results["data"]["columns"][0]["kind"] == "object"
    assert results["worst"]["rows"][0]["inputs"] == [WORDS[40 + int(results["worst"]["rows"][0]["row"])]]
    check(results, tmp_path)


def test_images(tmp_path):
    images = RNG.normal(size=(40, 8, 8))
    options = {"network": [4, 2], "pretrain_epochs": 1, "grid_size": 8, **BATCHES}
    model = stratagp.DKLClassifier(**options).fit(images.reshape(40, -1), LABELS[:40])
    check(gather(model, images.reshape(40, -1), LABELS[:40], None, None, **PLAINLY), tmp_path)


def test_one_column_and_a_constant_target(tmp_path):
    model = stratagp.GPRegressor(max_iterations=0).fit(X[:10, :1], np.ones(10))
    check(gather(model, X[:10, :1], np.ones(10), None, None, **PLAINLY), tmp_path)
