"""The estimators of deep kernel learning: scikit-learn's checks, known truths, images, categories and errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp import positive
from stratagp.errors import ConvergenceWarning, InputError
from stratagp.estimators import DKLClassifier, DKLRegressor
from stratagp.priors import Normal
from stratagp.training.loop import History
from tests.training_length import make_steps

pytestmark = pytest.mark.filterwarnings("ignore:training of network and processes")  # toys are short
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(500, 3))
F = np.sin(3 * X[:, 0]) * X[:, 1]
Y = F + 0.05 * RNG.normal(size=500)
COLOURS = np.where(X[:, 0] * X[:, 1] > 0, "red", np.where(X[:, 2] > 0, "green", "blue"))
IMAGES = RNG.normal(size=(240, 14, 14))
SIDES = np.where(IMAGES[:, :7].mean((1, 2)) > IMAGES[:, 7:].mean((1, 2)), "top", "bottom")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Toys need no thousand steps."""
    make_steps(monkeypatch, 12)


SMALL = {"network": [24, 4], "grid_size": 20, "network_rate": 0.02, "rate": 0.03, "random_state": 0}


def regressor(**options):
    return DKLRegressor(**{**SMALL, "pretrain_epochs": 60, "max_epochs": 20, "batch_size": 100, **options})


def classifier(**options):
    return DKLClassifier(**{**SMALL, "pretrain_epochs": 40, "max_epochs": 10, "batch_size": 100, **options})


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        make(network=[16, 3], grid_size=12, pretrain_epochs=15, max_epochs=2, batch_size=50, validation=0.0)
        for make in (regressor, classifier)
    ]
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"axes": 2},
        {"conditional": True, "kernel": k.Matern(lengthscale=1.0)},
        {"last": "inducing", "n_inducing": 40},
        {"pretrain_epochs": 0, "max_epochs": 50},
        {"spectral": True, "batch_norm": False, "pretrain_epochs": 120},
        {"dropout": 0.05, "validation": 0.0},
    ],
    ids=str,
)
def test_a_function_is_found_with_honest_intervals(options):
    dkl = regressor(**options).fit(X[:400], Y[:400])
    mean = dkl.predict(X[400:])
    assert np.sqrt(np.mean((mean - F[400:]) ** 2)) < 0.16  # of 0.5
    low, high = dkl.predict_interval(X[400:])
    assert 0.9 < np.mean((low < Y[400:]) & (Y[400:] < high)) <= 1
    density = dkl.log_density(X[400:], Y[400:]).mean()
    assert density > 0.1  # a constant has -0.7


@pytest.mark.parametrize("likelihood", ["student-t", "heteroscedastic", "poisson"])
def test_other_likelihoods(likelihood):
    targets = RNG.poisson(np.exp(1 + F)) if likelihood == "poisson" else Y
    dkl = regressor(likelihood=likelihood, max_epochs=20).fit(X, targets)
    truth = np.exp(1 + F) if likelihood == "poisson" else F
    assert np.corrcoef(dkl.predict(X), truth)[0, 1] > 0.8
    assert dkl.predict_quantiles(X[:5], [0.1, 0.9]).shape == (5, 2)
    assert dkl.sample_y(X[:5], 3).shape == (5, 3)


def test_exposures_are_scored():
    exposure = RNG.uniform(1, 5, size=500)
    counts = RNG.poisson(exposure * np.exp(F))
    dkl = regressor(likelihood="poisson", max_epochs=10).fit(X, np.column_stack([counts, exposure]))
    y = np.column_stack([counts, exposure])
    assert dkl.score(X, y) == pytest.approx(dkl.log_density(X, y).mean())


def test_several_targets_in_their_own_units():
    targets = np.column_stack([Y, 1000 * X[:, 2]])
    dkl = regressor(network=[24, 6]).fit(X, targets)
    assert dkl.predict(X).shape == (500, 2)
    assert dkl.score(X, targets) > 0.9


@pytest.mark.parametrize("options", [{}, {"axes": 2}, {"last": "inducing", "n_inducing": 40}], ids=str)
def test_classes_and_their_probabilities(options):
    dkl = classifier(**options).fit(X[:400], COLOURS[:400])
    p = dkl.predict_proba(X[400:])
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)
    assert dkl.score(X[400:], COLOURS[400:]) > 0.8
    chosen = p[np.arange(100), np.searchsorted(dkl.classes_, COLOURS[400:])]
    assert np.log(chosen).mean() > -0.5  # a guess has -1.0


def test_ordered_classes():
    levels = np.digitize(F, [-0.3, 0.3])
    dkl = classifier(likelihood=lik.Ordinal(3)).fit(X, levels)
    np.testing.assert_allclose(dkl.predict_proba(X).sum(1), 1.0, atol=1e-9)
    assert dkl.score(X, levels) > 0.85


