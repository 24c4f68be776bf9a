"""Centred kernels and their measures, against numerical integration."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.testing import check_kernel
from tests.kernels.case import points


def test_measures_have_the_moments_of_their_distributions():
    for measure, law in [
        (k.Measure.uniform(-1.0, 3.0), stats.uniform(-1, 4)),
        (k.Measure.normal(2.0, 0.5), stats.norm(2, 0.5)),
    ]:
        for p in range(6):
            assert (measure.weights * measure.points**p).sum().item() == pytest.approx(law.moment(p), rel=1e-12)
    values, weights = k.Measure.sample(torch.tensor([1.0, 2.0, 4.0]), [1.0, 1.0, 2.0])
    assert (weights * values).sum().item() == pytest.approx(11 / 4)


def test_formula_with_adaptive_quadrature():
    ell, low, high = 0.4, -1.0, 2.0
    kb = lambda a, b: 1.3 * np.exp(-0.5 * ((a - b) / ell) ** 2)  # noqa: E731
    mu = lambda a: integrate.quad(lambda s: kb(a, s) / (high - low), low, high, epsabs=1e-13)[0]  # noqa: E731
    nu = integrate.quad(lambda a: mu(a) / (high - low), low, high, epsabs=1e-12)[0]
    x = points(5, 1)
    expected = [[kb(a, b) - mu(a) * mu(b) / nu for b in x[:, 0].numpy()] for a in x[:, 0].numpy()]
    actual = k.Centred(k.RBF(ell, 1.3), *k.Measure.uniform(low, high))(x)
    np.testing.assert_allclose(actual.detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("base", [k.RBF(0.7), k.Matern(1.5), k.Linear() + k.Constant(), k.Periodic(0.7, 1.5)])
def test_functions_have_mean_zero(base):
    measure = k.Measure.normal(1.0, 2.0)
    kernel = k.Centred(base, *measure)
    cross = kernel(measure.points[:, None], points(7, 1)).detach()
    torch.testing.assert_close(measure.weights @ cross, torch.zeros(7, dtype=torch.float64), atol=1e-12, rtol=0)


def test_a_posterior_mean_integrates_to_zero():
    x = points(20, 1)
    posterior = ExactGP(k.Centred(k.RBF(), x[:, 0]), noise=0.01).condition(x, 3 + x[:, 0].sin())
    assert posterior.mean(x).mean().item() == pytest.approx(0.0, abs=1e-10)


def test_functions_that_are_centred_already_stay_as_they_are():
    x = points(6, 1)
    kernel = k.Centred(k.Linear(0.5), *k.Measure.uniform(-1, 1))
    torch.testing.assert_close(kernel(x), 0.5 * x @ x.T, atol=1e-12, rtol=0)
    check_kernel(kernel, x)


def test_anova_kernel_is_a_product_of_one_plus_the_columns():
    x = points(8, 3)
    measures = [k.Measure.uniform(-1, 2), k.Measure.normal(), k.Measure.sample(x[:, 2])]
    kernel = k.anova_kernel(measures, k.RBF(0.6))
    columns = [k.Centred(k.RBF(0.6), *m)(x[:, [i]]) for i, m in enumerate(measures)]
    expected = (1 + columns[0]) * (1 + columns[1]) * (1 + columns[2])
    torch.testing.assert_close(kernel(x), expected, atol=1e-12, rtol=0)
    trained = [item.name for item in kernel.named_values() if item.parameter.trainable]
    assert trained == ["0.variance", *(f"0.{i}.base.base.lengthscale" for i in range(3)), "1.variance"]


def test_anova_kernel_starts_from_the_spread_of_its_columns():
    kernel = k.anova_kernel([k.Measure.normal(0, 2.0), k.Measure.uniform(0, 12**0.5)], order=1)
    scales = [part.base.base.lengthscale.item() for part in kernel.parts[0].parts]
    assert scales == pytest.approx([2.0, 1.0], rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Centred("RBF", [0.0]), "base must be a kernel"),
        (lambda: k.Centred(k.RBF(), [[0.0]]), "shape \\(r,\\)"),
        (lambda: k.Centred(k.RBF(), [0.0, 1.0], [1.0, -1.0]), "weights must be ≥ 0"),
        (lambda: k.Centred(k.RBF(), [0.0])(torch.zeros(2, 2)), "one column"),
        (lambda: k.Measure.uniform(1, 0), "low must be below high"),
        (lambda: k.Measure.normal(0, 0), "std must be positive"),
        (lambda: k.Measure.uniform(n_points=0), "n_points must be at least 1"),
        (lambda: k.anova_kernel([]), "measures must be a list"),
        (lambda: k.anova_kernel([k.Measure.uniform()] * 3, [k.RBF()] * 2), "one for each of 3 columns"),
        (lambda: k.anova_kernel([k.Measure.sample([1.0, 1.0])]), "more than one point"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()
