import torch

from stratagp import means


def test_values():
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64)
    assert means.Zero()(x).tolist() == [0, 0]
    assert means.Constant(1.5)(x).tolist() == [1.5, 1.5]
    assert means.Linear([2.0, 0.5], -1.0)(x).tolist() == [2.0, 4.5]
