"""The bound from moments: its place below the others, the paper's formula by quadrature, symmetry."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.layers import Inducing, Stack
from stratagp.likelihoods import Bernoulli, Poisson, Softmax
from stratagp.objectives import elbo
from stratagp.objectives.curvature_bound import curvature_bound
from stratagp.posteriors import MixturePosterior
from tests.kernels.case import points

X = points(2, 1)
Y = torch.tensor([[1.0], [0.0]], dtype=torch.float64)


def layer_of(functions=1):
    layer = Inducing(k.RBF(1.0, variance=1.0), X, functions=functions, jitter=0.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.posterior.mean.copy_(torch.randn(functions, 2, generator=generator, dtype=torch.float64))
        layer.posterior.scale.mul_(0.6)
    return layer


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_order_of_the_bounds(link):
    layer, likelihood = layer_of(), Bernoulli(link)
    factor = layer.factor().detach().numpy()
    nodes = np.linspace(-8, 8, 801)
    v = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1)
    f = torch.from_numpy(v @ factor.T)
    weights = torch.from_numpy(norm.pdf(v).prod(-1)) * (nodes[1] - nodes[0]) ** 2
    likely = likelihood.log_prob(Y, f[..., None]).sum(-1).exp()
    evidence = (weights * likely).sum().log()
    curved, loose = (curvature_bound(layer, likelihood, X, Y, beta=beta).value for beta in (0.0, 0.5))
    standard = elbo(layer, likelihood, X, Y).value
    assert loose < curved < standard < evidence


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_it_is_the_corrected_bound_of_the_paper(beta):
    layer = layer_of()
    belief, stretch = layer(X), math.sqrt(1 + 1 / beta)
    fits = []
    for mean, var, label in zip(belief.mean[:, 0].tolist(), belief.var[:, 0].tolist(), Y[:, 0].tolist(), strict=True):
        m, s2 = stretch * mean, stretch**2 * var  # the paper's f, of which ours is the share f/√(1 + 1/β)
        sign = 2 * label - 1

        def integrand(y, m=m, s2=s2, sign=sign):
            gaussian = 0.5 * math.log(beta / (2 * math.pi)) - 0.5 * beta * ((y - m) ** 2 + s2)
            return math.exp(gaussian) * norm.cdf(sign * y)

        fits.append(math.log(quad(integrand, -30, 30, points=[m], limit=200)[0]))
    found = curvature_bound(layer, Bernoulli("probit"), X, Y, beta=beta)
    assert abs(found.fit.item() - sum(fits)) < 1e-6


def test_labels_may_be_flipped():
    layer = layer_of()
    value = curvature_bound(layer, Bernoulli("probit"), X, Y).value
    with torch.no_grad():
        layer.posterior.mean.neg_()
    torch.testing.assert_close(curvature_bound(layer, Bernoulli("probit"), X, 1 - Y).value, value, atol=1e-12, rtol=0)


def test_softmax_lies_below_monte_carlo():
    layer, y = layer_of(3), torch.tensor([[2.0], [0.0]], dtype=torch.float64)
    belief = layer(X)
    noise = torch.randn(100_000, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = Softmax().log_prob(y, belief.sample(noise)).mean(0).sum()
    found = curvature_bound(layer, Softmax(), X, y, num_data=2).fit
    assert expected - 0.6 < found < expected - 0.01


def test_softmax_of_correlated_functions():
    """Opposite functions ``(g, −g)``: the bound must hold where variances alone say too little."""
    g = torch.randn(200_000, 1, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.zeros(1, 1, dtype=torch.float64)
    expected = Softmax().log_prob(y, torch.cat([g, -g], -1)).mean()
    layer = Inducing(k.RBF(1.0, variance=1.0), X[:1], functions=2, jitter=0.0)  # both of variance one
    assert curvature_bound(layer, Softmax(), X[:1], y).fit < expected


def test_samples_are_averaged():
    stack = Stack(
        layer_of(), layer_of(), propagate="samples", n_samples=4000, generator=torch.Generator().manual_seed(0)
    )
    exact = Stack(layer_of(), layer_of(), propagate="moments")
    sampled, moments = (curvature_bound(each, Bernoulli("probit"), X, Y).fit for each in (stack, exact))
    assert abs(sampled - moments) < 1  # not the same bound, but of the same size


def test_refusals():
    layer = layer_of()
    with pytest.raises(InputError, match="beta"):
        curvature_bound(layer, Bernoulli("probit"), X, Y, beta=-1.0)
    with pytest.raises(UnsupportedError, match="Poisson"):
        curvature_bound(layer, Poisson(), X, Y)
    mixed = Inducing(k.RBF(variance=1.0), X, MixturePosterior(2))
    with pytest.raises(InputError, match="Mixture"):
        curvature_bound(mixed, Bernoulli(), X, Y)
