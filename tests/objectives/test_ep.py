"""EP for probit classification against quadrature, Monte Carlo and differences."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning
from stratagp.objectives import ep
from stratagp.objectives.ep import ep_log_evidence
from stratagp.objectives.laplace import laplace_log_evidence

F64 = torch.float64


def problem(n, variance=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, dtype=F64, generator=generator)
    t = (x[:, 0] + 0.5 * torch.randn(n, dtype=F64, generator=generator) > 0).to(F64)
    return k.RBF(1.2, variance)(x).detach(), t


def exact_evidence(K, t):
    """``∫ Π Φ(yᵢ fᵢ) N(f; 0, K)`` is an orthant probability of ``y (f + ε)``, ``ε ~ N(0, I)``."""
    y = (2 * t - 1).numpy()
    cov = y[:, None] * (K.numpy() + np.eye(len(y))) * y
    zeros = np.zeros(len(y))
    return np.log(multivariate_normal.cdf(zeros, zeros, cov, maxpts=2_000_000, abseps=1e-7))


@pytest.mark.parametrize("variance", [0.1, 1.0, 1e4])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_row_is_exact(variance, label):
    value, sites = ep_log_evidence(torch.tensor([[variance]], dtype=F64), torch.tensor([label], dtype=F64))
    assert value.item() == pytest.approx(np.log(0.5), abs=1e-9)
    mean = (2 * label - 1) * variance * np.sqrt(2 / np.pi / (1 + variance))  # of the exact, skewed posterior
    assert variance * sites.weights.item() == pytest.approx(mean, rel=1e-8)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows_are_near_the_orthant_probability(n):
    K, t = problem(n, seed=n)
    value = ep_log_evidence(K, t)[0].item()
    assert value == pytest.approx(exact_evidence(K, t), abs=5e-3)
    assert abs(value - exact_evidence(K, t)) < abs(
        laplace_log_evidence(K, t, "probit")[0].item() - exact_evidence(K, t)
    )


def test_independent_rows_add_up():
    variances = torch.tensor([0.5, 2.0, 7.0], dtype=F64)
    value, _ = ep_log_evidence(torch.diag(variances), torch.tensor([0.0, 1.0, 1.0], dtype=F64))
    assert value.item() == pytest.approx(3 * np.log(0.5), abs=1e-9)


def test_posterior_moments_are_near_those_of_weighted_samples():
    K, t = problem(4, seed=1)
    _, sites = ep_log_evidence(K, t)
    rng = np.random.default_rng(0)
    f = torch.from_numpy(rng.normal(size=(400_000, 4))) @ torch.linalg.cholesky(K).mT
    weights = torch.special.log_ndtr((2 * t - 1) * f).sum(-1).softmax(0)
    mean = weights @ f
    torch.testing.assert_close(K @ sites.weights, mean, rtol=0, atol=0.02)
    ours = torch.linalg.inv(torch.linalg.inv(K) + torch.diag(sites.precision)).diagonal()
    torch.testing.assert_close(ours, weights @ (f - mean).square(), rtol=0.03, atol=0)


def test_value_is_that_of_the_textbook_formula():
    """``−½ log|K + S| − ½ μᵀ(K + S)⁻¹μ + …`` with site means and variances, by dense algebra."""
    K, t = problem(8)
    value, sites = ep_log_evidence(K, t)
    s, mu = 1 / sites.precision, sites.shift / sites.precision
    posterior = torch.linalg.inv(torch.linalg.inv(K) + torch.diag(1 / s))
    cavity_var = 1 / (1 / posterior.diagonal() - 1 / s)
    cavity_mean = cavity_var * ((posterior @ sites.shift) / posterior.diagonal() - sites.shift)
    z = (2 * t - 1) * cavity_mean / (1 + cavity_var).sqrt()
    total = K + torch.diag(s)
    log_z = -0.5 * torch.logdet(total) - 0.5 * mu @ torch.linalg.solve(total, mu)
    log_z += (torch.special.ndtr(z).log() + 0.5 * (cavity_var + s).log()).sum()
    log_z += ((cavity_mean - mu).square() / (2 * (cavity_var + s))).sum()
    assert value.item() == pytest.approx(log_z.item(), abs=1e-8)


def test_gradient_is_that_of_differences():
    K, t = problem(25, seed=2)
    direction = torch.randn(25, 25, dtype=F64, generator=torch.Generator().manual_seed(1))
    direction = direction @ direction.mT / 25
    leaf = K.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ep_log_evidence(leaf, t)[0], leaf)
    ends = [ep_log_evidence(K + s * 1e-4 * direction, t)[0].item() for s in (1, -1)]
    assert (gradient * direction).sum().item() == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-6)


def test_flipped_labels_have_the_same_evidence():
    K, t = problem(20)
    assert ep_log_evidence(K, t)[0].item() == pytest.approx(ep_log_evidence(K, 1 - t)[0].item(), abs=1e-9)


@pytest.mark.parametrize("variance", [1e-3, 1e2, 1e5])
def test_extreme_variances_converge(variance):
    K, t = problem(40, variance, seed=3)
    value, sites = ep_log_evidence(K, t)
    assert value.isfinite()
    assert (sites.precision >= 0).all()


def test_warm_start_ends_at_the_same_place_sooner(monkeypatch):
    K, t = problem(30)
    _, sites = ep_log_evidence(K, t)
    again, _ = ep_log_evidence(1.1 * K, t, sites)
    assert again.item() == pytest.approx(ep_log_evidence(1.1 * K, t)[0].item(), abs=1e-8)
    monkeypatch.setattr(ep, "MAX_SWEEPS", 1)
    ep_log_evidence(K, t, sites)  # nothing to do, nothing to warn of
    with pytest.warns(ConvergenceWarning, match="EP under the covariance stopped after 1 sweeps"):
        ep_log_evidence(K, t)
