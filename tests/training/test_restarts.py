"""Several starts on scores with several maxima."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.training import maximise
from stratagp.training.restarts import maximise_from_many


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def free(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def waves(x):
    """Many hills, the highest at 0."""
    return (torch.cos(4 * x) - 0.1 * x.square()).sum()


def test_the_highest_hill_of_many():
    x, fixed = free(5.0, -4.0), nn.Parameter(torch.ones(1), requires_grad=False)
    alone = maximise(lambda: waves(x), [x])
    assert x.abs().max() > 1
    x.data = torch.tensor([5.0, -4.0], dtype=torch.float64)
    result = maximise_from_many(lambda: waves(x), [x, fixed], 60, seeded(), spread=4.0)
    torch.testing.assert_close(x.detach(), torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-3)
    assert result.value == pytest.approx(2.0, abs=1e-6)
    assert result.converged
    assert result.evaluations > 60 * 3 > alone.evaluations
    assert result.message.startswith("start ")
    assert "of 61 won: " in result.message


def test_without_restarts_it_is_maximise():
    x, y = free(5.0), free(5.0)
    first, second = maximise(lambda: waves(x), [x]), maximise_from_many(lambda: waves(y), [y], 0)
    assert x.item() == y.item()
    assert (first.value, first.evaluations) == (second.value, second.evaluations)
    fixed = nn.Parameter(torch.ones(1), requires_grad=False)
    assert maximise_from_many(lambda: fixed.sum(), [fixed], 3).value == 1


def test_promising_starts_come_before_random_ones():
    x = free(5.0)
    far, near = np.array([30.0]), np.array([0.3])
    result = maximise_from_many(lambda: waves(x), [x], 1, promising=[near, far])
    assert result.message.startswith("start 2 of 2 won")
    assert x.item() == pytest.approx(0.0, abs=1e-4)
    x.data.fill_(5.0)
    assert " of 3 won" in maximise_from_many(lambda: waves(x), [x], 2, seeded(), promising=[near]).message
    x.data.fill_(5.0)
    assert maximise_from_many(lambda: waves(x), [x], 0, promising=[near]).message.startswith("start 1 of 1")


def test_a_start_that_is_best_already_is_kept():
    x = free(0.0)
    assert maximise_from_many(lambda: waves(x), [x], 4, seeded(), spread=2.0).message.startswith("start 1 of 5")
    assert x.item() == 0


def test_two_maxima_of_the_evidence():
    """Few observations of a wave: all is noise around a slow trend, or a short lengthscale explains them."""
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.uniform(0, 6, size=(25, 1)))
    y = torch.from_numpy(np.sin(6 * x[:, 0].numpy()) + 0.1 * rng.normal(size=25))
    gp = ExactGP(k.RBF(20.0), noise=1.0)
    alone = maximise(lambda: gp.log_evidence(x, y), gp.parameters())
    assert gp.kernel.lengthscale.item() > 1
    gp.set(lengthscale=20.0, variance=1.0, noise=1.0)
    result = maximise_from_many(lambda: gp.log_evidence(x, y), gp.parameters(), 6, seeded(1), spread=3.0)
    assert result.value > alone.value + 2
    assert result.value == pytest.approx(gp.log_evidence(x, y).item(), abs=1e-9)
    assert 0.1 < gp.kernel.lengthscale.item() < 0.6
    assert gp.noise.item() < 0.2


def test_failing_starts_are_skipped_unless_all_fail():
    x = free(0.3)

    def objective():
        if x.item() > 1:
            raise NotPositiveDefiniteError("too far")
        return waves(x) if x.item() > -1 else x.sum() * torch.nan

    result = maximise_from_many(objective, [x], 20, seeded(), spread=2.0)
    assert "failed): " in result.message
    assert x.item() == pytest.approx(0, abs=1e-4)

    def broken():
        raise NotPositiveDefiniteError("the kernel and the remedy")

    x.data.fill_(0.3)
    with pytest.raises(NotPositiveDefiniteError, match="the remedy"):
        maximise_from_many(broken, [x], 3, seeded())
    assert x.item() == 0.3


def test_only_the_winner_warns():
    x = free(0.0)

    def objective():
        if abs(x.item()) > 0.5:
            warnings.warn("far out", UserWarning, stacklevel=1)
        return waves(x)

    maximise_from_many(objective, [x], 5, seeded(), spread=3.0)
    y = free(-1.2, 1.0)

    def valley():
        return -((1 - y[0]) ** 2 + 100 * (y[1] - y[0] ** 2) ** 2)

    with pytest.warns(ConvergenceWarning, match="after 2 iterations") as caught:
        result = maximise_from_many(valley, [y], 3, seeded(), max_iterations=2)
    assert len(caught) == 1
    assert not result.converged


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"n_restarts": -1}, "n_restarts must be"), ({"n_restarts": 1, "spread": 0.0}, "spread must")],
)
def test_bad_arguments_are_named(arguments, message):
    x = free(0.3)
    with pytest.raises(InputError, match=message):
        maximise_from_many(lambda: waves(x), [x], **arguments)
