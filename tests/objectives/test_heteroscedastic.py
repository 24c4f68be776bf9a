import math

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.objectives import heteroscedastic
from stratagp.objectives.heteroscedastic import heteroscedastic_bound
from stratagp.training import maximise

GENERATOR = torch.Generator().manual_seed(0)
N = 14
X = torch.rand(N, 1, generator=GENERATOR, dtype=torch.float64) * 4
Y = torch.sin(2 * X[:, 0]) + 0.4 * X[:, 0] * torch.randn(N, generator=GENERATOR, dtype=torch.float64)
EYE = torch.eye(N, dtype=torch.float64)
JITTER = 1e-6 * EYE  # the references invert G
K = k.RBF(0.7, 1.3)(X).detach()
G = k.Exponential(1.5, 0.9)(X).detach() + JITTER
LOG_NOISE = torch.tensor(-1.2, dtype=torch.float64)


def belief_of(g, log_noise, precision):
    """``q(g)`` of n numbers λ, by dense inverses: Σ = (G⁻¹ + Λ)⁻¹ and μ = μ₀ + G(λ − ½)."""
    sigma = torch.linalg.inv(torch.linalg.inv(g) + torch.diag(precision))
    return MultivariateNormal(log_noise + g @ (precision - 0.5), (sigma + sigma.mT) / 2)


def dense_bound(c, g, residual, log_noise, precision):
    """The bound as it is written in the paper, with torch's own densities and divergences."""
    q = belief_of(g, log_noise, precision)
    var = q.covariance_matrix.diagonal()
    noise = torch.exp(q.mean - var / 2)
    density = MultivariateNormal(torch.zeros_like(residual), c + torch.diag(noise)).log_prob(residual)
    return density - var.sum() / 4 - kl_divergence(q, MultivariateNormal(log_noise.expand(len(g)), g))


