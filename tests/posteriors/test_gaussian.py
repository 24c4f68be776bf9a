"""The full Gaussian posterior against torch's own distributions, and the shipped check against faulty ones."""

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from stratagp.errors import InputError
from stratagp.posteriors import FullGaussian
from stratagp.testing import check_posterior


def moved(m=3, q=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    posterior = FullGaussian(m, q)
    with torch.no_grad():
        posterior.mean.copy_(torch.randn(q, m, generator=g, dtype=torch.float64))
        posterior.scale.add_(0.4 * torch.randn(q, m, m, generator=g, dtype=torch.float64))
    return posterior


def test_check():
    check_posterior(moved())
    check_posterior(moved(1, 1))


def test_kl_is_that_of_torch():
    posterior = moved()
    scale = posterior.scale.detach().tril()
    ours = MultivariateNormal(posterior.mean.detach(), covariance_matrix=scale @ scale.mT)
    prior = MultivariateNormal(torch.zeros(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64))
    assert posterior.kl().item() == pytest.approx(kl_divergence(ours, prior).sum().item(), rel=1e-12)


class HalfCost(FullGaussian):
    def kl(self):
        return 0.5 * super().kl()


class WrongDraws(FullGaussian):
    def draw(self, generator=None):
        return 1.1 * super().draw(generator)


@pytest.mark.parametrize(("wrong", "message"), [(HalfCost, "cost"), (WrongDraws, "standard errors")])
def test_faults_are_found(wrong, message):
    posterior = wrong(3, 2)
    posterior.load_state_dict(moved().state_dict())
    with pytest.raises(AssertionError, match=message):
        check_posterior(posterior)


def test_sizes_are_checked():
    with pytest.raises(InputError, match="m ≥ 1"):
        FullGaussian(0)
