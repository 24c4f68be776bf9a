"""Classifiers from several kernels: their bounds against samples of the posterior, and what they refuse."""

import re

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from stratagp.baselines import AverageKernelSVC, BEMKLClassifier, MKGPClassifier
from stratagp.baselines.kernels_of_views import KernelsClassifier
from stratagp.errors import InputError

ALL = (AverageKernelSVC(random_state=0), BEMKLClassifier(sweeps=20), MKGPClassifier())
DRAWS = 40_000


def kernels(n: int, p: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(p, n, 1))
    return np.exp(-0.5 * (x - x.swapaxes(1, 2)) ** 2)


def labels(n: int) -> np.ndarray:
    return np.where(np.arange(n) % 3 == 0, 1, 0)


def views(n: int = 80) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5))
    return {"a": x[:, :2], "b": x[:, 2:]}, np.where(x[:, 0] * x[:, 1] > 0, "same", "other")


def test_bemkl_bound_is_the_mean_of_samples() -> None:
    """E_q[log p(y, λ, a, G, ω, b, e, f) − log q] by samples of every factor."""
    rng, (p, n) = np.random.default_rng(0), (2, 4)
    k, y = kernels(n), np.array([1.0, -1, -1, 1])
    model = BEMKLClassifier(sweeps=3, sigma=0.5, precomputed=True).fit(k, (y > 0).astype(int))
    rates, ones = np.r_[model._lam_rate, model._omega_rate], np.ones(n + p + 1)
    precision = rng.gamma(1.5, 1 / rates, size=(DRAWS, n + p + 1))
    total = (stats.gamma.logpdf(precision, ones) - stats.gamma.logpdf(precision, 1.5, scale=1 / rates)).sum(1)
    a = rng.multivariate_normal(model._a, model._a_cov, DRAWS)
    be = rng.multivariate_normal(model._be, model._be_cov, DRAWS)
    total += stats.norm.logpdf(np.c_[a, be], 0, precision**-0.5).sum(1)
    total -= stats.multivariate_normal.logpdf(a, model._a, model._a_cov)
    total -= stats.multivariate_normal.logpdf(be, model._be, model._be_cov)
    g = rng.multivariate_normal(np.zeros(p), model._g_cov, (DRAWS, n)) + model._g.T
    total += stats.norm.logpdf(g, np.einsum("pij,sj->sip", k, a), model.sigma).sum((1, 2))
    total -= stats.multivariate_normal.logpdf(g - model._g.T, np.zeros(p), model._g_cov).sum(1)
    z = y * model._o - model.margin
    f = y * stats.truncnorm.rvs(-z, np.inf, y * model._o, 1, size=(DRAWS, n), random_state=rng)
    total += stats.norm.logpdf(f, np.einsum("sip,sp->si", g, be[:, 1:]) + be[:, :1]).sum(1)
    total -= stats.truncnorm.logpdf(y * f, -z, np.inf, y * model._o, 1).sum(1)
    assert abs(total.mean() - model.bounds_[-1]) < 4 * total.std() / DRAWS**0.5
    assert total.std() / DRAWS**0.5 < 0.05


def test_mkgp_bound_is_the_mean_of_samples() -> None:
    """E_q[log p(y, s, w, φ) − log q] by samples; q(w | s = 0) is the prior and cancels."""
    rng, n = np.random.default_rng(0), 5
    k = kernels(n)
    model = MKGPClassifier(sweeps=4, tolerance=0, precomputed=True).fit(k, labels(n))
    total, mean = np.zeros(DRAWS), np.full((DRAWS, n), model._mean)
    for m in range(2):
        covariance = np.linalg.inv(np.linalg.inv(k[m]) + model._c[m] * np.eye(n))
        phi = rng.multivariate_normal(model._phi[m], covariance, DRAWS)
        total += stats.multivariate_normal.logpdf(phi, np.zeros(n), k[m])
        total -= stats.multivariate_normal.logpdf(phi, model._phi[m], covariance)
        s = rng.random(DRAWS) < model._gamma[m]
        w = rng.normal(model._mu[m], model._v[m] ** 0.5, DRAWS)
        slab = stats.norm.logpdf(w, 0, model._slab**0.5) - stats.norm.logpdf(w, model._mu[m], model._v[m] ** 0.5)
        spike = np.where(s, model._pi / model._gamma[m], (1 - model._pi) / (1 - model._gamma[m]))
        total += np.where(s, slab, 0) + np.log(spike)
        mean += (s * w)[:, None] * phi
    y = labels(n) * 2.0 - 1
    total += stats.norm.logpdf(y, mean, model._noise**0.5).sum(1)
    assert abs(total.mean() - model.bounds_[-1]) < 4 * total.std() / DRAWS**0.5
    assert total.std() / DRAWS**0.5 < 0.05


