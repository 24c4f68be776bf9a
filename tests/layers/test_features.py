import copy

import pytest
import torch
from torch import nn

from stratagp import networks
from stratagp.errors import InputError
from stratagp.layers import Features

N = 6000


def rows():
    """Sorted rows of two columns, far from zero."""
    x = torch.randn(N, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 0.5]) + 2
    return x[x[:, 0].argsort()]


def trained():
    """A layer after passes in training mode, as an optimiser would make them, with weights that move meanwhile."""
    torch.manual_seed(0)
    layer = Features(networks.fully_connected(2, [50, 20, 3], dropout=0.5), 3)
    optimiser = torch.optim.Adam(layer.parameters(), 0.01)
    x = rows()
    for _ in range(60):
        batch = x[torch.randint(N, (256,))]
        loss = (layer(batch)[:, 0] - batch[:, 0].tanh()).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return layer


def standardised(layer, x):
    """The features in evaluation mode, before the tanh."""
    with torch.no_grad():
        return layer.moments(layer.network(x))


@pytest.mark.parametrize(("chunk", "tolerance"), [(N, 1e-3), (1000, 0.02), (200, 0.05)])
def test_settled_moments_are_those_without_dropout(chunk, tolerance):
    layer, x = trained(), rows()
    assert (standardised(layer.eval(), x).std(0) - 1).abs().max() > 0.1  # moments were gathered with dropout
    layer.train().settle(x, chunk)
    found = standardised(layer.eval(), x)
    torch.testing.assert_close(found.mean(0), torch.zeros(3), rtol=0, atol=tolerance)
    torch.testing.assert_close(found.std(0), torch.ones(3), rtol=0, atol=tolerance)


def test_settling_changes_nothing_else():
    layer, x = trained(), rows()[::10]
    layer.network[0].eval()
    layer.network[1].momentum = 0.3
    before, slopes = copy.deepcopy(layer), [parameter.grad.clone() for parameter in layer.parameters()]
    layer.settle(x)
    assert [part.training for part in layer.modules()] == [part.training for part in before.modules()]
    assert [getattr(part, "momentum", 0) for part in layer.modules()] == [
        getattr(part, "momentum", 0) for part in before.modules()
    ]
    for new, old, slope in zip(layer.parameters(), before.parameters(), slopes, strict=True):
        assert torch.equal(new, old)
        assert torch.equal(new.grad, slope)
    once = copy.deepcopy(layer.state_dict())
    layer.settle(x)
    assert all(torch.equal(once[name], value) for name, value in layer.state_dict().items())


def test_images_are_settled():
    torch.manual_seed(0)
    layer = Features(networks.lenet(1, 4, side=12, dropout=0.4), 4)
    x = torch.randn(101, 1, 12, 12)
    layer.settle(x, chunk=50)  # chunks of 34 and 33
    assert (standardised(layer.eval(), x).std(0) - 1).abs().max() < 0.15
    assert [int(part.num_batches_tracked) for part in layer.modules() if hasattr(part, "num_batches_tracked")] == [
        3
    ] * 4


@pytest.mark.parametrize("n", [2, 3, 5])
def test_no_chunk_has_a_single_row(n):
    layer = Features(nn.Linear(2, 2), 2)
    layer.settle(rows()[:n], chunk=2)
    assert int(layer.moments.num_batches_tracked) == n // 2
    Features(nn.Linear(2, 2), 2, bound=None).settle(rows()[:n])  # nothing to settle


def test_small_features_are_standardised():
    layer = Features(nn.Identity(), 2)
    found = layer.moments(1e-2 * rows())  # standard deviations of 0.03 and 0.005
    torch.testing.assert_close(found.std(0), torch.ones(2), rtol=1e-3, atol=0)


def test_moments_stay_where_the_rows_fail():
    layer = trained()
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(RuntimeError):
        layer.settle(torch.zeros(10, 7))
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    assert layer.training
    assert layer.moments.momentum == 0.1


@pytest.mark.parametrize(("n", "chunk"), [(1, 10), (10, 1)])
def test_too_few_rows_are_refused(n, chunk):
    with pytest.raises(InputError, match="settle needs at least two rows in x and chunk ≥ 2"):
        Features(nn.Linear(2, 2), 2).settle(rows()[:n], chunk)
