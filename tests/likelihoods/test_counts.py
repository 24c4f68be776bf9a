"""Counts, shares and positive amounts against scipy: densities, integrals, quantiles, gradients."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from stratagp.errors import InputError
from stratagp.likelihoods import Beta, Binomial, Exponential, Gamma, Hurdle, NegativeBinomial, Poisson, ZeroInflated
from stratagp.types import Gaussian
from tests.likelihoods.cases import column

F = np.array([-2.0, -0.3, 0.0, 1.2, 3.0])
COUNTS, AMOUNTS, SHARES = [0, 1, 5, 3, 40], [1e-6, 0.5, 1.0, 7.0, 60.0], [1e-6, 0.2, 0.5, 0.9, 1 - 1e-6]


def sigmoid(f):
    return 1 / (1 + np.exp(-f))


class WithZeros:
    """A count that is zero with probability ``share``, else one of ``law``, whose zeros may be cut off: from scipy."""

    def __init__(self, law, share, cut):
        self.law, self.share, self.cut = law, share, cut

    def logpmf(self, y):
        some = np.log(1 - self.share) + self.law.logpmf(y) - (np.log(-np.expm1(self.law.logpmf(0))) if self.cut else 0)
        none = np.log(self.share + (0 if self.cut else (1 - self.share) * self.law.pmf(0)))
        return np.where(np.asarray(y) == 0, none, some)

    def pmf(self, y):
        return np.exp(self.logpmf(y))

    def mean(self):
        return (1 - self.share) * self.law.mean() / (1 - self.cut * self.law.pmf(0))

    def var(self):
        second = (1 - self.share) * (self.law.var() + self.law.mean() ** 2) / (1 - self.cut * self.law.pmf(0))
        return second - self.mean() ** 2

    def cdf(self, y):
        y, none = np.asarray(y), self.law.pmf(0) * self.cut
        return self.share + (1 - self.share) * (self.law.cdf(y) - none) / (1 - none)

    def ppf(self, level):
        none = self.law.pmf(0) * self.cut
        above = np.clip((level - self.share) / (1 - self.share), 0, 1)
        return np.where(above > 0, self.law.ppf(none + (1 - none) * above), 0.0).clip(0)


def poisson(f):
    return stats.poisson(np.exp(f))


def clustered(f):
    return stats.nbinom(1 / 0.4, 1 / (1 + 0.8 * np.exp(f)))


TRUTHS = {  # what makes it, scipy's distribution given f, observations
    "Poisson": (Poisson, lambda f: stats.poisson(np.exp(f)), COUNTS),
    "Poisson(2.5)": (lambda: Poisson(2.5), lambda f: stats.poisson(2.5 * np.exp(f)), COUNTS),
    "NegativeBinomial": (
        lambda: NegativeBinomial(0.4, 2.0),
        lambda f: stats.nbinom(1 / 0.4, 1 / (1 + 0.8 * np.exp(f))),
        COUNTS,
    ),
    "ZeroInflated": (lambda: ZeroInflated(Poisson(), 0.3), lambda f: WithZeros(poisson(f), 0.3, False), COUNTS),
    "ZeroInflated clustered": (
        lambda: ZeroInflated(NegativeBinomial(0.4, 2.0), 0.1),
        lambda f: WithZeros(clustered(f), 0.1, False),
        COUNTS,
    ),
    "Hurdle": (lambda: Hurdle(Poisson(), 0.3), lambda f: WithZeros(poisson(f), 0.3, True), COUNTS),
    "Hurdle clustered": (
        lambda: Hurdle(NegativeBinomial(0.4, 2.0), 0.05),
        lambda f: WithZeros(clustered(f), 0.05, True),
        COUNTS,
    ),
    "Binomial": (lambda: Binomial(50), lambda f: stats.binom(50, sigmoid(f)), COUNTS),
    "Gamma": (lambda: Gamma(2.5), lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5), AMOUNTS),
    "Exponential": (Exponential, lambda f: stats.expon(scale=np.exp(f)), AMOUNTS),
    "Beta": (lambda: Beta(4.0), lambda f: stats.beta(4 * sigmoid(f), 4 * sigmoid(-f)), SHARES),
}


def expectation(g, mean, var):
    """``E g(f)`` for ``f ~ N(mean, var)``, by Simpson's rule over ten standard deviations."""
    z = np.linspace(-10, 10, 8001)
    return integrate.simpson(g(mean + np.sqrt(var) * z) * stats.norm.pdf(z), x=z)


