"""Weights of a stack against a general optimiser."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from stratagp.objectives.stacking import stacked, stacking_weights


@pytest.mark.parametrize("seed", range(3))
def test_weights_maximise_the_held_out_density(seed):
    log_density = np.random.default_rng(seed).normal(size=(60, 4))

    def cost(weights):  # with five more rows that all models explain alike
        logs = np.log(np.maximum(weights, 1e-12))
        return -(logsumexp(log_density + logs, axis=1).sum() + 5 * logs.mean()) / 60

    simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
    truth = minimize(cost, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=simplex, tol=1e-12)
    found = stacking_weights(log_density, least=0.0)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert cost(found) == pytest.approx(truth.fun, abs=1e-5)


def test_a_model_that_is_always_better_gets_all_the_weight():
    better = np.zeros((500, 2))
    better[:, 1] = -1.0
    assert stacking_weights(better) == pytest.approx([1.0, 0.0])


def test_few_rows_leave_weight_to_a_model_that_is_always_worse():
    # w = (50 w e⁻¹ / (1 − w + w e⁻¹) + 5 / 2) / 55
    better = np.zeros((50, 2))
    better[:, 1] = -1.0
    w = stacking_weights(better)[1]
    share = w * np.exp(-1) / (1 - w + w * np.exp(-1))
    assert w == pytest.approx((50 * share + 2.5) / 55, abs=1e-5)
    assert 0.05 < w < 0.1


def test_at_most_so_many_members():
    spread = np.where(np.eye(8)[np.arange(80) % 8] > 0, 0.0, -5.0)  # each of eight explains other rows
    assert (stacking_weights(spread, most=3) > 0).sum() == 3


def test_a_mixture_of_right_models_is_made_narrower():
    # y = a + b + e, all standard normal: who knows a alone is right to say N(a, 2), and so is who knows b alone
    def drawn(seed, n):
        a, b, e = np.random.default_rng(seed).normal(size=(3, n))
        return a, b, a + b + e

    def cost(width):
        return -np.log(sum(stats.norm.pdf(y, known, np.sqrt(2) * width) for known in (a, b)) / 2).mean()

    def inside(width):  # the share of rows in the central half
        below = sum(stats.norm.cdf(y, known, np.sqrt(2) * width) for known in (a, b)) / 2
        return np.mean(np.abs(below - 0.5) < 0.25)

    a, b, y = drawn(0, 4000)
    widths = np.arange(0.5, 1.21, 0.05)
    said = [stats.norm.logpdf(y[:, None], known[:, None], np.sqrt(2) * widths) for known in (a, b)]
    weights, width = stacked(np.stack(said, 1), widths.tolist())
    a, b, y = drawn(1, 100_000)
    truth = minimize_scalar(cost, bounds=(0.5, 1.2)).x
    assert weights == pytest.approx([0.5, 0.5], abs=0.05)
    assert width == pytest.approx(truth, abs=0.05)
    assert abs(inside(width) - 0.5) < abs(inside(1.0) - 0.5) / 2


def test_one_right_model_keeps_its_width_and_few_rows_change_nothing():
    y, widths = np.random.default_rng(1).normal(size=2000), [0.7, 0.85, 1.0, 1.15]
    said = stats.norm.logpdf(y[:, None], 0, np.array(widths))[:, None]
    assert stacked(said, widths)[1] == 1.0
    exact = stats.norm.logpdf(np.zeros((2, 1)), 0, np.array([0.5, 1.0]))[:, None]  # half the width gains 1.4 nats
    assert stacked(exact, [0.5, 1.0])[1] == 1.0
