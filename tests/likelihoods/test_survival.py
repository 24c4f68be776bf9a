"""Censored survival times against scipy."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from stratagp.errors import InputError
from stratagp.likelihoods import Likelihood, LogNormal, Weibull
from stratagp.types import Gaussian, Mixture
from tests.likelihoods.cases import column

F = np.array([-2.0, -0.3, 0.5, 3.0])
TIMES, OBSERVED = np.array([0.05, 2.0, 1.0, 40.0]), np.array([1.0, 0.0, 0.0, 1.0])
Y = torch.as_tensor(np.stack([TIMES, OBSERVED], 1))
Q = Gaussian(column(-1.5, 0.2, 0.6, 2.5), column(0.5, 0.3, 0.8, 0.4))
TRUTHS = {
    "Weibull": (lambda: Weibull(1.6), lambda f: stats.weibull_min(1.6, scale=np.exp(f))),
    "LogNormal": (lambda: LogNormal(0.49), lambda f: stats.lognorm(0.7, scale=np.exp(f))),
}
each = pytest.mark.parametrize("name", TRUTHS)


def log_prob(law, time, observed):
    return np.where(observed == 1, law.logpdf(time), law.logsf(time))


def expectation(g, mean, var):
    """``E g(f)`` for ``f ~ N(mean, var)``, by Simpson's rule over ten standard deviations."""
    z = np.linspace(-10, 10, 8001)
    return integrate.simpson(g(mean + np.sqrt(var) * z) * stats.norm.pdf(z), x=z)


def rows():
    return zip(TIMES, OBSERVED, Q.mean[:, 0].tolist(), Q.var[:, 0].tolist(), strict=True)


