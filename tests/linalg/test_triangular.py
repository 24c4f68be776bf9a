import pytest
import torch
from torch.autograd import gradcheck

from stratagp.kernels import RBF
from stratagp.linalg import cholesky, whitened_marginals


@pytest.mark.parametrize("shared", [True, False])
def test_marginals_agree_with_dense_algebra_and_differentiate(shared):
    g = torch.Generator().manual_seed(0)
    q, m, n = 3, 6, 5
    kernel = RBF(0.8) if shared else RBF(0.8).replicate(q)
    z, x = (torch.randn(s, 2, generator=g, dtype=torch.float64) for s in (m, n))
    with torch.no_grad():
        kzz, kzx = kernel(z), kernel(z, x)
        factor = cholesky(kzz)
        a, kdiag = torch.linalg.solve_triangular(factor, kzx, upper=False), kernel.diag(x)
    mean = torch.randn(q, m, generator=g, dtype=torch.float64)
    scale = torch.randn(q, m, m, generator=g, dtype=torch.float64)
    got_mean, got_var = whitened_marginals(a, kdiag, mean, scale)
    for j in range(q):
        kz, kx, lz, kd = (t if shared else t[j] for t in (kzz, kzx, factor, kdiag))
        t = scale[j].tril()
        u_mean, u_cov = lz @ mean[j], lz @ t @ t.mT @ lz.mT
        w = torch.linalg.solve(kz, kx)
        torch.testing.assert_close(got_mean[:, j], w.mT @ u_mean, rtol=1e-8, atol=1e-10)
        expected = kd - (kx * w).sum(0) + (w * (u_cov @ w)).sum(0)
        torch.testing.assert_close(got_var[:, j], expected, rtol=1e-8, atol=1e-10)
    leaves = [t.clone().requires_grad_() for t in (a, kdiag, mean, scale.tril())]
    assert gradcheck(whitened_marginals, leaves)


def test_variance_never_falls_below_zero():
    a = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    _, var = whitened_marginals(a, torch.ones(1, dtype=torch.float64) - 1e-9, zero[0], zero)
    assert var.item() == pytest.approx(1e-10)
    var.sum().backward()
    assert a.grad is not None
    assert a.grad.item() == 0
