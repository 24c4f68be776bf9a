"""Mean-square continuity and differentiability: what the kernels say of themselves against difference quotients."""

import math

import numpy as np
import pytest
import torch
from scipy.special import comb

from stratagp import kernels as k
from stratagp.kernels.base import registry

STATIONARY = {
    "RBF": lambda: k.RBF(0.7, 1.3),
    "Exponential": lambda: k.Exponential(0.7, 1.3),
    "Matern 1/2": lambda: k.Matern(0.5, 0.7, 1.3),
    "Matern 3/2": lambda: k.Matern(1.5, 0.7, 1.3),
    "Matern 5/2": lambda: k.Matern(2.5, 0.7, 1.3),
    "Matern 7/2": lambda: k.Matern(3.5, 0.7, 1.3),
    "Matern of order 1.8": lambda: k.Matern(1.8, 0.7, 1.3),
    "RationalQuadratic": lambda: k.RationalQuadratic(0.7, 0.9, 1.3),
    "PiecewisePolynomial 0": lambda: k.PiecewisePolynomial(0, 1, 0.7, 1.3),
    "PiecewisePolynomial 1": lambda: k.PiecewisePolynomial(1, 1, 0.7, 1.3),
    "PiecewisePolynomial 2": lambda: k.PiecewisePolynomial(2, 1, 0.7, 1.3),
    "Cosine": lambda: k.Cosine(3.0, 1.3),
    "Periodic": lambda: k.Periodic(0.9, 3.0, 1.3),
    "SpectralMixture": lambda: k.SpectralMixture(2, 1, [0.7, 0.6], [[0.1], [0.3]], [[0.01], [0.05]]),
    "MetricRBF": lambda: k.MetricRBF([[0.7]], 1.3),
    "sum with a rough part": lambda: k.RBF(0.7) + k.Matern(1.5, 2.0),
    "product with a rough part": lambda: k.RBF(0.7) * k.Exponential(2.0),
}


def expected_square(kernel, weights):
    """``E (Σ w f(t))²`` for weights at places ``0.3 + t``."""
    places = torch.tensor([[0.3 + t] for t in weights], dtype=torch.float64)
    w = torch.tensor(list(weights.values()), dtype=torch.float64)
    return (w @ kernel(places).detach() @ w).item()


def quotient(order, h):
    """The weights of ``Δ_h^order f / h^order`` by their place."""
    return {i * h: (-1) ** (order - i) * comb(order, i) / h**order for i in range(order + 1)}


def gap(kernel, order, h):
    """``E |dq(h) − dq(h/2)|²``: Cauchy's criterion for the limit of difference quotients in mean square."""
    weights = quotient(order, h)
    for place, weight in quotient(order, h / 2).items():
        weights[place] = weights.get(place, 0.0) - weight
    return expected_square(kernel, weights)


def growth(score, h):
    """The power of ``h`` with which a score goes."""
    return math.log2(score(h) / score(h / 2))


def test_every_stationary_kernel_has_a_case():
    cases = {type(make()).__name__ for make in STATIONARY.values()}
    ours = {name: cls for name, cls in registry.items() if cls.__module__.startswith("stratagp.")}
    assert {name for name, cls in ours.items() if issubclass(cls, k.Stationary)} <= cases


@pytest.mark.parametrize("name", STATIONARY)
def test_kernels_are_as_differentiable_as_they_say(name):
    kernel = STATIONARY[name]()
    for order, h in ((1, 2.0**-9), (2, 2.0**-6), (3, 2.0**-4)):
        power = growth(lambda h, order=order: gap(kernel, order, h), h)
        assert (power > 0.2) == (order <= kernel.differentiable), f"order {order} goes like h^{power:.2f}"


@pytest.mark.parametrize(("nu", "power"), [(0.5, -1), (1.5, 1), (2.5, 2), (math.inf, 2)])
def test_difference_quotients_converge_as_fast_as_the_smoothness_lets_them(nu, power):
    """``E |dq(h) − dq(h/2)|²`` goes like h^(2ν − 2), and like h² at best."""
    kernel = k.RBF() if nu == math.inf else k.Matern(nu)
    assert growth(lambda h: gap(kernel, 1, h), 2.0**-9) == pytest.approx(power, abs=0.03)


def test_difference_quotients_of_a_rough_process_explode():
    assert gap(k.Matern(0.5), 1, 1e-3) == pytest.approx(2000, rel=1e-3)
    assert gap(k.Exponential(), 1, 1e-3) == pytest.approx(2000, rel=1e-3)


@pytest.mark.parametrize("name", STATIONARY)
def test_every_stationary_kernel_is_continuous(name):
    kernel = STATIONARY[name]()
    assert growth(lambda h: expected_square(kernel, {0.0: -1.0, h: 1.0}), 1e-4) > 0.9


def test_squared_increments():
    """``E |f(x + h) − f(x)|² = 2(k(0) − k(h))``: 2h/ℓ for the exponential, h²/ℓ² for the squared exponential."""
    h, ell = 1e-3, 0.7
    increment = {0.0: -1.0, h: 1.0}
    assert expected_square(k.Exponential(ell), increment) == pytest.approx(2 * (1 - np.exp(-h / ell)), rel=1e-9)
    assert expected_square(k.Exponential(ell), increment) == pytest.approx(2 * h / ell, rel=1e-3)
    assert expected_square(k.RBF(ell), increment) == pytest.approx(h**2 / ell**2, rel=1e-5)


def test_white_noise_is_not_continuous():
    kernel = k.White(1.3)
    assert [expected_square(kernel, {0.0: -1.0, h: 1.0}) for h in (1e-2, 1e-6)] == pytest.approx([2.6, 2.6])
    assert kernel.differentiable < 0


@pytest.mark.parametrize("name", [name for name, make in STATIONARY.items() if make().differentiable >= 1])
def test_difference_quotients_end_at_the_variance_of_the_slope(name):
    kernel = STATIONARY[name]()
    slope = k.gradient_gradient(kernel, torch.tensor([[0.3]])).item()  # ∂²k/∂x∂z at z = x
    h = 2.0**-10
    assert expected_square(kernel, quotient(1, h)) == pytest.approx(slope, rel=2e-2)