@pytest.mark.parametrize("network", ["auto", "resnet", [16, 4]], ids=str)
def test_images(network):
    dkl = classifier(network=network, pretrain_epochs=8, max_epochs=3, batch_size=40, dropout=0.2)
    dkl.fit(IMAGES[:200], SIDES[:200])
    channelled = dkl.predict_proba(IMAGES[200:])
    assert channelled.shape == (40, 2)
    assert dkl.score(IMAGES[:200], SIDES[:200]) > 0.8
    with pytest.raises(InputError, match=r"images \(n, 14, 14\) as in fit, got \(5, 196\)"):
        dkl.predict(IMAGES[:5].reshape(5, -1))


def test_the_channel_axis_may_be_given():
    options = {"network": [16, 4], "pretrain_epochs": 3, "max_epochs": 2, "batch_size": 40}
    without = classifier(**options).fit(IMAGES, SIDES)
    with_axis = classifier(**options).fit(torch.from_numpy(IMAGES)[:, None], SIDES)
    for images in (IMAGES, IMAGES[:, None]):
        np.testing.assert_array_equal(without.predict_proba(images), with_axis.predict_proba(images))


@pytest.mark.parametrize("encoding", ["one-hot", "codes"])
def test_frames_with_categories(encoding):
    city = RNG.choice(["Rome", "Oslo", "Bern"], 500)
    frame = pd.DataFrame({"u": X[:, 0], "city": city})
    y = frame["u"] + frame["city"].map({"Rome": 0.0, "Oslo": 2.0, "Bern": -2.0})
    dkl = regressor(encoding=encoding).fit(frame, y)
    assert dkl.score(frame, y) > 0.98
    np.testing.assert_allclose(dkl.predict(frame[["city", "u"]]), dkl.predict(frame))
    assert dkl.relevance_.shape == (2,)
    assert dkl.relevance_[1] > dkl.relevance_[0]


def test_a_module_of_ones_own_is_copied():
    network = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 4))
    before = [p.clone() for p in network.parameters()]
    dkl = regressor(network=network).fit(X, Y)
    assert dkl.score(X, Y) > 0.85
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_seeds_reproduce_and_state_survives():
    options = {"pretrain_epochs": 5, "max_epochs": 5, "dropout": 0.3}
    one, other = regressor(**options).fit(X, Y), regressor(**options).fit(X, Y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X), one.predict(X))
    assert clone(one).get_params()["dropout"] == 0.3
    assert len(one.histories_) == 2
    np.testing.assert_allclose(one.predict(X[:3]), one.predict(X)[:3], rtol=0, atol=1e-12)


def test_training_does_not_touch_the_random_numbers_of_others():
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    regressor(pretrain_epochs=2, max_epochs=2).fit(X, Y)
    assert torch.equal(torch.rand(3), wanted)


def test_validation_keeps_the_best_state():
    noise = np.random.default_rng(0).normal(size=500)  # its own numbers, in whatever order tests run
    free = regressor(validation=0.0, pretrain_epochs=300).fit(X[:60], noise[:60])
    guarded = regressor(validation=0.3, pretrain_epochs=300).fit(X[:60], noise[:60])
    densities = [dkl.log_density(X[60:], noise[60:]).mean() for dkl in (free, guarded)]
    assert densities[1] > densities[0]
    assert densities[1] > -2.0  # the noise itself has -1.42


def test_intervals_are_honest_though_the_network_has_seen_all_rows():
    """With the noise of the training rows 70 to 76 % of new targets lie inside, at 2.4 to 2.9 nats."""
    x, y = make_friedman1(500, noise=1.0, random_state=0)
    options = {"network": [32, 8], "pretrain_epochs": 150, "max_epochs": 100}
    dkl = regressor(**options, validation=0.0).fit(x[:200], y[:200])
    low, high = dkl.predict_interval(x[200:])
    assert 0.88 < np.mean((low < y[200:]) & (y[200:] < high)) <= 1
    assert dkl.log_density(x[200:], y[200:]).mean() > -2.2


def test_a_training_that_is_thrown_away_is_told_of():
    """Targets are noise, so the better a network knows its rows, the worse it predicts others."""
    noise = np.random.default_rng(0).normal(size=500)
    with pytest.warns(ConvergenceWarning, match="predicted the held-out rows worse than the network alone"):
        dkl = regressor(pretrain_epochs=100, max_epochs=30, validation=0.3).fit(X[:200], noise[:200])
    low, high = dkl.predict_interval(X[200:])
    assert 0.9 < np.mean((low < noise[200:]) & (noise[200:] < high)) <= 1


def test_a_network_may_stay_as_it_was_trained_alone():
    """Processes of fixed features: the network that is left after one epoch of them is that after many."""
    options = {"fine_tuning": 0.0, "dropout": 0.2, "pretrain_epochs": 20}
    short, long = (regressor(**options, max_epochs=epochs).fit(X, Y) for epochs in (1, 30))
    before, after = (dkl.model_.layer.layers[0].state_dict() for dkl in (short, long))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert long.histories_[-1].values[-1] > short.histories_[-1].values[-1] + 100
    assert all(p.requires_grad for p in long.model_.parameters())
    with pytest.raises(InputError, match="fine_tuning=0 keeps the network"):
        regressor(fine_tuning=0.0, pretrain_epochs=0).fit(X, Y)


