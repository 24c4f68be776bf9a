"""What the estimators of deep kernel learning, and those beside them, say of options and data that cannot be."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.estimators import (
    AutoGPClassifier,
    AutoGPRegressor,
    DKLClassifier,
    DKLRegressor,
    GPClassifier,
    GPRegressor,
    StudentTProcessRegressor,
)
from tests.training_length import make_steps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0]
LABELS = np.where(Y > 0, "a", "b")
FAST = {"network": [8, 2], "grid_size": 10, "pretrain_epochs": 1, "max_epochs": 1, "random_state": 0}
CLASSIFIERS = [GPClassifier(), AutoGPClassifier(), DKLClassifier()]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    make_steps(monkeypatch, 5)


def regressor(**options):
    return DKLRegressor(**{**FAST, **options})


def classifier(**options):
    return DKLClassifier(**{**FAST, **options})


class Computes(nn.Module):
    """Two linear features, and what is made of them."""

    def __init__(self, change):
        super().__init__()
        self.map, self.change = nn.Linear(3, 2), change

    def forward(self, x):
        return self.change(self.map(x))


@pytest.mark.parametrize(("grid_size", "axes"), [(64, 4), (64, 3), (np.int64(64), np.int64(40))])
def test_grids_of_too_many_points_are_refused(grid_size, axes):
    with pytest.raises(InputError, match=f"at most 65536, .* got grid_size={grid_size} and axes={axes}: take fewer"):
        regressor(network=[16, 40 * 3], grid_size=grid_size, axes=axes).fit(X, Y)


def test_inducing_points_mind_no_axes():
    regressor(last="inducing", n_inducing=5, axes=4, grid_size=64).fit(X, Y)


@pytest.mark.parametrize("network", [[np.int64(8), np.int32(2)], np.array([8, 2]), (8, 2)], ids=str)
def test_widths_may_be_any_whole_numbers(network):
    np.testing.assert_array_equal(regressor(network=network).fit(X, Y).predict(X), regressor().fit(X, Y).predict(X))


@pytest.mark.parametrize("network", [[True, 2], [8.0, 2], np.array([8.5, 2])], ids=str)
def test_other_widths_are_refused(network):
    with pytest.raises(InputError, match="widths must be positive whole numbers"):
        regressor(network=network).fit(X, Y)


@pytest.mark.parametrize("make", [DKLRegressor, AutoGPRegressor, GPRegressor])
def test_imputation_is_advised(make):
    frame = pd.DataFrame({"u": Y, "city": ["Rome", "Oslo"] * 20})
    frame.loc[3, "city"] = None
    with pytest.raises(InputError, match=r"row 3, column 'city'.*use missing='impute'"):
        make().fit(frame, Y)


@pytest.mark.parametrize("likelihood", ["robust-max", lik.RobustMax()], ids=["name", "likelihood"])
def test_robust_max_is_refused(likelihood):
    with pytest.raises(InputError, match=r"^likelihood must have a density that changes smoothly.*take 'softmax'"):
        classifier(likelihood=likelihood).fit(X, LABELS)


@pytest.mark.parametrize("make", [DKLClassifier, AutoGPClassifier])
def test_robust_max_is_offered_only_by_those_that_know_it(make):
    with pytest.raises(InputError, match="one of auto, softmax, bernoulli") as by_name:
        make(likelihood="cauchy").fit(X, LABELS)
    assert ("robust-max" in str(by_name.value)) == (make is AutoGPClassifier)
    with pytest.raises(InputError, match=r"Softmax.*got Poisson") as by_kind:
        make(likelihood=lik.Poisson()).fit(X, LABELS)
    assert ("RobustMax" in str(by_kind.value)) == (make is AutoGPClassifier)


def test_too_few_rows_tell_how_many_were_held_out():
    with pytest.raises(InputError, match=r"n_samples = 2, of which validation=0.1 holds out 1: .*validation=0.0$"):
        regressor().fit(X[:2], Y[:2])
    with pytest.raises(InputError, match=r"X has one row \(n_samples=1\), which tells nothing about"):
        regressor(validation=0.0).fit(X[:1], Y[:1])
    assert regressor(validation=0.0).fit(X[:2], Y[:2]).predict(X[:2]).shape == (2,)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Computes(lambda h: h * np.nan), "network must give finite features"),
        (Computes(lambda h: torch.log(-h.abs())), "network must give finite features"),
        (Computes(lambda h: h[:1]), r"network must give features \(n, q\).* \(1, 2\) for n = 2 rows"),
        (Computes(lambda h: h[:, :0]), r"network must give features \(n, q\).* \(2, 0\)"),
        (nn.Flatten(0), r"network must give features \(n, q\).* \(6,\)"),
        (Computes(lambda h: (h, h)), "network must give features .* as a tensor, got tuple"),
        (Computes(lambda h: h.round().long()), r"features of torch.float32.*got torch.int64"),
        (Computes(lambda h: h.double()), r"features of torch.float32.*got torch.float64"),
        (nn.Linear(7, 2), r"network must take rows of shape \(3,\), but fails"),
    ],
)
def test_bad_networks_are_refused(network, message):
    with pytest.raises(InputError, match=message):
        regressor(network=network).fit(X, Y)


@pytest.mark.parametrize("name", ["lenet", "resnet"])
def test_networks_of_images_refuse_tables(name):
    with pytest.raises(InputError, match=rf"^network='{name}' takes images \(n, h, w\).* X is a table \(40, 3\)"):
        regressor(network=name).fit(X, Y)


def test_small_images_are_for_resnet():
    with pytest.raises(InputError, match="at least 12 × 12 pixels, got 8 × 8: use 'resnet'"):
        regressor(network="lenet").fit(np.zeros((40, 8, 8)), Y)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (DKLRegressor, "DKLClassifier"),
        (AutoGPRegressor, "AutoGPClassifier"),
        (GPRegressor, "GPClassifier"),
        (StudentTProcessRegressor, "GPClassifier"),
    ],
)
@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(object)], ids=["text", "objects"])
def test_classes_are_for_the_classifier_of_the_family(make, name, labels):
    with pytest.raises(InputError, match=f"y must hold numbers.* a task for {name}$"):
        make().fit(X, labels)


def test_arrays_of_too_many_axes_are_refused():
    with pytest.raises(InputError, match=r"X must be a table \(n, d\) or images.* got shape \(40, 1, 2, 3, 4\)"):
        regressor().fit(np.zeros((40, 1, 2, 3, 4)), Y)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, np.nan], "y has no label in row 1, and in 20 of 40 rows"),
        (["a", None], "y has no label in row 1"),
        ([1, None], "y has no label in row 1"),
        ([None, 1], "y has no label in row 0"),
        (pd.Series(["a", pd.NA], dtype="string"), "y has no label in row 1"),
        (pd.Series([1, pd.NA], dtype="Int64"), "y has no label in row 1"),
        ([1.0, np.inf], "y has infinity in row 1"),
    ],
    ids=str,
)
def test_labels_that_are_missing(estimator, value, message):
    y = pd.concat([value] * 20, ignore_index=True) if isinstance(value, pd.Series) else value * 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=message):
            estimator.fit(X, y)


def test_logs_of_probabilities(monkeypatch):
    dkl = classifier().fit(X, LABELS)
    np.testing.assert_array_equal(dkl.predict_log_proba(X), np.log(dkl.predict_proba(X)))
    monkeypatch.setattr(dkl, "predict_proba", lambda _: np.array([[0.0, 1.0]]))
    np.testing.assert_array_equal(dkl.predict_log_proba(X), [[-np.inf, 0.0]])


def test_the_steps_of_both_trainings_are_told(capsys):
    regressor(verbose=True, validation=0.0, batch_size=20).fit(X, Y)
    told = capsys.readouterr().out
    assert "stratagp: the network alone, 2 steps in 1 epoch" in told
    assert "stratagp: all together, 6 steps in 3 epochs" in told
