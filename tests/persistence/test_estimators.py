"""A loaded estimator says what the saved one says, to the last bit, and can be fitted again."""

import copy
import inspect
import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge

import stratagp
from stratagp import kernels as k
from stratagp.errors import InputError, StrataGPError
from stratagp.estimators import GPRegressor
from tests.persistence import estimators as makers
from tests.persistence.estimators import MAKERS, fitted, numbers, table
from tests.training_length import make_steps

QUESTIONS = {
    "predict": lambda m, X: m.predict(X),
    "predict, std": lambda m, X: m.predict(X, return_std=True),
    "predict, cov": lambda m, X: m.predict(X, return_cov=True),
    "predict_proba": lambda m, X: m.predict_proba(X),
    "predict_quantiles": lambda m, X: m.predict_quantiles(X, [0.1, 0.7]),
    "predict_interval": lambda m, X: m.predict_interval(X),
    "predict_set": lambda m, X: m.predict_set(X, 0.2),
    "cdf": lambda m, X: m.cdf(X, np.arange(len(X)) + 8.0),
    "predict_component": lambda m, X: m.predict_component(X, 0, return_std=True),
    "sample_y": lambda m, X: m.sample_y(X, 3, random_state=7),
    "leave_one_out": lambda m, X: m.leave_one_out(),
    "certainty": lambda m, X: m.certainty(X),
    "transform": lambda m, X: m.transform(X),
    "inverse_transform": lambda m, X: m.inverse_transform(np.ones((2, 2))),
    "influence": lambda m, X: list(m.influence(X).values()),
    "log_marginal_likelihood": lambda m, X: m.log_marginal_likelihood(),
    "relevance_": lambda m, X: m.relevance_,
    "partial_dependence": lambda m, X: m.partial_dependence(0)[0],
    "sobol_indices": lambda m, X: m.sobol_indices(np.array([[0.0, 1.0]] * 3))[0],
    "theta_": lambda m, X: m.theta_,
}


def asked(model, X):
    """All that the model answers."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, question in QUESTIONS.items():
            torch.default_generator.manual_seed(3)
            try:
                answer = question(model, X)
            except (AttributeError, TypeError, StrataGPError):
                continue
            found[name] = [np.asarray(part) for part in (answer if isinstance(answer, tuple) else (answer,))]
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_estimator_gives_the_same_bits(name, tmp_path):
    model, X = fitted(name)
    model.save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model")
    before, after = asked(copy.deepcopy(model), X), asked(loaded, X)
    assert before.keys() == after.keys()
    assert before
    for question, parts in before.items():
        for one, other in zip(parts, after[question], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=question)


@pytest.mark.parametrize("name", MAKERS)
def test_arguments_come_back(name, tmp_path):
    model, _ = fitted(name)
    model.save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model")
    assert type(loaded) is type(model)
    one, other = model.get_params(), loaded.get_params()
    assert one.keys() == other.keys()
    shown = [re.sub("0x[0-9A-F]+", "", repr(clone(each))) for each in (loaded, model)]
    assert shown[0] == shown[1]
    for key, value in one.items():
        if isinstance(value, (int, float, str, bool, type(None), list, slice)) and not isinstance(value, torch.Tensor):
            assert repr(other[key]) == repr(value)


def test_every_estimator_is_tried():
    saved = {name for name in stratagp._ESTIMATORS if hasattr(getattr(stratagp, name), "save")}
    source = inspect.getsource(makers)  # to fit them all again would take minutes
    assert saved == {name for name in saved if re.search(rf"\bs\.{name}\b", source)}


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", ["exact", "frame", "laplace", "autogp", "rich"])
def test_a_loaded_estimator_fits_again_to_the_same(name, tmp_path, monkeypatch):
    make_steps(monkeypatch, 5)
    model, X = fitted(name)
    model.save(tmp_path / "model")
    X, y = (X, np.arange(6.0)) if name == "frame" else (table(), numbers(table()))
    y = y > 10 if name == "laplace" else y
    again = [clone(each).fit(X, y) for each in (copy.deepcopy(model), stratagp.load(tmp_path / "model"))]
    np.testing.assert_array_equal(again[0].predict(X), again[1].predict(X))


def test_a_loaded_model_can_be_saved_to_the_same_files(tmp_path):
    fitted("rich").model.save(tmp_path / "one")
    stratagp.load(tmp_path / "one").save(tmp_path / "two")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
def test_what_was_tied_stays_tied(tmp_path):
    kernel = (k.RBF(1.0).on([0]) + k.RBF(1.0).on([1])).tie("0.base.lengthscale", "1.base.lengthscale")
    gp = GPRegressor(kernel, max_iterations=3, n_restarts=0).fit(table(), numbers(table()))
    gp.save(tmp_path / "model")
    parts = stratagp.load(tmp_path / "model").kernel_.parts
    assert parts[0].base.parameter("lengthscale") is parts[1].base.parameter("lengthscale")


def test_the_least_number_of_steps_is_an_option(tmp_path):
    model = stratagp.AutoGPRegressor(n_inducing=5, max_epochs=3, min_steps=7, random_state=0)
    model.fit(table(), numbers(table())).save(tmp_path / "model")
    assert stratagp.load(tmp_path / "model").min_steps == clone(model).min_steps == 7
    assert sum(history.steps for history in model.histories_) == 3


def test_an_attribute_of_another_hand_is_refused(tmp_path):
    gp = copy.deepcopy(fitted("exact").model)
    gp.note = "from Tuesday"
    with pytest.raises(InputError, match="attribute 'note' that GPRegressor does not set: delete it"):
        gp.save(tmp_path / "model")


def test_a_calibrated_model_of_another_library_is_refused(tmp_path):
    ridge = stratagp.calibrate(BayesianRidge().fit(table(), numbers(table())), table(), numbers(table()))
    with pytest.raises(InputError, match="BayesianRidge, which was calibrated, is not a model of StrataGP"):
        ridge.save(tmp_path / "model")
    with pytest.raises(InputError, match="not fitted"):
        stratagp.ConformalRegressor(fitted("exact").model).save(tmp_path / "model")


def test_a_model_may_be_calibrated_twice(tmp_path):
    X = table(90)[40:]
    twice = stratagp.calibrate(fitted("conformal").model, X, numbers(X))
    twice.save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X, 0.5), twice.predict_interval(X, 0.5))
    assert stratagp.persistence.describe(tmp_path / "model")["calibrated"] == "GPRegressor"


def test_a_random_state_goes_on_where_it_was(tmp_path):
    model, _ = fitted("rich")
    model.save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model").random_state
    np.testing.assert_array_equal(loaded.normal(size=9), copy.deepcopy(model.random_state).normal(size=9))
