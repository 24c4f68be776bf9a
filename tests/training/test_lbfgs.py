import warnings

import pytest
import torch
from torch import nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.training import maximise
from stratagp.training.lbfgs import Curvature


def test_rosenbrock():
    x = nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    y = nn.Parameter(torch.tensor(5.0, dtype=torch.float64), requires_grad=False)
    result = maximise(lambda: -((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2) + 0 * y, [x, y])
    torch.testing.assert_close(x.detach(), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-3)
    assert result.converged
    assert y.item() == 5.0


def test_steps_back_from_points_that_cannot_be_factored():
    x = nn.Parameter(torch.tensor([0.0], dtype=torch.float64))

    def objective():
        if x.item() > 0.5:
            raise NotPositiveDefiniteError("too far")
        return -(x - 0.4).square().sum() * 100

    maximise(objective, [x])
    assert x.item() == pytest.approx(0.4, abs=1e-4)


def test_too_few_iterations_are_reported():
    x = nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        maximise(lambda: -((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2), [x], max_iterations=2)


def test_an_infinite_start_is_an_error_and_changes_nothing():
    x = nn.Parameter(torch.tensor([3.0], dtype=torch.float64))

    def broken():
        raise NotPositiveDefiniteError("the kernel and the remedy")

    with pytest.raises(NotPositiveDefiniteError, match="the remedy"):
        maximise(broken, [x])
    with pytest.raises(InputError, match="not finite at the starting point"):
        maximise(lambda: (x * torch.inf).sum(), [x])
    assert x.item() == 3.0


def test_nothing_to_learn():
    x = nn.Parameter(torch.tensor([3.0]), requires_grad=False)
    assert maximise(lambda: x.sum(), [x]).value == 3.0


def test_small_gains_end_the_search():
    """Rosenbrock's valley, from a value of −24.2: with a tolerance the search ends on its way, and has converged."""
    far, near = (nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64)) for _ in range(2))

    def value(x):
        return -((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)

    whole = maximise(lambda: value(far), [far])
    short = maximise(lambda: value(near), [near], tolerance=2.0)
    assert short.converged
    assert short.evaluations < whole.evaluations
    assert "gained less than 2" in short.message
    assert -24.2 < short.value < whole.value


def test_curvature_makes_the_next_climb_short():
    """A narrow valley in ten directions: the second climb knows its shape, and needs a few evaluations."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(10, 10, generator=generator, dtype=torch.float64)
    shape = root @ root.mT + 0.01 * torch.eye(10, dtype=torch.float64)
    goal = torch.randn(10, generator=generator, dtype=torch.float64)
    x = nn.Parameter(torch.zeros(10, dtype=torch.float64))

    def score():
        return -0.5 * (x - goal) @ (100 * shape) @ (x - goal)

    curvature = Curvature()
    first = maximise(score, [x], curvature=curvature)
    with torch.no_grad():
        x.add_(0.1)
    second = maximise(score, [x], curvature=curvature)
    torch.testing.assert_close(x.detach(), goal, rtol=0, atol=1e-3)
    assert second.evaluations < 0.5 * first.evaluations
    assert curvature.times(0.5).inverse == pytest.approx(0.5 * curvature.inverse)


def test_curvature_of_other_directions_does_not_end_a_climb():
    """A first climb of three iterations knows little; the second must not believe that nothing is left."""
    scale = torch.logspace(-1, 3, 15, dtype=torch.float64)
    x = nn.Parameter(torch.zeros(15, dtype=torch.float64))
    curvature = Curvature()
    with pytest.warns(ConvergenceWarning):
        maximise(lambda: -0.5 * (scale * (x - 0.1).square()).sum(), [x], max_iterations=3, curvature=curvature)
    goal = 1 / scale.sqrt()
    result = maximise(
        lambda: -0.5 * (scale * (x - goal).square()).sum(), [x], tolerance=0.02, patience=4, curvature=curvature
    )
    assert result.value > -0.2


def test_no_point_is_evaluated_twice_and_only_warnings_of_the_best_one_are_shown():
    x, seen = nn.Parameter(torch.tensor([3.0], dtype=torch.float64)), []

    def hill():
        seen.append(x.item())
        if abs(x.item() - 1) > 0.5:
            warnings.warn("far", UserWarning, stacklevel=2)
        return -(x - 1).square().sum()

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        found = maximise(hill, [x])
    assert len(seen) == len(set(seen)) == found.evaluations
    assert not shown
    x.data.fill_(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert maximise(hill, [x]).converged  # a warning on the way is no error
    x.data.fill_(3.0)
    with pytest.warns(UserWarning, match="far"), pytest.warns(ConvergenceWarning):
        maximise(hill, [x], max_iterations=0)