@each
def test_given_f(name):
    make, truth = TRUTHS[name]
    likelihood, law, f = make(), truth(F), column(*F)
    assert likelihood.functions(2) == likelihood.functions(1) == 1
    np.testing.assert_allclose(likelihood.log_prob(Y, f).detach(), log_prob(law, TIMES, OBSERVED), rtol=1e-10)
    np.testing.assert_allclose(likelihood.log_prob(Y[:, :1], f).detach(), law.logpdf(TIMES), rtol=1e-10)
    given = likelihood.moments(f)
    np.testing.assert_allclose(given.mean[:, 0].detach(), law.mean(), rtol=1e-12)
    np.testing.assert_allclose(given.var[:, 0].detach(), law.var(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.cdf(Y[:, :1], f)[:, 0].detach(), law.cdf(TIMES), rtol=1e-10)
    assert likelihood.cdf(torch.full_like(f, -1.0), f).detach().abs().max() < 1e-100


@each
def test_quantiles_without_variance(name):
    make, truth = TRUTHS[name]
    levels = [0.01, 0.5, 0.9, 0.999]
    certain = Gaussian(column(*F), torch.zeros(4, 1, dtype=torch.float64))
    expected = np.stack([truth(F).ppf(level) for level in levels])[..., None]
    np.testing.assert_allclose(make().quantiles(certain, levels).detach(), expected, rtol=1e-9)
    np.testing.assert_allclose(Likelihood.quantiles(make(), certain, levels).detach(), expected, rtol=1e-9)


def test_log_normal_quantiles_are_those_of_the_total_variance():
    total = (Q.var[:, 0] + 0.49).sqrt().numpy()
    expected = np.stack([stats.lognorm.ppf(level, total, scale=Q.mean[:, 0].exp()) for level in (0.05, 0.8)])[..., None]
    np.testing.assert_allclose(LogNormal(0.49).quantiles(Q, [0.05, 0.8]).detach(), expected, rtol=1e-10)
    same = Mixture(torch.tensor([0.3, 0.7]).double().log(), Gaussian(*(torch.stack([t, t]) for t in Q)))
    np.testing.assert_allclose(LogNormal(0.49).quantiles(same, [0.05, 0.8]).detach(), expected, rtol=1e-2)
    with pytest.raises(InputError, match="levels"):
        LogNormal().quantiles(Q, [1.0])


@each
def test_integrals(name):
    make, truth = TRUTHS[name]
    likelihood = make()
    logs = [expectation(lambda f, t=t, o=o: log_prob(truth(f), t, o), m, v) for t, o, m, v in rows()]
    np.testing.assert_allclose(likelihood.expected_log_prob(Y, Q).detach(), logs, rtol=1e-7)
    averages = [expectation(lambda f, t=t, o=o: np.exp(log_prob(truth(f), t, o)), m, v) for t, o, m, v in rows()]
    np.testing.assert_allclose(likelihood.log_predictive(Y, Q).detach(), np.log(averages), rtol=1e-8)
    first = np.array([expectation(lambda f: truth(f).mean(), m, v) for _, _, m, v in rows()])
    second = np.array([expectation(lambda f: truth(f).var() + truth(f).mean() ** 2, m, v) for _, _, m, v in rows()])
    predicted = likelihood.predict(Q)
    np.testing.assert_allclose(predicted.mean[:, 0].detach(), first, rtol=1e-7)
    np.testing.assert_allclose(predicted.var[:, 0].detach(), second - first**2, rtol=1e-6)


def test_reciprocal_of_a_log_normal():
    q = Gaussian(Q.mean, 0.2 * Q.var)
    found = LogNormal(0.49).log_reciprocal(Y, q)
    truth = TRUTHS["LogNormal"][1]
    for i, (t, o, m, v) in enumerate(rows()):
        expected = expectation(lambda f, t=t, o=o: np.exp(-log_prob(truth(f), t, o)), m, 0.2 * v)
        assert found[i].item() == pytest.approx(np.log(expected), abs=1e-6 if o else 1e-3)  # of the central part
    assert LogNormal(0.1).log_reciprocal(Y, Q).isfinite().all()


@each
@pytest.mark.parametrize("question", ["expected_log_prob", "log_predictive"])
def test_gradients(name, question):
    likelihood = TRUTHS[name][0]()
    leaves = [t.clone().requires_grad_() for t in Q] + list(likelihood.parameters())

    def ask(mean, var, _):
        return getattr(likelihood, question)(Y, Gaussian(mean, var))

    assert torch.autograd.gradcheck(ask, leaves, atol=1e-6, fast_mode=True)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_overflows(name, dtype):
    likelihood = TRUTHS[name][0]()
    y = torch.tensor([[t, o] for t in (1e-30, 1e30) for o in (0.0, 1.0) for _ in range(4)], dtype=dtype)
    f = torch.tensor([-300.0, -50.0, 50.0, 300.0] * 4, dtype=dtype)[:, None].requires_grad_()
    q = Gaussian(f, torch.full_like(f, 4.0))
    for value in (likelihood.log_prob(y, f), likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q)):
        assert value.dtype == dtype
        assert value.isfinite().all()
        assert torch.autograd.grad(value.sum(), f)[0].isfinite().all()
    predicted = likelihood.predict(q)
    assert predicted.mean.isfinite().all()
    assert predicted.var.isfinite().all()
    assert (predicted.var >= 0).all()


@each
def test_the_parameter_is_found_again_from_censored_draws(name):
    """The maximum over the parameter of the likelihood of 20,000 draws, of which about half are censored."""
    make, truth = TRUTHS[name]
    f = 0.3 * torch.randn(20_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    time = make().sample(f, torch.Generator().manual_seed(1)).detach()
    until = float(truth(0.0).median())
    y = torch.cat([time.clamp_max(until), (time <= until).double()], 1)
    likelihood = make()
    parameter = next(likelihood.named_values()).parameter
    value = parameter.natural.item()
    grid = value * torch.linspace(0.8, 1.2, 41, dtype=torch.float64)
    scores = []
    for candidate in grid:
        parameter.assign(candidate)
        scores.append(likelihood.log_prob(y, f).sum().item())
    assert grid[int(np.argmax(scores))].item() == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[1.0, 1.0], [0.0, 1.0]], r"times \(first column of y\) must be positive, got 0 in row 1"),
        ([[-2.0]], "positive, got -2"),
        ([[float("nan"), 1.0]], "positive, got nan"),
        ([[1.0, 0.5]], "1 for an event, 0 for a censored time, got 0.5"),
        ([[1.0, 1.0, 1.0]], r"\(time, observed\)"),
    ],
)
@each
def test_bad_observations_are_refused(name, y, message):
    y = torch.tensor(y)
    with pytest.raises(InputError, match=message):
        TRUTHS[name][0]().log_prob(y, torch.zeros(len(y), 1))


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="shape must be one number"):
        Weibull([1.0, 2.0])
    with pytest.raises(InputError, match="noise must be positive"):
        LogNormal(-1.0)
