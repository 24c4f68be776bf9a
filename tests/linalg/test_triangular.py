import pytest
import torch
from torch.autograd import gradcheck

from stratagp.kernels import RBF
from stratagp.linalg import cholesky, whitened_marginals
from stratagp.linalg.triangular import Whitening, whiten


@pytest.mark.parametrize("n", [5, 10])  # few rows, and many
@pytest.mark.parametrize("shared", [True, False])
def test_marginals_agree_with_dense_algebra_and_differentiate(shared, n):
    g = torch.Generator().manual_seed(0)
    q, m = 3, 6
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


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize("axes", [(), (2,)])
def test_whitening_and_its_gradients_agree_with_autograd(axes, n):
    g = torch.Generator().manual_seed(1)
    q, m, jitter = 2, 5, 0.3
    root, kzx = (torch.randn(*axes, m, c, generator=g, dtype=torch.float64) for c in (m + 2, n))
    mean, scale = (torch.randn(q, *shape, generator=g, dtype=torch.float64) for shape in ((m,), (m, m)))
    kdiag = torch.full((*axes, n), 50.0, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (root @ root.mT, kzx, mean, scale)]

    def factor(kzz):
        noise = jitter * kzz.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        return torch.linalg.cholesky(kzz + noise * torch.eye(m, dtype=torch.float64))

    def composed(kzz, kzx, mean, scale):
        a = torch.linalg.solve_triangular(factor(kzz), kzx, upper=False)
        ta = scale.tril().mT @ a
        return a, (mean[:, None] @ a).squeeze(1).mT, (kdiag - a.square().sum(-2) + ta.square().sum(-2)).mT

    def fused(kzz, kzx, mean, scale):
        whitening = Whitening(kzz, torch.linalg.inv(factor(kzz.detach())), jitter)
        return whiten(kzx, whitening), *whitened_marginals(kzx, kdiag, mean, scale, whitening)

    expected, found = composed(*leaves), fused(*leaves)
    weights = [torch.randn(part.shape, generator=g, dtype=torch.float64) for part in expected]
    for theirs, ours in zip(expected, found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    for own in ([0], [1, 2]):  # the projection, and the marginals
        truth, ours = (
            torch.autograd.grad(sum((parts[i] * weights[i]).sum() for i in own), leaves, allow_unused=True)
            for parts in (composed(*leaves), fused(*leaves))
        )
        symmetric = 0.5 * (ours[0] + ours[0].mT)
        for theirs, mine in zip(truth, [symmetric, *ours[1:]], strict=True):
            assert (theirs is None) == (mine is None)
            if mine is not None:
                torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def test_variance_never_falls_below_zero():
    a = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    _, var = whitened_marginals(a, torch.ones(1, dtype=torch.float64) - 1e-9, zero[0], zero)
    assert var.item() == pytest.approx(1e-10)
    var.sum().backward()
    assert a.grad is not None
    assert a.grad.item() == 0
