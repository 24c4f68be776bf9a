import pytest
import torch

from stratagp.errors import InputError
from stratagp.likelihoods import Bernoulli, GaussianNoise, Mixed, Poisson, Sampled, Softmax
from stratagp.types import Gaussian


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mixed(given, scores, functions=3):
    made = Mixed(given, scores, functions, torch.Generator().manual_seed(1))
    made.set(weight=normal(scores, functions, seed=2), offset=normal(scores, seed=3))
    return made


CASES = {
    "gaussian": (GaussianNoise([0.5, 0.8]), 2, normal(6, 2, seed=5)),
    "logit": (Bernoulli(), 1, torch.tensor([0.0, 1, 1, 0, 1, 0]).double()[:, None]),
    "poisson": (Poisson(), 1, torch.tensor([0.0, 1, 3, 0, 1, 2]).double()[:, None]),
    "softmax": (Softmax(), 4, torch.tensor([0.0, 1, 2, 3, 0, 1]).double()[:, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_integrals_agree_with_samples_of_the_functions(name):
    given, scores, y = CASES[name]
    likelihood = mixed(given, scores)
    q = Gaussian(0.5 * normal(6, 3, seed=6), 0.1 + 0.3 * torch.rand(6, 3, generator=torch.Generator().manual_seed(7)))
    f = q.sample(normal(400_000, 1, 3, seed=8))
    with torch.no_grad():
        logs = likelihood.log_prob(y, f)
        torch.testing.assert_close(likelihood.expected_log_prob(y, q), logs.mean(0), rtol=0, atol=0.02)
        moments = likelihood.moments(f)
        found = likelihood.predict(q)
    torch.testing.assert_close(found.mean, moments.mean.mean(0), rtol=0.01, atol=0.01)
    whole = moments.var.mean(0) + moments.mean.var(0)
    torch.testing.assert_close(found.var, whole, rtol=0.03, atol=0.01)
    if scores == 1 or name == "softmax":
        density = logs.exp().mean(0).log()
        torch.testing.assert_close(likelihood.log_predictive(y, q), density, rtol=0, atol=0.02)


def test_samples_of_the_softmax():
    _, _, y = CASES["softmax"]
    likelihood = mixed(Softmax(), 4)
    q = Gaussian(normal(6, 3, seed=6), torch.full((6, 3), 0.4, dtype=torch.float64))
    sampled = Sampled(likelihood, 50_000, torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            sampled.expected_log_prob(y, q), likelihood.expected_log_prob(y, q), rtol=0, atol=0.02
        )


def test_functions_and_scores_as_many_start_unmixed():
    likelihood = Mixed(Softmax(), 3, 3)
    f = normal(5, 3)
    torch.testing.assert_close(likelihood.scores(f), f)
    assert likelihood.functions(1) == 3


def test_quantiles_are_those_of_the_score():
    likelihood = mixed(GaussianNoise(0.5), 1)
    q = Gaussian(normal(4, 3), torch.full((4, 3), 0.2, dtype=torch.float64))
    belief = likelihood.belief(q)
    with torch.no_grad():
        found = likelihood.quantiles(q, [0.5, 0.975])
        deviation = (belief.var + 0.5).sqrt()
        torch.testing.assert_close(found[0], belief.mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(found[1], belief.mean + 1.959964 * deviation, rtol=0, atol=1e-5)


def test_sizes_are_checked():
    with pytest.raises(InputError, match="scores and functions"):
        Mixed(Softmax(), 0, 3)
