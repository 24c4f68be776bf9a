"""A finite basis with Gaussian weights is a Gaussian process: Bayesian linear regression against the kernel view."""

import math

import numpy as np
import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k

A, B = 0.7, 12.0  # precision of the weights, precision of the noise


def basis(x):
    centres = torch.linspace(-2, 2, 7, dtype=torch.float64)
    return torch.cat([torch.ones_like(x), x, torch.exp(-0.5 * (x - centres).square())], 1)


def data(n=25):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(-2, 2, (n, 1)))
    return x, torch.sin(2 * x[:, 0]) + torch.from_numpy(0.3 * rng.normal(size=n))


def weights(x, t):
    """``S⁻¹ = aI + bΦᵀΦ``, ``m = b S Φᵀt``."""
    phi = basis(x)
    precision = A * torch.eye(phi.shape[1], dtype=torch.float64) + B * phi.mT @ phi
    covariance = torch.linalg.inv(precision)
    return B * covariance @ phi.mT @ t, covariance


def process():
    return ExactGP(k.Linear(1 / A).warp(basis), noise=1 / B)


def test_predictions_are_those_of_bayesian_linear_regression():
    x, t = data()
    mean, covariance = weights(x, t)
    new = torch.linspace(-3, 3, 9, dtype=torch.float64)[:, None]
    phi = basis(new)
    posterior = process().condition(x, t)
    torch.testing.assert_close(posterior.mean(new), phi @ mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(posterior.covariance(new), phi @ covariance @ phi.mT, rtol=0, atol=1e-9)
    observed = posterior.variance(new) + posterior.prior.noise
    torch.testing.assert_close(observed.detach(), 1 / B + (phi @ covariance * phi).sum(1), rtol=0, atol=1e-9)


def test_evidence_is_that_of_bayesian_linear_regression():
    """``log p(t) = ½M log a + ½N log b − E(m) − ½ log|S⁻¹| − ½N log 2π``, ``E(m) = ½b|t − Φm|² + ½a|m|²``."""
    x, t = data()
    mean, covariance = weights(x, t)
    phi = basis(x)
    n, m = phi.shape
    error = 0.5 * B * (t - phi @ mean).square().sum() + 0.5 * A * mean.square().sum()
    constants = 0.5 * (m * math.log(A) + n * math.log(B) - n * math.log(2 * math.pi))
    expected = constants - error.item() + 0.5 * torch.logdet(covariance).item()
    assert process().log_evidence(x, t).item() == pytest.approx(expected, abs=1e-9)


def test_drawn_functions_are_drawn_weights():
    """The features of the kernel are the basis itself, so draws follow ``N(Φm, ΦSΦᵀ)`` without approximation."""
    x, t = data()
    mean, covariance = weights(x, t)
    new, generator = torch.tensor([[-1.0], [0.5]], dtype=torch.float64), torch.Generator().manual_seed(0)
    posterior = process().condition(x, t)
    values = torch.stack([posterior.draw(1, generator)(new) for _ in range(400)])
    phi = basis(new)
    spread = phi @ covariance @ phi.mT
    standard = (values.mean(0) - phi @ mean) / (spread.diagonal() / 400).sqrt()
    assert standard.abs().max() < 4
    torch.testing.assert_close(torch.cov(values.mT), spread, rtol=0, atol=0.25 * spread.max().item())
