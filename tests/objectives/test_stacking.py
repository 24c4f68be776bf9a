"""Weights of a stack against a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from stratagp.objectives.stacking import stacking_weights


@pytest.mark.parametrize("seed", range(3))
def test_weights_maximise_the_held_out_density(seed):
    log_density = np.random.default_rng(seed).normal(size=(60, 4))

    def cost(weights):
        return -logsumexp(log_density + np.log(np.maximum(weights, 1e-12)), axis=1).mean()

    simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
    truth = minimize(cost, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=simplex, tol=1e-12)
    found = stacking_weights(log_density, least=0.0)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert cost(found) == pytest.approx(truth.fun, abs=1e-5)


def test_a_model_that_is_always_better_gets_all_the_weight():
    better = np.zeros((50, 2))
    better[:, 1] = -1.0
    assert stacking_weights(better) == pytest.approx([1.0, 0.0])


def test_at_most_so_many_members():
    spread = np.where(np.eye(8)[np.arange(80) % 8] > 0, 0.0, -5.0)  # each of eight explains other rows
    assert (stacking_weights(spread, most=3) > 0).sum() == 3
