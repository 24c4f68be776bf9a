"""The cascaded deep process: its limit, its gradients, and that it learns."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import LatentRows
from stratagp.models.cascade import CascadedGP
from stratagp.models.random_inputs import RandomInputGP
from stratagp.training.lbfgs import maximise
from tests.kernels.case import points

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose
N = 12
X, H, Z = points(N, 2), points(N, 1, seed=2), points(5, 1, seed=3)
Y = torch.sin(2 * H)


def test_without_a_first_layer_it_is_the_latent_variable_model():
    """A first process of no variance, with hidden noise of one, leaves ``h ~ N(0, 1)``."""
    gp = CascadedGP(H, k.RBF(1.0, variance=1e-10), X[:4], k.RBF(1.0, variance=1.0), Z, hidden_noise=1.0)
    latent = RandomInputGP(LatentRows(H), k.RBF(1.0, variance=1.0), Z)
    expected = latent.log_evidence(torch.arange(N)[:, None], Y)
    torch.testing.assert_close(gp.log_evidence(X, Y), expected, atol=1e-6, rtol=0)


def test_it_learns_a_step():
    x = torch.linspace(-1, 1, 60, dtype=torch.float64)[:, None]
    y = torch.where(x > 0, 1.0, -1.0).double()
    gp = CascadedGP(x, k.RBF(0.5, variance=1.0), x[::6], k.RBF(1.0, variance=1.0), x[::6], 0.05, 0.05)
    before = gp.log_evidence(x, y).item()
    result = maximise(lambda: gp.log_evidence(x, y), gp.parameters(), 60)
    assert result.value > before + 20
    found = gp.condition(x, y).predict(x)
    assert (found.mean - y).square().mean() < 0.02
    assert bool((found.var > 0).all())


def test_bad_arguments():
    gp = CascadedGP(H, k.RBF(), X[:4], k.RBF(), Z)
    with pytest.raises(InputError, match="12 rows, as hidden does"):
        gp.log_evidence(X[:3], Y[:3])
