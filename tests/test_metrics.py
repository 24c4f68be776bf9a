import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import mean_squared_error

from stratagp import metrics
from stratagp.errors import InputError

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.normal(size=500), RNG.normal(size=500) * 0.5, 0.5 + RNG.random(500)


def test_against_scikit_learn_and_scipy():
    assert metrics.rmse(Y, MEAN) == pytest.approx(mean_squared_error(Y, MEAN) ** 0.5, rel=1e-12)
    assert metrics.nlpd(Y, MEAN, STD) == pytest.approx(-norm(MEAN, STD).logpdf(Y).mean(), rel=1e-12)
    low, high = norm(MEAN, STD).interval(0.8)
    assert metrics.coverage(Y, MEAN, STD, 0.8) == pytest.approx(np.mean((low <= Y) & (high >= Y)))


def test_columns_and_tensors_do_not_broadcast():
    column = torch.from_numpy(MEAN)[:, None].requires_grad_()
    assert metrics.rmse(Y, column) == pytest.approx(metrics.rmse(Y, MEAN))
    assert metrics.coverage(Y, column, STD) == pytest.approx(metrics.coverage(Y, MEAN, STD))
    with pytest.raises(InputError, match=r"y \(500,\), mean \(499,\)"):
        metrics.rmse(Y, MEAN[1:])
