"""What every likelihood must satisfy, as one function to call on it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.types import Gaussian


def check_likelihood(
    likelihood: Likelihood,
    y: Float[Tensor, "n p"],
    q: Gaussian,
    support: Float[Tensor, " k"] | None = None,
    discrete: bool = False,
) -> None:
    """Assert that a likelihood's density, moments and integrals agree with sampling and with one another.

    With no variance the expectation and the log predictive density are ``log_prob`` itself; with variance the three
    integrals agree with 200,000 seeded samples, to six of their standard errors; Jensen's inequality holds; gradients
    are finite. With ``support``, the density sums to one and has the moments that ``moments`` says.

    Arguments:
        likelihood: the likelihood to check.
        y: valid observations ``n p``, in the precision of ``q`` (float64 is best).
        q: a belief about the latent values, ``n q``.
        support: a fine grid over all values that one output can take, for likelihoods with one output.
        discrete: whether ``support`` lists single values (counts, classes), not a grid of a continuous variable.
    """
    assert y.dim() == 2, f"y must be (n, p), got shape {tuple(y.shape)}; one output is y[:, None]"
    certain = Gaussian(q.mean, torch.zeros_like(q.var))
    exact = likelihood.log_prob(y, q.mean)
    _close(likelihood.expected_log_prob(y, certain), exact, "the expectation at zero variance is not log_prob")
    _close(likelihood.log_predictive(y, certain), exact, "the predictive density at zero variance is not log_prob")
    expected, predictive = likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q)
    assert bool((expected <= predictive + 1e-8).all()), "E log p exceeds log E p, against Jensen's inequality"
    _check_samples(likelihood, y, q)
    if support is not None:
        _check_density(likelihood, q.mean, support, discrete)
    leaves = [q.mean.clone().requires_grad_(), q.var.clone().requires_grad_(), *likelihood.parameters()]
    likelihood.expected_log_prob(y, Gaussian(leaves[0], leaves[1])).sum().backward()
    assert all(t.grad is None or bool(t.grad.isfinite().all()) for t in leaves), "a gradient is not finite"


def _check_density(likelihood: Likelihood, f: Tensor, support: Tensor, discrete: bool) -> None:
    with torch.no_grad():
        density = torch.stack([likelihood.log_prob(value.expand(len(f), 1), f) for value in support]).exp()
        integrate = (lambda v: v.sum(0)) if discrete else (lambda v: torch.trapezoid(v, support, dim=0))
        total, given = integrate(density), likelihood.moments(f)
        mean = integrate(density * support[:, None])
        var = integrate(density * (support[:, None] - mean).square())
    _close(total, torch.ones_like(total), "the density does not sum to one over the support", 1e-3)
    _close(given.mean[:, 0], mean, "the mean of moments() is not that of the density", 1e-2)
    _close(given.var[:, 0], var, "the variance of moments() is not that of the density", 1e-2)


def _check_samples(likelihood: Likelihood, y: Tensor, q: Gaussian) -> None:
    generator = torch.Generator().manual_seed(0)
    estimates: list[list[Tensor]] = []
    with torch.no_grad():
        for _ in range(20):
            noise = torch.randn(5_000, *q.mean.shape, generator=generator, dtype=torch.float64).to(q.mean)
            f = q.sample(torch.cat([noise, -noise]))
            values, given = likelihood.log_prob(y, f), likelihood.moments(f)
            density = values.exp().mean(0)
            second = given.var + given.mean.square()
            estimates.append([values.mean(0), density, given.mean.mean(0), second.mean(0)])
        predicted = likelihood.predict(q)
        ours = [likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q).exp(), predicted.mean]
        ours.append(predicted.var + predicted.mean.square())
    names = ("E log p", "E p", "the predictive mean", "the predictive second moment")
    for name, value, *batches in zip(names, ours, *estimates, strict=True):
        batch = torch.stack(batches)
        error = (value - batch.mean(0)).abs()
        allowed = 6 * batch.std(0) / len(batch) ** 0.5 + 1e-3 * batch.mean(0).abs() + 1e-6
        worst = float((error / allowed).max())
        assert worst <= 1, f"{name} differs from samples by {worst:.1f} times what chance allows"


def _close(actual: Tensor, expected: Tensor, message: str, tolerance: float = 1e-6) -> None:
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
    error = float(((actual - expected).abs() / (1 + expected.abs())).max().detach())
    assert error <= tolerance, f"{message}: relative error {error:.2g}"
