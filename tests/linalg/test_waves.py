"""Marginals of weighted cosines and sines against plain autograd and finite differences."""

import pytest
import torch

from stratagp.errors import UnsupportedError
from stratagp.linalg import waves
from stratagp.linalg.waves import wave_marginals

SHAPES = {
    "rows": ((5,), ()),
    "samples of rows": ((3, 4), ()),
    "frequencies of each sample": ((3, 4), (3,)),
    "the same rows, frequencies of each sample": ((4,), (3,)),
}


def problem(name):
    rows, samples = SHAPES[name]
    generator = torch.Generator().manual_seed(0)
    sizes = [(*rows, 2), (*samples, 3, 2), (2, 6), (2, 6)]
    h, omega, mean, var = (torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)
    return [t.requires_grad_() for t in (h, omega, mean, var.exp())]


def plain(h, omega, mean, var):
    phase = h @ omega.mT
    phi = torch.cat([phase.cos(), phase.sin()], -1)
    return phi @ mean.mT, phi.square() @ var.mT


@pytest.mark.parametrize("block", [1, 7, 13, 2**18])  # a row, some rows, all rows of one sample, all samples
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients(name, block, monkeypatch):
    monkeypatch.setattr(waves, "_BLOCK", block)
    given = problem(name)
    torch.testing.assert_close(wave_marginals(*given), plain(*given), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(wave_marginals, given)
    with torch.no_grad():
        torch.testing.assert_close(wave_marginals(*given), plain(*given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fixed", [[0], [1], [0, 1], [2, 3]])
def test_gradients_of_some_arguments_alone(fixed):
    given = [t.detach().requires_grad_(i not in fixed) for i, t in enumerate(problem("frequencies of each sample"))]
    assert torch.autograd.gradcheck(wave_marginals, given)


def test_second_derivatives_are_refused():
    given = problem("rows")
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(wave_marginals(*given)[0].sum(), given[0], create_graph=True)
