"""Products of models of classes, against an optimiser of another kind and simulated truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from stratagp.predictive import Classes, pooled
from stratagp.recipes.pooling import own_width, pool, pool_weights


def test_weights_are_those_of_a_general_optimiser():
    random = np.random.default_rng(0)
    logs, codes = log_softmax(random.normal(size=(200, 3, 4)), axis=2), random.integers(0, 4, 200)
    logs[np.arange(200), :2, codes] += 0.5

    def cost(free):  # weights as a softmax: no constraint
        weights = softmax(free)
        together = log_softmax(np.einsum("k,nkc->nc", weights, logs), axis=1)
        return -together[np.arange(200), codes].sum() + 15 * ((weights - 1 / 3) ** 2).sum()

    truth = softmax(minimize(cost, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x)
    assert pool_weights(logs, codes) == pytest.approx(truth, abs=1e-4)


def test_too_doubtful_probabilities_get_their_true_odds_back():
    random = np.random.default_rng(1)
    truth = softmax(3 * random.normal(size=(4000, 3)), axis=1)
    codes = (truth.cumsum(1) < random.uniform(size=(4000, 1))).sum(1)
    doubtful = Classes(softmax(0.4 * np.log(truth), axis=1))
    assert own_width(doubtful, codes) == pytest.approx(0.4, rel=0.11)  # widths are 10 % apart
    assert own_width(Classes(truth), codes) == pytest.approx(1.0, rel=0.11)


def test_equal_witnesses_get_equal_weights_and_odds_are_multiplied():
    random = np.random.default_rng(2)
    codes = random.integers(0, 2, 3000)
    odds = 2 * (random.normal(size=(2, 3000)) + 2 * codes - 1)  # log odds of ±1 shifts of unit normals
    each = [Classes(softmax(np.stack([0 * own, own], 1), axis=1)) for own in odds]
    weights, _ = pool(each, codes)
    assert weights == pytest.approx([0.5, 0.5], abs=0.05)
    both = pooled(each, weights).probabilities
    assert np.log(both[:, 1] / both[:, 0]) == pytest.approx(weights @ odds, abs=1e-6)


def test_at_most_five_members():
    random = np.random.default_rng(3)
    said = [Classes(softmax(random.normal(size=(30, 2)), axis=1)) for _ in range(8)]
    weights, widths = pool(said, random.integers(0, 2, 30))
    assert (weights > 0).sum() <= 5
    assert weights.sum() == pytest.approx(1)
    assert len(widths) == 8


def test_what_one_member_thinks_impossible_stays_possible():
    found = pooled([Classes(np.array([[1.0, 0.0]])), Classes(np.array([[0.1, 0.9]]))], np.array([0.5, 0.5]))
    assert found.probabilities[0, 1] == pytest.approx(3e-3 / (3e-3 + 1), rel=1e-3)  # odds √(10⁻⁶ · 9)
