"""Frames of polars, sparse matrices, outputs of transformers, and weights that are routed through scikit-learn."""

import datetime

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stratagp import BayesianGPLVM, GPClassifier, GPRegressor
from stratagp import kernels as k
from stratagp.errors import InputError

QUICK = {"n_restarts": 0, "max_iterations": 0, "random_state": 0}


def columns(n=30):
    random = np.random.default_rng(0)
    first = datetime.date(2024, 1, 1)
    return {
        "size": random.uniform(0, 9, n).tolist(),
        "rooms": random.integers(1, 6, n).tolist(),
        "city": random.choice(["Rome", "Oslo", "Bonn"], n).tolist(),
        "sold": [first + datetime.timedelta(days=int(i)) for i in random.integers(0, 700, n)],
        "new": random.choice([True, False], n).tolist(),
    }


@pytest.mark.parametrize("chosen", [["size", "rooms"], ["size", "rooms", "city", "sold", "new"]])
def test_a_frame_of_polars_is_read_as_one_of_pandas(chosen):
    pl = pytest.importorskip("polars")
    given = {name: columns()[name] for name in chosen}
    y = np.sin(given["size"]) + given["rooms"]
    theirs, ours = pl.DataFrame(given), pd.DataFrame(given)
    gp = GPRegressor(**QUICK).fit(theirs, pl.Series("price", y), sample_weight=pl.Series(np.arange(1.0, 31)))
    truth = GPRegressor(**QUICK).fit(ours, y, sample_weight=np.arange(1.0, 31))
    assert list(gp.feature_names_in_) == chosen
    np.testing.assert_allclose(gp.predict(theirs), truth.predict(ours), rtol=1e-12)
    np.testing.assert_allclose(gp.predict(ours), truth.predict(theirs), rtol=1e-12)
    np.testing.assert_allclose(gp.score(theirs, pl.Series(y)), truth.score(ours, y), rtol=1e-12)
    updated = gp.update(theirs[:3], pl.Series(y[:3] + 1)).predict(theirs)
    np.testing.assert_allclose(updated, truth.update(ours[:3], y[:3] + 1).predict(ours), rtol=1e-12)
    with pytest.raises(ValueError, match=r"feature names|columns"):
        gp.predict(theirs.rename({"size": "length"}))


def test_gaps_and_categories_of_polars_are_those_of_pandas():
    pl = pytest.importorskip("polars")
    given = columns()
    given["size"][3] = None
    theirs = pl.DataFrame({"size": given["size"], "city": pl.Series(given["city"], dtype=pl.Categorical)})
    ours = pd.DataFrame({"size": np.array(given["size"], dtype=float), "city": pd.Categorical(given["city"])})
    labels = np.where(np.array(given["rooms"]) > 2, "large", "small")
    gp = GPRegressor(missing="impute", **QUICK).fit(theirs, given["rooms"])
    truth = GPRegressor(missing="impute", **QUICK).fit(ours, given["rooms"])
    np.testing.assert_allclose(gp.predict(theirs), truth.predict(ours), rtol=1e-9)
    with pytest.raises(InputError, match="'size'"):
        GPRegressor(**QUICK).fit(theirs, given["rooms"])
    whole, own = theirs.select("city"), ours[["city"]]
    classes = GPClassifier(max_iterations=0).fit(whole, pl.Series(labels)).predict(whole)
    np.testing.assert_array_equal(classes, GPClassifier(max_iterations=0).fit(own, labels).predict(own))


@pytest.mark.parametrize("kernel", [None, k.Linear()])
@pytest.mark.parametrize("made", [sparse.csr_array, sparse.coo_matrix, lambda X: torch.from_numpy(X).to_sparse()])
def test_sparse_rows_are_refused_with_the_way_out(made, kernel):
    X = np.eye(6)
    with pytest.raises((InputError, TypeError), match=r"toarray\(\)|to_dense\(\)"):
        GPRegressor(kernel, **QUICK).fit(made(X), np.arange(6.0))
    gp = GPRegressor(kernel, **QUICK).fit(X, np.arange(6.0))
    with pytest.raises((InputError, TypeError), match=r"toarray\(\)|to_dense\(\)"):
        gp.predict(made(X))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_is_for_the_one_transformer(container):
    pytest.importorskip(container)
    Y = np.random.default_rng(0).normal(size=(12, 3))
    model = BayesianGPLVM(n_components=2, n_inducing=5, max_iterations=3)
    found = model.set_output(transform=container).fit_transform(Y)
    assert list(found.columns) == ["bayesiangplvm0", "bayesiangplvm1"]
    assert found.shape == (12, 2)
    assert not hasattr(GPRegressor(), "set_output")


def test_weights_reach_a_model_in_a_pipeline_and_a_search():
    random = np.random.default_rng(0)
    X, weights = random.uniform(0, 5, (30, 2)), random.uniform(0.1, 5, 30)
    y = np.sin(X[:, 0]) + 0.1 * random.normal(size=30)
    scaled = StandardScaler().fit_transform(X)
    truth = GPRegressor(**QUICK).fit(scaled, y, sample_weight=weights).predict(scaled)
    assert np.abs(truth - GPRegressor(**QUICK).fit(scaled, y).predict(scaled)).max() > 1e-3
    named = make_pipeline(StandardScaler(), GPRegressor(**QUICK)).fit(X, y, gpregressor__sample_weight=weights)
    np.testing.assert_allclose(named.predict(X), truth, rtol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = GPRegressor(**QUICK).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), gp)
        np.testing.assert_allclose(pipeline.fit(X, y, sample_weight=weights).predict(X), truth, rtol=1e-12)
        grid = {"gpregressor__kernel": [k.RBF(), k.Matern(2.5)]}
        weighted = make_scorer(r2_score).set_score_request(sample_weight=True)
        search = GridSearchCV(pipeline, grid, scoring=weighted, cv=2).fit(X, y, sample_weight=weights)
    half = slice(15, 30), slice(0, 15)
    own = make_pipeline(StandardScaler(), GPRegressor(k.RBF(), **QUICK))
    own.fit(X[half[0]], y[half[0]], gpregressor__sample_weight=weights[half[0]])
    expected = own.score(X[half[1]], y[half[1]], sample_weight=weights[half[1]])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(expected, rel=1e-10)
