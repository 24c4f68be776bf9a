"""Increasing functions of targets and columns: slopes, inverses, and distributions through them."""

import numpy as np
import pytest
import torch
from scipy import stats

from stratagp.models.warps import Asinh, Log, Logit, NormalScores
from stratagp.predictive import LocationScale
from stratagp.predictive.warped import Warped

Y = np.exp(np.random.default_rng(0).normal(size=200))
WARPS = {"log": Log.learnt(Y, 0.0), "asinh": Asinh.learnt(Y)}


@pytest.mark.parametrize("name", WARPS)
def test_slope_and_inverse(name):
    warp, y, h = WARPS[name], np.array([0.3, 1.0, 4.0]), 1e-6
    slope = (warp.forward(y + h) - warp.forward(y - h)) / (2 * h)
    assert warp.log_slope(y) == pytest.approx(np.log(slope), abs=1e-7)
    assert warp.inverse(warp.forward(y)) == pytest.approx(y, rel=1e-12)
    assert warp.forward(Y).mean() == pytest.approx(0, abs=1e-12)
    assert warp.forward(Y).std() == pytest.approx(1, rel=1e-12)


def test_slope_and_inverse_of_shares():
    y, h = np.array([0.02, 0.3, 0.97]), 1e-7
    warp = Logit.learnt(3 * y - 1, -1.0, 2.0)  # in other units
    at = 3 * y - 1
    slope = (warp.forward(at + h) - warp.forward(at - h)) / (2 * h)
    assert warp.log_slope(at) == pytest.approx(np.log(slope), abs=1e-5)
    assert warp.inverse(warp.forward(at)) == pytest.approx(at, rel=1e-12)
    assert warp.forward(at).std() == pytest.approx(1, rel=1e-12)


def test_a_gaussian_log_odds_is_a_share():
    found, y = Warped(gaussian(0.3, 0.5), Logit(0.0, 1.0, 0.0, 1.0)), np.linspace(0, 1, 4001)[1:-1]
    each = Warped(LocationScale(np.full((1, 3999, 1), 0.3), np.full((1, 3999, 1), 0.5), np.zeros(1)), found.warp)
    density = np.exp(each.log_density(y[:, None])[:, 0])
    assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-6)
    assert np.trapezoid(y * density, y) == pytest.approx(found.mean.item(), abs=1e-3)
    outside = np.array([[-0.1], [0.0], [1.0], [1.2]])
    four = Warped(LocationScale(np.zeros((1, 4, 1)), np.ones((1, 4, 1)), np.zeros(1)), found.warp)
    assert four.cdf(outside)[:, 0].tolist() == [0, 0, 1, 1]
    assert (four.log_density(outside) == -np.inf).all()


def gaussian(mean, var):
    return LocationScale(np.full((1, 1, 1), mean), np.full((1, 1, 1), var), np.zeros(1))


def test_a_gaussian_log_is_log_normal():
    found, truth = Warped(gaussian(0.3, 0.04), Log(0.0, 0.0, 1.0)), stats.lognorm(0.2, scale=np.exp(0.3))
    y = np.array([[1.7]])
    assert found.log_density(y).item() == pytest.approx(truth.logpdf(1.7), rel=1e-10)
    assert found.cdf(y).item() == pytest.approx(truth.cdf(1.7), rel=1e-10)
    assert found.quantile([0.9]).item() == pytest.approx(truth.ppf(0.9), rel=1e-10)
    assert found.mean.item() == pytest.approx(truth.mean(), rel=1e-3)  # of the central 99.8 %
    assert found.var.item() == pytest.approx(truth.var(), rel=0.03)


def test_the_mean_of_a_log_with_long_tails_is_finite():
    base = LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), dof=2.5)
    assert 1 < Warped(base, Log(0.0, 0.0, 1.0)).mean.item() < 10


def test_scores_of_a_skewed_column_are_normal_and_others_stay():
    x = torch.from_numpy(np.stack([Y, np.arange(200) % 2], 1))
    found = NormalScores.learnt(x)(x)
    assert stats.skew(found[:, 0].numpy()) == pytest.approx(0, abs=0.05)
    assert found[:, 0].std().item() == pytest.approx(1, abs=0.05)
    assert torch.allclose(found[:, 1], x[:, 1])
    order = x[:, 0].argsort()
    assert (found[order, 0].diff() > 0).all()
