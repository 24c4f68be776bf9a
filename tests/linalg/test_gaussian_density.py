import pytest
import torch
from scipy.stats import multivariate_normal
from torch.autograd import gradcheck

from stratagp.errors import NotPositiveDefiniteError, NumericalWarning, UnsupportedError
from stratagp.linalg import gaussian_log_density


def problem(n=150, q=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    b = torch.randn(n, n, generator=g, dtype=torch.float64)
    noise = 0.1 + torch.rand(n, generator=g, dtype=torch.float64)
    return torch.randn(n, q, generator=g, dtype=torch.float64), b @ b.mT / n, noise


@pytest.mark.parametrize("scalar", [True, False])
def test_value_agrees_with_scipy(scalar):
    r, k, noise = problem()
    noise = noise[0] if scalar else noise
    dense = k + torch.eye(len(k)) * noise
    expected = multivariate_normal(cov=dense.numpy()).logpdf(r.T.numpy()).sum()
    assert gaussian_log_density(r, k, noise).item() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("scalar", [True, False])
def test_gradients(scalar):
    r, k, noise = problem(n=6)
    noise = noise[0] if scalar else noise
    b = torch.linalg.cholesky(k + torch.eye(6))

    def density(r, b, noise):  # a symmetric parameterisation: the gradient is that of a symmetric matrix
        return 3 * gaussian_log_density(r, b @ b.mT, noise)

    assert gradcheck(density, [t.clone().requires_grad_() for t in (r, b, noise)])


def test_gradient_agrees_with_autograd_through_cholesky():
    leaves = [t.requires_grad_() for t in problem(n=250)]
    r, k, noise = leaves
    ours = torch.autograd.grad(gaussian_log_density(r, k, noise), leaves)
    dense = torch.distributions.MultivariateNormal(torch.zeros(250).double(), k + torch.diag(noise))
    truth = torch.autograd.grad(dense.log_prob(r.mT).sum(), leaves)
    for a, b in zip(ours, truth, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_nothing_is_inverted_for_a_value_alone():
    r, k, noise = problem()
    value = gaussian_log_density(r.requires_grad_(), k, noise)
    (gradient,) = torch.autograd.grad(value, r)
    torch.testing.assert_close(gradient, -torch.linalg.solve(k + torch.diag(noise), r.detach()), rtol=1e-8, atol=1e-8)


def test_duplicates_without_noise_are_repaired_aloud():
    k = torch.ones(4, 4, dtype=torch.float64) - 1e-12 * torch.eye(4)
    with pytest.warns(NumericalWarning, match="the prior"):
        gaussian_log_density(torch.zeros(4, 1).double(), k, torch.tensor(0.0).double(), "the prior")
    with pytest.raises(NotPositiveDefiniteError, match="the prior"):
        gaussian_log_density(torch.zeros(4, 1).double(), k - torch.eye(4), torch.tensor(0.0).double(), "the prior")


def test_second_derivatives_are_refused_not_wrong():
    r, k, noise = problem(n=4)
    k.requires_grad_()
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(gaussian_log_density(r, k.exp(), noise), k, create_graph=True)


@pytest.mark.parametrize("row", [0, 3])
def test_missing_values_are_found_in_any_row(row):
    r, k, noise = problem(n=6)
    k[row] = k[:, row] = torch.nan
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinite entries"):
        gaussian_log_density(r, k, noise)