def test_the_evidence_and_the_table_of_hyperparameters():
    dkl = regressor(pretrain_epochs=20, max_epochs=10).fit(X, Y)
    assert np.isfinite(dkl.log_marginal_likelihood())
    names = [row.name for row in dkl.hyperparameters_.rows]
    assert any("lengthscale" in name for name in names)
    assert isinstance(dkl.kernel_.lengthscale, torch.Tensor)


def test_priors_hold():
    tight = positive(1.0, prior=Normal(3.0, 0.001))
    dkl = regressor(kernel=k.RBF(tight, variance=1.0), pretrain_epochs=5, rate=0.1).fit(X, Y)
    np.testing.assert_allclose(dkl.kernel_.lengthscale.detach().numpy().ravel(), 3.0, atol=0.1)


def test_spectral_networks_can_be_stored():
    dkl = regressor(spectral=True, pretrain_epochs=5, max_epochs=5).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dkl)).predict(X), dkl.predict(X))


@pytest.mark.parametrize("seed", range(3))
def test_the_only_row_of_a_class_is_trained_on(seed):
    labels = np.array(["common"] * 59 + ["rare"])
    dkl = classifier(pretrain_epochs=2, max_epochs=2, validation=0.4, random_state=seed).fit(X[:60], labels)
    assert dkl.fitted_.data.y.max() == 1
    assert len(dkl.fitted_.data.y) == 36


@pytest.mark.parametrize("shape", [(8, 8), (14, 10), (3, 9, 9)])
def test_any_image_finds_a_network(shape):
    images = RNG.normal(size=(40, *shape))
    dkl = regressor(network="auto", pretrain_epochs=2, max_epochs=2, batch_size=20)
    dkl.fit(images, images.reshape(40, -1)[:, 0])
    assert dkl.predict(images).shape == (40,)
    with pytest.raises(InputError, match="images have none"):
        _ = dkl.relevance_


def test_inducing_points_start_from_the_network():
    options = {"network": [32, 16], "last": "inducing", "n_inducing": 80, "pretrain_epochs": 80, "rate": 1e-6}
    dkl = regressor(**options, max_epochs=1, fine_tuning=1e-6).fit(X, Y)
    with torch.no_grad():
        features = dkl.model_.layer.layers[0](torch.from_numpy(dkl.inputs_.points(dkl, X).values.numpy()))
    flat = np.column_stack([features.numpy(), np.ones(len(X))])
    linear = flat @ np.linalg.lstsq(flat, Y, rcond=None)[0]
    assert np.corrcoef(dkl.predict(X), linear)[0, 1] > 0.97
    assert np.polyfit(linear, dkl.predict(X), 1)[0] > 0.8


def test_networks_that_know_single_precision_alone():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(3, 4)

        def forward(self, x):
            return self.map(x.float())

    dkl = regressor(network=Single(), pretrain_epochs=2, max_epochs=2).fit(X, Y)
    assert np.isfinite(dkl.predict(X)).all()


def test_an_interrupted_network_is_not_trained_further(monkeypatch, caplog):
    monkeypatch.setattr("stratagp.recipes.dkl.pretrain", lambda *_, **__: History(ending="interrupted"))
    dkl = regressor().fit(X, Y)
    assert [history.ending for history in dkl.histories_] == ["interrupted"]
    assert "training of the network alone ended early (interrupted)" in caplog.text
    assert np.isfinite(dkl.predict(X)).all()


BAD = {
    "network": "vgg",
    "last": "middle",
    "grid_size": 3,
    "axes": 3,
    "n_inducing": 0,
    "n_samples": -1,
    "pretrain_epochs": -1,
    "max_epochs": 0,
    "batch_size": 1,
    "rate": 0.0,
    "network_rate": "fast",
    "fine_tuning": -1.0,
    "weight_decay": -0.1,
    "dropout": 1.0,
    "validation": 1.5,
    "kernel": "rbf",
    "spectral": "no",
    "conditional": 1,
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_bad_options_are_named(make, name):
    with pytest.raises(InputError, match=f"^{name} must"):
        make(**{name: BAD[name]}).fit(X, COLOURS if make is classifier else Y)


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"network": "lenet"}, IMAGES[:, :, :10], "square images, got 14 × 10: take 'resnet'"),
        ({"network": "lenet"}, IMAGES[:, :8, :8], "12 × 12"),
        ({"network": nn.Linear(3, 2), "dropout": 0.1}, X, "add them to your own module"),
        ({}, np.zeros((240, 14, 14, 3)), "move its last axis"),
        ({}, np.full((240, 5, 5), np.nan), "image 0"),
        ({}, np.full((240, 5, 5), "a"), "images of numbers"),
        ({"patience": 3, "validation": 0.0}, X, "give validation"),
    ],
    ids=str,
)
def test_bad_inputs_are_refused(options, rows, message):
    with pytest.raises(InputError, match=message):
        regressor(**options).fit(rows, Y[: len(rows)])
