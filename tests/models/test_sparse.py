"""Sparse regression against the exact process, dense algebra and the exact evidence."""

import warnings

import pytest
import torch

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import ConvergenceWarning, InputError
from stratagp.linalg import gram
from stratagp.models.sparse import SparseGP
from stratagp.training import maximise


def data(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=generator, dtype=torch.float64) * 3
    y = (2 * x[:, 0]).sin() + 0.5 * x[:, 1] + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, y, torch.rand(9, 2, generator=generator, dtype=torch.float64) * 3.5


@pytest.mark.parametrize("bound", ["sgpr", "fitc", "nystrom"])
def test_with_every_row_inducing_it_is_the_exact_process(bound):
    x, y, new = data(40)
    mean = means.Constant(0.7)
    exact = ExactGP(k.RationalQuadratic(0.9, variance=1.3), mean, noise=0.04)
    sparse = SparseGP(k.RationalQuadratic(0.9, variance=1.3), x, mean, noise=0.04, bound=bound)
    truth, ours = exact.condition(x, y).marginals(new), sparse.condition(x, y).marginals(new)
    torch.testing.assert_close(ours.mean, truth.mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(ours.var, truth.var, rtol=0, atol=1e-6)
    for score in (sparse.log_evidence, sparse.upper_bound):
        assert score(x, y).item() == pytest.approx(exact.log_evidence(x, y).item(), abs=1e-6)


@pytest.mark.parametrize("bound", ["sgpr", "fitc", "nystrom"])
def test_rows_that_come_and_go(bound):
    """Added in two parts and taken away again: the process given the rows that are left."""
    x, y, new = data()
    noise = torch.linspace(0.02, 0.2, 60, dtype=torch.float64)
    gp = SparseGP(k.RBF([0.8, 1.4], 1.5), x[:12] + 0.05, means.Constant(0.3), noise=0.05, bound=bound)
    parts = [slice(0, 20), slice(20, 45), slice(45, 60)]
    found = gp.condition(x[:20], y[:20], noise[:20])
    for part in parts[1:]:
        found = found.condition(x[part], y[part], noise[part])
    whole = gp.condition(x, y, noise)
    torch.testing.assert_close(found.covariance(new), whole.covariance(new), rtol=0, atol=1e-9)
    torch.testing.assert_close(found.mean(new), whole.mean(new), rtol=0, atol=1e-9)
    found, left = found.without(x[20:45], y[20:45], noise[20:45]), torch.cat([torch.arange(20), torch.arange(45, 60)])
    some = gp.condition(x[left], y[left], noise[left])
    torch.testing.assert_close(found.covariance(new), some.covariance(new), rtol=0, atol=1e-8)
    torch.testing.assert_close(found.mean(new), some.mean(new), rtol=0, atol=1e-8)
    with pytest.raises(InputError, match="were not given before"):
        found.without(x[20:45], y[20:45], noise[20:45])


@pytest.mark.parametrize("bound", ["sgpr", "fitc", "nystrom"])
def test_predictions_agree_with_dense_conditioning(bound):
    """FITC: condition the joint with covariance Q but its exact diagonal; SGPR: with the diagonal of Q itself."""
    x, y, new = data()
    kernel, z, noise = k.RBF([0.8, 1.4], 1.5), x[:12] + 0.05, 0.03
    kxz, kz, kstar = kernel(x, z), kernel(z), kernel(new, z)
    q, cross = kxz @ torch.linalg.solve(kz, kxz.mT), kstar @ torch.linalg.solve(kz, kxz.mT)
    extra = (kernel(x) - q).diagonal() if bound == "fitc" else torch.zeros(len(x), dtype=torch.float64)
    inverse = torch.linalg.inv(q + torch.diag(extra + noise))
    belief = SparseGP(kernel, z, noise=noise, bound=bound, chunk=7).condition(x, y).marginals(new)
    torch.testing.assert_close(belief.mean[:, 0], cross @ inverse @ y, rtol=1e-8, atol=1e-8)
    variance = kernel.diag(new) - ((cross @ inverse) * cross).sum(1)
    torch.testing.assert_close(belief.var[:, 0], variance, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bound", ["sgpr", "fitc", "nystrom"])
def test_tiny_noise_and_clustered_points_stay_sound(bound):
    x, _, new = data()
    y = (2 * x[:, 0]).sin()
    z = torch.cat([x[:20], x[:20] + 1e-4])
    gp = SparseGP(k.RBF(0.8), z, noise=1e-8, bound=bound)
    belief = gp.condition(x, y).marginals(new)
    assert bool(belief.var.ge(0).all())
    assert bool(belief.mean.isfinite().all())
    assert gp.log_evidence(x, y).isfinite()


def test_prediction_holds_a_chunk_at_a_time(monkeypatch):
    x, y, new = data()
    seen = []
    watched = lambda rows, factor: seen.append(len(rows)) or gram.whiten(rows, factor)  # noqa: E731
    monkeypatch.setattr("stratagp.models.sparse.whiten", watched)
    posterior = SparseGP(k.RBF(0.8), x[:10], chunk=4).condition(x, y)
    whole = posterior.marginals(new)
    assert max(seen) == 4
    torch.testing.assert_close(whole.mean[5:6], posterior.marginals(new[5:6]).mean, rtol=1e-12, atol=1e-12)


def test_a_posterior_does_not_follow_later_training():
    x, y, new = data()
    gp = SparseGP(k.RBF(0.8), x[:10])
    posterior = gp.condition(x, y)
    before = posterior.marginals(new).mean
    gp.z = x[10:20]
    torch.testing.assert_close(posterior.marginals(new).mean, before)


def test_training_raises_the_bound_towards_the_evidence():
    x, y, _ = data()
    gp = SparseGP(k.RBF(ard=2), x[:15], noise=0.1)
    start = gp.log_evidence(x, y).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the inducing points may creep for long
        result = maximise(lambda: gp.log_evidence(x, y), gp.parameters(), max_iterations=60)
    exact = ExactGP(gp.kernel, noise=gp.noise.item()).log_evidence(x, y).item()
    assert start + 10 < result.value <= exact + 1e-8
    assert exact - result.value < 1.0
    assert gp.upper_bound(x, y).item() >= exact - 1e-8


def test_inducing_points_can_be_fixed():
    x, y, _ = data()
    gp = SparseGP(k.RBF(), x[:5])
    gp.parameter("z").raw.requires_grad_(False)
    gp.log_evidence(x, y).backward()
    assert gp.parameter("z").raw.grad is None
    assert gp.parameter("noise").raw.grad.abs() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound": "vfe"}, "bound must be one of sgpr, fitc, nystrom, got 'vfe'"),
        ({"chunk": 0}, "chunk must be at least 1 row"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(InputError, match=message):
        SparseGP(k.RBF(), torch.zeros(3, 1), **options)


def test_bad_points_are_named():
    gp = SparseGP(k.RBF(), torch.zeros(3, 1))
    with pytest.raises(InputError, match=r"z must have shape \(m, 2\), m ≥ 1, with the columns of x; got \(3, 1\)"):
        gp.log_evidence(torch.zeros(4, 2), torch.zeros(4))
    with pytest.raises(InputError, match="y has NaN or infinite values, the first in row 1"):
        gp.condition(torch.zeros(2, 1), torch.tensor([0.0, torch.nan]))
