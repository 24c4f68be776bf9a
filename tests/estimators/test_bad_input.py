"""Bad input: the message names the argument, the fault and the remedy, before any work starts."""

import warnings

import numpy as np
import pandas as pd
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError, NumericalWarning
from stratagp.estimators import GPClassifier, GPRegressor, StudentTProcessRegressor

X = np.random.default_rng(0).normal(size=(20, 2))
Y = X[:, 0] + 0.1 * X[:, 1]
LABELS = np.where(Y > 0, "a", "b")
ALL = [(GPRegressor(), Y), (StudentTProcessRegressor(), Y), (GPClassifier(), LABELS)]


def damaged(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


@pytest.mark.parametrize(("estimator", "y"), ALL)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_nan_and_infinity_in_X(estimator, y, value, word):
    with pytest.raises(ValueError, match=word):
        estimator.fit(damaged(value), y)
    with pytest.raises(ValueError, match=word):
        estimator.fit(X, y).predict(damaged(value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_in_y(value):
    y = Y.copy()
    y[5] = value
    with pytest.raises(InputError, match=r"y contains (NaN|infinity) in row 5.*drop"):
        GPRegressor().fit(X, y)


def test_one_row_tells_no_spread():
    """So it is refused, unless kernel and noise have the units of y: posterior mean 4/5 · 3, variance 4 − 16/5 + 1."""
    with pytest.raises(InputError, match=r"one row.*standardise='none'"):
        GPRegressor().fit([[1.0]], [3.0])
    gp = GPRegressor(k.RBF(1.0, variance=4.0), noise=1.0, standardise="none", max_iterations=0).fit([[1.0]], [3.0])
    mean, std = gp.predict([[1.0], [50.0]], return_std=True)
    np.testing.assert_allclose(mean, [2.4, 0.0], atol=1e-12)
    np.testing.assert_allclose(std**2, [1.8, 5.0], rtol=1e-12)


def test_constant_target_works():
    mean, std = GPRegressor().fit(X, np.full(20, 7.0)).predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1e-6)
    assert (std > 0).all()


def test_constant_column_works():
    wide = np.column_stack([X, np.full(20, 5.0)])
    gp = GPRegressor().fit(wide, Y)
    assert gp.relevance_[2] == 0
    np.testing.assert_allclose(gp.predict(wide), Y, atol=0.1)


def test_duplicate_rows_with_noise_work():
    gp = GPRegressor().fit(np.concatenate([X, X]), np.concatenate([Y, Y + 0.01]))
    np.testing.assert_allclose(gp.predict(X), Y, atol=0.1)


def test_duplicate_rows_without_noise_are_repaired_aloud():
    twice = np.concatenate([X, X[:1]])
    with pytest.warns(NumericalWarning, match="numerically singular"):
        GPRegressor(k.RBF(1.0, 1.0), noise=0, max_iterations=0).fit(twice, np.append(Y, Y[0]))


@pytest.mark.parametrize(("estimator", "y"), ALL)
def test_strings_in_an_array(estimator, y):
    text = X.astype(object)
    text[2, 1] = "red"
    with pytest.raises(ValueError, match="red"):
        estimator.fit(text, y)


def test_strings_in_y():
    with pytest.raises(InputError, match=r"y must hold numbers.*GPClassifier"):
        GPRegressor().fit(X, LABELS)


@pytest.mark.parametrize(("estimator", "y"), ALL)
def test_wrong_shapes(estimator, y):
    with pytest.raises(ValueError, match="Reshape your data"):
        estimator.fit(X[:, 0], y)
    with pytest.raises(ValueError, match=r"X has 20 rows, but y has 19"):
        estimator.fit(X, y[:-1])
    fitted = estimator.fit(X, y)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
        fitted.predict(np.zeros((4, 3)))


def test_columns_missing_at_prediction():
    frame = pd.DataFrame({"age": X[:, 0], "city": np.where(X[:, 1] > 0, "Rome", "Oslo")})
    gp = GPRegressor().fit(frame, Y)
    with pytest.raises(InputError, match="city"):
        gp.predict(frame[["age"]])
    with pytest.raises(InputError, match="extra"):
        gp.predict(frame.assign(extra=1.0))


def test_one_class_only():
    with pytest.raises(InputError, match=r"at least two classes.*only one class"):
        GPClassifier().fit(X, np.zeros(20, int))


def test_continuous_labels():
    with pytest.raises(ValueError, match="continuous"):
        GPClassifier().fit(X, Y)


def test_labels_unseen_in_training_are_an_error_when_scored():
    gp = GPClassifier().fit(X, LABELS)
    assert gp.score(X, np.where(LABELS == "a", "a", "c")) < 1  # never predicted, so always wrong
    assert set(gp.predict(X)) <= {"a", "b"}


def test_too_many_rows_for_the_memory(monkeypatch):
    monkeypatch.setattr("stratagp.models.memory.available_memory", lambda: 8 * 10**9)
    big = np.random.default_rng(0).normal(size=(100_000, 2))
    with pytest.raises(InputError, match=r"GB.*(sparse|inducing)"):
        GPRegressor(inference="exact").fit(big, big[:, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be a kernel"),
        ({"inference": "magic"}, "inference must be one of 'auto'"),
        ({"hyperparameters": "best"}, "hyperparameters must be one of 'map'"),
        ({"noise": "loud"}, "noise must be 'learn'"),
        ({"noise": -1.0}, "noise must be a variance"),
        ({"noise": [0.1, 0.2]}, "noise has 2"),
        ({"n_restarts": -1}, "n_restarts must be a whole number"),
        ({"n_inducing": 0}, "n_inducing must be a whole number"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"standardise": True}, "standardise must be one of"),
        ({"noise": "heteroscedastic", "inference": "sparse"}, "inference must be 'exact'"),
    ],
)
def test_options_of_the_regressor(options, message):
    with pytest.raises(InputError, match=message):
        GPRegressor(**options).fit(X, Y)


def test_questions_with_wrong_arguments():
    gp = GPRegressor().fit(X, Y)
    for wrong in (
        lambda: gp.predict(X, return_std=True, return_cov=True),
        lambda: gp.predict(X, return_std=True, of="z"),
        lambda: gp.predict_interval(X, 95),
        lambda: gp.predict_quantiles(X, [0, 0.5]),
        lambda: gp.sample_y(X, 0),
        lambda: gp.log_marginal_likelihood([0.0]),
        lambda: gp.fit(X, Y, sample_weight=-np.ones(20)),
        lambda: gp.fit(X, Y, sample_weight=np.ones(3)),
        lambda: gp.fit(X, Y, sample_weight=np.zeros(20)),
    ):
        with pytest.raises(InputError):
            wrong()


def test_bad_input_is_refused_before_any_work():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="y contains NaN"):
            GPRegressor(verbose=False).fit(X, np.full(20, np.nan))
