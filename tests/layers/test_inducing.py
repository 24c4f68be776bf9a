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
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=0, atol=4e-3)
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


def precision_case(spacing, q=None):
    """A layer with points on a grid that many lengthscales apart, a posterior that is not the prior, and rows."""
    g = torch.Generator().manual_seed(2)
    z = spacing * torch.cartesian_prod(*[torch.arange(5, dtype=torch.float64)] * 2)
    x = 4 * spacing * torch.rand(80, 2, generator=g, dtype=torch.float64)
    kernel = k.RBF([0.9, 1.1], variance=1.4)
    kernel = kernel if q is None else kernel.replicate(q).set(variance=[1.4, 0.6])
    points = z if q is None else z.expand(q, -1, -1).clone()
    layer = Inducing(kernel, points, moved(25, q or 1), MEAN, jitter=3e-5)
    with torch.no_grad():
        layer.posterior.mean.mul_(0.3)
    return layer, x


def gradients_of(layer, x):
    layer.zero_grad()
    belief = layer(x)
    (belief.mean.square().mean() + belief.var.log().mean()).backward()
    return {name: p.grad.clone() for name, p in layer.named_parameters()}


@pytest.mark.parametrize("q", [None, 2])
@pytest.mark.parametrize(("spacing", "kept"), [(1.0, torch.float32), (0.3, torch.float64)])
def test_the_precision_of_the_inducing_points_is_chosen_by_their_pivots(spacing, kept, q):
    layer, x = precision_case(spacing, q)
    kzz, inverse, _ = layer._whitening(torch.float32)
    assert (kzz.dtype, inverse.dtype) == (kept, torch.float32)
    pivots = layer.factor().diagonal(dim1=-2, dim2=-1).square().amin(-1) / layer.kernel.diag(layer.z).mean(-1)
    assert bool((pivots >= 1e-3).all()) == (kept == torch.float32)
    assert layer._whitening(torch.float64)[0].dtype == torch.float64
    # where a pivot may be a thousandth, rounding is amplified by thirty at the most; where it is jitter, by two hundred
    tolerance = 2e-5 if kept == torch.float32 else 2e-4
    for single, double in zip(layer(x.float()), layer(x), strict=True):
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=0, atol=tolerance)
    truth, found = gradients_of(layer, x), gradients_of(layer, x.float())
    for name, gradient in truth.items():
        error = (found[name] - gradient).norm() / gradient.norm()
        assert error < (1e-4 if kept == torch.float32 else 5e-3), name


def test_one_bad_function_is_enough_for_double_precision():
    layer, x = precision_case(1.0, 2)
    layer.set(z=torch.cat([layer.z[:1], 0.3 * layer.z[1:]]).detach())
    assert layer._whitening(torch.float32)[0].dtype == torch.float64
    torch.testing.assert_close(layer(x.float()).mean.double(), layer(x).mean, rtol=0, atol=1e-3)


def test_single_precision_that_cannot_be_factored_falls_back():
    z = torch.cat([Z, Z + 1e-6])  # every point twice, with a jitter below the rounding of single precision
    layer = Inducing(rbf(), z, moved(10, 1), jitter=1e-8)
    kzz, inverse, _ = layer._whitening(torch.float32)
    assert kzz.dtype == torch.float64
    assert inverse.isfinite().all()
    assert all(part.isfinite().all() for part in layer(X.float()))


def test_gradients_of_the_points_are_those_of_differences():
    layer, x = precision_case(0.8)
    leaves = [layer.parameter("z").raw, layer.kernel.parameter("lengthscale").raw]

    def value(z, lengthscale):
        with torch.no_grad():
            for leaf, new in zip(leaves, (z, lengthscale), strict=True):
                leaf.copy_(new)
        belief = layer(x)
        return belief.mean.square().mean() + belief.var.log().mean()

    start = [leaf.detach().clone() for leaf in leaves]
    direction = [
        torch.randn(t.shape, generator=torch.Generator().manual_seed(i), dtype=t.dtype) for i, t in enumerate(start)
    ]
    at = [value(*(t + step * d for t, d in zip(start, direction, strict=True))).item() for step in (1e-6, -1e-6)]
    gradients = torch.autograd.grad(value(*start), leaves)
    slope = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True)).item()
    assert slope == pytest.approx((at[0] - at[1]) / 2e-6, rel=1e-5)


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
    with torch.no_grad():
        torch.testing.assert_close(tuple(layer(X, layer.whitener())), tuple(layer(X)), rtol=0, atol=1e-14)
    with pytest.raises(InputError, match="no_grad"):
        layer(X, layer.whitener())
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
        (lambda: Inducing(rbf(), Z[0]), "z must have shape"),
        (lambda: Inducing(rbf(), Z, FullGaussian(4)), "5 points"),
        (lambda: Inducing(rbf(2), Z, FullGaussian(5, 3)), "2"),
        (lambda: Inducing(rbf(2), OWN[:1]), "points for 1"),
        (lambda: Inducing(rbf(), Z, FullGaussian(5, 2), functions=3), "says 3"),
        (lambda: Inducing(rbf(), Z, jitter=-1.0), "jitter"),
        (lambda: Inducing(rbf(), Z)(X[:, :1]), "columns"),
        (lambda: Inducing(k.PairFunction(lambda a, b: 1.0), Z), "cached"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
