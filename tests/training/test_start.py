"""Start values from the data."""

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.training.start import start_from_data, strongest_period, variance_carriers

X = torch.randn(200, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.tensor(
    [1.0, 50.0, 0.0]
)
Y = torch.randn(200, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_lengthscales_are_the_spread_of_the_columns_times_root_d():
    kernel = start_from_data(k.RBF(ard=3), X, Y)
    expected = np.sqrt(3) * np.array([X[:, 0].std(correction=0), X[:, 1].std(correction=0), 1.0])
    np.testing.assert_allclose(kernel.lengthscale.detach(), expected, rtol=1e-12)


def test_parts_see_their_own_columns():
    kernel = start_from_data(k.RBF().on(1) * k.Linear().on(0) + k.Matern(1.5).on([0]), X, Y)
    first, second = kernel.parts
    assert first.parts[0].base.lengthscale.item() == pytest.approx(X[:, 1].std(correction=0).item())
    assert second.base.lengthscale.item() == pytest.approx(X[:, 0].std(correction=0).item())


def test_factors_of_a_product_share_the_distance():
    rows = torch.randint(0, 4, (200, 40), generator=torch.Generator().manual_seed(2)).double()
    kernel = k.RBF().on(0)
    for column in range(1, 40):
        kernel = kernel * k.RBF().on(column)
    typical = start_from_data(kernel, rows, Y)(rows)[0, 1:].mean().item()
    together = start_from_data(k.RBF(ard=40), rows, Y)(rows)[0, 1:].mean().item()
    assert typical == pytest.approx(together, rel=1e-9)  # the same function: exp(−½ Σ d²/ℓ²)
    assert 0.2 < typical < 0.6


def test_summands_share_the_variance():
    kernel = start_from_data(k.RBF().on(0) + k.Linear(ard=3) + k.ArcCosine(1) * k.RBF(variance=2.0).on(0), X, Y)
    for part, share in zip(kernel.parts, (1 / 3, 1 / 3, 2 / 3), strict=True):
        assert part.diag(X).mean().item() == pytest.approx(share, rel=0.34)
    assert kernel.parts[2].parts[1].base.variance.item() == pytest.approx(2.0)


def test_values_that_were_given_stay():
    kernel = start_from_data(k.RBF(lengthscale=1.0, variance=1.0).on(1), X, Y)
    assert (kernel.base.lengthscale.item(), kernel.base.variance.item()) == pytest.approx((1.0, 1.0))
    fixed = k.RBF().on(1)
    fixed.fix("lengthscale")
    assert start_from_data(fixed, X, Y).base.lengthscale.item() == pytest.approx(1.0)


def test_period_of_uneven_samples_with_a_trend():
    place = torch.rand(150, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 20
    wave = 3 * torch.sin(2 * torch.pi * place / 1.7 + 1) + 0.5 * place
    assert strongest_period(place, wave) == pytest.approx(1.7, rel=0.02)
    kernel = start_from_data(k.Periodic() * k.RBF() + k.Linear(), place[:, None], wave)
    assert kernel.parts[0].parts[0].period.item() == pytest.approx(1.7, rel=0.02)
    assert kernel.parts[0].parts[0].lengthscale.item() == pytest.approx(1.0)


def test_carriers_of_the_variance():
    first, second, third = k.RBF(), k.Periodic(), k.Linear()
    assert [part for part, _ in variance_carriers(first * second + third)] == [first, third]
    first.fix("variance")
    assert [part for part, _ in variance_carriers(first * second)] == [second]


def test_one_row_and_objects():
    assert start_from_data(k.RBF(ard=3), X[:1], Y[:1]).lengthscale.tolist() == pytest.approx([3**0.5] * 3)
    kernel = k.PairFunction(lambda a, b: float(a == b))
    assert start_from_data(kernel, ["a", "b"], Y[:2]).variance.item() == pytest.approx(1.0)
