import numpy as np
import pytest
import torch
from scipy.integrate import quad
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


def test_bhattacharyya_distance_of_gaussians():
    """``−ln ∫ √(p q)`` by quadrature, and none below a variance of 1e-12."""

    m1, v1, m2, v2 = 0.3, 0.8, 1.7, 2.5
    overlap, _ = quad(lambda x: np.sqrt(norm.pdf(x, m1, v1**0.5) * norm.pdf(x, m2, v2**0.5)), -20, 20)
    assert metrics.bhattacharyya([m1], [v1], [m2], [v2])[0] == pytest.approx(-np.log(overlap), rel=1e-8)
    assert np.isfinite(metrics.bhattacharyya([0.0], [0.0], [1.0], [0.0])).all()
