"""Estimators in closed form whose models are not on the processor: fits, all that is asked of them, copies."""

import copy
import pickle

import numpy as np
import pytest
import torch

import stratagp as s
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.training.devices import to_processor
from tests.without_values import OneDevice, answer_questions

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
QUICK = {"max_iterations": 0, "random_state": 0}  # one evaluation: without values no iteration finds its end
REGRESSORS = {
    "exact": lambda: s.GPRegressor(**QUICK),
    "sum": lambda: s.GPRegressor(
        k.RBF() * k.Periodic() + k.Linear(), mean=s.means.Polynomial([0.1, 0.2]), n_restarts=0, **QUICK
    ),
    "without noise": lambda: s.GPRegressor(noise=0.0, **QUICK),
    "leave-one-out": lambda: s.GPRegressor(hyperparameters="loo", n_restarts=0, **QUICK),
    "heteroscedastic": lambda: s.GPRegressor(noise="heteroscedastic", **QUICK),
    "sparse": lambda: s.GPRegressor(inference="sparse", n_inducing=5, **QUICK),
    "vecchia": lambda: s.GPRegressor(inference="vecchia", n_neighbours=5, **QUICK),
    "correlated": lambda: s.GPRegressor(outputs="correlated", **QUICK),
    "Student-t": lambda: s.StudentTProcessRegressor(**QUICK),
}
CLASSIFIERS = {
    "laplace": lambda: s.GPClassifier(inference="laplace", **QUICK),
    "probit": lambda: s.GPClassifier(inference="laplace", link="probit", **QUICK),
}


@pytest.fixture
def elsewhere(monkeypatch):
    """A device that has no values."""
    answer_questions(monkeypatch)
    with OneDevice():
        yield "meta"


def table(n=20):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(n, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


def places(model):
    return {part.device.type for part in (*model.model_.parameters(), *model.model_.buffers())}


def slope_is_known(model):
    """The gradient that training climbs by, of models that know their score without samples."""
    if model.fitted_.learnt is not None:
        assert model.log_marginal_likelihood(eval_gradient=True)[1].shape == model.theta_.shape


@pytest.mark.parametrize("name", [name for name in REGRESSORS if name != "correlated"])  # which sorts rows by values
def test_regression_elsewhere(name, elsewhere):
    X, y = table()
    model = REGRESSORS[name]().set_params(device=elsewhere).fit(X, y)
    assert places(model) == {elsewhere}
    for found in (*model.predict(X, return_std=True), model.log_density(X, y), model.cdf(X, y)):
        assert (type(found), found.shape) == (np.ndarray, y.shape)
    assert model.predict(X[:3], return_cov=True)[1].shape[:2] == (3, 3)
    assert model.sample_y(X[:3], 2).shape[0] == 3
    assert model.relevance_.shape == (2,)
    slope_is_known(model)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert places(again) == {"cpu"}
        assert again.predict(X).shape == y.shape


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classification_elsewhere(name, classes, elsewhere):
    X, y = table()
    labels = np.digitize(y, [0.0, 1.0][: classes - 1])
    model = CLASSIFIERS[name]().set_params(device=elsewhere).fit(X, labels)
    assert places(model) == {elsewhere}
    assert model.predict_proba(X).shape == (20, classes)
    assert model.relevance_.shape == (2,)
    slope_is_known(model)
    again = pickle.loads(pickle.dumps(model))
    assert places(again) == {"cpu"}
    assert again.predict_proba(X).shape == (20, classes)


def test_questions_of_exact_processes_elsewhere(elsewhere):
    X, y = table()
    model = s.GPRegressor(k.RBF(ard=True), n_restarts=0, device=elsewhere, **QUICK).fit(X, y)
    assert model.leave_one_out()[0].shape == (20,)
    assert model.predict_component(X, 0, return_std=True)[1].shape == (20,)
    assert model.partial_dependence(0, [0.1, 0.2])[0].shape == (2,)
    assert model.predict_uncertain(X, [0.1, 0.1])[1].shape == (20,)
    assert np.isfinite(model.log_marginal_likelihood())
    assert len(model.hyperparameters_.rows) > 0


def test_objects_stay_on_the_processor(elsewhere):
    words, share = ["ab", "aab", "abb", "bb", "ba", "aa"], np.arange(6.0)
    with pytest.raises(InputError, match="device='meta' is for kernels over columns: objects need device='cpu'"):
        s.GPRegressor(k.Spectrum(1), device=elsewhere, **QUICK).fit(words, share)


def test_missing_inputs_and_weights_elsewhere(elsewhere):
    X, y = table()
    X[3, 1] = np.nan
    model = s.GPRegressor(missing="impute", n_restarts=0, device=elsewhere, **QUICK)
    model.fit(X, y, sample_weight=np.linspace(0.5, 1, 20))
    assert model.predict(X, return_std=True)[1].shape == (20,)


def test_draws_of_hyperparameters_elsewhere(elsewhere, monkeypatch):
    monkeypatch.setattr(s.recipes.search, "WARM_UP", 2)
    X, y = table()
    model = s.GPRegressor(hyperparameters="bayes", n_draws=2, n_restarts=0, device=elsewhere, **QUICK).fit(X, y)
    assert model.predict(X, return_std=True)[1].shape == (20,)


@pytest.mark.parametrize("name", REGRESSORS)
def test_copies_for_the_processor_answer_alike_and_share_what_was_shared(name):
    """The way that copies from another device take, on the processor: the same bits, and nothing of the original."""
    X, y = table()
    y = np.stack([y, -y], 1) if name == "correlated" else y
    model = REGRESSORS[name]().fit(X, y)
    again = copy.copy(model)
    again.__dict__ = to_processor(vars(model))
    assert np.array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    for part in again.model_.parameters():
        part.data.fill_(0.0)
    assert np.isfinite(model.theta_).all()
    assert model.theta_.any()
    assert again.fitted_.module is again.model_
    assert isinstance(again.device, str)
    assert torch.device(again.device).type == "cpu"
