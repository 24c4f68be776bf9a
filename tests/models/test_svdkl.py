"""Deep kernel learning: what pre-training hands over, that joint training learns, and that modes are kept."""

import pytest
import torch

from stratagp.errors import InputError
from stratagp.layers import Features, Grid
from stratagp.likelihoods import GaussianNoise, Mixed, Softmax
from stratagp.models import inducing_dkl, pretrain, svdkl
from stratagp.networks import fully_connected


def rings(n=600, seed=0):
    """Three rings around each other, with noise."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(3, (n,), generator=g)
    angle = 6.283 * torch.rand(n, generator=g)
    radius = 1 + label + 0.15 * torch.randn(n, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label.float()


def parts(likelihood=None, scores=3, functions=4):
    torch.manual_seed(0)
    features = Features(fully_connected(2, [32, 32, 4]), 4)
    return features, Mixed(likelihood or Softmax(), scores, functions, torch.Generator().manual_seed(0))


def accuracy(gp, x, y):
    return (gp.predict(x).mean.argmax(1) == y).double().mean().item()


@pytest.mark.parametrize("last", ["grid", "inducing"])
def test_rings_are_learnt(last):
    (x, y), (new, truth) = rings(), rings(seed=1)
    features, head = parts()
    pretrain(features, head, x, y, batch_size=100, epochs=20, rate=0.02)
    options = {"n_samples": 8, "generator": torch.Generator().manual_seed(0)}
    gp = (
        svdkl(features, head, **options)
        if last == "grid"
        else inducing_dkl(features, head, x, n_inducing=30, **options)
    )
    gp.fit(x, y, batch_size=100, epochs=20, rate=0.01, rates=[(features.parameters(), 0.1)])
    assert accuracy(gp, new, truth) > 0.96
    probability = gp.predict(new).mean[torch.arange(len(truth)), truth.long()]
    assert probability.log().mean() > -0.15


@pytest.mark.parametrize(("last", "tolerance"), [("grid", 0.02), ("inducing", 0.1)])
def test_the_model_starts_as_the_network(last, tolerance):
    x, y = rings()
    features, head = parts()
    pretrain(features, head, x, y, batch_size=100, epochs=5, rate=0.02)
    with torch.no_grad():
        alone = head.moments(features(x)).mean
    gp = svdkl(features, head, grid_size=40) if last == "grid" else inducing_dkl(features, head, x, n_inducing=60)
    assert (gp.predict(x).mean - alone).abs().mean() < tolerance


def test_grids_of_several_axes_start_as_the_network():
    x, _ = rings()
    features, head = parts(GaussianNoise(0.1), scores=1, functions=4)
    with torch.no_grad():
        alone = head.scores(features.eval()(x).double())
        gp = svdkl(features, head, axes=2, grid_size=20)
        found = gp.observed.scores(gp.marginals(x).mean.double())
    torch.testing.assert_close(found, alone, rtol=0, atol=0.02 * alone.std().item())


def test_products_of_features_and_regression():
    x, _ = rings()
    y = x[:, :1] * x[:, 1:]
    features, head = parts(GaussianNoise(0.1), scores=1, functions=2)
    gp = svdkl(features, head, axes=2, grid_size=12)
    assert isinstance(gp.layer.layers[1], Grid)
    gp.fit(x, y, batch_size=100, epochs=60, rate=0.02)
    error = (gp.predict(x).mean - y).square().mean() / y.var()
    assert error < 0.1


def test_predictions_use_running_moments():
    x, y = rings()
    gp = svdkl(*parts(), grid_size=20)
    gp.fit(x, y, batch_size=100, epochs=1)
    assert not gp.training
    one, many = gp.predict(x[:1]).mean, gp.predict(x).mean[:1]
    torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: svdkl(*parts(), axes=3), "multiple of 3"),
        (lambda: svdkl(*parts(functions=2)), "give 4"),
        (lambda: svdkl(Features(torch.nn.Linear(2, 4), 4, bound=None), parts()[1]), "bound"),
    ],
)
def test_parts_must_fit_together(make, message):
    with pytest.raises(InputError, match=message):
        make()
