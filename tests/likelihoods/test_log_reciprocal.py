"""``log E 1/p(y | f)`` of several functions against samples, also where the expectation is infinite."""

import math

import pytest
import torch

from stratagp.likelihoods import GPRN, Heteroscedastic, Mixed, Ordinal
from stratagp.types import Gaussian


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def mixed():
    likelihood = Mixed(Heteroscedastic(), 2, 2)
    likelihood.set(weight=rows([1.0, 0.3], [-0.2, 0.5]), offset=rows(0.0, -1.0))
    return likelihood


CASES = {
    "noise that varies": (Heteroscedastic, rows([0.8]), Gaussian(rows([0.3, -1.0]), rows([0.05, 0.1]))),
    "of two outputs": (
        Heteroscedastic,
        rows([0.8, -0.1]),
        Gaussian(rows([0.3, 0.2, -1.0, -0.5]), rows([0.05, 0.08, 0.1, 0.15])),
    ),
    "mixed": (mixed, rows([0.8]), Gaussian(rows([0.3, 0.0]), rows([0.05, 0.1]))),
    "network of one node": (
        lambda: GPRN(1, 0.3),
        rows([0.5, -0.3]),
        Gaussian(rows([0.4, -0.5, 1.2]), rows([0.03, 0.03, 0.03])),
    ),
    "network of two nodes": (
        lambda: GPRN(2, 0.5),
        rows([0.5, -0.3]),
        Gaussian(rows([0.4, -0.5, 0.9, 0.1, 1.2, -0.7]), rows([0.02, 0.01, 0.02, 0.02, 0.02, 0.01])),
    ),
    "probit of ranks": (lambda: Ordinal(3), rows([2.0]), Gaussian(rows([-0.5]), rows([0.2]))),
}


def reciprocals(likelihood, y, q, count):
    """``−log p`` at samples of the belief."""
    noise = torch.randn(count, *q.mean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return -likelihood.log_prob(y, q.sample(noise)).detach()


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_samples(name):
    make, y, mean_and_var = CASES[name]
    q = Gaussian(mean_and_var.mean.reshape(1, -1), mean_and_var.var.reshape(1, -1))
    likelihood, count = make(), 500_000
    truth = reciprocals(likelihood, y, q, count).logsumexp(0) - math.log(count)
    torch.testing.assert_close(likelihood.log_reciprocal(y, q).detach(), truth, rtol=0, atol=0.015)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wider", [10, 100])
def test_an_infinite_expectation_is_that_of_the_central_part(name, wider):
    make, y, mean_and_var = CASES[name]
    q = Gaussian(mean_and_var.mean.reshape(1, -1), wider * mean_and_var.var.reshape(1, -1))
    likelihood = make()
    value, sampled = likelihood.log_reciprocal(y, q), reciprocals(likelihood, y, q, 200_000)
    assert 1.1 * sampled.max() > value  # as large as one sample in some 10,000
    assert value > -likelihood.expected_log_prob(y, q)
