"""One epoch is one epoch: no more steps than there are batches."""

import numpy as np
import pytest

import stratagp as s

X = np.random.default_rng(0).uniform(-1, 1, (64, 2))
Y = X[:, 0] + X[:, 1] ** 2
SMALL = {"max_epochs": 1, "batch_size": 32, "random_state": 0}
FEATURES = {"width": 2, "n_features": 4, "n_samples": 1}
MODELS = {
    "AutoGP": lambda: s.AutoGPRegressor(n_inducing=5, **SMALL),
    "DRF": lambda: s.DRFRegressor(**FEATURES, **SMALL),
    "GP-DRF": lambda: s.GPDRFRegressor(n_processes=2, n_inducing=5, **FEATURES, **SMALL),
    "GP-DRF, no layers": lambda: s.GPDRFRegressor(n_layers=0, n_inducing=5, **SMALL),
    "SV-DKL": lambda: s.DKLRegressor(network=[4], pretrain_epochs=1, validation=0, **SMALL),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_epoch_is_an_epoch(name):
    model = MODELS[name]().fit(X, Y)
    assert [history.steps for history in model.histories_] == [2] * len(model.histories_)
    assert len(model.histories_) <= 2  # pretraining, and training
