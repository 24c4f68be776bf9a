"""Inducing layers at uncertain points: against sampled points, known points and finite differences."""

import pytest
import torch
from torch.autograd import gradcheck

from stratagp import kernels as k
from stratagp.errors import UnsupportedError
from stratagp.layers import Inducing
from stratagp.means import Constant, Polynomial
from stratagp.posteriors import Delta, DiagonalGaussian, FullGaussian, MixturePosterior
from stratagp.types import Gaussian
from tests.kernels.case import points, unit_points

M, D, DRAWS = 5, 2, 200_000
X = Gaussian(points(3, D), 0.4 * unit_points(3, D))
Z = points(M, D, seed=1)
MEANS = {
    "zero": lambda: None,
    "constant": lambda: Constant(0.7),
    "linear": lambda: Polynomial([0.8, -0.5], 0.3),
}
POSTERIORS = {
    "full": lambda: FullGaussian(M, 2),
    "diagonal": lambda: DiagonalGaussian(M, 2),
    "point": lambda: Delta(M, 2),
    "mixture": lambda: MixturePosterior(M, 2, 2, generator=torch.Generator().manual_seed(0)),
}


def layer_of(posterior, mean=None, kernel=None, z=Z):
    layer = Inducing(kernel or k.RBF([0.8, 1.3], variance=1.2), z, posterior, mean)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for own in layer.posterior.parameters():
            own.add_(0.3 * torch.randn(own.shape, generator=generator, dtype=own.dtype))
    return layer


def sampled_moments(layer):
    """Moments by the law of total variance over points drawn from the belief."""
    noise = torch.randn(DRAWS // 2, *X.mean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        belief = layer(X.sample(torch.cat([noise, -noise])))
        parts = belief if isinstance(belief, Gaussian) else None
        if parts is None:
            weights = belief.log_weights.exp()[:, None, None, None]
            mean = (weights * belief.parts.mean).sum(0)
            second = (weights * (belief.parts.var + belief.parts.mean.square())).sum(0)
        else:
            mean, second = parts.mean, parts.var + parts.mean.square()
    return mean.mean(0), second.mean(0) - mean.mean(0).square(), (second.std(0) / DRAWS**0.5).max()


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("mean", MEANS)
def test_moments_are_those_of_sampled_points(posterior, mean):
    layer = layer_of(POSTERIORS[posterior](), MEANS[mean]())
    belief = layer(X)
    mean, var, error = sampled_moments(layer)
    torch.testing.assert_close(belief.mean, mean, atol=5 * float(error), rtol=0)
    torch.testing.assert_close(belief.var, var, atol=8 * float(error), rtol=0)


@pytest.mark.parametrize("kernel", [k.Linear(0.7) + k.RBF(0.9, variance=0.8), k.MetricRBF([[1.2, 0.0], [-0.5, 0.8]])])
def test_other_kernels(kernel):
    layer = layer_of(FullGaussian(M, 2), Polynomial([0.8, -0.5]), kernel)
    belief = layer(X)
    mean, var, error = sampled_moments(layer)
    torch.testing.assert_close(belief.mean, mean, atol=5 * float(error), rtol=0)
    torch.testing.assert_close(belief.var, var, atol=8 * float(error), rtol=0)


@pytest.mark.parametrize("mean", MEANS)
def test_known_points_give_the_plain_belief(mean):
    layer = layer_of(FullGaussian(M, 2), MEANS[mean]())
    plain, known = layer(X.mean), layer(Gaussian(X.mean, torch.zeros_like(X.var)))
    torch.testing.assert_close(known.mean, plain.mean, atol=1e-10, rtol=0)
    torch.testing.assert_close(known.var, plain.var, atol=1e-8, rtol=0)


def test_each_function_may_have_its_kernel_and_points():
    z = torch.stack([Z, points(M, D, seed=5)])
    both = layer_of(FullGaussian(M, 2), kernel=k.RBF([0.8, 1.3], variance=1.2).replicate(2), z=z)
    belief = both(X)
    for j in range(2):
        alone = Inducing(k.RBF([0.8, 1.3], variance=1.2), z[j])
        with torch.no_grad():
            alone.posterior.mean.copy_(both.posterior.mean[j : j + 1])
            alone.posterior.scale.copy_(both.posterior.scale[j : j + 1])
        own = alone(X)
        torch.testing.assert_close(belief.mean[:, j : j + 1], own.mean, atol=1e-10, rtol=0)
        torch.testing.assert_close(belief.var[:, j : j + 1], own.var, atol=1e-8, rtol=0)


def test_sample_axes_pass_through():
    layer = layer_of(FullGaussian(M, 2))
    twice = layer(Gaussian(*(torch.stack([part, part]) for part in X)))
    torch.testing.assert_close(twice.var[1], layer(X).var)


def test_gradients():
    layer = layer_of(FullGaussian(M, 2), Polynomial([0.8, -0.5]))

    def moments(mean, var, z):
        with torch.no_grad():
            layer.z.copy_(z)
        belief = layer(Gaussian(mean, var))
        return belief.mean, belief.var

    mean, var = (part.clone().requires_grad_() for part in X)
    assert gradcheck(lambda mean, var: moments(mean, var, Z), (mean, var), atol=1e-6)


def test_what_has_no_expectation_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="Matern"):
        Inducing(k.Matern(), Z)(X)
    with pytest.raises(UnsupportedError, match="Polynomial"):
        Inducing(k.RBF(), Z, mean=Polynomial([[1.0, 1.0], [1.0, 1.0]]))(X)
