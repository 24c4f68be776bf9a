"""The leave-one-out density against refits without the row, quadrature and Monte Carlo."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.layers import Inducing
from stratagp.likelihoods import Bernoulli, GaussianNoise, Poisson, Sampled, Softmax
from stratagp.objectives import elbo, leave_one_out
from stratagp.objectives.leave_one_out import log_leave_one_out_of
from stratagp.posteriors import MixturePosterior
from stratagp.training.natural_gradient import natural_step
from stratagp.types import Gaussian, Mixture
from tests.objectives.identity import Identity
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = 3 * torch.rand(24, 1, generator=G, dtype=torch.float64)
Y = torch.sin(2 * X) + 0.5 * torch.randn(24, 1, generator=G, dtype=torch.float64)


def belief(n=6, q=1, seed=0, scale=0.3):
    g = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, q, generator=g, dtype=torch.float64)
    return Gaussian(mean, scale * (0.2 + torch.rand(n, q, generator=g, dtype=torch.float64)))


BINARY = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)[:, None]
LABELS = torch.tensor([0.0, 2.0, 1.0, 1.0, 0.0, 2.0], dtype=torch.float64)[:, None]
CLASSES = {"logistic": (Bernoulli(), BINARY, 1), "softmax": (Softmax(), LABELS, 3)}


def mixture(q, k=3):
    parts = [belief(q=q, seed=seed) for seed in range(k)]
    log_weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)[:k].log()
    return Mixture(log_weights, Gaussian(*(torch.stack(t) for t in zip(*parts, strict=True))))


@pytest.mark.parametrize("outputs", [1, 2])
def test_gaussian_rows_are_told_as_by_refits_without_them(outputs):
    y, noise, kernel = Y.repeat(1, outputs) * torch.tensor([1.0, -0.3][:outputs]), [0.3, 0.2][:outputs], k.Matern(1.5)
    kernel.set(lengthscale=0.6, variance=1.3)
    layer, likelihood = Inducing(kernel, X, functions=outputs, jitter=0.0), GaussianNoise(noise)
    (-elbo(layer, likelihood, X, y).value).backward()
    assert natural_step(layer.posterior) == 1.0
    assert (layer(X).var / likelihood.noise).max() < 0.9  # far from where the reciprocal has no mean
    ours = log_leave_one_out_of(likelihood, y, layer(X)).detach()
    truth = np.zeros(len(X))
    for row in range(len(X)):
        rest = [i for i in range(len(X)) if i != row]
        for j in range(outputs):
            refit = ExactGP(kernel, noise=noise[j]).condition(X[rest], y[rest, j]).marginals(X[[row]])
            truth[row] += norm.logpdf(y[row, j], refit.mean.item(), np.sqrt(refit.var.item() + noise[j]))
    np.testing.assert_allclose(ours, truth, rtol=0, atol=1e-8)
    found = leave_one_out(layer, likelihood, X, y)
    assert found.value.item() == pytest.approx(truth.sum(), abs=1e-8)
    assert found.average.item() == pytest.approx(truth.mean(), abs=1e-9)


def test_logistic_is_that_of_quadrature():
    q = belief()
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    f = q.mean.numpy() + np.sqrt(q.var.numpy()) * points
    reciprocal = 1 + np.exp(-(2 * BINARY.numpy() - 1) * f)
    truth = -np.log(reciprocal @ weights / weights.sum())
    np.testing.assert_allclose(log_leave_one_out_of(Bernoulli(), BINARY, q), truth, rtol=1e-12)


def monte_carlo(likelihood, y, q, n=200_000):
    """``E 1/p`` and its standard error by samples of a Gaussian or of a mixture, in which each draws its component."""
    g = torch.Generator().manual_seed(1)
    if isinstance(q, Mixture):
        which = torch.multinomial(q.log_weights.exp(), n, replacement=True, generator=g)
        mean, var = q.parts.mean[which], q.parts.var[which]
    else:
        mean, var = q
    f = mean + var.sqrt() * torch.randn(n, *mean.shape[-2:], generator=g, dtype=torch.float64)
    draws = (-likelihood.log_prob(y, f)).exp()
    return draws.mean(0), draws.std(0) / n**0.5


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_agree_with_monte_carlo(name, kind):
    likelihood, y, functions = CLASSES[name]
    q = belief(q=functions) if kind == "gaussian" else mixture(functions)
    mean, error = monte_carlo(likelihood, y, q)
    assert ((-log_leave_one_out_of(likelihood, y, q)).exp() - mean).abs().le(4.5 * error).all()
    assert (error < 0.01 * mean).all()


def test_a_gaussian_mixture_agrees_with_monte_carlo():
    likelihood, y, q = GaussianNoise(2.0), torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None], mixture(1)
    mean, error = monte_carlo(likelihood, y, q)
    assert ((-log_leave_one_out_of(likelihood, y, q)).exp() - mean).abs().le(4.5 * error).all()


def test_components_and_samples_are_averaged_before_the_logarithm():
    likelihood, y, functions = CLASSES["softmax"]
    q = mixture(functions)
    parts = [Gaussian(*part) for part in zip(*q.parts, strict=True)]
    each = torch.stack([(-log_leave_one_out_of(likelihood, y, part)).exp() for part in parts])
    weighted = -(q.log_weights.exp()[:, None] * each).sum(0).log()
    torch.testing.assert_close(log_leave_one_out_of(likelihood, y, q), weighted, rtol=1e-12, atol=0)
    torch.testing.assert_close(log_leave_one_out_of(likelihood, y, q.parts), -each.mean(0).log(), rtol=1e-12, atol=0)
    values = -likelihood.log_prob(y, q.parts.mean)  # a deterministic layer, with a sample axis
    torch.testing.assert_close(log_leave_one_out_of(likelihood, y, q.parts.mean), -values.exp().mean(0).log())


def test_a_mixture_with_sample_axes_averages_both():
    likelihood, y, functions = CLASSES["softmax"]
    q = mixture(functions)
    shifts = torch.tensor([0.0, 0.4, -0.7, 1.1], dtype=torch.float64)[:, None, None] * torch.tensor([1.0, 0.0, -1.0])
    several = Mixture(q.log_weights, Gaussian(q.parts.mean[:, None] + shifts, q.parts.var[:, None].expand(3, 4, 6, 3)))
    one_by_one = [
        log_leave_one_out_of(likelihood, y, Mixture(q.log_weights, Gaussian(q.parts.mean + shift, q.parts.var)))
        for shift in shifts
    ]
    truth = -(-torch.stack(one_by_one)).exp().mean(0).log()
    torch.testing.assert_close(log_leave_one_out_of(likelihood, y, several), truth, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", [*CLASSES, "gaussian"])
def test_samples_agree_within_their_error(name):
    gaussian = GaussianNoise(1.0), torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None], 1
    likelihood, y, functions = {**CLASSES, "gaussian": gaussian}[name]
    q, n = belief(q=functions, scale=0.05), 40_000
    closed = log_leave_one_out_of(likelihood, y, q)
    torch.testing.assert_close(log_leave_one_out_of(Sampled(likelihood, 3), y, q), closed)  # there is a closed form
    sampled = log_leave_one_out_of(Sampled(likelihood, n, torch.Generator().manual_seed(0), what="both"), y, q)
    torch.testing.assert_close(sampled, closed, rtol=0, atol=0.005)
    # the largest of the samples are cut, so the estimate errs to the side of too high a density
    assert (sampled - closed).mean() > -0.001


def test_one_sample_is_its_log_density():
    likelihood, q = GaussianNoise(1.0), belief()
    y, noise = q.mean + 0.3, torch.randn(1, 6, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sampled = log_leave_one_out_of(Sampled(likelihood, 1, torch.Generator().manual_seed(3), what="both"), y, q)
    torch.testing.assert_close(sampled, likelihood.log_prob(y, q.sample(noise[0])), rtol=1e-12, atol=0)


@pytest.mark.parametrize("share", [0.98, 1.0, 1.5, 100.0])
def test_beliefs_wider_than_the_noise_have_finite_values_and_gradients(share):
    likelihood = GaussianNoise(0.2)
    mean = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    var = torch.full((2, 1), 0.2 * share, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.5], [-2.0]], dtype=torch.float64)
    found = log_leave_one_out_of(likelihood, y, Gaussian(mean, var))
    kept = 1 - min(share, 0.99)
    truth = norm.logpdf(y[:, 0], mean[:, 0].detach(), np.sqrt(0.2 * kept)) + np.log(kept)
    np.testing.assert_allclose(found.detach(), truth, rtol=1e-12)
    found.sum().backward()
    assert all(t.grad.isfinite().all() for t in (mean, var, *likelihood.parameters()))
    assert mean.grad.abs().min() > 0


@pytest.mark.parametrize("name", ["gaussian", "logistic", "softmax", "poisson"])
def test_batches_are_unbiased_and_below_the_expected_log_density(name):
    likelihood, y = {
        "gaussian": (GaussianNoise(4.0), Y),
        "logistic": (Bernoulli(), (Y > 0).double()),
        "softmax": (Softmax(), Y.gt(0).double() + Y.gt(0.5).double()),
        "poisson": (Poisson(), Y.exp().round()),
    }[name]
    functions = 3 if name == "softmax" else 1
    layer = Inducing(k.RBF(0.7, variance=1.2), X[:4], moved(4, functions))
    whole = leave_one_out(layer, likelihood, X, y).value
    parts = [leave_one_out(layer, likelihood, X[i : i + 6], y[i : i + 6], num_data=24) for i in range(0, 24, 6)]
    assert torch.stack([part.value for part in parts]).mean().item() == pytest.approx(whole.item(), rel=1e-12)
    assert 24 * parts[0].average.item() == pytest.approx(parts[0].value.item(), rel=1e-12)
    assert whole < elbo(layer, likelihood, X, y).fit


def slopes(objective, leaves):
    """The slope of an objective along a random direction, by its gradient and by central differences."""
    gradients = torch.autograd.grad(objective(), leaves)
    g = torch.Generator().manual_seed(5)
    direction = [torch.randn(p.shape, generator=g, dtype=torch.float64) for p in leaves]

    def at(step):
        with torch.no_grad():
            for p, d in zip(leaves, direction, strict=True):
                p.add_(d, alpha=step)
            value = objective().item()
            for p, d in zip(leaves, direction, strict=True):
                p.sub_(d, alpha=step)
        return value

    slope = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    return slope.item(), (at(1e-5) - at(-1e-5)) / 2e-5


@pytest.mark.parametrize("components", [1, 3])
def test_gradient_is_that_of_differences(components):
    posterior = moved(4, 3) if components == 1 else MixturePosterior(4, 3, components, generator=G)
    layer = Inducing(k.RBF(0.7, variance=1.2).replicate(3), X[:4], posterior)
    y = Y.gt(0).double() + Y.gt(0.5).double()
    slope, difference = slopes(lambda: leave_one_out(layer, Softmax(), X, y).value, list(layer.parameters()))
    assert slope == pytest.approx(difference, rel=1e-6)


def test_any_layer_serves():
    value = leave_one_out(Identity(), GaussianNoise(0.3), X, Y).value
    assert value.item() == pytest.approx(GaussianNoise(0.3).log_prob(Y, X).sum().item())
