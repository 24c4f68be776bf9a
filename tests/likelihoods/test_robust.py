"""Closed forms and one-dimensional integrals of likelihoods, against scipy's quadrature and distributions."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import k0e

from stratagp.errors import InputError, UnsupportedError
from stratagp.likelihoods import (
    GPRN,
    Bernoulli,
    GaussianNoise,
    Heteroscedastic,
    LaplaceNoise,
    Ordinal,
    RobustMax,
    StudentT,
)
from stratagp.parameters import positive
from stratagp.types import Gaussian
from tests.likelihoods.cases import belief, column

T = stats.t(5, scale=0.4)
DENSITIES = {
    "StudentT": (lambda: StudentT(0.4, dof=5.0), lambda d: T.logpdf(d)),
    "LaplaceNoise": (lambda: LaplaceNoise(0.4), lambda d: stats.laplace(scale=0.4).logpdf(d)),
}


def averages(log_density, y, mean, var):
    """``E log p``, ``log E p`` and ``log E 1/p`` by Gauss-Legendre on pieces, with a break where the density peaks."""
    sd = math.sqrt(var)
    breaks = np.array(sorted({y, *(y + np.arange(-3, 3.1, 0.25)), *(mean + sd * np.arange(-30, 30.1, 0.5))}))
    breaks = breaks[np.abs(breaks - mean) <= 30.01 * sd]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = 0.5 * np.diff(breaks)[:, None]
    f = breaks[:-1, None] + half * (1 + nodes)
    measure, logs = half * weights * stats.norm.pdf(f, mean, sd), log_density(y - f)
    return (measure * logs).sum(), np.log((measure * np.exp(logs)).sum()), np.log((measure * np.exp(-logs)).sum())


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize(("y", "mean", "var"), [(0.3, 0.1, 0.2), (0.0, 0.0, 9.0), (12.0, 0.0, 0.5), (-2.0, 1.0, 1e-4)])
def test_integrals_equal_adaptive_quadrature(name, y, mean, var):
    make, log_density = DENSITIES[name]
    q = Gaussian(column(mean), column(var))
    expected, predictive, reciprocal = averages(log_density, y, mean, var)
    likelihood = make()
    assert likelihood.expected_log_prob(column(y), q).item() == pytest.approx(expected, rel=1e-8)
    assert likelihood.log_predictive(column(y), q).item() == pytest.approx(predictive, rel=1e-8)
    tolerance = 1e-8 if name == "LaplaceNoise" or var < 1 else 1e-3  # 20 nodes for the t
    assert likelihood.log_reciprocal(column(y), q).item() == pytest.approx(reciprocal, rel=tolerance)


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_equal_scipy(name):
    make, log_density = DENSITIES[name]
    d = torch.linspace(-4, 4, 9, dtype=torch.float64)[:, None]
    torch.testing.assert_close(make().log_prob(d, torch.zeros_like(d)).detach().numpy(), log_density(d.numpy())[:, 0])
    law = {"StudentT": T, "LaplaceNoise": stats.laplace(scale=0.4)}[name]
    np.testing.assert_allclose(make().cdf(d, torch.zeros_like(d)).detach(), law.cdf(d.numpy()), rtol=1e-12)
    np.testing.assert_allclose(make().moments(d).var.detach(), law.var(), rtol=1e-12)


@pytest.mark.parametrize("dof", [2.01, 30.0, 1e4])
def test_student_t_at_the_ends_of_its_parameter(dof):
    y, q = column(0.5, -40.0), Gaussian(column(0.0, 0.0), column(0.3, 0.3))
    likelihood = StudentT(0.7, dof)
    certain = Gaussian(q.mean, torch.zeros_like(q.var))
    for question in ("expected_log_prob", "log_predictive"):
        torch.testing.assert_close(
            getattr(likelihood, question)(y, certain), likelihood.log_prob(y, q.mean), rtol=1e-9, atol=1e-9
        )
    if dof == 1e4:
        near = Gaussian(q.mean[:1], q.var[:1])
        normal = GaussianNoise(0.49)
        for question in ("expected_log_prob", "log_predictive"):
            ours, limit = (getattr(one, question)(y[:1], near) for one in (likelihood, normal))
            torch.testing.assert_close(ours, limit, rtol=0, atol=1e-3)


@pytest.mark.parametrize("make", [lambda: StudentT(0.4, 5.0), lambda: LaplaceNoise(0.4), lambda: Ordinal(4)])
@pytest.mark.parametrize("question", ["expected_log_prob", "log_predictive", "log_reciprocal"])
def test_gradients(make, question):
    q, y = belief(), column(0.0, 1.0, 2.0, 3.0, 1.0)
    likelihood = make()
    raw = list(likelihood.parameters())

    def ask(mean, var, *_):
        return getattr(likelihood, question)(y, Gaussian(mean, var))

    assert torch.autograd.gradcheck(ask, (q.mean.requires_grad_(), q.var.requires_grad_(), *raw), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_laplace_noise_at_extremes(dtype):
    """Finite values and gradients for no variance, no residual, and either of them huge."""
    mean = torch.tensor([[0.0], [1.0], [-1e4], [0.0], [3.0]], dtype=dtype, requires_grad=True)
    var = torch.tensor([[0.0], [0.0], [1.0], [1e6], [1e-12]], dtype=dtype, requires_grad=True)
    likelihood = LaplaceNoise(0.1)
    for question in ("expected_log_prob", "log_predictive"):
        value = getattr(likelihood, question)(torch.zeros(5, 1, dtype=dtype), Gaussian(mean, var))
        assert value.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(value.sum(), [mean, var]))
    q = Gaussian(mean.detach(), var.detach())
    torch.testing.assert_close(
        likelihood.log_predictive(torch.zeros(5, 1, dtype=dtype), q)[[1, 3]],
        torch.tensor([-10 - math.log(0.2), -0.5 * math.log(2 * math.pi * 1e6)], dtype=dtype),
        rtol=1e-5,
        atol=1e-5,
    )


def test_heteroscedastic_predictive_by_double_integral():
    q = Gaussian(torch.tensor([[0.2, -1.0]]).double(), torch.tensor([[0.4, 0.7]]).double())

    grid = np.linspace(-8, 8, 321)
    weight = np.outer(stats.norm.pdf(grid), stats.norm.pdf(grid)) * 0.05**2
    f, g = 0.2 + 0.4**0.5 * grid[:, None], -1 + 0.7**0.5 * grid[None, :]
    logs = stats.norm.logpdf(0.9, f, np.exp(g / 2))
    ours = Heteroscedastic()
    assert ours.expected_log_prob(column(0.9), q).item() == pytest.approx((weight * logs).sum(), rel=1e-7)
    assert ours.log_predictive(column(0.9), q).item() == pytest.approx(np.log((weight * np.exp(logs)).sum()), rel=1e-6)
    assert ours.functions(3) == 6


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_probability_of_the_largest(classes):
    q = belief(n=4, q=classes, seed=3)
    likelihood = RobustMax(0.02)
    p = (likelihood.predict(q).mean - 0.02 / (classes - 1)) / (0.98 - 0.02 / (classes - 1))
    torch.testing.assert_close(p.sum(1), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-7)
    grid = np.linspace(-9, 9, 4001)
    mean, sd = q.mean.numpy(), q.var.sqrt().numpy()
    for c in range(classes):
        f = mean[:, [c]] + sd[:, [c]] * grid
        others = [stats.norm.cdf(f, mean[:, [i]], sd[:, [i]]) for i in range(classes) if i != c]
        exact = np.trapezoid(stats.norm.pdf(grid) * np.prod(others, axis=0), grid)
        np.testing.assert_allclose(p[:, c].detach(), exact, rtol=0, atol=1e-7)


def test_robust_max_of_two_classes_is_a_probit_of_their_difference():
    q = belief(q=2)
    shrunk = (q.mean[:, 1] - q.mean[:, 0]) / q.var.sum(1).sqrt()
    p = RobustMax().probability_of_largest(torch.ones(5, 1).double(), q)
    torch.testing.assert_close(p, torch.special.ndtr(shrunk), rtol=0, atol=1e-8)


def test_robust_max_learns_from_samples():
    """Its log density is a step, yet samples must give the gradient of the expectation."""
    q = belief(q=3)
    y, noise = column(0.0, 2.0, 1.0, 1.0, 0.0), torch.randn(50_000, 5, 3, generator=torch.Generator().manual_seed(0))
    leaves = [q.mean.requires_grad_(), q.var.requires_grad_()]
    likelihood = RobustMax(0.05)
    exact = torch.autograd.grad(likelihood.expected_log_prob(y, q).sum(), leaves)
    sampled = torch.autograd.grad(likelihood.sampled_log_prob(y, q, noise.double()).sum(), leaves)
    torch.testing.assert_close(sampled, exact, rtol=0, atol=0.05)
    assert exact[0].abs().max() > 0.5
    assert [p.requires_grad for p in likelihood.free("epsilon").parameters()] == [True]


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_ordinal_probabilities(link):
    q, cuts = belief(), [-1.0, 0.2, 0.9]
    likelihood = Ordinal(4, cuts, link)
    law = stats.norm if link == "probit" else stats.logistic
    torch.testing.assert_close(likelihood.cuts, torch.tensor(cuts).double())
    p = likelihood.probabilities(q)
    grid = np.linspace(-9, 9, 1801)
    for row in range(5):
        f = q.mean[row].item() + q.var[row].sqrt().item() * grid
        below = [np.trapezoid(law.cdf(b - f) * stats.norm.pdf(grid), grid) for b in cuts]
        exact = np.diff([0, *below, 1])
        np.testing.assert_allclose(p[row].detach(), exact, atol=1e-7)
        for k in range(4):
            one = Gaussian(q.mean[[row]], q.var[[row]])
            assert likelihood.log_predictive(column(float(k)), one).item() == pytest.approx(np.log(exact[k]), abs=1e-5)
        predicted = likelihood.predict(q)
        assert predicted.mean[row].item() == pytest.approx(exact @ range(4), abs=1e-6)
        assert predicted.var[row].item() == pytest.approx(exact @ np.arange(4) ** 2 - (exact @ range(4)) ** 2, abs=1e-6)


def test_ordinal_of_two_categories_is_a_bernoulli():
    q, y = belief(), column(0.0, 1.0, 1.0, 0.0, 1.0)
    for link in ("probit", "logit"):
        ours, known = Ordinal(2, [0.0], link), Bernoulli(link)
        for question in ("expected_log_prob", "log_predictive"):
            torch.testing.assert_close(getattr(ours, question)(y, q), getattr(known, question)(y, q))
    torch.testing.assert_close(
        Ordinal(5).probabilities(Gaussian(column(0.0), column(1.0))), torch.full((1, 5), 0.2).double()
    )


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_ordinal_far_from_its_cuts(link):
    f = column(*[30.0, -30.0] * 3).requires_grad_()
    likelihood = Ordinal(3, [-0.5, 0.5], link)
    logs = likelihood.log_prob(column(0.0, 0.0, 1.0, 1.0, 2.0, 2.0), f)
    law = stats.norm if link == "probit" else stats.logistic
    outer, inner = law.logcdf(-30.5), law.logcdf(-29.5)
    between = inner + np.log1p(-np.exp(outer - inner))
    expected = [law.logcdf(-30.5), 0.0, between, between, 0.0, law.logcdf(-30.5)]
    np.testing.assert_allclose(logs.detach(), expected, rtol=1e-9, atol=1e-9)
    assert torch.autograd.grad(logs.sum(), f)[0].isfinite().all()


def test_gprn_layout_and_moments():
    likelihood = GPRN(2, [0.1, 0.2, 0.3])
    f = torch.arange(1.0, 9.0, dtype=torch.float64)[None]
    assert likelihood.functions(3) == 8
    weights, nodes = likelihood.parts(f)
    torch.testing.assert_close(weights[0], torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).double())
    torch.testing.assert_close(nodes[0], torch.tensor([7.0, 8.0]).double())
    torch.testing.assert_close(likelihood.moments(f).mean[0], weights[0] @ nodes[0])
    q = belief(n=3, q=8, seed=1)
    draws = likelihood.sample(
        q.sample(torch.randn(200_000, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)),
        torch.Generator().manual_seed(1),
    )
    covariance = likelihood.covariance(q)
    for row in range(3):
        torch.testing.assert_close(draws[:, row].T.cov(), covariance[row], rtol=0.02, atol=0.02)
    torch.testing.assert_close(covariance.diagonal(dim1=-2, dim2=-1), likelihood.predict(q).var)
    torch.testing.assert_close(draws.mean(0), likelihood.predict(q).mean, rtol=0, atol=0.02)


def test_gprn_of_zero_means_is_a_saddle():
    q, y = Gaussian(torch.zeros(4, 4).double(), torch.full((4, 4), 0.3).double()), torch.randn(4, 3).double()
    for at, stuck in ((0.0, True), (1.0, False)):
        mean = torch.cat([torch.full((4, 3), at), torch.zeros(4, 1)], 1).double().requires_grad_()
        (grad,) = torch.autograd.grad(GPRN().expected_log_prob(y, Gaussian(mean, q.var)).sum(), mean)
        assert bool((grad == 0).all()) == stuck


def test_parameters_are_learnt_or_fixed():
    likelihood = StudentT(positive(0.5, trainable=False), dof=3.0).fix("dof")
    assert not any(p.requires_grad for p in likelihood.parameters())
    network = GPRN(noise=0.1).set(noise=0.4)
    assert network.predict(Gaussian(torch.zeros(1, 2), torch.zeros(1, 2))).var.item() == pytest.approx(0.4)
    assert [item.name for item in network.named_values()] == ["noise"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: StudentT(dof=2.0), "dof must be above 2"),
        (lambda: StudentT(scale=-1.0), "scale must be positive"),
        (lambda: LaplaceNoise(0.0), "scale must be positive"),
        (lambda: Heteroscedastic().moments(torch.zeros(1, 3)), "two latent functions"),
        (lambda: RobustMax(1.0), "epsilon"),
        (lambda: RobustMax().log_prob(column(3.0), torch.zeros(1, 3).double()), "0 … 2"),
        (lambda: RobustMax().log_prob(column(0.0), torch.zeros(1, 1).double()), "at least two"),
        (lambda: Ordinal(1), "n_classes"),
        (lambda: Ordinal(3, [0.5, 0.5]), "increasing"),
        (lambda: Ordinal(3, [0.5]), "cuts must be 2"),
        (lambda: Ordinal(3, link="cauchit"), "logit, probit"),
        (lambda: Ordinal(3).log_prob(column(3.0), column(0.0)), "categories 0 … 2"),
        (lambda: Ordinal(3).log_prob(column(0.5), column(0.0)), "got 0.5"),
        (lambda: GPRN(0), "n_nodes"),
        (lambda: GPRN(2).moments(torch.zeros(1, 5)), "latent functions"),
        (lambda: GPRN(2).moments(torch.zeros(1, 2)), "latent functions"),
    ],
)
def test_bad_arguments_are_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()


def test_classes_without_order_have_no_quantiles():
    with pytest.raises(UnsupportedError, match="no quantiles"):
        RobustMax().quantiles(belief(q=3), [0.5])


@pytest.mark.parametrize(
    "make", [lambda: LaplaceNoise(0.02), lambda: StudentT(scale=0.02)], ids=["laplace", "student-t"]
)
def test_quantiles_where_the_noise_is_narrow(make):
    wide = Gaussian(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))
    found = make().quantiles(wide, [0.025, 0.3]).detach()
    torch.testing.assert_close(
        found, torch.tensor([-1.95996, -0.52440]).to(found).reshape(2, 1, 1).expand(2, 1, 2), rtol=0, atol=2e-3
    )


def test_heteroscedastic_with_little_noise():
    q = Gaussian(torch.tensor([[0.0, -9.0]], dtype=torch.float64), torch.tensor([[1.0, 1e-6]], dtype=torch.float64))
    found = Heteroscedastic().quantiles(q, [0.025, 0.3]).flatten()
    torch.testing.assert_close(
        found, math.sqrt(1 + math.exp(-9)) * torch.tensor([-1.95996, -0.52440], dtype=torch.float64), rtol=0, atol=1e-4
    )
    known = Gaussian(
        torch.tensor([[0.3, -1.0]], dtype=torch.float64), torch.tensor([[0.02, 1e-12]], dtype=torch.float64)
    )
    y = torch.ones(1, 1, dtype=torch.float64)
    plain = GaussianNoise(math.exp(-1.0)).log_reciprocal(y, Gaussian(known.mean[:, :1], known.var[:, :1]))
    torch.testing.assert_close(Heteroscedastic().log_reciprocal(y, known), plain.detach(), rtol=0, atol=1e-3)


def test_networks_with_little_noise():
    """One node with weight one is a Gaussian process with noise."""
    q = Gaussian(torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([[1e-14, 1.0]], dtype=torch.float64))
    for y in (0.0, 0.5, 3.0):
        expected = torch.distributions.Normal(0.0, math.sqrt(1.0001)).log_prob(torch.tensor(y, dtype=torch.float64))
        found = GPRN(1, 1e-4).log_predictive(torch.tensor([[y]], dtype=torch.float64), q)
        assert found.item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0])
def test_uncertain_weights_of_a_network_give_a_spike_at_zero(noise):
    """For ``W, f ~ N(0, 1)`` the density of ``W f + ε`` at zero is ``exp(s/4) K₀(s/4) / 2π``."""
    q = Gaussian(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))
    with torch.no_grad():
        found = GPRN(1, noise).log_predictive(torch.zeros(1, 1, dtype=torch.float64), q).item()
    assert found == pytest.approx(np.log(k0e(noise / 4) / (2 * np.pi)), abs=2e-3)
