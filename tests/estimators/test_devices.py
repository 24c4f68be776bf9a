"""Estimators whose models are not on the processor: fits, all that is asked of them, copies, files."""

import copy
import pickle

import numpy as np
import pytest
import torch

import stratagp as s
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.training.devices import find_device
from tests.without_values import OneDevice, answer_questions

FAST = {"max_epochs": 1, "batch_size": 24, "random_state": 0, "validation": 0.2}


def table(n=30):
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(n, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


REGRESSORS = {
    "AutoGP": lambda: s.AutoGPRegressor(n_inducing=5, **FAST),
    "mixture": lambda: s.AutoGPRegressor(n_inducing=5, n_components=2, likelihood="student-t", **FAST),
    "leave-one-out": lambda: s.AutoGPRegressor(k.Matern(), 5, objective="loo", **{**FAST, "max_epochs": 4}),
    "DKL": lambda: s.DKLRegressor([8, 4], grid_size=8, pretrain_epochs=1, **FAST),
    "DKL inducing": lambda: s.DKLRegressor([8, 4], last="inducing", n_inducing=5, pretrain_epochs=1, **FAST),
    "DRF": lambda: s.DRFRegressor(n_features=5, width=2, n_samples=2, **FAST),
    "DRF resampled": lambda: s.DRFRegressor(
        "arc-cosine", n_features=5, width=2, n_samples=2, frequencies="var-resampled", **FAST
    ),
    "GP-DRF": lambda: s.GPDRFRegressor(n_inducing=5, n_processes=2, n_features=5, n_samples=2, **FAST),
    "DFGP": lambda: s.DFGPRegressor(n_inducing=5, n_hidden=2, **FAST),
    "DFGP samples": lambda: s.DFGPRegressor(n_inducing=5, n_hidden=2, propagate="samples", **FAST),
    "DFGP collapsed": lambda: s.DFGPRegressor(n_inducing=5, n_hidden=2, n_starts=1, max_iterations=0, random_state=0),
}
CLASSIFIERS = {
    "AutoGP": lambda: s.AutoGPClassifier(n_inducing=5, **FAST),
    "DKL": lambda: s.DKLClassifier([8, 4], grid_size=8, pretrain_epochs=1, **FAST),
    "DRF": lambda: s.DRFClassifier(n_features=5, width=2, n_samples=2, **FAST),
    "GP-DRF": lambda: s.GPDRFClassifier(n_inducing=5, n_processes=2, n_features=5, n_samples=2, **FAST),
    "DFGP": lambda: s.DFGPClassifier(n_inducing=5, n_hidden=2, **FAST),
}


@pytest.fixture
def elsewhere(monkeypatch):
    """A device that has no values."""
    answer_questions(monkeypatch)
    with OneDevice():
        yield "meta"


def fitted(make, y, device):
    model = make().set_params(device=device)
    return model.set_params(max_epochs=4).fit(table()[0], y)


def is_there(model, device):
    assert {part.device.type for part in (*model.model_.parameters(), *model.model_.buffers())} == {device}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regression_elsewhere(name, elsewhere):
    X, y = table()
    model = fitted(REGRESSORS[name], y, elsewhere)
    is_there(model, elsewhere)
    for found in (*model.predict(X, return_std=True), model.log_density(X, y), model.cdf(X, y)):
        assert (type(found), found.shape) == (np.ndarray, (30,))
    assert model.predict_quantiles(X, [0.1, 0.9]).shape == (30, 2)
    assert model.sample_y(X, 2).shape == (30, 2)
    assert model.relevance_.shape == (2,)
    assert np.isfinite(model.log_marginal_likelihood())
    assert len(model.hyperparameters_.rows) > 0
    if hasattr(model, "transform"):
        assert model.transform(X).shape == (30, 2)
        assert len(model.influence(X)) == 2
    is_there(copy.deepcopy(model), "cpu")
    is_there(pickle.loads(pickle.dumps(model)), "cpu")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classification_elsewhere(name, classes, elsewhere):
    X, y = table()
    labels = np.digitize(y, [0.0, 1.0][: classes - 1])
    model = fitted(CLASSIFIERS[name], labels, elsewhere)
    is_there(model, elsewhere)
    assert model.predict_proba(X).shape == (30, classes)
    assert model.relevance_.shape == (2,)


def test_a_stream_is_trained_on_elsewhere(tmp_path, elsewhere):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    source = s.data.Arrays(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    model = s.AutoGPRegressor(n_inducing=5, device=elsewhere, **FAST)
    model.max_epochs = 4
    model.fit(source, checkpoint=tmp_path / "run")
    is_there(model, elsewhere)
    is_there(model.fit(source, checkpoint=tmp_path / "run"), elsewhere)
    assert model.predict_file(source, tmp_path / "out.csv") == 30


def test_a_fit_goes_on_elsewhere(tmp_path, monkeypatch):
    """The device is no part of what must be the same, and the state of optimisers goes where parameters are."""
    X, y = table()
    model = s.AutoGPRegressor(n_inducing=5, **FAST)
    model.max_epochs = 4
    here = model.fit(X, y, checkpoint=tmp_path).predict(X)
    again = model.set_params(device=torch.device("cpu")).fit(X, y, checkpoint=tmp_path)
    assert again.predict(X).tolist() == here.tolist()


def test_a_model_file_of_a_model_elsewhere_is_of_the_processor(tmp_path, elsewhere):
    """All that a file takes from a device are values, and it names the device that was asked for."""
    from stratagp.persistence.decoding import Decoder
    from stratagp.persistence.encoding import Encoder
    from stratagp.persistence.registry import Trust

    model = fitted(REGRESSORS["AutoGP"], table()[1], torch.device(elsewhere))
    encoder = Encoder(model, None)
    again, _ = Decoder(encoder.objects, encoder.tensors.named, Trust()).read()
    is_there(again, "cpu")
    assert again.get_params()["device"] == torch.device("meta")


def test_files_and_pickles_keep_the_bits_and_the_argument(tmp_path):
    X, y = table()
    model = fitted(REGRESSORS["AutoGP"], y, "cpu")
    model.set_params(device="cuda")  # as if it had been fitted there: predictions go by where parameters are
    model.save(tmp_path / "model")
    for again in (s.load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.get_params()["device"] == "cuda"
        assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("make", [*REGRESSORS.values(), *CLASSIFIERS.values()])
def test_a_device_that_is_not_there_is_refused_before_any_work(make):
    with pytest.raises(InputError, match=r"device='gpu' cannot compute in double precision here \(.*gpu"):
        make().set_params(device="gpu").fit("no rows", "and no targets")
    with pytest.raises(InputError, match=r"device must be a name such as 'cpu' or 'cuda', or a torch.device, got 0"):
        make().set_params(device=0).fit("no rows", "and no targets")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda"), "mps", "meta"])
def test_devices_of_other_machines(device):
    with pytest.raises(InputError, match=f"device={str(device)!r} cannot compute"):
        find_device(device)


def test_each_process_of_a_machine_has_a_device_of_its_own(monkeypatch):
    from stratagp.training import devices

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert devices._numbered(torch.device("cuda")) == torch.device("cuda")
    monkeypatch.setenv("LOCAL_RANK", "6")
    assert devices._numbered(torch.device("cuda")) == torch.device("cuda", 2)
    assert devices._numbered(torch.device("cuda:1")) == torch.device("cuda", 1)
    assert devices._numbered(torch.device("cpu")) == torch.device("cpu")
