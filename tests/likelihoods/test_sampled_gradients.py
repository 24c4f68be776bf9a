"""Gradients of a sampled bound: those from scores are right on average, and control variates lessen their noise."""

import pytest
import torch

from stratagp.errors import InputError
from stratagp.likelihoods import GPRN, Poisson, Sampled, Softmax
from stratagp.types import Gaussian
from tests.likelihoods.cases import CASES

CALLS, SAMPLES = 4000, 20


def gradients(likelihood, y, q, calls):
    """Of ``E log p`` by mean and variance, from independent calls at once: rows are repeated."""
    leaves = [t.repeat(calls, 1).requires_grad_() for t in q]
    value = likelihood.expected_log_prob(y.repeat(calls, 1), Gaussian(*leaves)).sum()
    found = torch.autograd.grad(value, leaves)
    return [grad.unflatten(0, (calls, -1)) for grad in found]


@pytest.mark.parametrize("name", ["Poisson", "GPRN", "Softmax"])
def test_scores_are_unbiased_and_noisier_than_paths(name):
    likelihood = {"Poisson": Poisson(), "GPRN": GPRN(1, 0.5), "Softmax": Softmax()}[name]
    _, y, q = CASES[name]
    exact = gradients(likelihood, y, q, 1)
    noise = {}
    for way in ("score", "pathwise"):
        sampled = Sampled(likelihood, SAMPLES, torch.Generator().manual_seed(0), gradients=way)
        found = gradients(sampled, y, q, CALLS)
        for ours, truth in zip(found, exact, strict=True):
            error = ours.std(0) / CALLS**0.5
            assert ((ours.mean(0) - truth[0]).abs() < 5 * error + 2e-4).all()
        noise[way] = found[0].var(0).mean()
    assert noise["score"] > noise["pathwise"]


def test_control_variates_lessen_the_noise():
    _, y, q = CASES["Poisson"]
    found = gradients(Sampled(Poisson(), SAMPLES, torch.Generator().manual_seed(0), gradients="score"), y, q, CALLS)
    noise = torch.randn(SAMPLES, CALLS, *q.mean.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values = Poisson().log_prob(y.repeat(CALLS, 1), q.sample(noise).flatten(1, 2)).unflatten(1, (CALLS, -1))
    plain = (values[..., None] * noise / q.var.sqrt()).mean(0)
    assert (found[0].var(0) < 0.6 * plain.var(0)).all()


def test_scores_reach_the_parameters_of_the_likelihood():
    likelihood, (_, y, q) = GPRN(1, 0.5), CASES["GPRN"]
    for way in ("score", "pathwise"):
        sampled = Sampled(likelihood, 20_000, torch.Generator().manual_seed(0), gradients=way)
        (ours,) = torch.autograd.grad(sampled.expected_log_prob(y, q).sum(), list(likelihood.parameters()))
        (truth,) = torch.autograd.grad(likelihood.expected_log_prob(y, q).sum(), list(likelihood.parameters()))
        torch.testing.assert_close(ours, truth, rtol=0.03, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradients": "finite"}, "'pathwise' or 'score'"),
        ({"gradients": "score", "n_samples": 1}, "two"),
        ({"gradients": "score", "what": "reciprocal"}, "bound"),
    ],
)
def test_bad_ways_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Sampled(Poisson(), **{"n_samples": 10, **options})
