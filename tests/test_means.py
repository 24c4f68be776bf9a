import pytest
import torch

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError


def test_values():
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64)
    assert means.Zero()(x).tolist() == [0, 0]
    assert means.Constant(1.5)(x).tolist() == [1.5, 1.5]
    assert means.Polynomial([2.0, 0.5], -1.0)(x).tolist() == [2.0, 4.5]
    assert means.Polynomial([[2.0, 0.5], [1.0, 0.0]])(x).tolist() == [4.0, 14.5]
    assert means.Zero()(["ab", "c"]).tolist() == [0, 0]
    with pytest.raises(InputError, match="weights for 2 columns, but the points have 1"):
        means.Polynomial([2.0, 0.5])(x[:, :1])


def test_integrated_coefficients_are_universal_kriging():
    """With a wide prior the posterior mean tends to generalised least squares plus kriging of the residual."""
    g = torch.Generator().manual_seed(0)
    x, new = torch.randn(30, 1, generator=g).double(), torch.randn(5, 1, generator=g).double()
    y = 3 + 2 * x[:, 0] + torch.sin(3 * x[:, 0])
    basis = lambda p: torch.cat([torch.ones_like(p), p], -1)  # noqa: E731
    rbf = k.RBF(0.5)
    posterior = ExactGP(rbf + k.Linear(1e8).warp(basis), noise=1e-2).condition(x, y)
    c, h = rbf(x).detach() + 1e-2 * torch.eye(30), basis(x)
    beta = torch.linalg.solve(h.mT @ torch.linalg.solve(c, h), h.mT @ torch.linalg.solve(c, y[:, None]))
    kriged = basis(new) @ beta + rbf(new, x).detach() @ torch.linalg.solve(c, y[:, None] - h @ beta)
    torch.testing.assert_close(posterior.mean(new), kriged[:, 0], rtol=0, atol=1e-4)
