"""GPClassifier against scikit-learn and its own promises."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as SkRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.metrics import log_loss

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import GPClassifier
from stratagp.recipes import choose

X, T = make_moons(80, noise=0.2, random_state=0)
NEW, TRUTH = make_moons(300, noise=0.2, random_state=1)


def test_same_evidence_as_scikit_learn():
    ours = GPClassifier(k.RBF(), hyperparameters="ml").fit(X, T)
    theirs = GaussianProcessClassifier(ConstantKernel(1.0, (1e-3, 1e5)) * SkRBF(1.0)).fit(X, T)
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-3)
    np.testing.assert_allclose(ours.predict_proba(NEW)[:, 1], theirs.predict_proba(NEW)[:, 1], atol=0.01)
    theta = theirs.kernel_.theta[::-1]  # ours: lengthscale, variance
    assert ours.log_marginal_likelihood(theta) == pytest.approx(theirs.log_marginal_likelihood(theta[::-1]), abs=1e-6)


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational"])
def test_inferences_separate_the_moons(inference):
    gp = GPClassifier(k.RBF(), inference=inference).fit(X, T)
    assert gp.score(NEW, TRUTH) > 0.94
    assert log_loss(TRUTH, gp.predict_proba(NEW)) < 0.25
    assert gp.inference_ == inference


@pytest.mark.filterwarnings("ignore:L-BFGS stopped")  # twenty iterations are enough here
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_three_classes(inference):
    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    rows = np.random.default_rng(0).permutation(150)
    gp = GPClassifier(k.RBF(ard=True), inference=inference, max_iterations=20)
    gp.fit(iris.data.iloc[rows[:60]], names[rows[:60]])
    probabilities = gp.predict_proba(iris.data.iloc[rows[60:]])
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert gp.score(iris.data.iloc[rows[60:]], names[rows[60:]]) > 0.9
    assert list(gp.classes_) == ["setosa", "versicolor", "virginica"]
    assert gp.relevance_[2:].sum() > 0.5  # the petals tell the species


def test_kappa_is_close_to_quadrature():
    gp = GPClassifier(k.RBF(), hyperparameters="ml").fit(X, T)
    difference = gp.predict_proba(NEW) - gp.predict_proba(NEW, method="kappa")
    assert 0 < np.abs(difference).max() < 0.02
    with pytest.raises(InputError, match="method"):
        gp.predict_proba(NEW, method="exact")


def test_probit_link_and_bad_link():
    gp = GPClassifier(k.RBF(), link="probit").fit(X, T)
    assert gp.score(NEW, TRUTH) > 0.94
    with pytest.raises(InputError, match="needs link"):
        GPClassifier(k.RBF(), inference="ep", link="logit").fit(X, T)


def test_missing_entries_are_averaged_over():
    gp = GPClassifier(k.RBF(), missing="impute").fit(X, T)
    far, unknown = gp.predict_proba([[0.0, 1.0], [np.nan, np.nan]])
    assert far.max() > 0.8
    assert unknown.max() < 0.65


def test_frames_with_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "colour": rng.choice(["red", "blue"], 60)})
    gp = GPClassifier().fit(frame, np.where(frame.colour == "red", "hot", "cold"))
    assert gp.score(frame, np.where(frame.colour == "red", "hot", "cold")) == 1
    assert gp.relevance_[1] > 0.7


def test_average_over_hyperparameters(monkeypatch):
    monkeypatch.setattr("stratagp.recipes.search.WARM_UP", 25)
    gp = GPClassifier(k.RBF(), hyperparameters="bayes", n_draws=3, random_state=0).fit(X[:15], T[:15])
    assert len(gp.fitted_.draws) == 3
    np.testing.assert_allclose(gp.predict_proba(NEW).sum(1), 1)
    assert gp.score(NEW, TRUTH) > 0.7


def test_pickling_and_the_table():
    gp = GPClassifier().fit(X, T)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict_proba(NEW), gp.predict_proba(NEW))
    assert [row.name for row in gp.hyperparameters_] == [
        "kernel.lengthscale[x0]", "kernel.lengthscale[x1]", "kernel.variance"
    ]  # fmt: skip


def test_prediction_in_chunks_is_the_same(monkeypatch):
    gp = GPClassifier().fit(X, T)
    whole = gp.predict_proba(NEW)
    monkeypatch.setattr("stratagp.models.fitted._ROWS", 70)
    np.testing.assert_allclose(gp.predict_proba(NEW), whole, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_mini_batches(n_classes, monkeypatch):
    monkeypatch.setattr("stratagp.recipes.stochastic._LEAST_STEPS", 100)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 2))
    labels = np.digitize(rows.sum(1) + 0.1 * rng.normal(size=1500), [0.0, 1.0][: n_classes - 1])
    gp = GPClassifier(k.RBF(), inference="stochastic", n_inducing=20, max_epochs=12, random_state=0)
    gp.fit(rows[:1200], labels[:1200])
    assert gp.score(rows[1200:], labels[1200:]) > 0.92
    np.testing.assert_allclose(gp.predict_proba(rows).sum(1), 1, rtol=1e-6)
    assert choose.of_classes("auto", 10_000, 2, False, "map")[0] == "vecchia"
    assert "lengthscale" in str(gp.hyperparameters_)
