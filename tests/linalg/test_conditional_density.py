"""Conditional densities against the joint ones they are the quotient of."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from stratagp.linalg.conditional_density import last_given_others


def problem(b=4, k=6):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(b, k, k, generator=generator, dtype=torch.float64)
    covariance = root @ root.mT + 0.5 * torch.eye(k, dtype=torch.float64)
    return torch.randn(b, k, generator=generator, dtype=torch.float64), covariance


def test_it_is_the_joint_density_over_that_of_the_others():
    residual, covariance = problem()
    joint = MultivariateNormal(torch.zeros(6).double(), covariance).log_prob(residual)
    others = MultivariateNormal(torch.zeros(5).double(), covariance[:, :-1, :-1]).log_prob(residual[:, :-1])
    torch.testing.assert_close(last_given_others(residual, covariance), joint - others, rtol=1e-12, atol=1e-12)


def test_the_gradient_is_that_of_differences():
    residual, covariance = problem(2, 4)
    residual.requires_grad_()
    root = torch.linalg.cholesky(covariance).requires_grad_()
    assert torch.autograd.gradcheck(lambda r, c: last_given_others(r, c @ c.mT), (residual, root))


def test_without_others_it_is_the_marginal():
    residual, covariance = torch.tensor([[0.5]]).double(), torch.tensor([[[2.0]]]).double().requires_grad_()
    value = last_given_others(residual, covariance)
    truth = torch.distributions.Normal(0, 2**0.5).log_prob(residual[:, 0])
    torch.testing.assert_close(value, truth, rtol=1e-7, atol=1e-7)
    value.sum().backward()
    assert covariance.grad.item() == pytest.approx((0.5**2 / 2 - 1) / 4, abs=1e-12)
