import pytest
import torch

from stratagp import networks
from stratagp.errors import InputError
from stratagp.layers import Features, Stack


def test_dimensions_of_a_fully_connected_network():
    net = networks.fully_connected(5, [8, 4, 2], dropout=0.2)
    assert [tuple(p.shape) for n, p in net.named_parameters() if p.dim() == 2] == [(8, 5), (4, 8), (2, 4)]
    assert sum(isinstance(part, torch.nn.Dropout) for part in net) == 2
    assert sum(isinstance(part, torch.nn.BatchNorm1d) for part in net) == 2


def test_spectral_normalisation_bounds_the_change():
    net = networks.fully_connected(5, [32, 3], batch_norm=False, spectral=True)
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    for _ in range(50):
        net(x)  # the norm is found by iteration, one step a call
    net.eval()
    moved = (net(x[:100]) - net(x[100:])).norm(dim=1) / (x[:100] - x[100:]).norm(dim=1)
    assert moved.max() < 1.01


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (lambda: networks.lenet(1, 7), (3, 1, 28, 28)),
        (lambda: networks.lenet(3, 7, side=32), (3, 3, 32, 32)),
        (lambda: networks.resnet(1, 7), (3, 1, 28, 28)),
        (lambda: networks.resnet(3, 7, width=8, blocks=2, spectral=True), (3, 3, 32, 32)),
    ],
)
def test_images_give_features_and_gradients(net, shape):
    made = net()
    found = made(torch.randn(shape))
    assert found.shape == (3, 7)
    found.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: networks.fully_connected(3, []), "widths"),
        (lambda: networks.fully_connected(3, [4], dropout=1.0), "dropout"),
        (lambda: networks.lenet(1, 3, side=8), "12 × 12"),
        (lambda: Features(torch.nn.Linear(2, 2), 2, bound=0.0), "bound"),
        (lambda: Features(torch.nn.Linear(2, 2), 3)(torch.zeros(4, 2)), "3 features"),
        (lambda: Stack(), "at least one layer"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_features_are_standardised_and_bounded():
    layer = Features(torch.nn.Identity(), 2, bound=3.0)
    x = torch.randn(5000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([100.0, 0.01]) + 5
    found = layer(x)
    assert found.abs().max() < 3
    torch.testing.assert_close(found.std(0), torch.ones(2), rtol=0.15, atol=0)
    for _ in range(300):
        layer(x)
    torch.testing.assert_close(layer.eval()(x), found, rtol=0, atol=1e-3)


def test_a_drawn_network_is_frozen():
    layer = Features(torch.nn.Linear(3, 2), 2).eval()
    drawn, x = layer.draw(), torch.randn(4, 3)
    before = drawn(x)
    with torch.no_grad():
        layer.network.weight.add_(1.0)
    torch.testing.assert_close(drawn(x), before)
