"""Elliptical slice sampling against posteriors in closed form."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.training.elliptical_slices import elliptical_slices, through


def test_draws_of_a_process_with_noise_have_its_posterior():
    """Four rows: mean and covariance of 8,000 draws, of standard errors below 0.02."""
    x = torch.linspace(0, 3, 4, dtype=torch.float64)[:, None]
    y, noise = torch.tensor([1.0, -0.5, 0.3, 2.0], dtype=torch.float64), 0.3
    K = k.RBF(1.0, 2.0)(x).detach()
    root = torch.linalg.cholesky(K)

    def fit(f):
        return -0.5 * (f[:, 0] - y).square().sum(-1) / noise

    start = torch.zeros(100, 1, 4, dtype=torch.float64)
    drawn = elliptical_slices(fit, root, start, 80, 60, 3, torch.Generator().manual_seed(0))
    f = through(root, drawn).reshape(-1, 4)
    gain = torch.linalg.solve(K + noise * torch.eye(4), K)
    torch.testing.assert_close(f.mean(0), gain.mT @ y, atol=0.05, rtol=0)
    torch.testing.assert_close(f.mT.cov(), K - K @ gain, atol=0.05, rtol=0)


def test_functions_may_have_covariances_of_their_own():
    roots = torch.stack([torch.eye(2), 3 * torch.eye(2)]).double()
    start = torch.zeros(100, 2, 2, dtype=torch.float64)
    drawn = elliptical_slices(lambda f: 0 * f.sum((1, 2)), roots, start, 40, 5, 1, torch.Generator().manual_seed(0))
    spread = through(roots, drawn).std((0, 1))
    torch.testing.assert_close(spread, torch.tensor([[1.0, 1.0], [3.0, 3.0]]).double(), rtol=0.08, atol=0)


@pytest.mark.parametrize("wrong", [{"n_samples": 0}, {"n_warmup": -1}, {"thin": 0}])
def test_numbers_that_make_no_sense(wrong):
    given = {"n_samples": 1, "n_warmup": 0, "thin": 1, **wrong}
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be at least"):
        elliptical_slices(lambda f: f.sum((1, 2)), torch.eye(1), torch.zeros(1, 1, 1), **given)
