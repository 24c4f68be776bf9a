"""The variational bound: below the evidence, unbiased in batches, its gradient and optimum checked."""

import pytest
import torch
from torch.optim import LBFGS

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.layers import Inducing
from stratagp.likelihoods import Bernoulli, GaussianNoise, Softmax
from stratagp.objectives.elbo import elbo, expected_log_prob
from stratagp.types import Gaussian, Mixture
from tests.objectives.identity import Identity
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = 3 * torch.rand(12, 1, generator=G, dtype=torch.float64)
Y = torch.sin(2 * X) + 0.2 * torch.randn(12, 1, generator=G, dtype=torch.float64)
CASES = {
    "gaussian": lambda: (Inducing(k.RBF(0.7, variance=1.2), X[:4], moved(4, 1)), GaussianNoise(0.3), Y),
    "bernoulli": lambda: (Inducing(k.RBF(0.7, variance=1.2), X[:4], moved(4, 1)), Bernoulli(), (Y > 0).double()),
    "softmax": lambda: (
        Inducing(k.RBF(0.7, variance=1.2).replicate(3), X[:4], moved(4, 3)),
        Softmax(),
        Y.gt(0).double() + Y.gt(0.5).double(),
    ),
}


@pytest.mark.parametrize("seed", range(5))
def test_bound_is_below_the_evidence(seed):
    layer, likelihood, y = CASES["gaussian"]()
    layer.posterior.load_state_dict(moved(4, 1, seed).state_dict())
    evidence = ExactGP(k.RBF(0.7, variance=1.2), noise=0.3).log_evidence(X, y[:, 0])
    bound = elbo(layer, likelihood, X, y)
    assert bound.value < evidence
    assert bound.value.item() == pytest.approx((bound.fit - bound.kl).item())


@pytest.mark.parametrize("name", CASES)
def test_batches_are_unbiased(name):
    layer, likelihood, y = CASES[name]()
    whole = elbo(layer, likelihood, X, y).value
    parts = [elbo(layer, likelihood, X[i : i + 3], y[i : i + 3], num_data=12).value for i in range(0, 12, 3)]
    assert torch.stack(parts).mean().item() == pytest.approx(whole.item(), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_differences(name):
    layer, likelihood, y = CASES[name]()
    leaves = [*layer.parameters(), *likelihood.parameters()]
    gradients = torch.autograd.grad(elbo(layer, likelihood, X, y).value, leaves)
    direction = [torch.randn(p.shape, generator=G, dtype=torch.float64) for p in leaves]
    slope = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))

    def at(step):
        with torch.no_grad():
            for p, d in zip(leaves, direction, strict=True):
                p.add_(d, alpha=step)
            value = elbo(layer, likelihood, X, y).value
            for p, d in zip(leaves, direction, strict=True):
                p.sub_(d, alpha=step)
        return value

    assert slope.item() == pytest.approx(((at(1e-5) - at(-1e-5)) / 2e-5).item(), rel=1e-6)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_bernoulli_optimum_is_near_the_exact_posterior(link):
    x = torch.tensor([[0.0], [0.6], [2.0]], dtype=torch.float64)
    y = torch.tensor([[1.0], [1.0], [0.0]], dtype=torch.float64)
    likelihood, kernel = Bernoulli(link), k.RBF(1.0, variance=2.0)
    axis = torch.linspace(-7.5, 7.5, 101, dtype=torch.float64)
    f = torch.cartesian_prod(axis, axis, axis)
    prior = torch.distributions.MultivariateNormal(torch.zeros(3, dtype=torch.float64), kernel(x).detach())
    joint = prior.log_prob(f) + likelihood.log_prob(y, f[..., None]).sum(-1)
    evidence = joint.logsumexp(0) + 3 * torch.log(axis[1] - axis[0])
    mean = (joint.softmax(0)[:, None] * f).sum(0)
    layer = Inducing(kernel, x, jitter=0.0)
    optimiser = LBFGS(layer.posterior.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = -elbo(layer, likelihood, x, y).value
        value.backward()
        return value

    optimiser.step(loss)
    bound = elbo(layer, likelihood, x, y).value
    assert evidence - 0.02 < bound < evidence
    torch.testing.assert_close(layer(x).mean[:, 0], mean, rtol=0, atol=0.05)


def test_beliefs_of_every_kind():
    likelihood, (mean, var) = GaussianNoise(0.3), (Y + 0.1, 0.2 + Y.square())
    part = Gaussian(mean, var)
    one = likelihood.expected_log_prob(Y, part)
    torch.testing.assert_close(
        expected_log_prob(likelihood, Y, Gaussian(mean.expand(4, -1, -1), var.expand(4, -1, -1))), one
    )
    torch.testing.assert_close(expected_log_prob(likelihood, Y, mean), likelihood.log_prob(Y, mean))
    two = Gaussian(torch.stack([mean, mean + 1]), torch.stack([var, 2 * var]))
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    other = likelihood.expected_log_prob(Y, Gaussian(mean + 1, 2 * var))
    torch.testing.assert_close(expected_log_prob(likelihood, Y, Mixture(weights.log(), two)), 0.25 * one + 0.75 * other)


def test_any_layer_serves():
    value = elbo(Identity(), GaussianNoise(0.3), X, Y).value
    assert value.item() == pytest.approx(GaussianNoise(0.3).log_prob(Y, X).sum().item())
