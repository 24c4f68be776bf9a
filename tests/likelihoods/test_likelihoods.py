"""Every likelihood passes the shipped check, and its closed forms equal the quadrature of the base class."""

import inspect

import pytest
import torch

import stratagp.likelihoods as likelihoods
from stratagp.errors import InputError
from stratagp.likelihoods import Bernoulli, Likelihood, Sampled, Softmax
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.testing import check_likelihood
from stratagp.types import Gaussian
from tests.likelihoods.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_check(name):
    make, y, q = CASES[name]
    check_likelihood(make(), y, q)


EXACT_QUADRATURE = ("Bernoulli", "GaussianNoise", "Softmax")  # where the nodes of the base class have nine digits


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[0] in EXACT_QUADRATURE])
@pytest.mark.parametrize("question", ["expected_log_prob", "log_predictive"])
def test_closed_form_equals_quadrature(name, question):
    make, y, q = CASES[name]
    likelihood = make()
    ours, base = getattr(likelihood, question)(y, q), getattr(Likelihood, question)(likelihood, y, q)
    torch.testing.assert_close(ours, base, rtol=1e-9, atol=1e-9)
    closed, by_nodes = likelihood.predict(q), Likelihood.predict(likelihood, q)
    torch.testing.assert_close(tuple(closed), tuple(by_nodes), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_sample_axes_and_single_precision(name):
    make, y, q = CASES[name]
    likelihood = make()
    stacked = Gaussian(*(torch.stack([t, 1.1 * t]) for t in q))
    for question in ("expected_log_prob", "log_predictive", "log_reciprocal"):
        ask = getattr(likelihood, question)
        each = torch.stack([ask(y, Gaussian(stacked.mean[i], stacked.var[i])) for i in range(2)])
        torch.testing.assert_close(ask(y, stacked), each, rtol=1e-12, atol=1e-12)
    expected = likelihood.expected_log_prob(y, q)
    single = make().float().expected_log_prob(y.float(), Gaussian(q.mean.float(), q.var.float()))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in CASES if name != "Bernoulli"])
def test_predictions_have_sample_axes(name):
    make, _, q = CASES[name]
    stacked = Gaussian(*(torch.stack([t, 1.1 * t]) for t in q))
    each = torch.stack([make().predict(Gaussian(stacked.mean[i], stacked.var[i])).mean for i in range(2)])
    torch.testing.assert_close(make().predict(stacked).mean, each)


def test_every_likelihood_has_an_entry():
    found = {n for n, c in vars(likelihoods).items() if inspect.isclass(c) and not inspect.isabstract(c)}
    wrappers = {"Sampled", "Mixed"}  # the check wraps each likelihood in the first; the second has its own tests
    assert found - wrappers == {name.split()[0] for name in CASES}


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


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_labels_have_the_moments_that_are_claimed(link):
    _, y, q = CASES["Bernoulli"]
    check_likelihood(Bernoulli(link), y, q, support=torch.tensor([0.0, 1.0], dtype=torch.float64), discrete=True)
    extreme = torch.tensor([[-40.0], [40.0]])
    assert Bernoulli(link).log_prob(torch.ones(2, 1), extreme).isfinite().all()
    assert Bernoulli(link).moments(extreme).var.ge(0).all()


def test_softmax_of_two_classes_is_a_logit_of_their_difference():
    _, y, q = CASES["Softmax two classes"]
    single = Gaussian((q.mean[:, 1] - q.mean[:, 0])[:, None], q.var.sum(1, keepdim=True))
    for question in ("expected_log_prob", "log_predictive"):
        two, one = getattr(Softmax(), question)(y, q), getattr(Bernoulli(), question)(y, single)
        torch.testing.assert_close(two, one, rtol=0, atol=1e-7)
    torch.testing.assert_close(Softmax().predict(q).mean[:, 1:], Bernoulli().predict(single).mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(Softmax().predict(q).mean.sum(1), torch.ones(5, dtype=torch.float64))


def test_softmax_samples_have_no_bias():
    _, y, q = CASES["Softmax"]
    sampled = Sampled(Softmax(), 100_000, torch.Generator().manual_seed(0)).expected_log_prob(y, q)
    torch.testing.assert_close(sampled, Softmax().expected_log_prob(y, q), rtol=0, atol=5e-3)
    first, second = (Sampled(Softmax(), 4, torch.Generator().manual_seed(1)).expected_log_prob(y, q) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Bernoulli("cloglog"), "logit, probit"),
        (lambda: Bernoulli().log_prob(torch.tensor([[-1.0]]), torch.zeros(1, 1)), "0 and 1, got -1"),
        (lambda: Softmax().log_prob(torch.tensor([[3.0]]), torch.zeros(1, 3)), "0 … 2"),
        (lambda: Softmax().log_prob(torch.tensor([[0.5]]), torch.zeros(1, 3)), "got 0.5"),
        (lambda: Sampled(Softmax(), 0), "n_samples"),
    ],
)
def test_bad_arguments_are_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