def test_mkgp_predicts_by_the_moments_of_its_posterior() -> None:
    """At training rows the mean and variance of Σ swφ are those of samples."""
    rng, n = np.random.default_rng(2), 6
    k = kernels(n)
    model = MKGPClassifier(sweeps=4, tolerance=0, precomputed=True).fit(k, labels(n))
    drawn = np.zeros((200_000, n))
    for m in range(2):
        covariance = np.linalg.inv(np.linalg.inv(k[m]) + model._c[m] * np.eye(n))
        s = rng.random((len(drawn), 1)) < model._gamma[m]
        w = rng.normal(model._mu[m], model._v[m] ** 0.5, (len(drawn), 1))
        drawn += s * w * rng.multivariate_normal(model._phi[m], covariance, len(drawn))
    wanted = stats.norm.cdf((model._mean + drawn.mean(0)) / np.sqrt(drawn.var(0) + model._noise))
    np.testing.assert_allclose(model.predict_proba(k)[:, 1], wanted, atol=3e-3)


@pytest.mark.parametrize("model", [BEMKLClassifier(), MKGPClassifier()])
def test_bounds_never_fall(model: BEMKLClassifier | MKGPClassifier) -> None:
    x, y = views()
    bounds = np.array(model.fit(x, y).bounds_)
    assert (np.diff(bounds) > -1e-7 * np.abs(bounds[1:])).all()


def test_the_average_machine_is_that_of_scikit_learn() -> None:
    x, y = views()
    model = AverageKernelSVC(costs=(1.0,), random_state=0).fit(x, y)
    mean = 0.0
    for part in x.values():
        units = part / part.std(0)
        mean = mean + np.exp(-(((units[:, None] - units) ** 2).sum(-1)) / (2 * np.median(pdist(units)) ** 2)) / 2
    truth = SVC(C=1.0, kernel="precomputed").fit(mean, y)
    np.testing.assert_allclose(model.decision_function(x), truth.decision_function(mean), atol=1e-9)
    assert (model.predict(x) == truth.predict(mean)).all()


@pytest.mark.parametrize("model", ALL)
def test_they_learn_what_needs_both_columns_of_a_view(model: KernelsClassifier) -> None:
    x, y = views(240)
    train, test = ({name: part[rows] for name, part in x.items()} for rows in (slice(160), slice(160, None)))
    assert (model.fit(train, y[:160]).predict(test) == y[160:]).mean() > 0.8


def test_one_table_is_one_view_and_can_be_cross_validated() -> None:
    x, y = views(100)
    assert cross_val_score(BEMKLClassifier(sweeps=10), x["a"], y, cv=2).mean() > 0.7


@pytest.mark.parametrize(
    ("x", "y", "precomputed", "message"),
    [
        ([np.ones((3, 1))], [0, 1, 2], False, "of two classes; it has 3"),
        ([np.arange(3.0)[:, None]], [0, 1], False, "has 3 rows, but y has 2"),
        ({"a": np.ones((2, 1))}, [0, 1], False, "'a' of X is the same in every row: leave it out"),
        ({"a": np.array([[np.nan], [1]])}, [0, 1], False, "'a' of X has NaN"),
        ({}, [0, 1], False, "X has no views"),
        (np.ones((2, 2)), [0, 1], True, "X must have the shape (kernels, 2, 2), got (2, 2)"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(x: object, y: list[int], precomputed: bool, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        BEMKLClassifier(precomputed=precomputed).fit(x, y)


def test_views_must_be_those_of_fit() -> None:
    x, y = views()
    model = BEMKLClassifier(sweeps=2).fit(x, y)
    with pytest.raises(InputError, match=re.escape("X must have the views of fit, with as many columns: {'a': 2")):
        model.predict({"a": x["a"]})


def test_mkgp_needs_unit_diagonals_and_the_machine_five_of_each() -> None:
    with pytest.raises(InputError, match=re.escape("k(x, x) = 1")):
        MKGPClassifier(precomputed=True).fit(2 * kernels(4), labels(4))
    with pytest.raises(InputError, match="at least 5 rows of each class"):
        AverageKernelSVC(precomputed=True).fit(kernels(6), labels(6))
