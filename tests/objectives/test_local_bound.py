"""The local variational bound against quadrature, a general optimiser and differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning
from stratagp.objectives import local_bound as module
from stratagp.objectives.local_bound import local_evidence_bound

F64 = torch.float64


def problem(n, variance=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, dtype=F64, generator=generator)
    t = (x[:, 0] + 0.5 * torch.randn(n, dtype=F64, generator=generator) > 0).to(F64)
    return k.RBF(1.2, variance)(x).detach(), t


def exact_evidence(K, t, nodes=60):
    """``log ∫ Π σ(yᵢ fᵢ) N(f; 0, K)`` by a product of Gauss-Hermite rules, for up to three rows."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = torch.tensor(np.stack([a.ravel() for a in np.meshgrid(*[points] * len(t))], -1))
    log_weights = torch.tensor(np.sum([a.ravel() for a in np.meshgrid(*[np.log(weights)] * len(t))], 0))
    f = grid @ torch.linalg.cholesky(K).mT
    terms = torch.nn.functional.logsigmoid((2 * t - 1) * f).sum(-1) + log_weights
    return (terms.logsumexp(0) - 0.5 * len(t) * np.log(2 * np.pi)).item()


def dense_bound(K, t, xi):
    """The formula with dense inverses, at any ``xi``."""
    lam = torch.tanh(xi / 2) / (4 * xi)
    S = torch.linalg.inv(torch.linalg.inv(K) + 2 * torch.diag(lam))
    m = S @ (t - 0.5)
    value = 0.5 * m @ torch.linalg.solve(S, m) + 0.5 * torch.logdet(S) - 0.5 * torch.logdet(K)
    return value + (torch.nn.functional.logsigmoid(xi) - xi / 2 + lam * xi.square()).sum()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("variance", [0.1, 2.0, 8.0])
def test_it_is_below_the_evidence_and_near(n, variance):
    K, t = problem(n, variance, seed=n)
    value, exact = local_evidence_bound(K, t)[0].item(), exact_evidence(K, t)
    assert exact - 0.12 * n < value < exact


def test_it_is_the_largest_over_touching_points():
    K, t = problem(6)

    def loss(logs):
        logs = torch.from_numpy(logs).requires_grad_()
        value = dense_bound(K, t, logs.exp())
        return -value.item(), -torch.autograd.grad(value, logs)[0].numpy()

    end = minimize(loss, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert local_evidence_bound(K, t)[0].item() == pytest.approx(-end.fun, abs=1e-8)


def test_stopped_early_it_is_still_a_bound(monkeypatch):
    K, t = problem(3)
    best = local_evidence_bound(K, t)[0].item()
    monkeypatch.setattr(module, "MAX_SWEEPS", 3)
    with pytest.warns(ConvergenceWarning, match="is still a valid bound"):
        value = local_evidence_bound(K, t)[0].item()
    assert value < best < exact_evidence(K, t)


def test_gradient_is_that_of_differences():
    K, t = problem(25, seed=2)
    direction = torch.randn(25, 25, dtype=F64, generator=torch.Generator().manual_seed(1))
    direction = direction @ direction.mT / 25
    leaf = K.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(local_evidence_bound(leaf, t)[0], leaf)
    ends = [local_evidence_bound(K + s * 1e-4 * direction, t)[0].item() for s in (1, -1)]
    assert (gradient * direction).sum().item() == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-6)


def test_flipped_labels_have_the_same_bound():
    K, t = problem(20)
    assert local_evidence_bound(K, t)[0].item() == pytest.approx(local_evidence_bound(K, 1 - t)[0].item(), abs=1e-10)


def test_warm_start_ends_at_the_same_place():
    K, t = problem(30)
    _, sites = local_evidence_bound(K, t)
    cold, warm = local_evidence_bound(1.1 * K, t)[0].item(), local_evidence_bound(1.1 * K, t, sites)[0].item()
    assert warm == pytest.approx(cold, abs=1e-9)


@pytest.mark.parametrize("variance", [1e-12, 1e4])
def test_extreme_variances_converge(variance):
    K, t = problem(15, variance)
    value = local_evidence_bound(K, t)[0].item()
    assert value < 0
    if variance < 1:
        assert value == pytest.approx(15 * np.log(0.5), abs=1e-9)
