"""Narrowed distributions against those of scipy."""

import numpy as np
import pytest
import torch
from scipy import stats

from stratagp.models.warps import Log
from stratagp.predictive import Classes, LocationScale, Narrowed, narrowed
from stratagp.predictive.warped import Warped

MEAN, VAR, FACTOR = np.array([[0.5], [-2.0]]), np.array([[0.25], [4.0]]), 0.6
Y = np.array([[0.1], [1.5]])


@pytest.fixture
def base():
    return LocationScale(MEAN[None], VAR[None], np.zeros(1))


def test_a_normal_distribution_stays_one(base):
    found, truth = narrowed(base, FACTOR), stats.norm(MEAN, FACTOR * np.sqrt(VAR))
    assert isinstance(found, Narrowed)
    assert found.mean == pytest.approx(truth.mean(), abs=1e-12)
    assert found.var == pytest.approx(truth.var(), abs=1e-12)
    assert found.log_density(Y) == pytest.approx(truth.logpdf(Y), abs=1e-12)
    assert found.cdf(Y) == pytest.approx(truth.cdf(Y), abs=1e-12)
    assert found.quantile([0.1, 0.9]) == pytest.approx(np.stack([truth.ppf(0.1), truth.ppf(0.9)]), abs=1e-9)
    drawn = found.sample(20_000, torch.Generator().manual_seed(0))
    assert drawn.std(0) == pytest.approx(truth.std(), rel=0.02)  # its standard error is 0.005


def test_a_log_normal_distribution_is_narrowed_in_the_log_and_stays_positive(base):
    found = narrowed(Warped(base, Log(0.0, 0.0, 1.0)), FACTOR)
    truth = stats.lognorm(FACTOR * np.sqrt(VAR), scale=np.exp(MEAN))
    assert found.log_density(Y) == pytest.approx(truth.logpdf(Y), abs=1e-10)
    assert found.cdf(-Y) == pytest.approx(np.zeros((2, 1)))
    assert found.quantile([0.3])[0] == pytest.approx(truth.ppf(0.3), rel=1e-9)


def test_probabilities_are_sharpened_and_certain_ones_stay():
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    truth = p ** (1 / FACTOR) / (p ** (1 / FACTOR)).sum(1, keepdims=True)
    assert narrowed(Classes(p), FACTOR).probabilities == pytest.approx(truth, abs=1e-12)


def test_a_factor_of_one_changes_nothing(base):
    assert narrowed(base, 1.0) is base
