"""Cases of the kernels over labelled points: derivatives, several outputs, process convolutions."""

import numpy as np
import torch

from stratagp import kernels as k
from stratagp.kernels.multi_output.coregionalised import Coregionalised, Independent, linear_coregionalisation
from stratagp.kernels.multi_output.derivatives import Derivatives
from stratagp.kernels.multi_output.process_convolution import ProcessConvolution
from tests.kernels.case import Case, pairwise, points

ELL = np.array([0.7, 1.9])


def labelled(labels, seed=0):
    """Points with two columns and the given labels behind them; every other place is taken twice."""
    x = points(len(labels), 2, seed)
    x[1::2] = x[: 2 * (len(labels) // 2) : 2]
    return torch.cat([x, torch.tensor(labels, dtype=torch.float64)[:, None]], -1)


def slopes_of(rho, ell, v):
    """cov(∂_a f(x), ∂_b f(z)) for k = v ρ(s), s = Σ (x − z)²/ℓ², by the chain rule; rho(s) = (ρ, ρ', ρ'')."""
    ell = ell * np.ones(2)

    def k1(p, q):
        gap, a, b = p[:-1] - q[:-1], int(p[-1]), int(q[-1])
        value, first, second = rho(np.sum((gap / ell) ** 2))
        by_x, by_z = 2 * gap / ell**2, -2 * gap / ell**2
        if a == b == 0:
            return v * value
        if a == 0 or b == 0:
            return v * first * (by_z[b - 1] if a == 0 else by_x[a - 1])
        return v * (second * by_x[a - 1] * by_z[b - 1] - (a == b) * 2 * first / ell[a - 1] ** 2)

    return pairwise(k1)


def gauss(s):
    e = np.exp(-s / 2)
    return e, -e / 2, e / 4


def matern52(s):
    r = np.sqrt(5 * s)
    return (1 + r + r**2 / 3) * np.exp(-r), -5 / 6 * (1 + r) * np.exp(-r), 25 / 12 * np.exp(-r)


def matern32(s):
    r = np.sqrt(3 * s)
    return (1 + r) * np.exp(-r), -1.5 * np.exp(-r), 9 / 4 * np.exp(-r) / r if r > 0 else 0.0


def rational_quadratic(s, alpha=0.8):
    base = 1 + s / (2 * alpha)
    return base**-alpha, -0.5 * base ** (-alpha - 1), (alpha + 1) / (4 * alpha) * base ** (-alpha - 2)


def slopes_of_linear_times_gauss(v):
    """x₀ z₀ g(x₁, z₁) with an RBF g of lengthscale 0.7: each column is differentiated in its own factor."""
    inner = slopes_of(gauss, np.array([1e150, 0.7]), v)

    def k1(p, q):
        def part(a, b):
            return inner(np.array([[*p[:-1], a]]), np.array([[*q[:-1], b]]))[0, 0]

        a, b = int(p[-1]), int(q[-1])
        left = 1.0 if a == 1 else p[0]
        right = 1.0 if b == 1 else q[0]
        return left * right * part(2 if a == 2 else 0, 2 if b == 2 else 0)

    return pairwise(k1)


def per_output(kernels):
    return pairwise(lambda a, b: kernels[int(a[-1])](a[None, :-1], b[None, :-1])[0, 0] if a[-1] == b[-1] else 0.0)


def mixed(between, kernel):
    return pairwise(lambda a, b: between[int(a[-1]), int(b[-1])] * kernel(a[None, :-1], b[None, :-1])[0, 0])


def convolved(amplitude, width, ell):
    """The formula of the class, one latent process, output and column after the other."""

    def k1(a, b):
        p, q = int(a[-1]), int(b[-1])
        total = 0.0
        for r in range(len(amplitude)):
            term = amplitude[r, p] * amplitude[r, q]
            for d in range(len(a) - 1):
                S = lambda i, j: width[r, i, d] ** 2 + width[r, j, d] ** 2 + ell[r, d] ** 2  # noqa: B023, E731
                term *= (S(p, p) * S(q, q)) ** 0.25 / S(p, q) ** 0.5 * np.exp(-0.5 * (a[d] - b[d]) ** 2 / S(p, q))
            total += term
        return total

    return pairwise(k1)


def rbf(ell, v=1.0):
    return pairwise(lambda a, b: v * np.exp(-0.5 * np.sum(((a - b) / ell) ** 2)))


W = np.array([[1.0, 0.2], [-0.5, 0.8], [0.3, 0.4]])
KAPPA = np.array([0.1, 0.2, 0.3])
B = W @ W.T + np.diag(KAPPA)
AMPLITUDE = np.array([[1.0, -0.6, 0.4], [0.3, 0.9, 0.5]])
WIDTH = np.array([[[0.5, 1.0], [0.7, 0.4], [1.5, 0.6]], [[0.3, 0.8], [0.9, 1.1], [0.2, 0.5]]])
LATENT = np.array([[0.6, 0.9], [0.4, 1.2]])

CODES, OUTPUTS = [0, 1, 2, 1, 0], [2, 0, 1, 1, 0]
SLOPES = {"x": labelled(CODES), "z": labelled(CODES[:3], seed=1), "gradients": False}
MANY = {"x": labelled(OUTPUTS), "z": labelled(OUTPUTS[:3], seed=1), "gradients": False}


def make_linear_coregionalisation():
    kernel = linear_coregionalisation([k.RBF(0.7), k.RBF(ELL)], n_outputs=3, rank=2)
    for term, scale in zip(kernel.parts, (1.0, 2.0), strict=True):
        term.weights, term.kappa = scale * W, scale * KAPPA
    return kernel


CASES: dict[str, Case] = {
    "Derivatives": Case(lambda: Derivatives(k.RBF(ELL, 1.3)), slopes_of(gauss, ELL, 1.3), **SLOPES),
    "Derivatives RBF": Case(lambda: Derivatives(k.RBF(0.7, 1.3)), slopes_of(gauss, 0.7, 1.3), **SLOPES),
    "Derivatives Matern52": Case(
        lambda: Derivatives(k.Matern(nu=2.5, lengthscale=ELL, variance=1.3)),
        slopes_of(matern52, ELL, 1.3),
        **SLOPES,
    ),
    "Derivatives Matern32": Case(
        lambda: Derivatives(k.Matern(nu=1.5, lengthscale=ELL, variance=1.3)),
        slopes_of(matern32, ELL, 1.3),
        **SLOPES,
    ),
    "Derivatives RationalQuadratic": Case(
        lambda: Derivatives(k.RationalQuadratic(ELL, 0.8, 1.3)),
        slopes_of(rational_quadratic, ELL, 1.3),
        **SLOPES,
    ),
    "Derivatives Sum": Case(
        lambda: Derivatives(k.RBF(0.7, 1.3) + k.Matern(nu=2.5, lengthscale=ELL)),
        lambda x, z: slopes_of(gauss, 0.7, 1.3)(x, z) + slopes_of(matern52, ELL, 1.0)(x, z),
        **SLOPES,
    ),
    "Derivatives Product": Case(
        lambda: Derivatives(k.RBF(0.7, 1.3).on(1) * k.Linear().on(0)),
        slopes_of_linear_times_gauss(1.3),
        **SLOPES,
    ),
    "Independent": Case(
        lambda: Independent([k.RBF(0.7), k.RBF(ELL, 1.3), k.RBF(2.0)]),
        per_output([rbf(0.7), rbf(ELL, 1.3), rbf(2.0)]),
        **MANY,
    ),
    "Coregionalised": Case(
        lambda: Coregionalised(k.RBF(ELL, 1.3), 3, rank=2, weights=W, kappa=KAPPA),
        mixed(B, rbf(ELL, 1.3)),
        **MANY,
    ),
    "Coregionalised sum": Case(
        make_linear_coregionalisation,
        lambda x, z: mixed(B, rbf(0.7))(x, z) + mixed(4 * W @ W.T + 2 * np.diag(KAPPA), rbf(ELL))(x, z),
        **MANY,
    ),
    "ProcessConvolution": Case(
        lambda: ProcessConvolution(3, 2, AMPLITUDE[:1], WIDTH[:1]),
        convolved(AMPLITUDE[:1], WIDTH[:1], 0 * LATENT[:1]),
        **MANY,
    ),
    "ProcessConvolution latent": Case(
        lambda: ProcessConvolution(3, 2, AMPLITUDE, WIDTH, LATENT, n_latent=2),
        convolved(AMPLITUDE, WIDTH, LATENT),
        **MANY,
    ),
}
