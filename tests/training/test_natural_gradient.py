"""One natural step on all rows is the optimal posterior of a Gaussian model, which SGPR knows in closed form."""

from itertools import pairwise

import pytest
import torch

from stratagp import ExactGP, SparseGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Inducing
from stratagp.likelihoods import Bernoulli, GaussianNoise
from stratagp.objectives.elbo import elbo
from stratagp.posteriors import FullGaussian
from stratagp.training.natural_gradient import natural_step
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = 3 * torch.rand(40, 1, generator=G, dtype=torch.float64)
Y = torch.sin(2 * X) + 0.2 * torch.randn(40, 1, generator=G, dtype=torch.float64)


def step(layer, likelihood, x, y, rate):
    layer.zero_grad()
    (-elbo(layer, likelihood, x, y).value).backward()
    return natural_step(layer.posterior, rate)


def test_one_step_is_the_optimum_of_sgpr():
    z = X[::5]
    layer, likelihood = Inducing(k.RBF(0.7, variance=1.2), z, moved(8, 1), jitter=0.0), GaussianNoise(0.05)
    assert step(layer, likelihood, X, Y, 1.0) == 1.0
    sparse = SparseGP(k.RBF(0.7, variance=1.2), z, noise=0.05)
    bound = elbo(layer, likelihood, X, Y).value
    assert bound.item() == pytest.approx(sparse.log_evidence(X, Y[:, 0]).item(), abs=1e-6)
    expected = sparse.condition(X, Y[:, 0]).marginals(X)
    torch.testing.assert_close(tuple(layer(X)), tuple(expected), rtol=0, atol=1e-7)


def test_one_step_with_all_points_is_the_exact_process():
    x, y = X[:20], Y[:20]
    kernel = k.Matern(1.5, 0.7, variance=1.2)
    layer, likelihood = Inducing(kernel, x, jitter=0.0), GaussianNoise(0.05)
    step(layer, likelihood, x, y, 1.0)
    exact = ExactGP(kernel, noise=0.05)
    assert elbo(layer, likelihood, x, y).value.item() == pytest.approx(exact.log_evidence(x, y[:, 0]).item(), abs=1e-5)
    new = torch.linspace(-1, 4, 30, dtype=torch.float64)[:, None]
    expected = exact.condition(x, y[:, 0]).marginals(new)
    torch.testing.assert_close(tuple(layer(new)), tuple(expected), rtol=0, atol=1e-7)


def test_functions_move_independently():
    likelihood, both = GaussianNoise(0.05), torch.cat([Y, Y.square()], 1)
    joint = Inducing(k.RBF(0.7, variance=1.2), X[::5], functions=2)
    step(joint, likelihood, X, both, 0.3)
    for j in range(2):
        alone = Inducing(k.RBF(0.7, variance=1.2), X[::5])
        step(alone, likelihood, X, both[:, j : j + 1], 0.3)
        torch.testing.assert_close(joint.posterior.mean[j], alone.posterior.mean[0])
        torch.testing.assert_close(joint.posterior.scale[j], alone.posterior.scale[0])


def test_steps_climb_to_a_stationary_point_of_a_classifier():
    layer, likelihood, y = Inducing(k.RBF(0.7, variance=1.2), X[::8]), Bernoulli(), (Y > 0).double()
    values = []
    for _ in range(30):
        step(layer, likelihood, X, y, 0.7)
        values.append(elbo(layer, likelihood, X, y).value.item())
    assert all(b >= a - 1e-9 for a, b in pairwise(values))
    layer.zero_grad()
    (-elbo(layer, likelihood, X, y).value).backward()
    assert layer.posterior.mean.grad.abs().max() < 1e-8
    assert layer.posterior.scale.grad.tril().abs().max() < 1e-8


def test_a_step_that_would_leave_the_cone_is_shortened():
    posterior = FullGaussian(2)
    (posterior.mean.sum() - 3 * posterior.scale.square().sum()).backward()  # asks for a negative precision
    assert 0 < natural_step(posterior, 1.0) < 1
    assert posterior.scale.isfinite().all()
    posterior.scale.grad.fill_(torch.nan)
    before = posterior.scale.clone()
    assert natural_step(posterior, 1.0) == 0
    assert torch.equal(posterior.scale, before)


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="rate"):
        natural_step(FullGaussian(2), 1.5)
    with pytest.raises(InputError, match="backward"):
        natural_step(FullGaussian(2), 0.5)
