import copy
import pickle

import numpy as np
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


def test_widths_may_be_numbers_of_numpy():
    net = networks.fully_connected(5, np.array([8, 2]))
    assert [(part.in_features, part.out_features) for part in net if hasattr(part, "in_features")] == [(5, 8), (8, 2)]


SPECTRAL = {
    "fully connected": (lambda: networks.fully_connected(5, [32, 16, 3], spectral=True), (5,), 1.0),
    "lenet": (lambda: networks.lenet(1, 7, side=14, spectral=True), (1, 14, 14), 1.0),
    "resnet": (lambda: networks.resnet(3, 7, width=8, spectral=True), (3, 8, 8), 2.0**3),
}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def train_a_little(net, shape, steps=5):
    """Towards features of large differences, so that the bounds are tried."""
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    for seed in range(steps):
        x = normal(16, *shape, seed=seed)
        loss = -(net(x) - net(x.flip(0))).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def slopes(net, shape):
    """``|g(x) − g(z)| / |x − z|`` of pairs far and near, and along the steepest directions."""
    x, z = normal(10, *shape, seed=90).double(), normal(10, *shape, seed=91).double()
    steps = [z, 1e-2 * z]
    for _ in range(6):  # power iteration with the Jacobian at each x
        _, moved = torch.func.jvp(net, (x,), (steps[-1],))
        back = torch.func.vjp(net, x)[1](moved)[0]
        steps.append(1e-2 * back / back.flatten(1).norm(dim=1).reshape(-1, *[1] * len(shape)))
    return torch.cat([(net(x + d) - net(x)).norm(dim=1) / d.flatten(1).norm(dim=1) for d in steps])


@pytest.mark.parametrize("name", SPECTRAL)
def test_spectral_normalisation_bounds_the_change(name):
    torch.manual_seed(0)
    make, shape, bound = SPECTRAL[name]
    net = make()
    assert not any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in net.modules())
    for change in (lambda p: p + normal(*p.shape), torch.abs):  # far from the start values; all of one sign
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(change(parameter))
        assert slopes(copy.deepcopy(net).double().eval(), shape).max() <= bound + 1e-3
    assert slopes(train_a_little(net, shape).double(), shape).max() <= bound + 1e-3


def test_the_bound_of_a_fully_connected_network_is_nearly_reached():
    net = networks.fully_connected(5, [32, 16, 3], spectral=True).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1.0)
    assert 0.999 < slopes(net, (5,)).max() <= 1 + 1e-6


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolutions_are_bounded_by_one(stride):
    torch.manual_seed(0)
    part = networks._UnitConvolution(2, 3, 5, stride, 2, bias=False).double().eval()
    with torch.no_grad():
        part.weight.fill_(1.0)  # all of one sign, so that patches that overlap add up
    eye = torch.eye(2 * 20 * 20, dtype=torch.float64).reshape(-1, 2, 20, 20)
    norm = torch.linalg.matrix_norm(part(eye).flatten(1), 2).item()
    assert 0.6 < norm <= 1 + 1e-9


@pytest.mark.parametrize("shape", [(3, 20), (20, 3)])
def test_linear_maps_have_norm_one(shape):
    torch.manual_seed(0)
    part = networks._UnitLinear(*shape).double()
    with torch.no_grad():
        part.weight.copy_(normal(*part.weight.shape))
    eye = torch.eye(shape[0], dtype=torch.float64)
    exact = part.weight / torch.linalg.matrix_norm(part.weight, 2)
    torch.testing.assert_close(part.eval()(eye) - part.bias, exact.mT, rtol=0, atol=1e-12)
    part.train()
    for _ in range(300):
        part(eye)  # a step of power iteration a call
    torch.testing.assert_close(part(eye) - part.bias, exact.mT, rtol=0, atol=1e-6)


def test_gradients_of_a_bounded_map_are_those_of_the_quotient():
    part = networks._UnitLinear(4, 3).double().eval()
    x = normal(6, 4).double()
    (part(x) ** 3).sum().backward()
    weight = part.weight.detach().requires_grad_()
    ((x @ (weight / torch.linalg.matrix_norm(weight, 2)).mT + part.bias) ** 3).sum().backward()
    torch.testing.assert_close(part.weight.grad, weight.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", SPECTRAL)
def test_spectral_networks_are_copied_and_stored(name):
    torch.manual_seed(0)
    make, shape, _ = SPECTRAL[name]
    net, x = train_a_little(make(), shape, steps=2), normal(4, *shape)
    expected = net(x)
    assert torch.equal(net(x), expected)
    fresh = make().eval()
    fresh.load_state_dict(net.state_dict())
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net), fresh):
        assert torch.equal(other(x), expected)
    torch.testing.assert_close(copy.deepcopy(net).double()(x.double()).float(), expected, rtol=0, atol=1e-5)


def test_weights_that_overflow_give_nan_and_leave_the_iteration_finite():
    net = networks.fully_connected(3, [4, 2], spectral=True)
    kept = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        net[0].weight.fill_(float("nan"))
    x = normal(5, 3)
    assert net(x).isnan().all()
    assert net.eval()(x).isnan().all()
    assert net[0].left.isfinite().all()
    net.load_state_dict(kept)
    assert net.train()(x).isfinite().all()


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
        (lambda: networks.fully_connected(3, [True]), "widths"),
        (lambda: networks.fully_connected(3, [4], dropout=1.0), "dropout"),
        (lambda: networks.lenet(1, 3, side=8), "12 × 12.*use 'resnet'"),
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
