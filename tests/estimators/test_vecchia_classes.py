"""GPClassifier by Vecchia's process: against dense expectation propagation, base rates, classes, odd rows."""

import numpy as np
import pytest

from stratagp import GPClassifier, load
from stratagp import kernels as k
from stratagp.errors import InputError

QUICK = {"inference": "vecchia", "n_neighbours": 30, "max_iterations": 10, "random_state": 0}


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, f = rows()
    return GPClassifier(k.RBF(ard=True), **{**QUICK, "n_neighbours": 200}).fit(X, f > 0)


def test_it_agrees_with_expectation_propagation_of_its_values(fitted):
    """Both classes are as frequent, so that the means agree nearly; neighbours are all rows."""
    X, f = rows()
    own = fitted.kernel_
    kernel = k.RBF(own.lengthscale.detach().numpy().ravel(), own.variance.item())
    dense = GPClassifier(kernel, inference="ep", max_iterations=0).fit(X, f > 0)
    new = rows(50, 1)[0]
    np.testing.assert_allclose(fitted.predict_proba(new), dense.predict_proba(new), atol=0.02)
    assert fitted.score(*(lambda x, f: (x, f > 0))(*rows(300, 2))) > 0.88


def test_latent_functions_can_be_asked(fitted):
    new = rows(5, 1)[0]
    found = fitted.predictive(new, of="f")
    assert found.mean.shape == (5, 1)
    np.testing.assert_array_equal(found.mean[:, 0] > 0, fitted.predict(new))


def test_far_from_the_rows_classes_have_their_base_rates():
    X, f = rows(300)
    t = f > np.quantile(f, 0.95)
    for link, tolerance in (("probit", 1e-6), ("logit", 0.02)):
        gp = GPClassifier(k.Matern(1.5), link=link, **QUICK).fit(X, t)
        assert gp.predict_proba([[1e4, 1e4]])[0, 1] == pytest.approx(0.05, abs=tolerance)


def test_several_classes_sum_to_one():
    X, f = rows(300)
    t = np.digitize(f, [-0.7, 0.7])
    gp = GPClassifier(k.RBF(ard=True), **QUICK).fit(X, t)
    new, values = rows(200, 1)
    p = gp.predict_proba(new)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-12)
    assert np.mean(gp.predict(new) == np.digitize(values, [-0.7, 0.7])) > 0.75
    assert gp.predictive(new[:3], of="f").mean.shape == (3, 3)


def test_smoothness_is_chosen_where_no_kernel_is_given(tmp_path):
    X, f = rows(120)
    gp = GPClassifier(**{**QUICK, "max_iterations": 3}).fit(X, f > 0)
    assert gp.kernel_.nu in (0.5, 1.5, 2.5)
    assert gp.inference_reason_ == "as asked for"
    gp.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), gp.predict_proba(X))


def test_missing_inputs_and_odd_columns():
    X, f = rows(120)
    X = np.column_stack([X, np.ones(120), X[:, 0].round()])
    X[3, 0] = np.nan
    gp = GPClassifier(k.RBF(), missing="impute", **QUICK).fit(np.repeat(X, 2, 0), np.repeat(f > 0, 2))
    assert np.isfinite(gp.predict_proba(X[:6])).all()


def test_few_rows():
    gp = GPClassifier(k.RBF(), **QUICK).fit([[0.0], [1.0]], ["a", "b"])
    p = gp.predict_proba([[0.0], [1.0], [0.5]])[:, 1]
    assert p[0] < 0.5 < p[1]


def test_what_it_cannot_do_is_said():
    X, f = rows(30)
    with pytest.raises(InputError, match="hyperparameters='bayes' needs closed forms"):
        GPClassifier(inference="vecchia", hyperparameters="bayes").fit(X, f > 0)
    with pytest.raises(InputError, match="needs a kernel over columns"):
        GPClassifier(k.Spectrum(2), inference="vecchia").fit(["ab", "ba", "bb", "aa"], [0, 1, 0, 1])
