"""Columns measured with known errors: integrals by quadrature, Monte Carlo, and functions that are known."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from stratagp import NoisyInputRegressor
from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.layers import LatentRows
from stratagp.models import SparseGP
from stratagp.models.random_inputs import RandomInputGP
from stratagp.parameters import real
from stratagp.training.lbfgs import maximise
from stratagp.types import Gaussian

SMALL = {"n_inducing": 12, "max_iterations": 60}


def measured(n=200, error=0.5, function=lambda t: t, seed=0):
    random = np.random.default_rng(seed)
    true = random.normal(size=(n, 1))
    return true + error * random.normal(size=(n, 1)), function(true[:, 0]) + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def line():
    X, y = measured()
    return NoisyInputRegressor(0.5, k.RBF() + k.Linear(), **SMALL).fit(X, y), X, y


def test_the_bound_of_a_line_by_hand():
    """``y = w b``, ``w ~ N(0, 1)``, ``bₙ ~ N(mₙ, s)``: the best independent beliefs, in turns, and the evidence."""
    random = np.random.default_rng(0)
    m, s, noise, n = random.normal(size=15), 0.2, 0.1, 15
    y = 1.5 * (m + math.sqrt(s) * random.normal(size=n)) + math.sqrt(noise) * random.normal(size=n)
    b, v, w, u = m, s, 1.0, 1.0  # means and variances of bₙ and w
    for _ in range(2000):
        v = 1 / (1 / s + (w**2 + u) / noise)
        b = v * (m / s + w * y / noise)
        u = 1 / (1 + (b**2 + v).sum() / noise)
        w = u * (b @ y) / noise
    fit = -0.5 * (n * math.log(2 * math.pi * noise) + ((y**2) - 2 * y * w * b + (w**2 + u) * (b**2 + v)).sum() / noise)
    divergence = 0.5 * (w**2 + u - 1 - math.log(u)) + 0.5 * (((b - m) ** 2 + v) / s - 1 - math.log(v / s)).sum()
    evidence = quad(lambda w: norm.pdf(w) * norm.pdf(y, w * m, math.sqrt(w**2 * s + noise)).prod(), 0, 6, epsabs=0)[0]

    prior = Gaussian(torch.from_numpy(m)[:, None], torch.full((n, 1), s, dtype=torch.float64))
    one = real(torch.ones(1, 1).double(), trainable=False)
    gp = RandomInputGP(LatentRows(torch.zeros(n, 1), 1.0, prior), k.Linear(1.0), one, noise=noise)
    rows, targets = torch.arange(n)[:, None], torch.from_numpy(y)[:, None]
    maximise(lambda: gp.log_evidence(rows, targets), gp.inputs.parameters(), 200)
    bound = gp.log_evidence(rows, targets).item()
    assert bound == pytest.approx(fit - divergence, abs=1e-4)
    assert math.log(evidence) - 1 < bound < math.log(evidence)
    slope = gp.condition(rows, targets).layer.layers[-1](torch.ones(1, 1).double())
    assert slope.mean.item() == pytest.approx(w, rel=1e-3)
    assert slope.var.item() == pytest.approx(u, rel=1e-3)


def test_the_line_of_the_true_column_and_that_of_the_measured_one(line):
    """Slopes of 1 and of ``1/(1 + 0.25)``; what is left over has a variance of 0.2 + 0.01."""
    gp, _, _ = line
    ends = np.array([[-1.0], [1.0]])
    assert np.ptp(gp.with_known_inputs().predict(ends)) == pytest.approx(2.0, abs=0.2)
    assert np.ptp(gp.predict(ends)) == pytest.approx(1.6, abs=0.16)
    _, std = gp.predict(ends, return_std=True)
    np.testing.assert_allclose(std**2, 0.21, rtol=0.2)


def test_predictions_average_over_true_columns(line):
    gp, X, _ = line
    share = 1 - 0.25 / X.var()
    x = X.mean() + share * (1.2 - X.mean())
    true = x + math.sqrt(share * 0.25) * norm.ppf((np.arange(4000) + 0.5) / 4000)
    mean, std = gp.with_known_inputs().predict(true[:, None], return_std=True)
    ours, spread = gp.predict([[1.2]], return_std=True)
    assert ours[0] == pytest.approx(mean.mean(), rel=1e-4)
    assert spread[0] ** 2 == pytest.approx((std**2).mean() + mean.var(), rel=1e-3)
    low, high = gp.predict_interval([[1.2]], 0.8)
    drawn = mean + std * np.random.default_rng(0).normal(size=(50, 4000))
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.9]), [low[0], high[0]], atol=0.01)


def test_known_columns_are_those_of_a_sparse_process():
    X, y = measured(60, 0.0, np.sin)
    gp = NoisyInputRegressor({"x0": 0.0}, **SMALL).fit(X, y)
    last = gp.model_.layer.layers[-1]
    prior = SparseGP(gp.kernel_, last.z.detach(), noise=gp.model_.likelihood.noise.item())
    x, targets = torch.from_numpy(X), torch.from_numpy((y - y.mean()) / y.std())
    expected = prior.condition(x, targets).mean(x).detach().numpy() * y.std() + y.mean()
    np.testing.assert_allclose(gp.predict(X), expected, atol=1e-4)
    assert gp.log_marginal_likelihood() == pytest.approx(
        prior.log_evidence(x, targets).item() - 60 * np.log(y.std()), abs=0.01
    )


def test_columns_by_name_several_targets_and_a_flat_prior():
    X, y = measured(80, 0.4)
    frame = pd.DataFrame({"dose": X[:, 0], "place": np.tile(["a", "b"], 40)})
    gp = NoisyInputRegressor({"dose": 0.4}, truth="flat", n_inducing=8, max_iterations=20)
    gp.fit(frame, np.column_stack([y, -y]))
    assert gp.model_.layer.layers[0].var.tolist() == pytest.approx([0.16, 0, 0])
    mean = gp.predict(frame[:5])
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("std", "message"),
    [
        (-1.0, "input_std must be finite and not negative"),
        ([1.0, 2.0, 3.0], "input_std must have one number for each of 2 columns"),
        ({"weight": 1.0}, "'weight' is no column"),
        ({"dose": 5.0}, "errors of column 'dose' must have a standard deviation below"),
        ({"place": 1.0}, "input_std of a category must be 0"),
        (None, "input_std"),
    ],
)
def test_errors_that_cannot_be(std, message):
    X, y = measured(20)
    frame = pd.DataFrame({"dose": X[:, 0], "place": np.tile(["a", "b"], 10)})
    with pytest.raises(InputError, match=message):
        NoisyInputRegressor(std).fit(frame, y)


def test_a_kernel_without_expectations_is_refused():
    with pytest.raises(UnsupportedError, match="expectation"):
        NoisyInputRegressor(0.1, k.Matern()).fit(*measured(20))


def test_a_column_that_was_set_may_scatter_more_than_its_values_differ():
    random = np.random.default_rng(0)
    X = random.choice([0.0, 1.0, 2.0], (200, 1))
    y = X[:, 0] + random.normal(size=200)  # the line at the true values
    with pytest.raises(InputError, match="truth='flat'"):
        NoisyInputRegressor(1.0, k.Linear(), **SMALL).fit(X, y)
    model = NoisyInputRegressor(1.0, k.Linear(), truth="flat", **SMALL).fit(X, y)
    assert 0.5 < (model.predict([[2.0]]) - model.predict([[0.0]])).item() < 2.0  # the bound thinks it flatter


def test_one_error_for_all_leaves_categories_out_and_a_series_goes_by_names():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=40), "c": random.normal(size=40)})
    kinds = frame.assign(kind=np.tile(["one", "two"], 20))
    y = frame.a + frame.c
    quick = {"n_inducing": 5, "max_iterations": 2}
    of_kinds = NoisyInputRegressor(0.3, **quick).fit(kinds, y)
    assert of_kinds._input_std().tolist() == pytest.approx([0.3, 0.3, 0.0, 0.0])
    named = NoisyInputRegressor(pd.Series({"c": 0.0, "a": 0.3}), **quick).fit(frame, y)
    assert named._input_std().tolist() == pytest.approx([0.3, 0.0])
