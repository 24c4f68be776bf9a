"""The collapsed bound under uncertain inputs: against the bound with explicit inducing values, SGPR and differences."""

import pytest
import torch
from torch.autograd import gradcheck

from stratagp import kernels as k
from stratagp.layers import Inducing, Noisy, Stack, inducing_moments
from stratagp.likelihoods import GaussianNoise
from stratagp.means import Constant, Polynomial, Zero
from stratagp.objectives import elbo
from stratagp.objectives.collapsed import sgpr
from stratagp.objectives.expected import collapsed, optimal, sums
from stratagp.types import Gaussian
from tests.kernels.case import points, unit_points

N, D, M, P = 12, 2, 5, 3
X, Y, Z = points(N, D), points(N, P, seed=4), points(M, D, seed=1)
Q = Gaussian(X, 0.3 * unit_points(N, D))
NOISE = torch.tensor(0.2, dtype=torch.float64)
MEANS = {"zero": Zero, "constant": lambda: Constant(0.4), "linear": lambda: Polynomial([0.8, -0.5], 0.3)}
KERNELS = {
    "rbf": lambda: k.RBF([0.8, 1.3], variance=1.2),
    "rbf + linear": lambda: k.RBF(0.9, variance=0.8) + k.Linear(0.5),
    "metric": lambda: k.MetricRBF([[1.2, 0.0], [-0.5, 0.8]], variance=1.0),
}


def factor_of(kernel, z=Z):
    with torch.no_grad():
        return Inducing(kernel, z, jitter=1e-6).factor()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", MEANS)
def test_it_is_the_bound_at_the_best_inducing_values(kernel, mean):
    kernel, mean = KERNELS[kernel](), MEANS[mean]()
    seen, factor = sums(kernel, Z, mean, Q, Y), factor_of(kernel)
    value, best = collapsed(seen, factor, NOISE), optimal(seen, factor, NOISE)
    output = Inducing(kernel, Z, mean=mean, functions=P)
    stack = Stack(_Known(Q), output, propagate="moments")
    with torch.no_grad():
        output.posterior.mean.copy_(best.mean)
        output.posterior.scale.copy_(best.scale)
    bound = elbo(stack, GaussianNoise([0.2] * P), X, Y)
    torch.testing.assert_close(bound.value, value, atol=1e-8, rtol=0)
    bound.value.backward()  # the posterior is where the bound is stationary
    assert output.posterior.mean.grad.abs().max() < 1e-7
    assert output.posterior.scale.grad.tril().abs().max() < 1e-7


class _Known(Noisy):
    def __init__(self, q):
        super().__init__(1.0)
        self.q = q

    def forward(self, x):
        return self.q


@pytest.mark.parametrize("mean", MEANS)
def test_known_inputs_give_sgpr(mean):
    kernel, mean = KERNELS["rbf"](), MEANS[mean]()
    exact = sum(sgpr(kernel, Z, mean, NOISE, X, y) for y in Y.mT)
    factor = torch.linalg.cholesky(kernel(Z, Z))
    plain = collapsed(sums(kernel, Z, mean, X, Y), factor, NOISE)
    certain = collapsed(sums(kernel, Z, mean, Gaussian(X, torch.zeros_like(X)), Y), factor, NOISE)
    torch.testing.assert_close(plain, exact, atol=1e-8, rtol=0)
    torch.testing.assert_close(certain, exact, atol=1e-7, rtol=0)


def test_uncertain_targets_cost_their_variance():
    kernel = KERNELS["rbf"]()
    doubt = unit_points(N, P)
    known, unknown = (sums(kernel, Z, Zero(), Q, y) for y in (Y, Gaussian(Y, doubt)))
    factor = factor_of(kernel)
    gap = collapsed(known, factor, NOISE) - collapsed(unknown, factor, NOISE)
    torch.testing.assert_close(gap, 0.5 * doubt.sum() / NOISE, atol=1e-9, rtol=0)


def test_outputs_may_differ_in_noise():
    kernel, factor = KERNELS["rbf"](), factor_of(KERNELS["rbf"]())
    noise = torch.tensor([0.1, 0.2, 0.5], dtype=torch.float64)
    together = sums(kernel, Z, Zero(), Q, Y)
    alone = [(sums(kernel, Z, Zero(), Q, Y[:, [j]]), noise[j]) for j in range(P)]
    expected = sum(collapsed(seen, factor, own) for seen, own in alone)
    torch.testing.assert_close(collapsed(together, factor, noise), expected, atol=1e-9, rtol=0)
    best = optimal(together, factor, noise)
    for j, (seen, own) in enumerate(alone):
        own = optimal(seen, factor, own)
        torch.testing.assert_close((best.mean[j], best.scale[j]), (own.mean[0], own.scale[0]), atol=1e-9, rtol=0)


def test_chunks_of_rows_change_nothing(monkeypatch):
    kernel = KERNELS["rbf"]()

    def value():
        kernel.zero_grad()
        found = collapsed(sums(kernel, Z, MEANS["linear"](), Q, Y), factor_of(kernel), NOISE)
        found.backward()
        return found.detach(), [p.grad.clone() for p in kernel.parameters()]

    whole = value()
    monkeypatch.setattr(inducing_moments, "_CHUNK", 3 * M**2)
    torch.testing.assert_close(value(), whole, atol=1e-10, rtol=1e-10)


def test_gradients():
    kernel = KERNELS["rbf + linear"]()

    def value(mean, var, z, y):
        factor = torch.linalg.cholesky(kernel(z, z) + 1e-6 * torch.eye(M, dtype=torch.float64))
        return collapsed(sums(kernel, z, MEANS["linear"](), Gaussian(mean, var), y), factor, NOISE)

    inputs = [part.clone().requires_grad_() for part in (Q.mean[:3], Q.var[:3], Z, Y[:3, :1])]
    assert gradcheck(value, inputs, atol=1e-5)
