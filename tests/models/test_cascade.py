"""Cascaded deep processes: their limits, that they learn, and what they refuse."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import LatentRows
from stratagp.models.cascade import CascadedGP, Step
from stratagp.models.random_inputs import RandomInputGP
from stratagp.training.lbfgs import maximise
from tests.kernels.case import points

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose
N = 12
X, H, Z = points(N, 2), points(N, 1, seed=2), points(5, 1, seed=3)
Y = torch.sin(2 * H)


def step(z=Z, variance=1.0, noise=0.1):
    return Step(k.RBF(1.0, variance=variance), z, noise)


def latent():
    """The latent variable model."""
    return RandomInputGP(LatentRows(H), k.RBF(1.0, variance=1.0), Z).log_evidence(torch.arange(N)[:, None], Y)


def test_one_step_without_points_is_the_latent_variable_model():
    torch.testing.assert_close(CascadedGP([H], [step()]).log_evidence(None, Y), latent(), atol=1e-9, rtol=0)


@pytest.mark.parametrize("x", [X, None])
def test_steps_of_no_variance_leave_standard_normal_values(x):
    """With noise of one: each hidden layer below the last costs its divergence from the standard normal."""
    above = [] if x is None else [step(X[:4], 1e-10, 1.0)]
    gp = CascadedGP([X, H], [*above, step(points(4, 2), 1e-10, 1.0), step()])
    torch.testing.assert_close(gp.log_evidence(x, Y), latent() - LatentRows(X).kl(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("depth", [1, 2])
def test_it_learns_a_jump(depth):
    x = torch.linspace(-1, 1, 60, dtype=torch.float64)[:, None]
    y = torch.where(x > 0, 1.0, -1.0).double()
    first = Step(k.RBF(0.5, variance=1.0), x[::6], 0.05)
    others = [Step(k.RBF(1.0, variance=1.0), x[::6], 0.05) for _ in range(depth)]
    gp = CascadedGP([x] * depth, [first, *others])
    before = gp.log_evidence(x, y).item()
    result = maximise(lambda: gp.log_evidence(x, y), gp.parameters(), 60)
    assert result.value > before + 20
    found = gp.condition(x, y).predict(x)
    assert (found.mean - y).square().mean() < 0.02
    assert bool((found.var > 0).all())


def test_latent_points_of_two_layers_give_back_the_rows():
    gp = CascadedGP([H, H], [step(H, noise=1e-3), step(H, noise=1e-3)], scale=0.03)
    found = gp.condition(None, Y).predict(torch.arange(N)[:, None])
    torch.testing.assert_close(found.mean, Y, atol=0.05, rtol=0)


def test_bad_arguments():
    gp = CascadedGP([H], [step(X[:4]), step()])
    with pytest.raises(InputError, match="must have 12 rows, as hidden does"):
        gp.log_evidence(X[:5], Y)
    with pytest.raises(InputError, match="one step more"):
        gp.log_evidence(None, Y)
    with pytest.raises(InputError, match="1 hidden layers"):
        CascadedGP([H], [step()] * 3)
