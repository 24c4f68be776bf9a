import torch
from torch.autograd import gradcheck

from stratagp.linalg import leave_one_out_log_density


def problem(n=7, seed=0):
    g = torch.Generator().manual_seed(seed)
    b = torch.randn(n, n, generator=g, dtype=torch.float64)
    noise = 0.1 + torch.rand(n, generator=g, dtype=torch.float64)
    return torch.randn(n, generator=g, dtype=torch.float64), b @ b.mT / n, noise


def test_equals_refits_without_each_row():
    r, k, noise = problem()
    c = k + torch.diag(noise)
    total = 0.0
    for i in range(len(r)):
        rest = [j for j in range(len(r)) if j != i]
        w = torch.linalg.solve(c[rest][:, rest], c[rest, i])
        mean, var = w @ r[rest], c[i, i] - w @ c[rest, i]
        total = total + torch.distributions.Normal(mean, var.sqrt()).log_prob(r[i])
    torch.testing.assert_close(leave_one_out_log_density(r, k, noise), total, rtol=1e-10, atol=1e-10)


def test_gradients():
    r, k, noise = problem()
    b = torch.linalg.cholesky(k + torch.eye(len(k)))
    for given in (noise, noise[0]):
        leaves = [t.clone().requires_grad_() for t in (r, b, given)]
        assert gradcheck(lambda r, b, noise: 2 * leave_one_out_log_density(r, b @ b.mT, noise), leaves)
