"""``inference="cg"`` beside ``inference="exact"``."""

import numpy as np
import pytest

from stratagp.errors import InputError
from stratagp.estimators import GPRegressor


def data(n=300, seed=0):
    random = np.random.default_rng(seed)
    X = 4 * random.random((n, 2))
    return X, 3 * np.sin(X).sum(1) + 5 + 0.5 * random.standard_normal(n)


def test_predictions_and_deviations_near_those_of_the_factor():
    """From 300 rows, all of which the start has seen: values differ by the noise of the last steps."""
    (X, y), (new, seen) = data(), data(100, seed=1)
    exact, cg = (GPRegressor(inference=how, random_state=0).fit(X, y) for how in ("exact", "cg"))
    (mean, std), (ours, our_std) = (gp.predict(new, return_std=True) for gp in (exact, cg))
    assert np.abs(ours - mean).max() < 0.1 * std.mean()
    assert np.abs(our_std / std - 1).max() < 0.05
    assert -cg.log_density(new, seen).mean() == pytest.approx(-exact.log_density(new, seen).mean(), abs=0.02)
    assert cg.log_marginal_likelihood() == pytest.approx(exact.log_marginal_likelihood(), abs=2.0)
    assert cg.residual_ < 1e-6
    assert cg.inference_reason_ == "as asked for"
    low, high = cg.predict_interval(new)
    assert 0.85 < np.mean((seen > low) & (seen < high)) <= 1


def test_weights_and_several_targets():
    """A weight of two is a row twice; values are kept, so that only the solves differ."""
    X, y = data(60)
    both = np.stack([y, -2 * y], 1)
    options = {"max_iterations": 0, "max_epochs": 1, "random_state": 0}
    exact = GPRegressor(inference="exact", **options).fit(X, both, sample_weight=np.r_[np.ones(30), 2 * np.ones(30)])
    cg = GPRegressor(inference="cg", **options).fit(X, both, sample_weight=np.r_[np.ones(30), 2 * np.ones(30)])
    exact.model_.load_state_dict(cg.model_.state_dict())
    exact.fitted_.draws = [exact.fitted_.condition()]
    np.testing.assert_allclose(cg.predict(X[:9]), exact.predict(X[:9]), atol=1e-5)


def test_what_cannot_be_is_refused():
    X, y = data(40)
    with pytest.raises(InputError, match="needs noise above 0"):
        GPRegressor(inference="cg", noise=0).fit(X, y)
    with pytest.raises(InputError, match="'cg' knows the evidence by samples"):
        GPRegressor(inference="cg", hyperparameters="bayes").fit(X, y)
    with pytest.raises(InputError, match="hyperparameters='loo' needs inference='exact'"):
        GPRegressor(inference="cg", hyperparameters="loo").fit(X, y)
    with pytest.raises(InputError, match="eval_gradient"):
        GPRegressor(inference="cg", max_epochs=1).fit(X, y).log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(AttributeError, match="only inference='cg' has residual_"):
        _ = GPRegressor().fit(X, y).residual_
