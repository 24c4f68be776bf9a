"""What every likelihood must satisfy, as one function to call on it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.types import Gaussian


def check_likelihood(likelihood: Likelihood, y: Float[Tensor, "n p"], q: Gaussian, tolerance: float = 5e-3) -> None:
    """Assert that a likelihood's integrals agree with sampling and with one another.

    With no variance the expectation and the log predictive density are ``log_prob`` itself; with variance the three
    integrals agree with 200,000 seeded samples; Jensen's inequality holds; gradients are finite.

    Arguments:
        likelihood: the likelihood to check.
        y: valid observations ``n p``.
        q: a belief about the latent values, ``n q``, with moderate variances.
        tolerance: of the comparison with samples, relative to their spread.
    """
    certain = Gaussian(q.mean, torch.zeros_like(q.var))
    exact = likelihood.log_prob(y, q.mean)
    _close(likelihood.expected_log_prob(y, certain), exact, "the expectation at zero variance is not log_prob")
    _close(likelihood.log_predictive(y, certain), exact, "the predictive density at zero variance is not log_prob")
    expected, predictive = likelihood.expected_log_prob(y, q), likelihood.log_predictive(y, q)
    assert bool((expected <= predictive + 1e-8).all()), "E log p exceeds log E p, against Jensen's inequality"
    _check_samples(likelihood, y, q, tolerance)
    leaves = [q.mean.clone().requires_grad_(), q.var.clone().requires_grad_(), *likelihood.parameters()]
    likelihood.expected_log_prob(y, Gaussian(leaves[0], leaves[1])).sum().backward()
    assert all(t.grad is None or bool(t.grad.isfinite().all()) for t in leaves), "a gradient is not finite"


def _check_samples(likelihood: Likelihood, y: Tensor, q: Gaussian, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(100_000, *q.mean.shape, generator=generator, dtype=q.mean.dtype)
    f = q.sample(torch.cat([noise, -noise]))
    with torch.no_grad():
        values = likelihood.log_prob(y, f)
        given = likelihood.moments(f)
        predicted = likelihood.predict(q)
        density = values.logsumexp(0) - torch.tensor(float(len(values))).log()
        mean = given.mean.mean(0)
        var = given.var.mean(0) + given.mean.var(0)
        _close(likelihood.expected_log_prob(y, q), values.mean(0), "E log p differs from samples", tolerance)
        _close(likelihood.log_predictive(y, q), density, "log E p differs from samples", tolerance)
        _close(predicted.mean, mean, "the predictive mean differs from samples", tolerance)
        _close(predicted.var, var, "the predictive variance differs from samples", 4 * tolerance)


def _close(actual: Tensor, expected: Tensor, message: str, tolerance: float = 1e-9) -> None:
    assert actual.shape == expected.shape, f"{message}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}"
    error = float(((actual - expected).abs() / (1 + expected.abs())).max().detach())
    assert error <= tolerance, f"{message}: relative error {error:.2g}"