def test_value_is_the_bound_of_the_paper():
    value, belief = heteroscedastic_bound(K, G, Y, LOG_NOISE)
    precision = belief.sites.precision
    torch.testing.assert_close(value, dense_bound(K, G, Y, LOG_NOISE, precision), rtol=0, atol=1e-8)
    torch.testing.assert_close(belief.sites.weights, precision - 0.5, rtol=0, atol=2e-6)
    q = belief_of(G, LOG_NOISE, precision)
    torch.testing.assert_close(LOG_NOISE + belief.offset, q.mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(belief.var, q.covariance_matrix.diagonal(), rtol=0, atol=1e-8)


def test_two_latent_functions_have_the_same_bound():
    """Equation 5.5 with g a log variance: −½ log 2π − ½ m_g − ½ exp(−m_g + v_g/2) [(y − m_f)² + v_f]."""
    value, belief = heteroscedastic_bound(K, G, Y, LOG_NOISE)
    qg = belief_of(G, LOG_NOISE, belief.sites.precision)
    gain = K @ torch.linalg.inv(K + torch.diag(belief.noise))
    covariance = K - gain @ K + 1e-10 * EYE
    qf, pf = (
        MultivariateNormal(gain @ Y, covariance),
        MultivariateNormal(torch.zeros(N).double(), K + 1e-10 * EYE),
    )
    square = (Y - qf.mean).square() + covariance.diagonal()
    scale = torch.exp(-qg.mean + qg.covariance_matrix.diagonal() / 2)
    expected = (-0.5 * math.log(2 * math.pi) - 0.5 * qg.mean - 0.5 * scale * square).sum()
    pg = MultivariateNormal(LOG_NOISE.expand(N), G)
    torch.testing.assert_close(value, expected - kl_divergence(qf, pf) - kl_divergence(qg, pg), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("c", "g", "gap"), [(K, G, 0.15), (0.01 * K, 0.3 * G, 0.01)])
def test_bound_is_below_the_evidence_and_near_it(n, c, g, gap):
    """Truth: ∫ N(y; 0, K + exp g) N(g; μ₀, G) dg by a product of Gauss–Hermite rules; nearer where less is unknown."""
    c, g, y = c[:n, :n], g[:n, :n], Y[:n]
    nodes, log_weights = normal_nodes(1, Y)
    grid = torch.cartesian_prod(*[nodes[:, 0]] * n).reshape(-1, n)
    weights = torch.cartesian_prod(*[log_weights] * n).reshape(-1, n).sum(1)
    noise = torch.exp(LOG_NOISE + grid @ torch.linalg.cholesky(g).mT)
    density = MultivariateNormal(torch.zeros_like(y), c + torch.diag_embed(noise)).log_prob(y)
    truth = torch.logsumexp(density + weights, 0)
    assert truth - gap * n < heteroscedastic_bound(c, g, y, LOG_NOISE)[0] < truth


@pytest.mark.parametrize("log_noise", [-10.0, -1.2, 4.0])
def test_nothing_near_is_better(log_noise):
    """The paper's gradient by λ vanishes, also where the prior noise is far off; its own ascent ends at our value."""
    log_noise = torch.tensor(log_noise, dtype=torch.float64)
    value, belief = heteroscedastic_bound(K, G, Y, log_noise)
    precision = belief.sites.precision.clone().requires_grad_()
    (slope,) = torch.autograd.grad(dense_bound(K, G, Y, log_noise, precision), precision)
    assert slope.abs().max() < 1e-4
    raw = torch.nn.Parameter(precision.detach().log() + 0.3 * torch.sin(torch.arange(N)))
    maximise(lambda: dense_bound(K, G, Y, log_noise, raw.exp()), [raw])
    assert value - 1e-3 < dense_bound(K, G, Y, log_noise, raw.exp()) < value + 1e-7


def test_gradients_agree_with_autograd_of_the_dense_bound():
    leaves = [t.clone().requires_grad_() for t in (K, G, Y, LOG_NOISE)]
    value, belief = heteroscedastic_bound(*leaves)
    ours = torch.autograd.grad(value, leaves)
    precision = belief.sites.precision
    truth = torch.autograd.grad(dense_bound(*leaves, precision), leaves)
    for mine, theirs in zip(ours, truth, strict=True):
        symmetric = (theirs + theirs.mT) / 2 if theirs.dim() == 2 else theirs
        torch.testing.assert_close(mine, symmetric, rtol=1e-4, atol=1e-4)


def test_gradients_agree_with_finite_differences():
    def bound(lengthscale, variance, noise_lengthscale, noise_variance, log_noise):
        c, g = (
            variance * torch.exp(-0.5 * (X - X.mT).square() / lengthscale**2)
            for variance, lengthscale in ((variance, lengthscale), (noise_variance, noise_lengthscale))
        )
        return heteroscedastic_bound(c, g, Y, log_noise)[0]

    start = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 1.3, 1.5, 0.9, -1.2)]
    assert torch.autograd.gradcheck(bound, start, eps=1e-4, atol=1e-5, rtol=1e-4)


def test_without_variation_it_is_the_homoscedastic_evidence():
    value, belief = heteroscedastic_bound(K, torch.zeros_like(G), Y, LOG_NOISE)
    truth = MultivariateNormal(torch.zeros_like(Y), K + LOG_NOISE.exp() * EYE).log_prob(Y)
    torch.testing.assert_close(value, truth, rtol=0, atol=1e-9)
    torch.testing.assert_close(belief.noise, LOG_NOISE.exp().expand(N), rtol=1e-12, atol=0)


def test_singular_noise_covariance():
    """One unknown noise level for all rows, G = 1·1ᵀ: the limit of an ever longer lengthscale."""
    limit, _ = heteroscedastic_bound(K, torch.ones_like(G), Y, LOG_NOISE)
    near, _ = heteroscedastic_bound(K, k.RBF(1e4)(X).detach(), Y, LOG_NOISE)
    torch.testing.assert_close(limit, near, rtol=0, atol=1e-5)


def test_warm_start_ends_at_the_same_bound():
    cold, _ = heteroscedastic_bound(1.1 * K, 0.9 * G, Y, LOG_NOISE)
    warm, _ = heteroscedastic_bound(1.1 * K, 0.9 * G, Y, LOG_NOISE, heteroscedastic_bound(K, G, Y, LOG_NOISE)[1])
    torch.testing.assert_close(cold, warm, rtol=0, atol=1e-9)


def test_too_few_steps_are_said_aloud(monkeypatch):
    monkeypatch.setattr(heteroscedastic, "MAX_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="after 2 steps"):
        heteroscedastic_bound(K, G, Y, LOG_NOISE)
