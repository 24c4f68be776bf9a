"""Benchmarks of whole fits: contestants do what they say, and are compared as the tables claim."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import datasets
import exact
import fits
import uci
from harness import Skip


@pytest.fixture(scope="module")
def small_task() -> fits.Task:
    return fits.task(120)


@pytest.mark.peer
@pytest.mark.parametrize("name", {**fits.OURS, **fits.PEERS})
def test_fits_reach_the_same_evidence_and_predict_as_their_hyperparameters_say(
    name: str, small_task: fits.Task
) -> None:
    try:
        fit = {**fits.OURS, **fits.PEERS}[name]()
    except Skip as reason:
        pytest.skip(str(reason))
    fitted, new = fit(small_task), fits.places(5, seed=1)
    ours = fits.stratagp()(small_task)
    assert fits.log_evidence(small_task, fitted) == pytest.approx(fits.log_evidence(small_task, ours), abs=1e-4)
    cross, own = (
        fitted.variance * _bell(a / fitted.lengthscale, small_task.x / fitted.lengthscale) for a in (new, small_task.x)
    )
    weights = np.linalg.solve(own + fitted.noise * np.eye(120), cross.T)
    mean, std = fitted.predict(new)
    np.testing.assert_allclose(mean, small_task.y @ weights, atol=1e-6)  # GPy adds jitter
    np.testing.assert_allclose(std**2, fitted.variance + fitted.noise - (cross.T * weights).sum(0), atol=1e-6)


def _bell(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(x[:, None] - z).sum(-1))


def test_the_log_evidence_that_judges_fits(small_task: fits.Task) -> None:
    at = fits.Fitted(small_task.lengthscale, 1.5, 0.2, 0, lambda new: (new, new))
    scaled = small_task.x / small_task.lengthscale
    truth = stats.multivariate_normal(cov=1.5 * _bell(scaled, scaled) + 0.2 * np.eye(120)).logpdf(small_task.y)
    assert fits.log_evidence(small_task, at) == pytest.approx(truth, rel=1e-10)


def test_a_fit_is_compared_with_the_fastest_peer_that_reached_the_evidence() -> None:
    def row(fit: float, evidence: float) -> dict[str, Any]:
        return {"fit": fit, "evidence": evidence, "evaluations": 10, "predict": {"1000": 0.1, "10000": 1.0}}

    runs = {"StrataGP": row(1.0, -50.0), "GPyTorch": row(2.0, -51.0), "scikit-learn": row(6.0, -50.05)}
    lines, words = exact.compared(1000, runs)
    assert [line["faster"] for line in lines] == ["6.00×", "–", "–"]
    assert words.startswith("n = 1000: 6.00 times as fast as scikit-learn, the goal of 3 is reached")
    assert words.endswith("not within 0.1 nats of the best evidence: GPyTorch (-51.000)")
    assert "MISSED" in exact.compared(1000, runs | {"GPyTorch": row(2.0, -50.0)})[1]


@pytest.mark.peer
@pytest.mark.parametrize("name", uci.LIBRARIES)
def test_libraries_answer_in_the_units_of_the_data(name: str) -> None:
    try:
        library = uci.LIBRARIES[name]()
    except Skip as reason:
        pytest.skip(str(reason))
    random = np.random.default_rng(0)
    X = random.uniform(0, [1e3, 1e-3], size=(60, 2))
    y = 5e4 + 1e4 * np.sin(X[:, 0] / 200) + 1e7 * X[:, 1] + 100 * random.standard_normal(60)
    mean, std = library(datasets.Split(X[:50], y[:50], X[50:], y[50:]))
    assert np.abs(mean - y[50:]).max() < 1500  # the targets spread over 20,000
    assert 50 < np.median(std) < 1000


def test_accuracies_are_compared_split_by_split() -> None:
    ours = {"rmse": [1.1, 2.1, 3.2], "nlpd": [0.0, 1.0, 2.0], "coverage": [0.95, 0.93, 0.97]}
    theirs = {"rmse": [1.0, 2.0, 3.0], "nlpd": [1.0, 0.0, 2.0], "coverage": [0.90, 0.99, 0.90]}
    lines = uci.against("a set", {"StrataGP": ours, "them": theirs}, "them")
    assert [line["we are"] for line in lines] == ["worse", "equal", "better"]
    assert lines[0]["ours − theirs"] == "+0.1333 ± 0.0333"  # of 0.1, 0.1, 0.2
