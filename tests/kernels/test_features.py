"""Random features: right to the Monte-Carlo rate, live in the kernel's parameters, the same at each call."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.special import gammaincinv
from scipy.stats import kstest
from torch import nn
from torch.autograd import gradcheck

from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels.feature_maps import Wave, drawn_features
from stratagp.kernels.spectral import compact_frequencies, gamma_scale, uniform
from stratagp.kernels.stationary.matern import Matern
from stratagp.kernels.stationary.periodic import Cosine, Periodic, locally_periodic
from stratagp.kernels.stationary.scaled_distance import Stationary
from stratagp.kernels.stationary.spectral_mixture import SpectralMixture
from stratagp.parameters import positive
from tests.kernels.case import points
from tests.kernels.cases_matern_periodic import MEANS, VARIANCES, WEIGHTS

ELL = [0.7, 1.9]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mixture():
    return SpectralMixture(3, 2, WEIGHTS, MEANS, VARIANCES)


KERNELS = {
    "rbf": lambda: k.RBF(0.7, 1.3),
    "rbf ard": lambda: k.RBF(ELL, 1.3),
    "exponential": lambda: k.Exponential(ELL, 1.3),
    "matern 1/2": lambda: Matern(0.5, ELL),
    "matern 3/2": lambda: Matern(1.5, ELL),
    "matern 5/2": lambda: Matern(2.5, ELL),
    "matern 0.3": lambda: Matern(0.3, ELL),
    "matern learnt": lambda: Matern(positive(1.7), ELL, 1.3),
    "rational quadratic": lambda: k.RationalQuadratic(ELL, 0.6, 1.3),
    "cosine": lambda: Cosine([1.5, 0.8], 1.3),
    "periodic": lambda: Periodic(0.7, 1.5, 1.3),
    "periodic ard": lambda: Periodic(ELL, [1.5, 0.8]),
    "locally periodic": lambda: locally_periodic(1.5, 0.7, 3.0, 1.3),
    "spectral mixture": mixture,
    "constant": lambda: k.Constant(1.3),
    "sum": lambda: k.RBF(0.7) + Matern(1.5) + 2.0,
    "product": lambda: 1.7 * k.RBF(0.7) * Matern(1.5, ELL) * Cosine(2.0),
    "product of sums": lambda: (k.RBF(0.7) + 2 * Matern(1.5)) * (Periodic() + 0.5),
    "product of mixtures": lambda: mixture() * mixture(),
    "power": lambda: (k.RBF(2.0) + 0.5) ** 3,
    "columns": lambda: k.RBF(0.7).on(1) + Periodic(0.9).on([0]) * Matern(1.5).on(slice(1, 2)),
    "warped": lambda: k.RBF(0.7).warp(torch.sinh),
    "rescaled": lambda: k.Rescaled(k.RBF(0.7), lambda x: 1 + x[..., :1].square()),
    **{
        f"piecewise {q} {dim}": (lambda q=q, dim=dim: k.PiecewisePolynomial(q, dim, ELL[:1] * 2 + ELL[1:], 1.3))
        for q, dim in ((0, 3), (2, 3))
    },
    **{f"arc-cosine {n}": (lambda n=n: k.ArcCosine(n, 1, ELL, 1.3)) for n in (0, 1, 2)},
    "arc-cosine bias": lambda: 2 * k.ArcCosine(1, 1, 1.4, bias=0.3) * k.RBF(),
    "smoothed": lambda: k.Smoothed(k.RBF(ELL, 1.3) + k.Constant(0.5), [0.4, 0.8]),
    "metric": lambda: k.MetricRBF([[2.0, 0.0], [1.0, 1.0]], 1.3),
}
COLUMNS = {"piecewise 0 3": 3, "piecewise 2 3": 3}


def contributions(features, x):
    """``a(x) a(z) cos(θ(x) − θ(z))`` of each draw, summed over the terms: ``n n M``."""
    total = 0
    for term in features.terms:
        amplitude, phase = term(x)
        rows = amplitude.expand(len(x), term.draws)
        product = rows[:, None] * rows
        total = total + (product if phase is None else product * torch.cos(phase[:, None] - phase))
    return total


@pytest.mark.parametrize("name", KERNELS)
def test_features_converge_to_the_kernel(name):
    kernel, x = KERNELS[name](), points(6, COLUMNS.get(name, 2))
    with torch.no_grad():
        features = kernel.random_features(20_000, x.shape[-1], generator())
        phi, each, expected = features(x), contributions(features, x), kernel(x)
    assert phi.shape == (6, features.size)
    gram = phi @ phi.mT
    torch.testing.assert_close(gram, each.mean(-1), rtol=0, atol=1e-9)
    standard_error = each.std(-1) / math.sqrt(each.shape[-1]) if each.shape[-1] > 1 else torch.zeros(6, 6)
    assert ((gram - expected).abs() <= 5 * standard_error + 1e-10).all()
    assert standard_error.max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_reach_every_parameter(name):
    kernel, x = KERNELS[name](), points(3, COLUMNS.get(name, 2))
    features = kernel.random_features(4, x.shape[-1], generator())
    free = [p for p in kernel.parameters() if p.requires_grad]
    assert gradcheck(lambda *_: features(x), free, atol=1e-6)
    if name not in ("arc-cosine 0", "constant"):
        weight = torch.arange(1.0, features.size + 1, dtype=torch.float64)
        features(x).square().mul(weight).sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in free)


def test_gradients_reach_the_points():
    features = (k.RBF(ELL) * Periodic()).random_features(5, 2, generator())
    assert gradcheck(features, [points(3).requires_grad_()])


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_map_at_each_call_and_from_each_seed(name):
    kernel, x = KERNELS[name](), points(4, COLUMNS.get(name, 2))
    first, again, other = (kernel.random_features(8, x.shape[-1], generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first(x), first(x))
    assert torch.equal(first(x), again(x))
    if name not in ("constant", "cosine"):
        assert not torch.equal(first(x), other(x))


def test_moving_a_parameter_moves_the_map_as_a_new_draw_would():
    for kernel, values in (
        (k.RBF(ELL), {"lengthscale": [0.3, 0.9], "variance": 2.0}),
        (Matern(positive(0.8)), {"nu": 2.2, "lengthscale": 0.4}),
        (k.RationalQuadratic(), {"alpha": 0.4}),
        (Periodic(), {"lengthscale": 0.5, "period": 0.3}),
        (mixture(), {"means": MEANS + 0.3, "weights": WEIGHTS[::-1]}),
    ):
        features = kernel.random_features(6, 2, generator())
        kernel.set(**values)
        fresh = kernel.random_features(6, 2, generator())
        torch.testing.assert_close(features(points()), fresh(points()), rtol=0, atol=1e-12)


def test_each_function_has_its_own_lengthscale_on_shared_draws():
    x = points()
    for make in (
        lambda ell: k.RBF(ell) + 1.0,
        lambda ell: k.RBF(ell) * Matern(positive(ell)),
        lambda _: mixture(),
    ):
        many = make(0.7).replicate(2)
        for item in many.named_values():
            item.parameter.raw.data[1] += 0.3
        phi = many.random_features(50, 2, generator())(x)
        for i in range(2):
            one = make(0.7)
            for item, source in zip(one.named_values(), many.named_values(), strict=True):
                item.parameter.raw.data = source.parameter.raw.data[i].clone()
            expected = one.random_features(50, 2, generator())(x)
            torch.testing.assert_close(phi[i], expected, rtol=0, atol=1e-12)


def test_separate_kernels_have_stacked_features():
    x = points()
    parts = [k.RBF(0.7), k.Constant(2.0), Cosine()]
    features = k.Separate(parts).random_features(20, 2, generator())
    phi = features(x)
    assert phi.shape == (3, 9, features.size) == (3, 9, 40)
    torch.testing.assert_close(phi[0], k.RBF(0.7).random_features(20, 2, generator())(x))
    for i in (1, 2):  # these two are exact
        torch.testing.assert_close(phi[i] @ phi[i].mT, parts[i](x), rtol=0, atol=1e-13)
    own = torch.stack([x, x + 1, x + 2])
    torch.testing.assert_close(features(own)[2], features(x + 2)[2])


def test_sizes():
    sizes = {"rbf": 200, "sum": 401, "product": 200, "product of sums": 800, "arc-cosine 1": 100, "cosine": 2}
    for name, size in sizes.items():
        assert KERNELS[name]().random_features(100, 2, generator()).size == size


def test_precision_copies_and_state():
    x = points()
    features = (k.RationalQuadratic(ELL) + Periodic()).random_features(30, 2, generator())
    single = copy.deepcopy(features).float()
    assert single(x).dtype == torch.float32
    torch.testing.assert_close(single(x).double(), features(x), rtol=0, atol=1e-4)
    other = (k.RationalQuadratic(ELL) + Periodic()).random_features(30, 2, generator(5))
    other.load_state_dict(features.state_dict())
    assert torch.equal(other(x), features(x))


def test_a_warp_is_trained_through_the_map():
    net = nn.Linear(2, 3)
    kernel = k.RBF().warp(net)
    kernel.random_features(10, 2, generator())(points()).sum().backward()
    assert kernel.function.module.weight.grad.abs().sum() > 0


class _Explicit(k.Kernel):
    """The linear kernel, with its own columns as exact features."""

    def __init__(self):
        super().__init__()
        self.variance = positive(1.3)

    def forward(self, x, z):
        return self.variance * x @ z.mT

    def random_features(self, n_features, dim, generator=None):
        return drawn_features(self, dim, dim, oscillates=False)

    def wave(self, x):
        return Wave((self.variance * x.shape[-1]).sqrt() * x)


def test_exact_features_add_but_do_not_multiply():
    x = points()
    phi = (2 * _Explicit() + k.Constant(0.7)).random_features(10, 2, generator())(x)
    assert phi.shape == (9, 3)
    torch.testing.assert_close(phi @ phi.mT, 2.6 * x @ x.mT + 0.7, rtol=0, atol=1e-13)
    with pytest.raises(UnsupportedError, match="equally many draws of each factor"):
        (k.RBF() * _Explicit()).random_features(10, 2)


class _Unknown(Stationary):
    """A stationary kernel whose spectral density nobody wrote down."""

    def profile(self, r2):
        return torch.exp(-r2)


def test_what_has_no_features_says_so():
    with pytest.raises(UnsupportedError, match="White has no random features"):
        (k.RBF() + k.White()).random_features(10, 2)
    with pytest.raises(UnsupportedError, match="spectral density is not known"):
        _Unknown().random_features(10, 2)
    with pytest.raises(UnsupportedError, match="Gibbs has no random features"):
        k.Gibbs(lambda x: 1 + x.square()).random_features(10, 2)
    with pytest.raises(UnsupportedError, match="inside Separate or Convolved"):
        (k.RBF() + k.Separate([k.RBF(), k.RBF()])).random_features(10, 2)


def test_bad_arguments():
    with pytest.raises(InputError, match="n_features must be at least 1"):
        k.RBF().random_features(0, 2)
    with pytest.raises(InputError, match="dim must be at least 1"):
        k.Constant().random_features(5, 0)
    with pytest.raises(InputError, match="does not know its number of columns"):
        k.RBF(ard=True).random_features(5, 2)
    with pytest.raises(InputError, match="at least 3"):
        mixture().random_features(2, 2)
    with pytest.raises(InputError, match=r"shape \(n, 2\)"):
        k.RBF().random_features(5, 2)(points(4, 3))


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.5, 40.0])
def test_gamma_quantiles(shape):
    u = uniform(500, generator())
    u[0], u[1] = 1e-12, 1 - 1e-6
    a = torch.tensor(shape, dtype=torch.float64, requires_grad=True)
    expected = np.sqrt(gammaincinv(shape, u.numpy()) / shape)
    np.testing.assert_allclose(gamma_scale(u, a).detach().numpy(), expected, rtol=2e-9 / shape**0.5)
    assert gradcheck(lambda a: gamma_scale(u[2:40], a), [a], atol=1e-6)


def test_frequencies_of_a_compact_kernel_follow_their_density():
    """In one dimension the hat ``max(0, 1 − |r|)`` has the density ``(1 − cos ω)/(π ω²)``."""
    hat = lambda r2: 1 - r2.sqrt()  # noqa: E731
    omega = compact_frequencies(hat, 1, 5000, 1, generator())[:, 0]
    grid = np.linspace(1e-6, 20_000, 4_000_001)
    density = 2 * (1 - np.cos(grid)) / (np.pi * grid**2)
    cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert kstest(omega.abs().numpy(), lambda w: np.interp(w, grid, cdf)).pvalue > 0.01
    assert abs(omega.sign().mean().item()) < 5 / math.sqrt(5000)


@pytest.mark.parametrize("degree", [0, 1])
def test_deep_arc_cosine_features_converge(degree):
    kernel, x = k.ArcCosine(degree, 3, ELL, 1.3, bias=0.2), points(6, 2)
    with torch.no_grad():
        phi = kernel.random_features(3000, 2, generator())(x)
        assert (phi @ phi.mT - kernel(x)).abs().max() < 0.1 * kernel(x).abs().max()


def test_products_of_exact_features_are_refused():
    for kernel in (k.Linear() ** 2, k.Linear() * k.Linear([1.0, 2.0])):
        with pytest.raises(UnsupportedError, match="exact features"):
            kernel.random_features(5, 2)


def test_linear_features_are_exact():
    kernel, x = k.Linear([0.5, 2.0]) + k.RBF() * 1e-12, points(6, 2)
    phi = k.Linear([0.5, 2.0]).random_features(1, 2)(x)
    torch.testing.assert_close(phi @ phi.mT, kernel.parts[0](x), rtol=1e-12, atol=1e-12)
    assert kernel.random_features(5, 2, generator()).size == 2 + 10


def test_convolved_features_converge():
    kernel, x = k.Convolved(k.RBF(ELL), [[-0.3, 0.0], [0.3, 0.2]], [0.5, 0.7]), points(6, 2)
    with torch.no_grad():
        phi = kernel.random_features(20_000, 2, generator())(x)
        torch.testing.assert_close(phi @ phi.mT, kernel(x), rtol=0, atol=0.03)
