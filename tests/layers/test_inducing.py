"""The inducing layer against dense algebra, its own draws, and itself in another precision."""

import pytest
import torch

from stratagp import ExactGP, means
from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Inducing
from stratagp.layers.inducing import in_precision
from stratagp.likelihoods import GaussianNoise
from stratagp.linalg import cholesky
from stratagp.objectives.elbo import elbo
from stratagp.parameters import real
from stratagp.posteriors import FullGaussian
from stratagp.testing import check_layer
from stratagp.training.natural_gradient import natural_step
from tests.posteriors.test_gaussian import moved

G = torch.Generator().manual_seed(0)
X = torch.randn(6, 2, generator=G, dtype=torch.float64)
Z = torch.randn(5, 2, generator=G, dtype=torch.float64)
OWN = torch.randn(2, 5, 2, generator=G, dtype=torch.float64)
MEAN = means.Polynomial([0.5, -1.0], 0.3)


def rbf(q=None):
    kernel = k.RBF([0.8, 1.3], variance=1.5)
    return kernel if q is None else kernel.replicate(q).set(variance=[1.5, 0.7])


LAYERS = {
    "shared": lambda: Inducing(rbf(), Z, moved(5, 2)),
    "own kernels": lambda: Inducing(rbf(2), Z, moved(5, 2)),
    "own points": lambda: Inducing(rbf(), OWN, moved(5, 2)),
    "all own, with a mean": lambda: Inducing(rbf(2), OWN, moved(5, 2), MEAN),
    "much jitter": lambda: Inducing(k.Matern(2.5, variance=1.0), Z, moved(5, 1), jitter=0.1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_check(name):
    check_layer(LAYERS[name](), X, n_draws=250)


@pytest.mark.parametrize("name", LAYERS)
def test_marginals_agree_with_dense_algebra(name):
    layer = LAYERS[name]()
    belief = layer(X)
    q, m = layer.posterior.shape
    with torch.no_grad():
        kzz, kzx, kxx = (
            t.expand(q, *t.shape[-2:]) for t in (layer.kernel(layer.z), layer.kernel(layer.z, X), layer.kernel(X))
        )
        kzz = kzz + layer.jitter * kzz[:, 0, 0, None, None] * torch.eye(m)
        for j in range(q):
            factor = cholesky(kzz[j])
            s = layer.posterior.scale[j].tril()
            weights = torch.linalg.solve(kzz[j], kzx[j])
            mean = weights.mT @ (factor @ layer.posterior.mean[j]) + layer.mean(X)
            inner = factor @ s @ s.mT @ factor.mT - kzz[j]
            torch.testing.assert_close(belief.mean[:, j], mean, rtol=0, atol=1e-9)
            torch.testing.assert_close(
                belief.var[:, j], (kxx[j] + weights.mT @ inner @ weights).diagonal(), rtol=0, atol=1e-9
            )


def test_all_points_and_the_optimal_posterior_are_the_exact_process():
    x = 2 * torch.rand(30, 2, generator=G, dtype=torch.float64)
    y, noise = torch.sin(3 * x.sum(1)), 0.05
    layer = Inducing(k.RBF(0.5, variance=1.0), x, jitter=0.0)
    with torch.no_grad():
        root = layer.factor()
        precision = torch.eye(30) + root.mT @ root / noise
        covariance = torch.linalg.inv(precision)
        layer.posterior.mean.copy_((covariance @ root.mT @ y / noise)[None])
        layer.posterior.scale.copy_(cholesky(covariance)[None])
    exact = ExactGP(k.RBF(0.5, variance=1.0), noise=noise).condition(x, y).marginals(X)
    torch.testing.assert_close(tuple(layer(X)), tuple(exact), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [
        k.RBF(2.0, variance=1.0),
        k.Matern(1.5, 2.0, variance=1.0) + k.Linear(0.5).on(0),
        k.ArcCosine(degree=1, depth=2),
        k.RBF(2.0, variance=1.0).warp(torch.nn.Sequential(torch.nn.Linear(2, 3).double(), torch.nn.Tanh())),
    ],
    ids=["rbf", "sum", "arc-cosine", "network"],
)
def test_single_precision_is_near_double(kernel):
    g = torch.Generator().manual_seed(1)
    z, x = (torch.randn(n, 2, generator=g, dtype=torch.float64) for n in (100, 200))  # Kzz is singular but for jitter
    y = torch.sin(2 * x[:, :1])
    layer, likelihood = Inducing(kernel, z, mean=MEAN), GaussianNoise(0.01)
    (-elbo(layer, likelihood, x.float(), y.float()).value).backward()
    natural_step(layer.posterior)
    double, single = layer(x), layer(x.float())
    assert single.mean.dtype == single.var.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(single.var.double(), double.var, rtol=0, atol=1e-3)


def test_gradients_of_single_precision_reach_the_parameters():
    layer = LAYERS["all own, with a mean"]()
    gradients = []
    for x in (X, X.float()):
        layer.zero_grad()
        belief = layer(x)
        (belief.mean.sum() + belief.var.log().sum()).backward()
        gradients.append({name: p.grad for name, p in layer.named_parameters()})
    for name, double in gradients[0].items():
        assert gradients[1][name].dtype == torch.float64
        torch.testing.assert_close(gradients[1][name], double, rtol=1e-3, atol=1e-3 * double.abs().max().item())


def test_a_cast_call_leaves_the_module_as_it_was():
    kernel = k.RBF(0.5, variance=1.0)
    before = {name: id(p) for name, p in kernel.named_parameters()}
    with pytest.raises(InputError):
        in_precision(kernel, torch.float32, torch.zeros(3))
    assert in_precision(kernel, torch.float32, torch.zeros(3, 1)).dtype == torch.float32
    assert {name: id(p) for name, p in kernel.named_parameters()} == before
    assert kernel(torch.zeros(1, 1)).dtype == torch.float64


def test_a_known_factor_and_a_model_moved_to_single_precision():
    layer = LAYERS["shared"]()
    torch.testing.assert_close(tuple(layer(X, layer.factor())), tuple(layer(X)), rtol=0, atol=0)
    small = LAYERS["shared"]().float()
    assert small.factor().dtype == small.kl().dtype == torch.float64
    torch.testing.assert_close(small(X).mean, layer(X).mean, rtol=0, atol=1e-4)


def test_a_draw_does_not_change_when_the_layer_is_trained():
    layer = LAYERS["all own, with a mean"]()
    function = layer.draw(torch.Generator().manual_seed(0))
    before = function(X)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1)
    assert torch.equal(function(X), before)
    assert not before.requires_grad
    assert function(X.float()).dtype == torch.float32


def test_inducing_points_can_be_fixed():
    layer = Inducing(rbf(), real(Z, trainable=False))
    layer(X).mean.sum().backward()
    assert all("z" not in name for name, p in layer.named_parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Inducing(rbf(), Z[0]), "inducing points"),
        (lambda: Inducing(rbf(), Z, FullGaussian(4)), "5 points"),
        (lambda: Inducing(rbf(2), Z, FullGaussian(5, 3)), "2"),
        (lambda: Inducing(rbf(2), OWN[:1]), "points for 1"),
        (lambda: Inducing(rbf(), Z, FullGaussian(5, 2), functions=3), "say 3"),
        (lambda: Inducing(rbf(), Z, jitter=-1.0), "jitter"),
        (lambda: Inducing(rbf(), Z)(X[:, :1]), "columns"),
        (lambda: Inducing(k.PairFunction(lambda a, b: 1.0), Z), "cached"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
