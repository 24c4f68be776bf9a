"""The factor of many rows in place, in single precision too, beside dense algebra in double precision."""

import numpy as np
import pytest
import torch

from stratagp import ExactGP, GPRegressor, means
from stratagp import kernels as k
from stratagp.errors import InputError, NotPositiveDefiniteError, NumericalWarning
from stratagp.linalg import blocked
from stratagp.models import exact, noisy_covariance
from stratagp.models.noisy_covariance import NoisyCovariance
from stratagp.recipes import exact as recipe

N, D = 900, 3


def data(n=N, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, D))
    return x, np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=n)


def covariance(noise, n=N):
    x, y = (torch.from_numpy(part) for part in data(n))
    kernel = k.Matern(nu=2.5, lengthscale=[1.0, 2.0, 3.0], variance=4.0).requires_grad_(False)
    return NoisyCovariance(kernel, x, torch.full((n,), noise, dtype=torch.float64)), y


def dense(c):
    return c.kernel(c.x) + torch.diag(c.noise)


@pytest.fixture(params=[torch.float64, torch.float32], ids=["double", "single"])
def many(request, monkeypatch):
    """Six hundred rows are many, and their factor is in one precision or the other."""
    for module in (exact, recipe):
        monkeypatch.setattr(module, "LARGE_ROWS", 600)
    monkeypatch.setattr(noisy_covariance, "DOUBLE_ROWS", 0 if request.param == torch.float32 else 10_000)
    monkeypatch.setattr(noisy_covariance, "_CHUNK", 200 * N)
    return request.param


def test_products(monkeypatch):
    monkeypatch.setattr(noisy_covariance, "_CHUNK", 7 * 50)
    c, _ = covariance(0.3, n=50)
    v = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(c @ v, dense(c) @ v, rtol=1e-12, atol=1e-12)


def test_the_diagonal_of_an_inverse(monkeypatch):
    monkeypatch.setattr(blocked, "block_size", lambda n: 7)
    c, _ = covariance(0.1, n=40)
    u = dense(c)
    blocked.factor_(u)
    torch.testing.assert_close(blocked.inverse_diagonal(u), dense(c).inverse().diagonal(), rtol=1e-9, atol=0)


def test_work_is_told():
    c, _ = covariance(0.1, n=40)
    told = []
    blocked.factor_(dense(c), block=10, tell=told.append)
    torch.testing.assert_close(torch.tensor(told), torch.tensor([0.15625, 0.5, 0.84375, 1.0]))


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 4e-4])
def test_single_precision_is_good_enough(noise):
    """Mean and variance at new points within 1e-4 of the deviation of an observation: here 10 to 100 times better."""
    c, y = covariance(noise)
    factor, alpha = c.in_single(y[:, None])
    assert factor.dtype == torch.float32
    new = torch.from_numpy(data(200, seed=1)[0])
    cross, full = c.kernel(c.x, new), dense(c)
    exactly = torch.linalg.solve(full, torch.cat([y[:, None], cross], 1))
    var = c.kernel.diag(new) - (cross * exactly[:, 1:]).sum(0)
    ours = c.kernel.diag(new) - c.whiten(factor, cross).square().sum(0)
    off = (cross.mT @ (alpha[:, 0] - exactly[:, 0])).abs() / (var + noise).sqrt()
    assert off.max() < 1e-5
    assert off.max() <= (y - full @ alpha[:, 0]).norm() / noise**0.5  # the bound
    assert ((ours - var).abs() / (var + noise)).max() < 2e-5


def test_what_single_precision_cannot_do_is_refused():
    c, y = covariance(1e-7)
    with pytest.raises(NotPositiveDefiniteError, match=r"900 rows is too ill-conditioned: .* for double precision"):
        c.in_single(y[:, None])
    c, y = covariance(0.0)
    with pytest.raises(NotPositiveDefiniteError, match="some rows have no noise"):
        c.in_single(y[:, None])


def test_refinement_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr(noisy_covariance, "_MEAN_ERROR", 1e-30)
    c, y = covariance(0.1)
    with pytest.raises(NotPositiveDefiniteError, match="refinement from single precision does not converge"):
        c.in_single(y[:, None])


def test_precision_follows_size_and_memory(monkeypatch):
    c, y = covariance(1e-7)
    easy, _ = covariance(0.1)
    assert c.factor(y[:, None])[0].dtype == torch.float64
    monkeypatch.setattr(noisy_covariance, "DOUBLE_ROWS", 0)
    assert easy.factor(y[:, None])[0].dtype == torch.float32
    assert c.factor(y[:, None])[0].dtype == torch.float64  # single precision was not good enough
    monkeypatch.setattr(noisy_covariance, "fits", lambda n, copies, size: size < 8)
    assert easy.factor(y[:, None])[0].dtype == torch.float32
    with pytest.raises(NotPositiveDefiniteError, match="ill-conditioned"):
        c.factor(y[:, None])


