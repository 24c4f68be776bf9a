"""Every likelihood passes the shipped check, and its closed forms equal the quadrature of the base class."""

import inspect

import pytest
import torch

import stratagp.likelihoods as likelihoods
from stratagp.likelihoods import GaussianNoise, Likelihood
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.testing import check_likelihood
from stratagp.types import Gaussian


def belief(n=5, q=1, seed=0):
    g = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, q, generator=g, dtype=torch.float64)
    return Gaussian(mean, 0.1 + 0.3 * torch.rand(n, q, generator=g, dtype=torch.float64))


CASES = {
    "GaussianNoise": (lambda: GaussianNoise(0.3), torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None], belief()),
    "GaussianNoise outputs": (
        lambda: GaussianNoise([0.3, 0.5]),
        torch.linspace(-1, 1, 10, dtype=torch.float64).reshape(5, 2),
        belief(q=2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_check(name):
    make, y, q = CASES[name]
    check_likelihood(make(), y, q)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("question", ["expected_log_prob", "log_predictive"])
def test_closed_form_equals_quadrature(name, question):
    make, y, q = CASES[name]
    likelihood = make()
    ours, base = getattr(likelihood, question)(y, q), getattr(Likelihood, question)(likelihood, y, q)
    torch.testing.assert_close(ours, base, rtol=1e-9, atol=1e-9)
    closed, by_nodes = likelihood.predict(q), Likelihood.predict(likelihood, q)
    torch.testing.assert_close(tuple(closed), tuple(by_nodes), rtol=1e-9, atol=1e-9)


def test_every_likelihood_has_an_entry():
    found = {n for n, c in vars(likelihoods).items() if inspect.isclass(c) and not inspect.isabstract(c)}
    assert found == {name.split()[0] for name in CASES}


@pytest.mark.parametrize(("dim", "tolerance"), [(1, 1e-9), (2, 1e-9), (3, 1e-9), (10, 1e-9)])
def test_nodes_integrate_moments(dim, tolerance):
    points, log_weights = normal_nodes(dim, torch.zeros((), dtype=torch.float64))
    w = log_weights.exp()
    assert w.sum().item() == pytest.approx(1.0, abs=1e-12)
    second = (w[:, None, None] * points[:, :, None] * points[:, None, :]).sum(0)
    torch.testing.assert_close(second, torch.eye(dim).double(), rtol=0, atol=tolerance)
    fourth = (w[:, None] * points**4).sum(0)
    torch.testing.assert_close(fourth, torch.full((dim,), 3.0).double(), rtol=0, atol=1e-8 if dim <= 2 else 0.15)


@pytest.mark.parametrize("samples", [3, 20])
def test_sample_axes_pass_through_the_quadrature(samples):
    make, y, q = CASES["GaussianNoise"]
    likelihood = make()
    stacked = Gaussian(q.mean + 0.02 * torch.arange(samples)[:, None, None], q.var.expand(samples, -1, -1))
    for question in ("expected_log_prob", "log_predictive"):
        base, closed = getattr(Likelihood, question)(likelihood, y, stacked), getattr(likelihood, question)(y, stacked)
        torch.testing.assert_close(base, closed, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(tuple(Likelihood.predict(likelihood, stacked)), tuple(likelihood.predict(stacked)))
