"""Random-feature layers against their kernels, Monte Carlo and one another."""

import math

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import RandomFeatures, Stack
from stratagp.layers.directions import DRAWS, directions, root_precision, spread
from stratagp.layers.random_features import FREQUENCIES
from stratagp.parameters import positive
from stratagp.testing import check_layer
from stratagp.types import Gaussian

KERNELS = {
    "RBF": lambda: k.RBF([0.8, 1.5, 2.5], variance=1.7),
    "one lengthscale": lambda: k.RBF(1.2, variance=0.6),
    "Matern 1/2": lambda: k.Matern(0.5, [0.8, 1.5, 2.5], variance=1.7),
    "Matern 3/2": lambda: k.Matern(1.5, 1.3, variance=1.7),
    "Matern 5/2": lambda: k.Matern(2.5, 1.3, variance=1.7),
    "arc-cosine 0": lambda: k.ArcCosine(0, lengthscale=[0.8, 1.5, 2.5], variance=1.7),
    "arc-cosine 1": lambda: k.ArcCosine(1, lengthscale=[0.8, 1.5, 2.5], variance=1.7),
    "arc-cosine 2": lambda: k.ArcCosine(2, lengthscale=1.3, variance=1.7),
    "with a bias": lambda: k.ArcCosine(1, lengthscale=1.3, variance=1.7, bias=0.5),
}
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def layer_of(name="RBF", seed=0, moved=True, n_features=20, **options):
    layer = RandomFeatures(KERNELS[name](), 3, 2, n_features, generator=seeded(seed), **options)
    if moved:
        generator = seeded(5)
        with torch.no_grad():
            for parameter in [p for n, p in layer.named_parameters() if not n.startswith("kernel")]:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return layer


def grams(kernel, m, sets, draws="independent", x=X):
    """Gram matrices of random features, for many sets of frequencies."""
    layer = RandomFeatures(kernel, x.shape[1], 1, m)
    with torch.no_grad():
        normal, uniform = directions(m, layer.normal.shape[1], draws, seeded(), sets)
        factor = spread(kernel, uniform.reshape(-1, 1)).reshape(uniform.shape)
        phi = layer.amplitude() * layer._features(layer._points(x), normal * factor * root_precision(kernel, 3))
        return phi @ phi.mT


def gram_error(kernel, products, x=X):
    """The root mean square error of the entries of Gram matrices, as a share of the diagonal."""
    with torch.no_grad():
        scale = kernel.diag(x).sqrt()
        return ((products - kernel(x)) / (scale[:, None] * scale)).square().mean().sqrt().item()


# --- features ---


@pytest.mark.parametrize("name", KERNELS)
def test_gram_matrices_converge_at_the_rate_of_monte_carlo(name):
    kernel = KERNELS[name]()
    few, many = (gram_error(kernel, grams(kernel, m, sets)) * math.sqrt(m) for m, sets in ((100, 200), (6400, 20)))
    assert 0.75 < many / few < 1.33
    assert few < (5.0 if name == "arc-cosine 2" else 2.5)  # from moments of one feature
    phi = layer_of(name, moved=False, n_features=6400).features(X).detach()
    assert gram_error(kernel, phi @ phi.mT) * math.sqrt(6400) < 2 * few


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("draws", DRAWS)
def test_features_are_unbiased(name, draws):
    kernel = KERNELS[name]()
    products = grams(kernel, 16, 200 if draws == "quasi" else 2000, draws)
    error = (products.mean(0) - kernel(X).detach()) / (products.std(0) / math.sqrt(len(products)) + 1e-9)
    assert error.abs().max() < 4.5


@pytest.mark.parametrize("name", ["one lengthscale", "RBF", "arc-cosine 1"])
def test_orthogonal_draws_are_better_than_independent_ones(name):
    kernel = KERNELS[name]()
    independent, orthogonal = (gram_error(kernel, grams(kernel, 24, 1000, how)) for how in DRAWS[:2])
    assert orthogonal < 0.93 * independent


@pytest.mark.parametrize("name", KERNELS)
def test_quasi_random_draws_are_better_than_independent_ones(name):
    kernel = KERNELS[name]()
    independent, quasi = (gram_error(kernel, grams(kernel, 256, 30, how)) for how in ("independent", "quasi"))
    assert quasi < 0.75 * independent


def test_orthogonal_directions_have_independent_lengths():
    g = directions(4000, 4, "orthogonal", seeded())[0][0]
    inner = g.reshape(-1, 4, 4) @ g.reshape(-1, 4, 4).mT
    assert (inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))).abs().max() < 1e-10
    lengths = g.square().sum(1)  # χ² with 4 degrees of freedom: mean 4, variance 8
    assert lengths.mean().item() == pytest.approx(4, abs=5 * math.sqrt(8 / 4000))
    assert lengths.var().item() == pytest.approx(8, rel=0.2)
    torch.testing.assert_close(g.mT @ g / 4000, torch.eye(4).double(), rtol=0, atol=0.08)


