"""The collapsed bounds against dense algebra, long double arithmetic, finite differences and GPyTorch."""

import math
import warnings

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp import means
from stratagp.linalg import gram
from stratagp.objectives import log_evidence
from stratagp.objectives.collapsed import fitc, nystrom, sgpr, upper_bound

BOUNDS = {"sgpr": sgpr, "fitc": fitc, "nystrom": nystrom, "upper": upper_bound}


def data(n=30, m=6, d=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = x[:, 0].sin() + 0.3 * x[:, 1] + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, y, x[:m] + 0.1


def kernel():
    return k.RBF([0.8, 1.5], 1.7) + k.Linear(0.3)


def dense(name, kernel, z, mean, noise, x, y):
    """The definitions, with n × n matrices."""
    kxz = kernel(x, z)
    q = kxz @ torch.linalg.solve(kernel(z), kxz.mT)
    missing = kernel(x).diagonal() - q.diagonal()
    eye, r = torch.eye(len(x), dtype=x.dtype), y - mean(x)
    sigma = torch.diag(noise.expand(len(x)))
    covariance = q + sigma + (torch.diag(missing) if name == "fitc" else 0)
    inside = q + sigma + missing.sum() * eye if name == "upper" else covariance
    value = -0.5 * (torch.logdet(2 * math.pi * covariance) + r @ torch.linalg.solve(inside, r))
    return value - 0.5 * (missing / noise).sum() if name == "sgpr" else value


def gradients(bound, kernel, z, mean, noise, x, y, **options):
    leaves = [noise.clone().requires_grad_(), z.clone().requires_grad_(), *kernel.parameters(), *mean.parameters()]
    value = bound(kernel, leaves[1], mean, leaves[0], x, y, **options)
    return value.detach(), torch.autograd.grad(value, leaves)


@pytest.mark.parametrize("noise", [torch.tensor(0.05), torch.linspace(0.01, 0.2, 30)], ids=["one", "each"])
@pytest.mark.parametrize("name", BOUNDS)
def test_value_and_gradient_agree_with_dense_algebra(name, noise):
    x, y, z = data()
    model = kernel(), z, means.Constant(0.1), noise.double(), x, y
    ours = gradients(BOUNDS[name], *model, chunk=7)
    truth = gradients(lambda *given: dense(name, *given), *model)
    torch.testing.assert_close(ours, truth, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("keep", [0, 2**25])
@pytest.mark.parametrize("name", BOUNDS)
def test_the_chunk_changes_nothing(name, keep, monkeypatch):
    monkeypatch.setattr(gram, "KEEP", keep)
    x, y, z = data()
    model = kernel(), z, means.Constant(0.2), torch.tensor(0.05, dtype=torch.float64), x, y
    first, *others = [gradients(BOUNDS[name], *model, chunk=chunk) for chunk in (30, 1, 7, None)]
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", BOUNDS)
def test_gradcheck_in_data_points_and_noise(name):
    x, y, z = data(n=9, m=3)
    inputs = [t.requires_grad_() for t in (z, torch.tensor(0.3, dtype=torch.float64), x.clone(), y)]
    zero = means.Zero()
    assert torch.autograd.gradcheck(lambda z, s, x, y: BOUNDS[name](kernel(), z, zero, s, x, y, 4), inputs, atol=1e-6)


def test_a_kernel_without_closed_diagonal_and_fixed_parameters():
    class Tilted(k.Kernel):
        """An exponential kernel times 1 + x z, with everything but forward inherited."""

        def __init__(self):
            super().__init__()
            self.inner = k.Exponential(2.0)

        def forward(self, x, z):
            return self.inner(x, z) * (1 + x[..., :1] @ z[..., :1].mT)

    x, y, z = data()
    kernel = Tilted()
    model = kernel, z, means.Constant(0.0), torch.tensor(0.1, dtype=torch.float64), x, y
    torch.testing.assert_close(
        gradients(sgpr, *model, chunk=11), gradients(lambda *g: dense("sgpr", *g), *model), rtol=1e-8, atol=1e-8
    )
    kernel.inner.parameter("variance").raw.requires_grad_(False)
    noise = model[3].clone().requires_grad_()
    sgpr(kernel, z, model[2], noise, x, y).backward()
    assert kernel.inner.parameter("variance").raw.grad is None
    assert kernel.inner.parameter("lengthscale").raw.grad.abs() > 0
    del k.base.registry[next(name for name in k.base.registry if name.endswith("Tilted"))]


def test_the_bounds_enclose_the_evidence_and_meet_it_where_z_is_x():
    x, y, _ = data()
    mean, noise = means.Zero(), torch.tensor(0.05, dtype=torch.float64)
    exact = log_evidence(kernel(), mean, noise, x, y).item()
    gaps = []
    for m in (2, 5, 10, 20):
        low, high = (bound(kernel(), x[:m], mean, noise, x, y).item() for bound in (sgpr, upper_bound))
        assert low < exact < high
        gaps.append(high - low)
    assert gaps == sorted(gaps, reverse=True)
    for bound in BOUNDS.values():
        assert bound(kernel(), x, mean, noise, x, y).item() == pytest.approx(exact, abs=1e-6)


def test_duplicate_inducing_points_get_jitter_and_stay_a_bound():
    x, y, z = data()
    mean, noise = means.Zero(), torch.tensor(0.05, dtype=torch.float64)
    once = sgpr(kernel(), z, mean, noise, x, y).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether rounding makes the matrix singular depends on the machine
        twice = sgpr(kernel(), torch.cat([z, z]), mean, noise, x, y).item()
    assert twice == pytest.approx(once, abs=1e-5)


# --- clustered inducing points and little noise: long double arithmetic is the truth ---


def long_cholesky(a):
    factor = np.zeros_like(a)
    for j in range(len(a)):
        factor[j, j] = np.sqrt(a[j, j] - (factor[j, :j] ** 2).sum())
        factor[j + 1 :, j] = (a[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j]) / factor[j, j]
    return factor


def long_solve(factor, b):
    b = b.copy()
    for i in range(len(factor)):
        b[i] = (b[i] - factor[i, :i] @ b[:i]) / factor[i, i]
    return b


def long_sgpr(x, z, y, lengthscale, noise):
    covariance = lambda x, z: np.exp(-0.5 * ((x[:, None] - z) / lengthscale) ** 2)  # noqa: E731
    a = long_solve(long_cholesky(covariance(z, z)), covariance(z, x))
    inner = long_cholesky(np.eye(len(z)) + a @ a.T / noise)
    white = long_solve(inner, a @ y / noise)
    log_det = 2 * np.log(inner.diagonal()).sum() + len(x) * np.log(2 * np.pi * noise)
    return -0.5 * (log_det + y @ y / noise - white @ white + (len(x) - (a**2).sum()) / noise)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long double is no longer than double here")
@pytest.mark.parametrize(("gap", "value_error", "slope_error"), [(0.07, 1e-10, 1e-5), (0.02, 1e-8, 1e-4)])
def test_accuracy_with_clustered_points_and_little_noise(gap, value_error, slope_error):
    """Condition numbers of Kzz 1e8 and 1e10: unwhitened sums err by 3e-6 and 8e-4, their slopes by 3e-4 and 5e-2."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 300))
    y = np.sin(x) + 0.1 * rng.normal(size=300)
    z = np.concatenate([np.linspace(0, 6, 6) + gap * i for i in range(3)])
    wide = [part.astype(np.longdouble) for part in (x, z, y)]
    truth, up, down = (long_sgpr(*wide, np.longdouble(0.7) * np.exp(s), np.longdouble(1e-4)) for s in (0, 1e-5, -1e-5))
    rbf = k.RBF(0.7)
    x, z, y = (torch.from_numpy(part) for part in (x[:, None], z[:, None], y))
    value = sgpr(rbf, z, means.Zero(), torch.tensor(1e-4, dtype=torch.float64), x, y)
    value.backward()
    assert value.item() == pytest.approx(float(truth), rel=value_error)
    assert rbf.parameter("lengthscale").raw.grad.item() == pytest.approx(float(up - down) / 2e-5, rel=slope_error)


@pytest.mark.peer
def test_bound_agrees_with_gpytorch():
    gpytorch = pytest.importorskip("gpytorch")
    x, y, z = data(60, 8)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.base = gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel()
            self.base.lengthscale = 0.9
            self.kernel = gpytorch.kernels.InducingPointKernel(self.base, z.clone(), likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model = Model(gpytorch.likelihoods.GaussianLikelihood()).double()
    model.likelihood.noise = 0.05
    with gpytorch.settings.cholesky_jitter(double_value=1e-10), torch.no_grad():
        theirs = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(x), y) * len(x)
    ours = sgpr(k.RBF(0.9), z, means.Zero(), torch.tensor(0.05, dtype=torch.float64), x, y)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
