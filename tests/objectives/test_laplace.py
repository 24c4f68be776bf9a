"""Laplace's evidence and gradient against scikit-learn, plain dense algebra, differences and quadrature."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning, NotPositiveDefiniteError
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.objectives import laplace
from stratagp.objectives.laplace import LINKS, laplace_log_evidence
from stratagp.objectives.sites import SiteSystem
from stratagp.objectives.softmax_laplace import softmax_log_evidence

F64 = torch.float64


def data(n=30, seed=0, d=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    t = (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.4 * rng.normal(size=n) > 0).astype(float)
    return torch.from_numpy(x), torch.from_numpy(t)


def covariance(n=30, variance=2.5, seed=0):
    x, t = data(n, seed)
    return k.RBF(0.9, variance)(x).detach(), t


def log_prob(link, f, sign):
    return torch.nn.functional.logsigmoid(sign * f) if link == "logit" else torch.special.ndtr(sign * f).log()


@pytest.mark.parametrize("link", LINKS)
def test_derivatives_of_the_likelihoods_are_those_of_autograd(link):
    f = torch.linspace(-4, 4, 41, dtype=F64, requires_grad=True)
    sign = torch.where(torch.arange(41) % 2 == 0, 1.0, -1.0).to(F64)
    value = log_prob(link, f, sign)
    (first,) = torch.autograd.grad(value.sum(), f, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), f, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), f)
    at = LINKS[link](f.detach(), sign)
    for ours, theirs in zip(at, (value, first, -second, -third / second), strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_derivatives_stay_finite_far_out(link):
    f = torch.tensor([-1e3, -40.0, 40.0, 1e3], dtype=F64)
    for sign in (torch.ones(4, dtype=F64), -torch.ones(4, dtype=F64)):
        assert all(part.isfinite().all() for part in LINKS[link](f, sign))


@pytest.mark.parametrize("link", LINKS)
def test_value_is_that_of_dense_algebra_at_a_mode_found_by_scipy(link):
    K, t = covariance(12)
    sign, inverse = 2 * t - 1, torch.linalg.inv(K + 1e-9 * torch.eye(12, dtype=F64))

    def loss(f):
        f = torch.from_numpy(f).requires_grad_()
        psi = log_prob(link, f, sign).sum() - 0.5 * f @ inverse @ f
        return -psi.item(), -torch.autograd.grad(psi, f)[0].numpy()

    end = minimize(loss, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-9})
    f = torch.from_numpy(end.x)
    hessian = torch.autograd.functional.hessian(lambda f: log_prob(link, f, sign).sum(), f)
    dense = -end.fun - 0.5 * torch.logdet(torch.eye(12, dtype=F64) - K @ hessian)
    value, sites = laplace_log_evidence(K, t, link)
    assert value.item() == pytest.approx(dense.item(), abs=1e-6)
    torch.testing.assert_close(K @ sites.weights, f, rtol=0, atol=1e-4)


@pytest.mark.parametrize("n", [30, 150])
def test_mode_value_and_gradient_agree_with_scikit_learn(n):
    x, t = data(n)
    theirs = GaussianProcessClassifier(1.7 * sk.RBF([0.8, 1.5]), optimizer=None).fit(x.numpy(), t.numpy())
    value, gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    kernel = k.RBF([0.8, 1.5], 1.7)
    ours, sites = laplace_log_evidence(kernel(x), t)
    ours.backward()
    mine = torch.cat([kernel.parameter("variance").raw.grad[None], kernel.parameter("lengthscale").raw.grad])
    assert ours.item() == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(mine.numpy(), gradient, atol=1e-6)
    mode = theirs.base_estimator_.f_cached
    np.testing.assert_allclose((kernel(x) @ sites.weights).detach().numpy(), mode, atol=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_gradient_is_that_of_differences(link):
    K, t = covariance()
    direction = torch.randn(30, 30, dtype=F64, generator=torch.Generator().manual_seed(1))
    direction = direction @ direction.mT / 30
    leaf = K.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(3 * laplace_log_evidence(leaf, t, link)[0], leaf)
    step = 1e-4
    ends = [laplace_log_evidence(K + s * step * direction, t, link)[0].item() for s in (1, -1)]
    assert (gradient * direction).sum().item() == pytest.approx(3 * (ends[0] - ends[1]) / (2 * step), rel=1e-7)


def test_gradient_without_the_implicit_term_has_the_wrong_sign():
    """By the log of the variance: +0.83 is right, −0.41 is what the explicit part alone would say."""
    x, t = data(20)
    kernel = k.RBF(0.5, 5.0)
    laplace_log_evidence(kernel(x), t)[0].backward()
    full = kernel.parameter("variance").raw.grad.item()
    K = kernel(x).detach()
    ends = [laplace_log_evidence(K * np.exp(s), t)[0].item() for s in (1e-4, -1e-4)]
    assert full == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-6)
    sites = laplace_log_evidence(K, t)[1]
    system = SiteSystem(K, "K")
    system.factor_(sites.precision)
    explicit = (system.fixed_site_gradient_(sites.weights) * K).sum().item()
    assert explicit < -0.4 < 0.8 < full


@pytest.mark.parametrize("link", LINKS)
def test_flipped_labels_have_the_same_evidence_and_the_opposite_mode(link):
    K, t = covariance()
    (value, sites), (flipped, other) = laplace_log_evidence(K, t, link), laplace_log_evidence(K, 1 - t, link)
    assert value.item() == pytest.approx(flipped.item(), abs=1e-9)
    torch.testing.assert_close(sites.weights, -other.weights, rtol=0, atol=1e-8)


def test_warm_start_saves_factors_and_ends_at_the_same_place(monkeypatch):
    K, t = covariance(60)
    _, sites = laplace_log_evidence(K, t)
    cold, at_cold = laplace_log_evidence(1.1 * K, t)
    calls = []
    original = SiteSystem.factor_
    monkeypatch.setattr(SiteSystem, "factor_", lambda self, w: calls.append(0) or original(self, w))
    warm, at_warm = laplace_log_evidence(1.1 * K, t, start=sites)
    assert len(calls) == 2  # one for the steps, one at the mode
    assert warm.item() == pytest.approx(cold.item(), abs=1e-8)
    torch.testing.assert_close(at_warm.weights, at_cold.weights, rtol=0, atol=1e-7)


@pytest.mark.parametrize("link", LINKS)
def test_hopeless_start_and_huge_variance_still_converge(link):
    K, t = covariance(40, variance=1e4)
    value, sites = laplace_log_evidence(K, t, link)
    away = sites._replace(weights=1e3 * torch.randn(40, dtype=F64, generator=torch.Generator().manual_seed(0)))
    assert laplace_log_evidence(K, t, link, start=away)[0].item() == pytest.approx(value.item(), abs=1e-6)


def test_separable_data():
    x = torch.linspace(-1, 1, 20, dtype=F64)[:, None]
    t = (x[:, 0] > 0).to(F64)
    value, sites = laplace_log_evidence(k.Linear(1e6)(x).detach(), t)
    assert value.isfinite()
    assert sites.precision.isfinite().all()


@pytest.mark.parametrize("link", LINKS)
def test_one_row_by_hand(link):
    f = torch.tensor(0.0, dtype=F64)
    for _ in range(200):  # f = K ∇ log p
        f = 0.5 * f + 0.5 * 1.5 * LINKS[link](f[None], torch.ones(1, dtype=F64)).slope[0]
    at = LINKS[link](f[None], torch.ones(1, dtype=F64))
    by_hand = at.log_prob - 0.5 * f * at.slope - 0.5 * torch.log1p(1.5 * at.curvature)
    value, _ = laplace_log_evidence(torch.tensor([[1.5]], dtype=F64), torch.ones(1, dtype=F64), link)
    assert value.item() == pytest.approx(by_hand.item(), abs=1e-9)


def test_bad_covariances_are_named():
    K, t = covariance(5)
    hole = K.clone()
    hole[3, 4] = hole[4, 3] = torch.nan
    with pytest.raises(NotPositiveDefiniteError, match="the covariance of it has NaN"):
        laplace_log_evidence(hole, t, name="the covariance of it")
    bad = K - 100 * torch.outer(torch.ones(5, dtype=F64), torch.ones(5, dtype=F64))
    with pytest.raises(NotPositiveDefiniteError, match="is not positive definite"):
        laplace_log_evidence(bad, t)


def test_too_few_steps_are_said_aloud(monkeypatch):
    monkeypatch.setattr(laplace, "MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps"):
        laplace_log_evidence(*covariance())


# --- softmax ---


def three_classes(n=12, seed=0):
    x, _ = data(n, seed)
    labels = (x[:, 0] > -0.5).long() + (x[:, 0] + 0.3 * x[:, 1] > 0.5).long()
    return x, torch.nn.functional.one_hot(labels, 3).mT.to(F64)


def test_softmax_of_two_classes_is_the_logistic_of_their_difference():
    """f₁ − f₀ has twice the covariance; in f₁ + f₀ the likelihood is flat, so the evidence is the binary one."""
    K, t = covariance()
    value, weights = softmax_log_evidence(K, torch.stack([1 - t, t]))
    binary, sites = laplace_log_evidence(2 * K, t)
    assert value.item() == pytest.approx(binary.item(), abs=1e-8)
    torch.testing.assert_close(weights[1], sites.weights, rtol=0, atol=1e-7)
    torch.testing.assert_close(weights[0], -sites.weights, rtol=0, atol=1e-7)


def test_softmax_value_is_that_of_dense_algebra():
    x, t = three_classes()
    K = torch.stack([k.RBF(1.0, v)(x).detach() for v in (0.5, 1.5, 3.0)])
    value, weights = softmax_log_evidence(K, t)
    f = (K @ weights[..., None]).squeeze(-1)
    torch.testing.assert_close(weights, t - f.softmax(0), rtol=0, atol=1e-8)  # it is the mode
    hessian = torch.autograd.functional.hessian(lambda f: (t * f.log_softmax(0)).sum(), f).reshape(36, 36)
    log_det = torch.logdet(torch.eye(36, dtype=F64) - torch.block_diag(*K) @ hessian)
    dense = (t * f.log_softmax(0)).sum() - 0.5 * (weights * f).sum() - 0.5 * log_det
    assert value.item() == pytest.approx(dense.item(), abs=1e-9)


def test_softmax_evidence_is_near_the_integral_for_small_variance():
    t = torch.tensor([[1.0], [0.0]], dtype=F64)
    points, log_weights = normal_nodes(2, t)
    integral = ((0.2**0.5 * points).log_softmax(-1)[:, 0] + log_weights).logsumexp(0)
    value, _ = softmax_log_evidence(torch.tensor([[0.2]], dtype=F64), t)
    assert value.item() == pytest.approx(integral.item(), abs=2e-3)


def test_softmax_gradient_is_that_of_differences_and_needs_the_mode_to_move():
    x, t = three_classes()
    K = k.RBF(1.0, 2.0)(x).detach()
    scale = torch.tensor(1.0, dtype=F64, requires_grad=True)
    (gradient,) = torch.autograd.grad(softmax_log_evidence(scale * K, t)[0], scale)
    ends = [softmax_log_evidence((1 + s * 1e-4) * K, t)[0].item() for s in (1, -1)]
    assert gradient.item() == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-6)


def test_softmax_warm_start_ends_at_the_same_place():
    x, t = three_classes()
    K = k.RBF(1.0, 2.0)(x).detach()
    _, weights = softmax_log_evidence(K, t)
    warm, cold = softmax_log_evidence(1.2 * K, t, weights), softmax_log_evidence(1.2 * K, t)
    assert warm[0].item() == pytest.approx(cold[0].item(), abs=1e-9)


def test_nothing_is_warned_of_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laplace_log_evidence(*covariance(50, 100.0))
