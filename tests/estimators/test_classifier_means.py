"""What classifiers expect far from all rows: base rates, trends that go on, or even odds."""

import numpy as np
import pytest
from scipy.special import expit

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.estimators import GPClassifier
from stratagp.parameters import positive

RNG = np.random.default_rng(0)
YEARS = 2000 + 20 * RNG.uniform(size=(80, 1))  # far from the origin
TREND = RNG.uniform(size=80) < expit((YEARS[:, 0] - 2010) / 2)
RARE = RNG.uniform(size=80) < 0.08
FAINT = k.RBF(lengthscale=positive(5.0, trainable=False), variance=positive(1e-8, trainable=False))
FAR = [[3000.0]]


def test_a_linear_mean_is_logistic_regression_integrated_over_its_lines():
    gp = GPClassifier(FAINT, mean="linear", inference="laplace").fit(YEARS, TREND)
    slope = gp.kernel_.parts[1].variance.item()
    place = (YEARS.mean() / YEARS.std()) ** 2
    w, c = np.meshgrid(np.linspace(-0.5, 2.5, 601), np.linspace(-6, 6, 481), indexing="ij")  # f = c + w (x − 2010)
    prior = -0.5 * (w**2 / slope + (c - 2010 * w) ** 2 / (16 * (1 + place)))
    sign = 2.0 * TREND - 1
    fit = sum(-np.logaddexp(0, -s * (c + w * (x - 2010))) for x, s in zip(YEARS[:, 0], sign, strict=True))
    weights = np.exp(prior + fit - (prior + fit).max())
    new = np.array([1990.0, 2005.0, 2010.0, 2013.0, 2030.0])
    truth = [(weights * expit(c + w * (x - 2010))).sum() / weights.sum() for x in new]
    np.testing.assert_allclose(gp.predict_proba(new[:, None])[:, 1], truth, rtol=0, atol=0.015)  # Laplace


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "vecchia"])
def test_trends_go_on(inference):
    kernel = k.RBF(lengthscale=positive(3.0, trainable=False))
    options = {"inference": inference, "random_state": 0, "max_iterations": 30}
    new, found = [[2040.0], [1980.0]], {}
    for mean in ("linear", "base-rate"):
        found[mean] = GPClassifier(kernel, mean=mean, **options).fit(YEARS, TREND).predict_proba(new)[:, 1]
    assert found["linear"][0] > 0.97
    assert found["linear"][1] < 0.03
    assert found["base-rate"][0] == pytest.approx(found["base-rate"][1], abs=1e-6)


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "vecchia"])
def test_base_rates_with_a_kernel_of_yours(inference):
    options = {"inference": inference, "random_state": 0, "max_iterations": 10}
    kernel = k.RBF(lengthscale=positive(3.0, trainable=False))
    even, rate = (
        GPClassifier(kernel, mean=mean, **options).fit(YEARS, RARE).predict_proba(FAR)[0, 1]
        for mean in ("zero", "base-rate")
    )
    assert even == pytest.approx(0.5, abs=1e-6)
    assert rate < 0.35


def test_three_classes_have_trends_too():
    classes = np.digitize(YEARS[:, 0] + RNG.normal(size=80), [2006, 2013])
    kernel = k.RBF(lengthscale=positive(3.0, trainable=False))
    gp = GPClassifier(kernel, mean="linear", max_iterations=20).fit(YEARS, classes)
    np.testing.assert_array_equal(gp.predict([[1980.0], [2040.0]]), [0, 2])


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"mean": "linear", "inference": "stochastic"}, YEARS, "needs inference='laplace'"),
        ({"mean": "linear", "kernel": k.Spectrum(1)}, ["ab", "ba"] * 40, "list of objects"),
        ({"mean": "constant"}, YEARS, "'base-rate', 'linear', 'zero'"),
    ],
)
def test_means_that_cannot_be_had_are_refused(options, rows, message):
    with pytest.raises(InputError, match=message):
        GPClassifier(**options).fit(rows, TREND)
