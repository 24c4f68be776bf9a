import math

import pytest
import torch
from torch.distributions import Normal

import datasets
from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.metrics import nlpd
from stratagp.models import exact_posterior
from stratagp.models.heteroscedastic import HeteroscedasticGP
from stratagp.objectives.heteroscedastic import heteroscedastic_bound
from stratagp.objectives.sites import WarmStart
from stratagp.parameters import positive
from stratagp.priors import LogNormal
from stratagp.training import maximise


def noise_variance(x):
    return (0.05 + 0.4 * x[:, 0] / 4).square()


def sample(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
    epsilon = torch.randn(n, generator=generator, dtype=torch.float64)
    return x, torch.sin(2 * x[:, 0]) + noise_variance(x).sqrt() * epsilon


X, Y = sample(30, 0)
NEW = torch.linspace(-1, 6, 15, dtype=torch.float64)[:, None]


def model():
    return HeteroscedasticGP(k.RBF(0.7, 1.3), k.RBF(1.5, 0.8), means.Constant(0.2), noise=0.05)


def test_log_evidence_is_the_bound_of_its_matrices():
    truth, _ = heteroscedastic_bound(
        k.RBF(0.7, 1.3)(X), k.RBF(1.5, 0.8)(X), Y - 0.2, torch.tensor(0.05, dtype=torch.float64).log()
    )
    torch.testing.assert_close(model().log_evidence(X, Y), truth, rtol=0, atol=1e-9)


def test_gradients_of_every_hyperparameter():
    gp = model()
    gp.log_evidence(X, Y).backward()
    for item in gp.named_values():
        raw, values = item.parameter.raw, []
        for step in (1e-4, -1e-4):
            with torch.no_grad():
                raw += step
                values.append(gp.log_evidence(X, Y).item())
                raw -= step
        assert raw.grad.item() == pytest.approx((values[0] - values[1]) / 2e-4, rel=1e-4, abs=1e-4), item.name


def test_little_variation_is_the_homoscedastic_process():
    gp = HeteroscedasticGP(k.RBF(0.7, 1.3), k.RBF(1.5, 1e-9), noise=0.05)
    plain = ExactGP(k.RBF(0.7, 1.3), noise=0.05)
    torch.testing.assert_close(gp.log_evidence(X, Y), plain.log_evidence(X, Y), rtol=0, atol=1e-6)
    ours, theirs = gp.condition(X, Y), plain.condition(X, Y)
    torch.testing.assert_close(tuple(ours.marginals(NEW)), tuple(theirs.marginals(NEW)), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ours.noise(NEW), torch.full((15,), 0.05, dtype=torch.float64), rtol=1e-6, atol=0)


def test_posterior_agrees_with_dense_algebra():
    gp = model()
    with torch.no_grad():
        c, g = gp.kernel(X), gp.noise_kernel(X)
        _, belief = heteroscedastic_bound(c, g, Y - 0.2, gp.noise.log())
        solve_f, solve_g = (
            torch.linalg.inv(c + belief.noise.diag()),
            torch.linalg.inv(g + (1 / belief.sites.precision).diag()),
        )
        cross_f, cross_g = gp.kernel(NEW, X), gp.noise_kernel(NEW, X)
        covariance = gp.kernel(NEW) - cross_f @ solve_f @ cross_f.mT
        mean = 0.2 + cross_f @ solve_f @ (Y - 0.2)
        log_noise = math.log(0.05) + cross_g @ (belief.sites.precision - 0.5)
        log_noise_var = 0.8 - (cross_g @ solve_g * cross_g).sum(1)
    posterior = gp.condition(X, Y)
    near = {"rtol": 1e-6, "atol": 1e-7}
    torch.testing.assert_close(posterior.mean(NEW), mean, **near)
    torch.testing.assert_close(posterior.covariance(NEW), covariance, **near)
    torch.testing.assert_close(posterior.covariance(NEW, NEW[:3]), covariance[:, :3], **near)
    torch.testing.assert_close(posterior.variance(NEW), covariance.diagonal(), **near)
    torch.testing.assert_close(tuple(posterior.marginals(NEW)), (mean[:, None], covariance.diagonal()[:, None]), **near)
    torch.testing.assert_close(posterior.log_noise(NEW).mean[:, 0], log_noise, rtol=0, atol=2e-5)
    torch.testing.assert_close(posterior.log_noise(NEW).var[:, 0], log_noise_var, rtol=0, atol=1e-6)
    seen = posterior.log_noise(X)
    torch.testing.assert_close(seen.mean[:, 0], math.log(0.05) + belief.offset, rtol=0, atol=1e-6)
    torch.testing.assert_close(seen.var[:, 0], belief.var, rtol=0, atol=1e-6)


def test_far_away_the_noise_is_that_of_the_prior():
    far = torch.tensor([[100.0]], dtype=torch.float64)
    assert model().condition(X, Y).noise(far).item() == pytest.approx(0.05 * math.exp(0.8 / 2), rel=1e-9)


def test_predictive_density_against_an_integral_over_the_log_noise():
    posterior = model().condition(X, Y)
    y = torch.linspace(-1, 1, 15, dtype=torch.float64)
    f, g = posterior.marginals(NEW), posterior.log_noise(NEW)
    grid = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    values = g.mean + g.var.sqrt() * grid
    density = Normal(f.mean, (f.var + values.exp()).sqrt()).log_prob(y[:, None]).exp()
    truth = torch.trapezoid(density * Normal(0.0, 1.0).log_prob(grid).exp(), grid).log()
    torch.testing.assert_close(posterior.log_predictive(NEW, y), truth, rtol=0, atol=1e-5)
    expected = torch.trapezoid(values.exp() * Normal(0.0, 1.0).log_prob(grid).exp(), grid)
    torch.testing.assert_close(posterior.noise(NEW), expected, rtol=1e-8, atol=0)


def test_draws_follow_the_posterior():
    posterior = model().condition(X, Y)
    draws = posterior.sample(NEW, 20_000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(draws.mean(0), posterior.mean(NEW), rtol=0, atol=0.04)
    torch.testing.assert_close(draws.var(0), posterior.variance(NEW), rtol=0.06, atol=1e-4)
    generator = torch.Generator().manual_seed(0)
    functions = torch.stack([posterior.draw(200, generator)(X[:4]) for _ in range(200)])
    torch.testing.assert_close(functions.mean(0), posterior.mean(X[:4]), rtol=0, atol=0.05)


def test_rows_are_answered_in_chunks(monkeypatch):
    posterior, y = model().condition(X, Y), NEW[:, 0]
    whole = posterior.log_predictive(NEW, y), posterior.noise(NEW), posterior.mean(NEW)
    monkeypatch.setattr(exact_posterior, "_CHUNK", 4 * len(X))
    parts = posterior.log_predictive(NEW, y), posterior.noise(NEW), posterior.mean(NEW)
    torch.testing.assert_close(whole, parts, rtol=1e-10, atol=1e-10)


def test_training_finds_the_noise():
    """200 rows whose noise grows from 0.05 to 0.45: the log variance is found, and held-out rows profit."""
    x, y = sample(200, 1)
    gp, start = HeteroscedasticGP(k.RBF()), WarmStart()
    maximise(lambda: gp.log_evidence(x, y, start), gp.parameters())
    posterior = gp.condition(x, y)
    inside = torch.linspace(0.1, 3.9, 20, dtype=torch.float64)[:, None]
    gap = posterior.log_noise(inside).mean[:, 0] - noise_variance(inside).log()
    assert gap.abs().mean() < 0.25
    assert gap.abs().max() < 0.8
    plain = ExactGP(k.RBF())
    maximise(lambda: plain.log_evidence(x, y), plain.parameters())
    new_x, new_y = sample(500, 2)
    belief = plain.condition(x, y).marginals(new_x)
    theirs = nlpd(new_y, belief.mean, (belief.var + plain.noise.detach()).sqrt())
    assert -posterior.log_predictive(new_x, new_y).mean().item() < theirs - 0.15
    assert gp.log_evidence(x, y) > plain.log_evidence(x, y) + 20


def test_motorcycle_helmets():
    """The classic of input-dependent noise: odd rows predicted from even ones, better than with one noise."""
    data = datasets.classic("mcycle")
    x, y = (torch.as_tensor(data[name], dtype=torch.float64) for name in ("times", "accel"))
    x, y = (x[:, None] - x.mean()) / x.std(), (y - y.mean()) / y.std()
    gp, plain = HeteroscedasticGP(k.RBF(0.5)), ExactGP(k.RBF(0.5))
    maximise(lambda: gp.log_evidence(x[::2], y[::2]), gp.parameters())
    maximise(lambda: plain.log_evidence(x[::2], y[::2]), plain.parameters())
    posterior, belief = gp.condition(x[::2], y[::2]), plain.condition(x[::2], y[::2]).marginals(x[1::2])
    theirs = nlpd(y[1::2], belief.mean, (belief.var + plain.noise.detach()).sqrt())
    assert -posterior.log_predictive(x[1::2], y[1::2]).mean().item() < theirs - 0.2


def test_a_posterior_does_not_follow_its_prior():
    gp = model()
    posterior = gp.condition(X, Y)
    before = posterior.mean(NEW), posterior.noise(NEW)
    gp.set(noise=3.0, **{"kernel.lengthscale": 0.1, "noise_kernel.lengthscale": 0.1})
    torch.testing.assert_close((posterior.mean(NEW), posterior.noise(NEW)), before, rtol=0, atol=0)


def test_warm_start_and_map():
    gp, start = HeteroscedasticGP(k.RBF(0.7), noise=positive(0.05, prior=LogNormal(0.05, 1.0))), WarmStart()
    cold = gp.log_evidence(X, Y, start)
    torch.testing.assert_close(gp.log_evidence(X, Y, start), cold, rtol=0, atol=1e-9)
    torch.testing.assert_close(gp.log_evidence(X[:9], Y[:9], start), gp.log_evidence(X[:9], Y[:9]), rtol=0, atol=1e-9)
    torch.testing.assert_close(gp.log_posterior(X, Y), cold + gp.log_prior(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be a kernel"),
        ({"noise_kernel": 0.1}, "noise_kernel must be a kernel"),
        ({"noise": 0.0}, "noise must be positive"),
        ({"mean": 3.0}, "mean must be a function"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        HeteroscedasticGP(**{"kernel": k.RBF(), **arguments})


def test_kernels_over_objects():
    """Words that share letters; the same numbers from the kernel's matrix."""
    words, y = ["abc", "abd", "xyz", "xyw", "xbc"], torch.tensor([1.0, 0.9, -1.0, 0.2, 0.1], dtype=torch.float64)
    kernel = k.PairFunction(lambda a, b: len(set(a) & set(b)))
    with pytest.raises(InputError, match="noise_kernel is required"):
        HeteroscedasticGP(kernel)
    gp = HeteroscedasticGP(kernel, 0.5 * k.PairFunction(lambda a, b: len(set(a) & set(b))), noise=0.2)
    g, log_noise = 0.5 * kernel(words), torch.tensor(0.2, dtype=torch.float64).log()
    truth, _ = heteroscedastic_bound(kernel(words), g, y, log_noise)
    torch.testing.assert_close(gp.log_evidence(words, y), truth, rtol=0, atol=1e-9)
    assert gp.condition(words, y).noise(["xyv"]).item() > gp.condition(words, y).noise(["abe"]).item()


def test_data_are_checked():
    with pytest.raises(InputError, match="y has NaN"):
        model().log_evidence(X, torch.full_like(Y, math.nan))
    with pytest.raises(InputError, match="y must be"):
        model().condition(X, Y[:5])


def test_too_many_rows_are_refused_before_work():
    rows = torch.zeros(10**6, dtype=torch.float64)
    with pytest.raises(InputError, match="heteroscedastic regression on 1,000,000 rows needs at least 40,000"):
        model().log_evidence(rows[:, None], rows)
