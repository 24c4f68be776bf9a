"""Models on a device that is not the processor's: no tensor of the hot path is made elsewhere."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.layers import Features, Inducing, Stack
from stratagp.likelihoods import Bernoulli, GaussianNoise, Poisson, Sampled, Softmax, StudentT
from stratagp.models import StochasticGP
from stratagp.models.chain import Chain
from stratagp.models.dfgp import dfgp_regression, hidden_layer, widen
from stratagp.objectives import elbo, leave_one_out, predictive_bound
from stratagp.posteriors import DiagonalGaussian, MixturePosterior
from tests.without_values import OneDevice, answer_questions


@pytest.fixture(autouse=True)
def answers(monkeypatch):
    answer_questions(monkeypatch)


def test_mixed_devices_fail_here():
    with OneDevice(), pytest.raises(RuntimeError, match="more than one device"):
        torch.zeros(3, 3, device="meta") @ torch.zeros(3, 3)


KERNELS = [
    k.RBF(ard=2),
    k.Matern(nu=0.5),
    k.Matern(nu=2.5, ard=2),
    k.RationalQuadratic(),
    k.ArcCosine(depth=2),
    k.Linear(),
    k.Polynomial(2),
    k.Periodic(),
    k.RBF() * k.Periodic() + k.Linear(),
]
LIKELIHOODS = [
    (Bernoulli(), 1),
    (Softmax(), 3),
    (Sampled(Softmax(), 5, what="both"), 3),
    (Poisson(), 1),
    (StudentT(), 1),
]


def check(model, x, y, objectives=(elbo,)):
    """Objectives with their gradients, two steps of training from rows on the processor, and predictions."""
    model.to("meta")
    with OneDevice():
        for objective in objectives:
            value = objective(model.layer, model.likelihood, x.to("meta"), y.to("meta"), 100).value
            assert value.is_meta
            value.backward()
        assert all(p.grad.is_meta for p in model.parameters() if p.grad is not None)
        model.fit(x, y, natural=False, steps=2, batch_size=10)
        assert model.predict(x).mean.is_meta


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels(kernel):
    model = StochasticGP(kernel, torch.rand(7, 2), GaussianNoise(0.1))
    check(model, torch.rand(30, 2), torch.rand(30, 1), (elbo, leave_one_out, predictive_bound))


@pytest.mark.parametrize(("likelihood", "functions"), LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_likelihoods(likelihood, functions):
    model = StochasticGP(k.RBF(), torch.rand(7, 2), likelihood, functions=functions)
    check(model, torch.rand(30, 2), torch.ones(30, 1), (elbo, leave_one_out))


@pytest.mark.parametrize(
    "posterior", [DiagonalGaussian(7, 1), MixturePosterior(7, 1, 2)], ids=lambda p: type(p).__name__
)
def test_posteriors(posterior):
    model = StochasticGP(k.RBF(), torch.rand(7, 2), GaussianNoise(0.1), posterior=posterior)
    check(model, torch.rand(30, 2), torch.rand(30, 1))


def test_features_of_a_network():
    stack = Stack(Features(torch.nn.Linear(3, 2), 2), Inducing(k.RBF(), torch.randn(5, 2)))
    check(Chain(stack, GaussianNoise()), torch.rand(30, 3), torch.rand(30, 1))


def test_collapsed_bounds():
    x, y = torch.rand(30, 2).double(), torch.rand(30, 1).double()
    hidden = hidden_layer(x, x, k.RBF(1.0, variance=1.0), 5)
    widen(hidden)
    model = dfgp_regression(hidden, k.RBF(ard=2), x, 5).to("meta")
    with OneDevice():
        model.log_evidence(x.to("meta"), y.to("meta")).backward()
        assert all(p.grad.is_meta for p in model.parameters())
        assert model.condition(x.to("meta"), y.to("meta")).predict(x).mean.is_meta
