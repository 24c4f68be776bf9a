"""The deep feed-forward process: its start, its kernels, views, and what it learns."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels import Linear
from stratagp.layers import Stack
from stratagp.likelihoods import Bernoulli
from stratagp.models import SparseGP
from stratagp.models.dfgp import (
    OUTPUT_KERNELS,
    dfgp_chain,
    dfgp_regression,
    hidden_layer,
    linear_targets,
    output_kernel,
    principal_targets,
    widen,
)
from stratagp.objectives.curvature_bound import curvature_bound
from stratagp.posteriors import FullGaussian
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.lbfgs import maximise
from tests.kernels.case import points

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose
X = points(80, 3)
Y = torch.tanh(3 * X[:, :1]) * X[:, 1:2] + 0.1 * points(80, 1, seed=5)


def generator():
    return torch.Generator().manual_seed(0)


def hidden(n_hidden=3, point=False, x=X):
    layer = hidden_layer(x, principal_targets(x, n_hidden), k.RBF(ard=3), 10, generator())
    if not point:
        widen(layer)
    return layer


def test_hidden_processes_start_at_their_targets():
    targets = principal_targets(X, 5)
    torch.testing.assert_close(targets.std(0, correction=0), torch.ones(5, dtype=torch.float64))
    layer = hidden_layer(X, targets, k.RBF(ard=3), 40, generator=generator())
    assert (layer(X).mean - targets).square().mean() < 0.01
    assert bool((layer.z[0] != layer.z[1]).any())
    torch.testing.assert_close(targets[:, 3], targets[:, 0])
    torch.testing.assert_close(targets[:, :3].mT @ targets[:, :3] / 80, torch.eye(3).double(), atol=1e-12, rtol=0)


def test_a_view_starts_at_what_it_says_of_the_targets():
    y = X[:, :1] + 0.5 * X[:, 1:2]
    found = linear_targets(X[:, :2], torch.cat([y, -2 * y], 1))
    assert abs(torch.corrcoef(torch.cat([found, y], 1).mT)[0, 1]) > 0.9999


def test_widened_points_keep_their_mean():
    layer = hidden(point=True)
    before = layer(X)
    widen(layer)
    after = layer(X)
    torch.testing.assert_close(after.mean, before.mean)
    assert isinstance(layer.posterior, FullGaussian)
    assert bool((after.var > before.var).all())


@pytest.mark.parametrize("name", OUTPUT_KERNELS)
@pytest.mark.parametrize("point", [False, True])
def test_every_output_kernel_learns(name, point):
    model = dfgp_regression(hidden(point=True), output_kernel(name, 3), X, 10)
    before = model.log_evidence(X, Y).item()
    assert maximise(lambda: model.log_evidence(X, Y), model.parameters(), 30).value > before + 5
    if not point:
        widen(model.inputs)
        before = model.log_evidence(X, Y).item()
        assert maximise(lambda: model.log_evidence(X, Y), model.parameters(), 10).value > before
    error = (model.condition(X, Y).predict(X).mean - Y).square().mean() / Y.var()
    assert error < 0.35


def test_a_linear_output_stays_in_weight_space():
    model = dfgp_regression(hidden(), output_kernel("linear", 3), X)
    assert isinstance(model.kernel, Linear)
    torch.testing.assert_close(model.z, torch.eye(3, dtype=torch.float64))
    assert not any(p.requires_grad for name, p in model.named_parameters() if name.startswith("_z") or name == "z")


def test_its_bound_exceeds_that_of_the_shallow_process():
    """Ten inducing points each: a function with a fast and a slow part needs the hidden layer."""
    deep = dfgp_regression(hidden(), output_kernel("ard", 3), X, 10)
    shallow = SparseGP(k.RBF([1.0, 1.0, 1.0], variance=1.0), kmeans_points(X, 10))
    values = [maximise(lambda m=m: m.log_evidence(X, Y[:, 0]), m.parameters(), 60).value for m in (deep, shallow)]
    assert values[0] > values[1]


def test_views_see_their_own_columns():
    kernels = [k.RBF().on([0]).bind(3), k.Matern().on([1, 2]).bind(3)]
    layer = hidden_layer(X, principal_targets(X, 2), kernels, 10, generator())
    changed = X.clone()
    changed[:, 0] += 1
    before, after = layer(X).mean, layer(changed).mean
    assert (before[:, 0] - after[:, 0]).abs().max() > 0.1
    torch.testing.assert_close(before[:, 1], after[:, 1], atol=1e-10, rtol=0)
    with pytest.raises(InputError, match="one kernel for each of 3 hidden processes, got 2"):
        hidden_layer(X, principal_targets(X, 3), kernels, 10)


@pytest.mark.parametrize("propagate", ["samples", "moments"])
def test_classes(propagate):
    t = (Y > 0).double()
    below, above = hidden(point=True), output_kernel("ard", 3)
    model = dfgp_chain(below, above, Bernoulli("probit"), X, propagate=propagate, generator=generator())
    objective = {} if propagate == "samples" else {"objective": curvature_bound, "natural": False}
    model.fit(X, t, epochs=100, rate=0.03, generator=generator(), **objective)
    found = model.predict(X).mean
    right = ((found > 0.5) == (t > 0.5)).double().mean()
    assert right > (0.9 if propagate == "samples" else 0.8)  # the bound from moments is looser


def test_three_layers_by_moments():
    first = hidden(4)
    with torch.no_grad():
        h = first(X).mean
    second = hidden_layer(h, h[:, :2], k.RBF(ard=4), 10, generator=generator())
    model = dfgp_regression(Stack(first, second, propagate="moments"), output_kernel("ard", 2), X)
    before = model.log_evidence(X, Y).item()
    assert maximise(lambda: model.log_evidence(X, Y), model.parameters(), 10).value > before


def test_unknown_kernels_are_refused():
    with pytest.raises(InputError, match="output_kernel must be a kernel or one of rbf"):
        output_kernel("matern", 2)
