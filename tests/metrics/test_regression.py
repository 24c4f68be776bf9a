"""Metrics of numbers against scikit-learn, scipy, numerical integration and direct double sums."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest, norm
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error, r2_score

from stratagp import metrics
from stratagp.errors import InputError
from stratagp.estimators import targets
from stratagp.metrics.checks import check_level
from stratagp.plotting import calibration

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.normal(size=500), RNG.normal(size=500) * 0.5, 0.5 + RNG.random(500)
TRAIN = 3 + 2 * RNG.normal(size=80)
DRAWS = MEAN[:, None] + STD[:, None] * RNG.normal(size=(500, 40))


def test_errors_against_scikit_learn():
    assert metrics.rmse(Y, MEAN) == pytest.approx(mean_squared_error(Y, MEAN) ** 0.5, rel=1e-12)
    assert metrics.mae(Y, MEAN) == pytest.approx(mean_absolute_error(Y, MEAN), rel=1e-12)
    assert metrics.nmse(Y, MEAN) == pytest.approx(1 - r2_score(Y, MEAN), rel=1e-12)
    trivial = np.full(500, TRAIN.mean())
    share = mean_squared_error(Y, MEAN) / mean_squared_error(Y, trivial)
    assert metrics.smse(Y, MEAN, TRAIN) == pytest.approx(share, rel=1e-12)
    assert metrics.smse(Y, trivial, TRAIN) == pytest.approx(1.0, rel=1e-12)
    assert metrics.pinball(Y, MEAN, 0.3) == pytest.approx(mean_pinball_loss(Y, MEAN, alpha=0.3), rel=1e-12)


def test_densities_against_scipy():
    density = -norm(MEAN, STD).logpdf(Y).mean()
    assert metrics.nlpd(Y, MEAN, STD) == pytest.approx(density, rel=1e-12)
    trivial = -norm(TRAIN.mean(), TRAIN.std()).logpdf(Y).mean()
    assert metrics.msll(Y, MEAN, STD, TRAIN) == pytest.approx(density - trivial, rel=1e-12)
    low, high = norm(MEAN, STD).interval(0.8)
    inside = np.mean((low <= Y) & (high >= Y))
    assert metrics.coverage(Y, MEAN, STD, 0.8) == metrics.interval_coverage(Y, low, high) == pytest.approx(inside)
    assert metrics.interval_width(low, high) == pytest.approx(2 * norm.ppf(0.9) * STD.mean(), rel=1e-12)
    assert metrics.pit(Y, MEAN, STD) == pytest.approx(norm(MEAN, STD).cdf(Y), rel=1e-12)


@pytest.mark.parametrize(("y", "mean", "std"), [(0.3, 1.1, 0.7), (-4.0, 0.5, 1.3), (0.0, 0.0, 2.0)])
def test_crps_of_gaussians_is_its_integral(y, mean, std):
    def squared(t):
        return (norm.cdf(t, mean, std) - (t >= y)) ** 2

    truth = sum(quad(squared, *ends, epsabs=1e-12)[0] for ends in ((mean - 20, y), (y, mean + 20)))
    assert metrics.crps([y], [mean], [std]) == pytest.approx(truth, rel=1e-8)


def test_crps_of_a_point_is_the_absolute_error():
    assert metrics.crps(Y, MEAN, np.zeros(500)) == pytest.approx(metrics.mae(Y, MEAN), rel=1e-12)
    assert metrics.crps(Y, MEAN, np.full(500, 1e-9)) == pytest.approx(metrics.mae(Y, MEAN), rel=1e-8)


def test_crps_of_draws_is_the_double_sum():
    to_truth = np.abs(DRAWS - Y[:, None]).mean(1)
    pairs = np.abs(DRAWS[:, :, None] - DRAWS[:, None]).sum((1, 2))
    s = DRAWS.shape[1]
    assert metrics.crps_samples(Y, DRAWS) == pytest.approx((to_truth - pairs / (2 * s**2)).mean(), rel=1e-12)
    fair = (to_truth - pairs / (2 * s * (s - 1))).mean()
    assert metrics.crps_samples(Y, DRAWS, fair=True) == pytest.approx(fair, rel=1e-12)


def test_fair_crps_of_draws_is_unbiased():
    """By 20,000 rows of three draws; the standard error of the mean is about 0.004, and the plain score is 0.19 off."""
    y, drawn = RNG.normal(size=20_000), RNG.normal(size=(20_000, 3))
    exact = metrics.crps(y, np.zeros(20_000), np.ones(20_000))
    assert metrics.crps_samples(y, drawn, fair=True) == pytest.approx(exact, abs=0.015)
    assert metrics.crps_samples(y, drawn) == pytest.approx(exact + 1 / (3 * np.sqrt(np.pi)), abs=0.015)


def test_crps_keeps_its_digits_far_from_zero():
    assert metrics.crps_samples(Y + 1e8, DRAWS + 1e8) == pytest.approx(metrics.crps_samples(Y, DRAWS), rel=1e-6)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_crps_against_properscoring():
    peer = pytest.importorskip("properscoring")
    assert metrics.crps(Y, MEAN, STD) == pytest.approx(peer.crps_gaussian(Y, MEAN, STD).mean(), rel=1e-12)
    assert metrics.crps_samples(Y, DRAWS) == pytest.approx(peer.crps_ensemble(Y, DRAWS).mean(), rel=1e-12)


def test_pit_is_even_where_predictions_are_right():
    y = MEAN + STD * RNG.normal(size=500)
    assert kstest(metrics.pit(y, MEAN, STD), "uniform").pvalue > 0.01
    drawn = MEAN[:, None] + STD[:, None] * RNG.normal(size=(500, 2000))
    assert metrics.pit_samples(y, drawn) == pytest.approx(metrics.pit(y, MEAN, STD), abs=0.05)
    assert metrics.pit_samples([0.0], [[0.0, 0.0, 1.0]]) == pytest.approx([1 / 3])


def test_pinball_is_least_at_the_quantile():
    losses = [metrics.pinball(Y, np.full(500, q), 0.8) for q in np.quantile(Y, [0.75, 0.8, 0.85])]
    assert losses[1] == min(losses)


def test_columns_and_tensors_do_not_broadcast():
    column = torch.from_numpy(MEAN)[:, None].requires_grad_()
    assert metrics.rmse(Y, column) == pytest.approx(metrics.rmse(Y, MEAN))
    assert metrics.coverage(Y, column, STD) == pytest.approx(metrics.coverage(Y, MEAN, STD))
    with pytest.raises(InputError, match=r"y \(500,\), mean \(499,\)"):
        metrics.rmse(Y, MEAN[1:])


def test_levels_may_be_numbers_of_numpy():
    """Of metrics, pictures and estimators alike, as one function checks them."""
    for level in (np.float32(0.25), np.float64(0.25), 0.25):
        found = check_level(level)
        assert (found, type(found)) == (0.25, float)
    for wrong in (True, 1, "0.9", np.float32(1.5), float("nan")):
        with pytest.raises(InputError, match=r"level must lie between 0 and 1, such as 0\.95"):
            check_level(wrong)
    with pytest.raises(InputError, match=r"alpha must lie between 0 and 1, such as 0\.05"):
        check_level(10, "alpha")
    assert targets.check_level is calibration.check_level is check_level


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.rmse([], []), "y has no rows"),
        (lambda: metrics.mae([1.0, np.nan], [1.0, 2.0]), "y has NaN or infinite values, the first in row 1"),
        (lambda: metrics.rmse(["a"], [1.0]), "y must hold numbers"),
        (lambda: metrics.nmse([1.0, 1.0], [0.0, 0.0]), "y is constant"),
        (lambda: metrics.nlpd([1.0], [1.0], [0.0]), "std must be positive, got 0 in row 0"),
        (lambda: metrics.crps([1.0], [1.0], [-1.0]), "std must not be negative"),
        (lambda: metrics.msll([1.0], [1.0], [1.0], [2.0, 2.0]), "y_train is constant"),
        (lambda: metrics.coverage([1.0], [1.0], [1.0], level=95), "level must lie between 0 and 1"),
        (lambda: metrics.pinball([1.0], [1.0], level=1.0), "level must lie between 0 and 1"),
        (
            lambda: metrics.interval_width([1.0, 2.0], [2.0, 1.0]),
            "lower must not exceed upper, got 2 and 1 in row 1",
        ),
        (lambda: metrics.crps_samples([1.0], [1.0, 2.0]), r"samples must be \(n, draws\) with the 1 rows of y"),
        (lambda: metrics.crps_samples([1.0], [[1.0]], fair=True), "at least 2 draws"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(InputError, match=message):
        call()
