import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.training import maximise


def data(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=n)


def test_posterior_and_evidence_agree_with_scikit_learn():
    x, y = data()
    new = np.random.default_rng(1).normal(size=(7, 2))
    theirs = GaussianProcessRegressor(1.7 * sk.RBF([0.8, 1.5]), alpha=0.05, optimizer=None).fit(x, y)
    gp = ExactGP(k.RBF([0.8, 1.5], 1.7), noise=0.05)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    assert gp.log_evidence(tx, ty).item() == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-9)
    belief = gp.condition(tx, ty).marginals(torch.from_numpy(new))
    mean, std = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(belief.mean[:, 0].numpy(), mean, atol=1e-8)
    np.testing.assert_allclose(belief.var[:, 0].sqrt().numpy(), std, atol=1e-7)


def test_mean_function_is_added_back():
    x, y = (torch.from_numpy(part) for part in data())
    gp = ExactGP(k.RBF(0.1), means.Linear([0.5, -0.3], 2.0), noise=1e-6)
    far = torch.tensor([[50.0, 10.0]], dtype=torch.float64)
    assert gp.condition(x, y).marginals(far).mean.item() == pytest.approx(0.5 * 50 - 3.0 + 2.0, abs=1e-9)


def test_components_of_a_sum_add_up():
    x, y = (torch.from_numpy(part) for part in data())
    parts = [k.RBF(0.7), k.Linear(0.5)]
    posterior = ExactGP(parts[0] + parts[1], noise=0.05).condition(x, y)
    whole = posterior.marginals(x[:5]).mean
    torch.testing.assert_close(sum(posterior.component(p, x[:5]).mean for p in parts), whole, rtol=1e-9, atol=1e-9)


def test_maximised_evidence_is_not_below_scikit_learns():
    x, y = data(60)
    kernel = sk.ConstantKernel() * sk.RBF([1.0, 1.0]) + sk.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, n_restarts_optimizer=0).fit(x, y)
    gp = ExactGP(k.RBF(ard=2), noise=0.1)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    result = maximise(lambda: gp.log_evidence(tx, ty), gp.parameters())
    assert result.value >= theirs.log_marginal_likelihood_value_ - 1e-3
    assert gp.log_evidence(tx, ty).item() == pytest.approx(result.value, rel=1e-10)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3), torch.zeros(3), r"x must be \(n, d\)"),
        (torch.zeros(3, 1), torch.zeros(4), r"got \(3, 1\) and \(4,\)"),
        (torch.tensor([[0.0], [torch.nan]]), torch.zeros(2), "x has NaN or infinite values, the first in row 1"),
        (torch.zeros(2, 1), torch.tensor([torch.inf, 0.0]), "y has NaN or infinite values, the first in row 0"),
    ],
)
def test_bad_data_is_named(x, y, message):
    with pytest.raises(InputError, match=message):
        ExactGP(k.RBF()).condition(x, y)