def test_there_are_two_features_a_frequency_with_cosines_and_one_with_rectifiers():
    assert layer_of("RBF").features(X).shape == (8, 40)
    assert layer_of("arc-cosine 1").features(X).shape == (8, 20)


# --- beliefs ---


@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-fixed"])
@pytest.mark.parametrize("name", KERNELS)
def test_check(name, frequencies):
    check_layer(layer_of(name, frequencies=frequencies), X, n_draws=500)


@pytest.mark.parametrize("name", ["RBF", "arc-cosine 2", "with a bias"])
def test_belief_is_that_of_a_linear_model_on_the_features(name):
    layer = layer_of(name, frequencies="var-fixed")
    phi, posterior = layer.features(X), layer.posterior
    wanted = Gaussian(phi @ posterior.mean.mT, phi.square() @ posterior.scale.square().mT)
    torch.testing.assert_close(tuple(layer(X)), tuple(wanted), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["RBF", "arc-cosine 1"])
@pytest.mark.parametrize("frequencies", ["prior-fixed", "var-fixed"])
def test_gradients(name, frequencies):
    layer = layer_of(name, n_features=3, frequencies=frequencies)
    x, parameters = X[:3].clone().requires_grad_(), list(layer.parameters())

    def values(*_):  # which gradcheck moves in place
        found = layer(x)
        return found.mean, found.var

    assert torch.autograd.gradcheck(values, (x, *parameters))


def test_single_precision_of_rows_with_parameters_in_double():
    layer = layer_of()
    single, double = layer(X.float()), layer(X)
    assert single.mean.dtype == single.var.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(single.var.double(), double.var, rtol=1e-5, atol=1e-5)


# --- ways with frequencies ---


@pytest.mark.parametrize("name", KERNELS)
def test_learnt_frequencies_that_are_still_the_prior_are_those_of_the_prior(name):
    fixed, learnt = (layer_of(name, moved=False, frequencies=way) for way in ("prior-fixed", "var-fixed"))
    for layer in (fixed, learnt):
        torch.nn.init.normal_(layer.posterior.mean, generator=seeded(3))
    torch.testing.assert_close(tuple(fixed(X)), tuple(learnt(X)), rtol=1e-12, atol=1e-12)
    assert learnt.kl().item() == pytest.approx(fixed.kl().item(), abs=1e-10)


@pytest.mark.parametrize("name", ["RBF", "Matern 3/2", "with a bias"])
def test_the_cost_of_frequencies_agrees_with_monte_carlo(name):
    layer = layer_of(name, frequencies="var-fixed", n_features=4)
    with torch.no_grad():
        lengthscale = layer.kernel.lengthscale.expand(3)
        bias = [layer.kernel.bias.rsqrt()[None]] if name == "with a bias" else []
        prior = torch.distributions.Normal(0.0, layer.factor / torch.cat([lengthscale, *bias]))
        q = torch.distributions.Normal(layer.frequency_mean, layer.frequency_log_scale.exp())
        noise = torch.randn(100_000, *layer.normal.shape, generator=seeded(), dtype=torch.float64)
        omega = q.mean + q.stddev * noise
        gaps = (q.log_prob(omega) - prior.log_prob(omega)).sum((1, 2))
    found = (layer.kl() - layer.posterior.kl()).item()
    assert found == pytest.approx(gaps.mean().item(), abs=4 * gaps.std().item() / math.sqrt(1e5))
    assert found > 10 * gaps.std().item() / math.sqrt(1e5)


def test_lengthscales_are_learnt_through_the_values_or_through_the_cost():
    for way, through_values in (("prior-fixed", True), ("var-fixed", False)):
        layer = layer_of(frequencies=way)
        layer(X).mean.sum().backward()
        seen = layer.kernel.parameter("lengthscale").raw.grad
        assert (seen is not None) == through_values
        layer.zero_grad()
        (0.0 * layer(X).mean.sum() + layer.kl()).backward()
        assert bool((layer.kernel.parameter("lengthscale").raw.grad != 0).any()) != through_values


@pytest.mark.parametrize("frequencies", FREQUENCIES)
def test_calls_repeat_themselves_or_not_as_the_name_says(frequencies):
    layer = layer_of(frequencies=frequencies, n_samples=3)
    first, second = layer(X).mean, layer(X).mean
    assert torch.equal(first, second) == (frequencies != "var-resampled")
    assert torch.equal(layer.at_nodes(X, 4).mean, layer.at_nodes(X, 4).mean)
    assert torch.equal(layer_of(frequencies=frequencies, n_samples=3)(X).mean, first)  # the same generator