@pytest.mark.parametrize("name", TRUTHS)
def test_given_f(name):
    make, truth, y = TRUTHS[name]
    likelihood, law, f = make(), truth(F), column(*F)
    log_density = law.logpmf(y) if likelihood.discrete else law.logpdf(y)
    np.testing.assert_allclose(likelihood.log_prob(column(*y), f).detach(), log_density, rtol=1e-10, atol=1e-10)
    given = likelihood.moments(f)
    np.testing.assert_allclose(given.mean[:, 0].detach(), law.mean(), rtol=1e-12)
    np.testing.assert_allclose(given.var[:, 0].detach(), law.var(), rtol=1e-12)
    np.testing.assert_allclose(likelihood.cdf(column(*y), f)[:, 0].detach(), law.cdf(y), rtol=1e-8, atol=1e-14)
    assert likelihood.cdf(torch.full_like(f, -0.5), f).detach().abs().max() == 0
    assert likelihood.functions(1) == likelihood.functions(2) == 1


@pytest.mark.parametrize("name", [name for name in TRUTHS if name.startswith(("Zero", "Hurdle"))])
def test_probabilities_of_counts_with_zeros_sum_to_one_and_have_the_moments(name):
    f, every = torch.tensor([[-1.0], [0.5], [2.0]]).double(), torch.arange(400.0).double()[:, None, None]
    likelihood = TRUTHS[name][0]()
    p = torch.stack([likelihood.log_prob(y.expand(3, 1), f) for y in every]).exp()[..., None].detach()
    given = likelihood.moments(f)
    torch.testing.assert_close(p.sum(0), torch.ones_like(f), rtol=0, atol=1e-10)
    torch.testing.assert_close((p * every).sum(0), given.mean.detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close((p * (every - given.mean).square()).sum(0), given.var, rtol=1e-8, atol=0)
    torch.testing.assert_close(p[:4].sum(0), likelihood.cdf(torch.full_like(f, 3.0), f), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", TRUTHS)
def test_quantiles_without_variance(name):
    make, truth, _ = TRUTHS[name]
    levels = [0.01, 0.1, 0.5, 0.9, 0.999]
    found = make().quantiles(Gaussian(column(*F), column(*np.zeros(5))), levels).detach()
    assert found.shape == (5, 5, 1)
    expected = np.stack([truth(F).ppf(level) for level in levels])
    np.testing.assert_allclose(found[..., 0], expected, rtol=1e-9, atol=0 if make().discrete else 1e-15)


@pytest.mark.parametrize("name", TRUTHS)
def test_integrals(name):
    make, truth, y = TRUTHS[name]
    likelihood = make()
    density = "pmf" if likelihood.discrete else "pdf"
    for i, (mean, var) in enumerate([(-1.0, 0.5), (0.5, 0.3), (0.4, 0.2), (1.0, 1.0)]):
        q, at = Gaussian(column(mean), column(var)), column(y[i])
        logs = expectation(lambda f, i=i: getattr(truth(f), "log" + density)(y[i]), mean, var)
        assert likelihood.expected_log_prob(at, q).item() == pytest.approx(logs, rel=1e-6)
        average = expectation(lambda f, i=i: getattr(truth(f), density)(y[i]), mean, var)
        assert likelihood.log_predictive(at, q).item() == pytest.approx(np.log(average), rel=1e-9)
        first = expectation(lambda f: truth(f).mean(), mean, var)
        second = expectation(lambda f: truth(f).var() + truth(f).mean() ** 2, mean, var)
        predicted = likelihood.predict(q)
        assert predicted.mean.item() == pytest.approx(first, rel=1e-6)
        assert predicted.var.item() == pytest.approx(second - first**2, rel=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "y", "truth"),
    [
        (Poisson(), 1000.0, lambda f: stats.poisson.pmf(1000, np.exp(f))),
        (Poisson(), 10**6, lambda f: stats.poisson.pmf(10**6, np.exp(f))),
        (Gamma(500.0), 20.0, lambda f: stats.gamma.pdf(20.0, 500.0, scale=np.exp(f) / 500)),
        (Beta(3000.0), 0.9, lambda f: stats.beta.pdf(0.9, 3000 * sigmoid(f), 3000 * sigmoid(-f))),
    ],
)
def test_densities_far_narrower_than_the_belief(likelihood, y, truth):
    peak = np.log(y) if y > 1 else np.log(y / (1 - y))
    mean, var = peak - 1.5, 1.0

    def g(f):
        return truth(f) * stats.norm.pdf(f, mean, np.sqrt(var))

    expected = integrate.quad(g, peak - 0.5, peak + 0.5, points=[peak], epsabs=0, limit=500)[0]
    found = likelihood.log_predictive(column(y), Gaussian(column(mean), column(var))).item()
    assert found == pytest.approx(np.log(expected), abs=1e-8)


def test_reciprocal_of_a_binomial():
    y = torch.tensor([[3.0, 4.0], [0.0, 7.0]], dtype=torch.float64)
    found = Binomial().log_reciprocal(y, Gaussian(column(0.3, -0.8), column(0.5, 0.2)))
    for row, (mean, var) in enumerate([(0.3, 0.5), (-0.8, 0.2)]):
        count, trials = y[row].tolist()
        expected = expectation(lambda f, k=count, n=trials: 1 / stats.binom.pmf(k, n, sigmoid(f)), mean, var)
        assert found[row].item() == pytest.approx(np.log(expected), abs=1e-8)


@pytest.mark.parametrize("name", ["Poisson", "Gamma", "Exponential"])
def test_infinite_reciprocals_are_those_of_the_central_part(name):
    make, truth, y = TRUTHS[name]
    likelihood, z = make(), np.linspace(-4, 4, 4001)
    f = 0.4 + np.sqrt(0.05) * z
    logs = truth(f).logpmf(y[2]) if likelihood.discrete else truth(f).logpdf(y[2])
    mass = integrate.simpson(stats.norm.pdf(z), x=z)
    expected = integrate.simpson(np.exp(-logs) * stats.norm.pdf(z), x=z) / mass
    found = likelihood.log_reciprocal(column(y[2]), Gaussian(column(0.4), column(0.05))).item()
    assert found == pytest.approx(np.log(expected), abs=1e-4)


def test_second_columns_belong_to_their_rows():
    f = column(0.4, -1.0)
    exposed = torch.tensor([[3.0, 0.5], [7.0, 20.0]], dtype=torch.float64)
    rate = np.array([0.5, 20.0]) * np.exp([0.4, -1.0])
    np.testing.assert_allclose(Poisson(9.0).log_prob(exposed, f), stats.poisson.logpmf([3, 7], rate), rtol=1e-12)
    found = NegativeBinomial(0.3, 9.0).log_prob(exposed, f).detach()
    np.testing.assert_allclose(found, stats.nbinom.logpmf([3, 7], 1 / 0.3, 1 / (1 + 0.3 * rate)), rtol=1e-12)
    p = sigmoid(np.array([0.4, -1.0]))
    tried = torch.tensor([[3.0, 5.0], [7.0, 20.0]], dtype=torch.float64)
    np.testing.assert_allclose(Binomial(9).log_prob(tried, f), stats.binom.logpmf([3, 7], [5, 20], p), rtol=1e-12)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("question", ["expected_log_prob", "log_predictive"])
def test_gradients(name, question):
    make, _, y = TRUTHS[name]
    likelihood, y = make(), column(*y[:4])
    parameters = [p.requires_grad_() for p in likelihood.parameters()]
    leaves = column(-1.0, 0.2, 0.5, 1.5).requires_grad_(), column(0.3, 0.5, 0.2, 0.4).requires_grad_()

    def ask(mean, var, *_):
        return getattr(likelihood, question)(y, Gaussian(mean, var))

    assert torch.autograd.gradcheck(ask, (*leaves, *parameters), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_overflows(name, dtype):
    make, _, y = TRUTHS[name]
    likelihood, y = make(), torch.tensor([y[0], y[-1]], dtype=dtype).repeat_interleave(4)[:, None]
    f = torch.tensor([-1000.0, -50.0, 50.0, 1000.0] * 2, dtype=dtype)[:, None].requires_grad_()
    q = Gaussian(f, torch.full_like(f, 4.0))
    values = [likelihood.log_prob(y, f), likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q)]
    for value in values:
        assert value.dtype == dtype
        assert value.isfinite().all()
        assert torch.autograd.grad(value.sum(), f)[0].isfinite().all()
    predicted = likelihood.predict(q)
    assert predicted.mean.isfinite().all()
    assert (predicted.var >= 0).all()
    assert predicted.var.isfinite().all()
    moderate = Gaussian(q.mean[1:2].detach() / 5, q.var[1:2] / 4)
    assert likelihood.quantiles(moderate, [0.01, 0.99]).isfinite().all()


def test_small_dispersion_is_poisson_and_single_precision_keeps_its_digits():
    y, f = column(0.0, 30.0, 2000.0), column(0.5, 3.0, 7.5)
    found = NegativeBinomial(1e-7).log_prob(y, f).detach()
    np.testing.assert_allclose(found, Poisson().log_prob(y, f), atol=2e-2 * 1e-7 * 2000**2)
    single = NegativeBinomial(1e-7).log_prob(y.float(), f.float()).detach()
    np.testing.assert_allclose(single, found, rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("name", TRUTHS)
def test_draws_are_valid_and_seeded(name):
    make, _, _ = TRUTHS[name]
    likelihood, f = make(), torch.linspace(-60, 20, 200, dtype=torch.float64)[:, None]
    first, second = (likelihood.sample(f, torch.Generator().manual_seed(3)).detach() for _ in range(2))
    assert torch.equal(first, second)
    assert likelihood.log_prob(first, f).isfinite().all()


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Poisson(), [[1.0], [-1.0]], "counts 0, 1, 2, …, got -1 in row 1"),
        (Poisson(), [[1.5]], "got 1.5"),
        (Poisson(), [[1.0, 0.0]], "exposure .* must be positive"),
        (Poisson(), [[1.0, 1.0, 1.0]], r"\(count, exposure\)"),
        (NegativeBinomial(), [[float("nan")]], "counts"),
        (Binomial(3), [[4.0]], "from 0 to the number of trials"),
        (Binomial(), [[1.0, 2.5]], "trials must be 1, 2, 3"),
        (Gamma(), [[0.0]], "positive, got 0"),
        (Exponential(), [[1.0, 2.0]], "one column"),
        (Beta(), [[1.0]], "strictly between 0 and 1"),
    ],
)
def test_bad_observations_are_refused(likelihood, y, message):
    y = torch.tensor(y)
    with pytest.raises(InputError, match=message):
        likelihood.log_prob(y, torch.zeros(len(y), 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(0.0), "exposure"),
        (lambda: NegativeBinomial(exposure=-1.0), "exposure"),
        (lambda: NegativeBinomial(-1.0), "dispersion"),
        (lambda: Binomial(0), "trials"),
        (lambda: ZeroInflated(Gamma()), "given must be Poisson"),
        (lambda: Hurdle(Poisson(), 1.0), "share must be"),
        (lambda: Gamma([1.0, 2.0]), "shape must be one number"),
        (lambda: Beta(0.0), "concentration"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_large_counts_in_single_precision():
    y = torch.tensor([[1e7]])
    for likelihood in (Poisson(), NegativeBinomial(1e-12)):
        expected = likelihood.log_prob(y.double(), y.double().log()).item()
        assert likelihood.log_prob(y, y.log()).item() == pytest.approx(expected, abs=0.5)  # the log itself is rounded


def test_leave_one_out_of_hardly_dispersed_counts_is_that_of_poisson_ones():
    y, q = torch.tensor([[100.0]]).double(), Gaussian(torch.tensor([[4.6]]).double(), torch.tensor([[0.01]]).double())
    found = NegativeBinomial(1e-8).log_reciprocal(y, q).item()
    assert found == pytest.approx(Poisson().log_reciprocal(y, q).item(), abs=1e-3)


def test_moments_of_rates_stay_finite():
    for mean, var, dtype in ((-120.0, 100.0, torch.float32), (-900.0, 900.0, torch.float64)):
        found = Poisson().predict(Gaussian(torch.full((1, 1), mean, dtype=dtype), torch.full((1, 1), var, dtype=dtype)))
        assert found.var.isfinite().all()


def test_hurdle_counts_of_a_large_exposure_agree_with_their_probabilities():
    """Faint are rates, not latent values: at f = −22 and an exposure of 1e9 the rate is 0.28."""
    hurdle, f = Hurdle(Poisson(exposure=1e9), 0.25), torch.full((1, 1), -22.0, dtype=torch.float64)
    every = torch.arange(30.0, dtype=torch.float64)
    p = torch.cat([hurdle.log_prob(y.reshape(1, 1), f) for y in every]).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-9)
    mean, var = (part.item() for part in hurdle.moments(f))
    assert mean == pytest.approx((p * every).sum().item(), rel=1e-6)
    assert var == pytest.approx((p * every.square()).sum().item() - mean**2, rel=1e-6)
