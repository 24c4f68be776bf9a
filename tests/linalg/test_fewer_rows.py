"""A factor that loses rows, beside the factor of what is left."""

import pytest
import torch

from stratagp.linalg.fewer_rows import factor_without


@pytest.mark.parametrize("gone", [[0], [149], [3, 60, 61, 140], list(range(100)), list(range(50, 150)), []])
def test_it_is_the_factor_of_what_is_left(gone):
    random = torch.Generator().manual_seed(0)
    half = torch.randn(150, 150, dtype=torch.float64, generator=random)
    whole = half @ half.mT + torch.eye(150, dtype=torch.float64)
    mask = torch.zeros(150, dtype=torch.bool)
    mask[gone] = True
    above = torch.randn(150, 150, dtype=torch.float64, generator=random).triu(1)  # as some factors have it
    found = factor_without(torch.linalg.cholesky(whole) + above, mask)
    torch.testing.assert_close(found, torch.linalg.cholesky(whole[~mask][:, ~mask]), rtol=1e-9, atol=1e-10)


def test_single_precision_loses_no_more_than_its_own_rounding():
    half = torch.randn(200, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole = half @ half.mT / 200 + 0.1 * torch.eye(200, dtype=torch.float64)
    mask = torch.arange(200) < 20
    found = factor_without(torch.linalg.cholesky(whole).float(), mask).double()
    assert found.dtype == torch.float64
    assert float((found @ found.mT - whole[~mask][:, ~mask]).abs().max()) < 1e-6  # 2⁻²³ of its largest entry, 5