def test_resampled_frequencies_differ_from_sample_to_sample():
    layer = layer_of(frequencies="var-resampled", n_samples=3)
    belief = layer(X)
    assert belief.mean.shape == (3, 8, 2)
    assert layer(X.expand(5, 8, 3)).mean.shape == (5, 8, 2)
    assert layer.at_nodes(X, 7).mean.shape == (7, 8, 2)
    assert (belief.mean[0] - belief.mean[1]).abs().max() > 0.01


@pytest.mark.parametrize("draws", DRAWS)
def test_resampled_functions_of_the_prior_have_the_covariance_of_the_kernel(draws):
    layer = layer_of("one lengthscale", moved=False, frequencies="var-resampled", draws=draws, n_features=8)
    torch.nn.init.zeros_(layer.posterior.log_scale)
    generator, n = seeded(2), 600
    values = torch.cat([layer.draw(generator)(X[:3]) for _ in range(n)], 1).detach()
    wanted = layer.kernel(X[:3]).detach()
    torch.testing.assert_close(values @ values.mT / (2 * n), wanted, rtol=0, atol=5 * 0.6 * math.sqrt(2 / (2 * n)))


def test_a_drawn_function_does_not_change_with_training():
    layer = layer_of(frequencies="var-fixed")
    function = layer.draw(seeded())
    before = function(X)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 1.0
    assert torch.equal(function(X), before)
    assert function(X.float().expand(2, 8, 3)).shape == (2, 8, 2)


def test_frequencies_start_anew_after_lengthscales_were_set():
    layer = layer_of(moved=False, frequencies="var-fixed")
    layer.kernel.set(lengthscale=[0.3, 0.4, 0.5])
    assert layer.kl() > layer.posterior.kl() + 1
    layer.restart_frequencies()
    assert layer.kl().item() == pytest.approx(layer.posterior.kl().item(), abs=1e-9)


def test_feeding_forward_beside_what_a_layer_ignores():
    """A lengthscale of 10⁹ hides a column: of the points that are fed forward, or of the values of the layer before."""
    first = layer_of(n_features=50)

    def last(scales, columns):
        layer = RandomFeatures(k.RBF(scales, variance=1.0), len(scales), 1, 10, generator=seeded(4))
        alone = RandomFeatures(k.RBF(1.0, variance=1.0), len(columns), 1, 10, generator=seeded(4))
        for part in (layer, alone):
            torch.nn.init.normal_(part.posterior.mean, generator=seeded(6))
        alone.normal = layer.normal[:, columns]
        return layer, alone

    layer, alone = last([1.0, 1.0, 1e9, 1e9, 1e9], [0, 1])
    fed, plain = Stack(first, layer, feed_from=0), Stack(first, alone)
    torch.testing.assert_close(tuple(fed.predictive(X).moments()), tuple(plain.predictive(X).moments()))
    layer, alone = last([1e9, 1e9, 1.0, 1.0, 1.0], [2, 3, 4])
    torch.testing.assert_close(tuple(Stack(first, layer, feed_from=0).predictive(X).moments()), tuple(alone(X)))


def test_bad_arguments_are_named():
    for wrong, options in [
        ("kernel must be an RBF", {"kernel": k.Linear()}),
        ("function axis", {"kernel": k.RBF().replicate(2)}),
        ("depth 1", {"kernel": k.ArcCosine(depth=2)}),
        ("fixed nu", {"kernel": k.Matern(nu=positive(1.0))}),
        ("for each of 2 columns", {"kernel": k.RBF([1.0, 2.0])}),
        ("frequencies must be one of", {"frequencies": "fixed"}),
        ("draws must be one of", {"draws": "sobol"}),
        ("n_features must be at least 1", {"n_features": 0}),
        ("n_samples must be at least 1", {"n_samples": 0}),
    ]:
        with pytest.raises(InputError, match=wrong):
            RandomFeatures(**{"kernel": k.RBF(), "dim": 3, **options})
    with pytest.raises(InputError, match=r"x must have shape \(n, 3\)"):
        layer_of()(X[:, :2])
    with pytest.raises(InputError, match="propagate='samples'"):
        layer_of()(Gaussian(X, X.square()))
    with pytest.raises(InputError, match="feed_from must be"):
        Stack(layer_of(), layer_of(), feed_from=2)
    with pytest.raises(InputError, match="feed_from must be"):
        Stack(layer_of(), layer_of(), feed_from=0, propagate="moments")