def test_jitter_in_double_precision():
    x = torch.zeros(3, 1, dtype=torch.float64)
    c = NoisyCovariance(k.RBF().requires_grad_(False), x, torch.zeros(3, dtype=torch.float64))
    with pytest.warns(NumericalWarning, match="1e-10 of its mean diagonal"):
        c.in_double(torch.ones(3, 1, dtype=torch.float64))


def test_all_questions(many):
    """Those of a posterior of many rows, beside the same of few: relative to deviations, to 1e-4."""
    x, y = data()
    gp = ExactGP(k.Matern(nu=2.5, lengthscale=[1.0, 2.0, 3.0]), means.Constant(0.3), noise=0.01)
    ours = gp.condition(x[:800], y[:800])
    assert ours.factor.dtype == many
    limit, exact.LARGE_ROWS = exact.LARGE_ROWS, 10_000
    truth = gp.condition(x[:800], y[:800])
    exact.LARGE_ROWS = limit
    new, close = torch.from_numpy(x[800:810]), {"rtol": 1e-4, "atol": 1e-6}
    torch.testing.assert_close(ours.mean(new), truth.mean(new), **close)
    for a, b in ((ours, truth), (ours.condition(x[800:], y[800:]), truth.condition(x[800:], y[800:]))):
        torch.testing.assert_close(a.marginals(new), b.marginals(new), **close)
        torch.testing.assert_close(a.covariance(new, new[:3]), b.covariance(new, new[:3]), **close)
        torch.testing.assert_close(a.leave_one_out(), b.leave_one_out(), **close)
        torch.testing.assert_close(a.log_evidence(), b.log_evidence(), rtol=1e-6, atol=1e-2)
        torch.testing.assert_close(a.gradient(new[:2]), b.gradient(new[:2]), rtol=1e-3, atol=1e-4)
    drawn = [p.draw(50, torch.Generator().manual_seed(0))(new) for p in (ours, ours)]
    torch.testing.assert_close(*drawn)
    points = new.clone().requires_grad_()
    slopes = [torch.autograd.grad(p.variance(points).sum(), points)[0] for p in (ours, truth)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-5)


def test_estimator(many):
    """Values come from conditionals, answers from all rows, in the order of the data."""
    X, y = data(700)
    gp = GPRegressor(k.RBF(ard=True), inference="exact", n_restarts=0, max_iterations=10, random_state=0).fit(X, y)
    posterior = gp.fitted_.draws[0][0].process
    assert (gp.inference_, posterior.factor.dtype) == ("exact", many)
    data_ = gp.fitted_.data
    truth = gp.model_.log_evidence(data_.x, data_.y[:, 0]).item()
    assert posterior.log_evidence().item() == pytest.approx(truth, rel=1e-6)
    assert gp.log_marginal_likelihood() == pytest.approx(posterior.log_evidence().item() - gp._log_unit())
    mean, var = gp.fitted_.leave_one_out()
    rest = gp.model_.condition(data_.x[1:], data_.y[1:, 0]).marginals(data_.x[:1])
    assert mean[0, 0] == pytest.approx(rest.mean.item(), abs=1e-4)
    assert var[0, 0] == pytest.approx(rest.var.item() + gp.model_.noise.item(), rel=1e-3)
    assert all(np.isfinite(row.std) for row in gp.hyperparameters_.rows)


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
def test_values_of_some_rows(many):
    """Leave-one-out densities are of some rows; answers come from all."""
    X, y = data(700)
    gp = GPRegressor(k.RBF(), inference="exact", hyperparameters="loo", n_restarts=0, max_iterations=3).fit(X, y)
    assert len(gp.fitted_.draws[0][0].process.alpha) == 700


def test_a_covariance_without_factor_leaves_vecchia(many, monkeypatch):
    monkeypatch.setattr(NoisyCovariance, "factor", lambda self, b, progress: (_ for _ in ()).throw(self._refusal("so")))
    X, y = data(700)
    with pytest.warns(NumericalWarning, match="each prediction comes from the nearest rows: .*ill-conditioned"):
        gp = GPRegressor(k.RBF(), inference="exact", n_restarts=0, max_iterations=3).fit(X, y)
    assert gp.inference_ == "vecchia"
    assert gp.inference_reason_ == "the covariance of all rows could not be factored"
    assert gp.score(X, y) > 0.9


def test_memory_is_asked_for_before_values_are_learnt(many, monkeypatch):
    monkeypatch.setattr("stratagp.models.memory.fits", lambda n, copies, size: False)
    X, y = data(700)
    with pytest.raises(InputError, match=r"the exact process on 700 rows needs .*inference='vecchia'"):
        GPRegressor(inference="exact").fit(X, y)
