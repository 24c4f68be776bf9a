"""Cases of the kernels in stationary, constant, algebra, arc_cosine, neural, nonstationary, additive and objects."""

import math

import numpy as np
import torch

from stratagp import kernels as k
from stratagp.parameters import positive
from tests.kernels.case import Case, pairwise, points, unit_points


def rbf(ell, v=1.0):
    return pairwise(lambda a, b: v * np.exp(-0.5 * np.sum(((a - b) / ell) ** 2)))


def wendland(q, d, ell):
    j = d // 2 + q + 1
    p = {
        0: lambda r: 1,
        1: lambda r: (j + 1) * r + 1,
        2: lambda r: ((j**2 + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3,
        3: lambda r: (
            ((j**3 + 9 * j**2 + 23 * j + 15) * r**3 + (6 * j**2 + 36 * j + 45) * r**2 + (15 * j + 45) * r + 15) / 15
        ),
    }[q]

    def k1(a, b):
        r = np.linalg.norm((a - b) / ell)
        return max(0.0, 1 - r) ** (j + q) * p(r)

    return pairwise(k1)


def arc_cosine(degree, depth, ell, v, bias=0.0):
    angle, weight = np.polynomial.legendre.leggauss(30)

    def J(theta):
        """2ⁿ n! ∫ cosⁿ φ cosⁿ(φ − θ) dφ over the angles at which both units are on."""
        half = (np.pi - theta) / 2
        phi = theta / 2 + half * angle
        both = (np.cos(phi) * np.cos(phi - theta)) ** degree
        return 2**degree * math.factorial(degree) * half * np.sum(weight * both)

    def k1(a, b):
        a, b = a / ell, b / ell
        ab, aa, bb = a @ b + bias, a @ a + bias, b @ b + bias
        for _ in range(depth):
            theta = np.arccos(np.clip(ab / np.sqrt(aa * bb), -1, 1))
            ab = (aa * bb) ** (degree / 2) * J(theta) / np.pi
            aa, bb = aa**degree * J(0.0) / np.pi, bb**degree * J(0.0) / np.pi
        return v * ab

    return pairwise(k1)


def arcsine(w, bias, v, units):
    def k1(a, b):
        s = lambda p, q: bias + np.sum(w * p * q)  # noqa: E731
        if units == "erf":
            return v * 2 / np.pi * np.arcsin(2 * s(a, b) / np.sqrt((1 + 2 * s(a, a)) * (1 + 2 * s(b, b))))
        return v * (0.25 + np.arcsin(s(a, b) / np.sqrt((1 + s(a, a)) * (1 + s(b, b)))) / (2 * np.pi))

    return pairwise(k1)


def gaussian_units(g, s, v):
    def k1(a, b):
        e2 = 1 / (2 / g**2 + 1 / s**2)
        t2, m2 = 2 * g**2 + g**4 / s**2, 2 * s**2 + g**2
        per_column = np.sqrt(e2) / s * np.exp(-(a**2) / (2 * m2) - (a - b) ** 2 / (2 * t2) - b**2 / (2 * m2))
        return v * np.prod(per_column * np.ones_like(a))

    return pairwise(k1)


def gibbs(length, v):
    def k1(a, b):
        la, lb = length(a), length(b)
        s = la**2 + lb**2
        return v * np.prod(np.sqrt(2 * la * lb / s)) * np.exp(-np.sum((a - b) ** 2 / s))

    return pairwise(k1)


def change_point(location, steepness):
    def k1(a, b):
        s = lambda p: 1 / (1 + np.exp(-steepness * (p[1] - location)))  # noqa: E731
        before = np.exp(-0.5 * np.sum((a - b) ** 2))
        return (1 - s(a)) * before * (1 - s(b)) + s(a) * 2.0 * s(b)

    return pairwise(k1)


def brownian(v):
    return pairwise(lambda a, b: v * np.prod(0.5 * (abs(a) + abs(b) - abs(a - b))))


def additive(ells, variances):
    from itertools import combinations

    def k1(a, b):
        values = [np.exp(-0.5 * ((a[i] - b[i]) / ells[i]) ** 2) for i in range(len(ells))]
        return sum(v * sum(np.prod(group) for group in combinations(values, n + 1)) for n, v in enumerate(variances))

    return pairwise(k1)


def make_additive():
    kernel = k.Additive(k.RBF(), variance=[0.5, 0.3, 0.2], dim=3)
    for i, ell in enumerate([0.5, 1.0, 2.0]):
        kernel.set(**{f"{i}.base.lengthscale": ell})
    return kernel


def overlap(a, b):
    return len(set(a) & set(b))


def overlap_matrix(x, z):
    raw = np.array([[overlap(a, b) for b in z] for a in x], float)
    return raw / np.sqrt(np.array([[len(set(a)) * len(set(b)) for b in z] for a in x]))


class Softened(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.3, -0.2]))

    def forward(self, x):
        return (0.5 + (x * self.weight).sum(-1, keepdim=True).square()).sqrt()


def softened(a):
    return np.sqrt(0.5 + (a @ np.array([0.3, -0.2], np.float32).astype(float)) ** 2)


ELL = np.array([0.7, 1.9])
GRAM = (lambda b: b @ b.T)(np.random.default_rng(0).normal(size=(12, 4)))
WORDS = ["gaussian", "process", "kernel", "gauss", "prior", "posterior"]

CASES: dict[str, Case] = {
    "RBF": Case(lambda: k.RBF(0.7, 1.3), rbf(0.7, 1.3)),
    "RBF ard": Case(lambda: k.RBF(ELL, 1.3), rbf(ELL, 1.3)),
    "Exponential": Case(
        lambda: k.Exponential(ELL, 1.3), pairwise(lambda a, b: 1.3 * np.exp(-np.linalg.norm((a - b) / ELL)))
    ),
    "RationalQuadratic": Case(
        lambda: k.RationalQuadratic(ELL, 0.8, 1.3),
        pairwise(lambda a, b: 1.3 * (1 + np.sum(((a - b) / ELL) ** 2) / (2 * 0.8)) ** -0.8),
    ),
    **{
        f"PiecewisePolynomial {q}": Case(
            lambda q=q: k.PiecewisePolynomial(q, dim=2, lengthscale=[2.0, 3.0]), wendland(q, 2, np.array([2.0, 3.0]))
        )
        for q in range(4)
    },
    "Constant": Case(lambda: k.Constant(2.0), lambda x, z: np.full((len(x), len(z)), 2.0), gradients=False),
    "White": Case(
        lambda: k.White(2.0), pairwise(lambda a, b: 2.0 * np.array_equal(a, b)), z=points()[2:6], gradients=False
    ),
    "Sum": Case(lambda: k.RBF(0.7) + k.Constant(2.0), lambda x, z: rbf(0.7)(x, z) + 2.0),
    "Sum practical kernel": Case(  # the lecture's θ0 exp(−θ1/2 |x−x'|²) + θ2 + θ3 x·x'
        lambda: k.RBF(4.0**-0.5, 9.0) + k.Constant(10.0) + k.Linear(5.0),
        lambda x, z: 9 * np.exp(-4 / 2 * ((x[:, None] - z) ** 2).sum(-1)) + 10 + 5 * x @ z.T,
    ),
    "Product": Case(lambda: 3 * k.RBF(0.7) * k.RBF(ELL), lambda x, z: 3 * rbf(0.7)(x, z) * rbf(ELL)(x, z)),
    "Power": Case(lambda: (k.RBF(0.7) + 1.0) ** 3, lambda x, z: (rbf(0.7)(x, z) + 1) ** 3),
    "OnColumns": Case(
        lambda: k.RBF(0.7).on(1) * k.Linear().on([0]),
        lambda x, z: rbf(0.7)(x[:, 1:], z[:, 1:]) * (x[:, :1] @ z[:, :1].T),
    ),
    "Warped": Case(lambda: k.RBF(0.7).warp(torch.sinh), lambda x, z: rbf(0.7)(np.sinh(x), np.sinh(z))),
    "Rescaled": Case(
        lambda: k.Rescaled(k.RBF(0.7), Softened()),
        lambda x, z: softened(x)[:, None] * rbf(0.7)(x, z) * softened(z),
        functions=False,
    ),
    "Separate": Case(
        lambda: k.Separate([k.RBF(0.7), k.Exponential(0.7)]),
        lambda x, z: np.stack([rbf(0.7)(x, z), pairwise(lambda a, b: np.exp(-np.linalg.norm(a - b) / 0.7))(x, z)]),
        functions=False,
    ),
    **{
        f"ArcCosine {degree} {depth}": Case(
            lambda degree=degree, depth=depth: k.ArcCosine(degree, depth, ELL, 1.3),
            arc_cosine(degree, depth, ELL, 1.3),
        )
        for degree, depth in ((0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (2, 3), (3, 2), (5, 1))
    },
    "ArcCosine bias": Case(
        lambda: k.ArcCosine(1, 2, 0.7, 1.3, bias=0.4), arc_cosine(1, 2, np.array([0.7, 0.7]), 1.3, 0.4)
    ),
    "ArcSine": Case(lambda: k.ArcSine([0.5, 2.0], 0.3, 1.3), arcsine(np.array([0.5, 2.0]), 0.3, 1.3, "erf")),
    "ArcSine probit": Case(lambda: k.ArcSine(0.5, 0.3, units="probit"), arcsine(0.5, 0.3, 1.0, "probit")),
    "GaussianUnits": Case(lambda: k.GaussianUnits(0.7, 1.9, 1.3), gaussian_units(0.7, 1.9, 1.3)),
    "GaussianUnits ard": Case(lambda: k.GaussianUnits(ELL, ELL + 1, 1.3), gaussian_units(ELL, ELL + 1, 1.3)),
    "Gibbs": Case(lambda: k.Gibbs(lambda x: 0.5 + x.square(), 1.3), gibbs(lambda a: 0.5 + a**2, 1.3)),
    "Gibbs module": Case(lambda: k.Gibbs(Softened()), gibbs(lambda a: softened(a) * np.ones(2), 1.0)),
    "ChangePoint": Case(
        lambda: k.ChangePoint(k.RBF(), k.Constant(2.0), location=0.2, steepness=3.0, column=1),
        change_point(0.2, 3.0),
    ),
    "Brownian": Case(lambda: k.Brownian(1.3), brownian(1.3), x=unit_points(9, 1) - 0.3),
    "Brownian sheet": Case(lambda: k.Brownian(1.3), brownian(1.3), x=unit_points()),
    "Additive": Case(make_additive, additive([0.5, 1.0, 2.0], [0.5, 0.3, 0.2]), x=points(9, 3)),
    "PairFunction": Case(
        lambda: k.PairFunction(overlap, 1.3), lambda x, z: 1.3 * overlap_matrix(x, z), x=WORDS, z=WORDS[1:4]
    ),
    "PairFunction distance": Case(
        lambda: k.PairFunction(overlap, lengthscale=0.6),
        lambda x, z: np.exp((overlap_matrix(x, z) - 1) / 0.36),
        x=WORDS,
        z=WORDS[1:4],
    ),
    "Cached": Case(
        lambda: k.PairFunction(overlap, 1.3).cached(WORDS),
        lambda x, z: 1.3 * overlap_matrix([WORDS[int(i)] for i in x[:, 0]], [WORDS[int(i)] for i in z[:, 0]]),
        x=torch.tensor([[0.0], [3], [5], [2]], dtype=torch.float64),
        z=torch.tensor([[5.0], [3]], dtype=torch.float64),
        gradients=False,
    ),
    "Anchored": Case(
        lambda: k.Anchored(k.PairFunction(overlap, 1.3)),
        lambda x, z: 1.3 * x[:, 2:][:, z[:, 0].astype(int)],
        x=k.Anchors(k.PairFunction(overlap, 1.3), WORDS[:4]).rows(),
        z=k.Anchors(k.PairFunction(overlap, 1.3), WORDS[:4]).rows()[1:3],
        gradients=False,
    ),
    "Precomputed": Case(
        lambda: k.Precomputed(GRAM, 1.3),
        lambda x, z: 1.3 * GRAM[np.ix_(x[:, 0].astype(int), z[:, 0].astype(int))],
        x=torch.tensor([[0.0], [3], [7], [2], [11]], dtype=torch.float64),
        z=torch.tensor([[5.0], [3]], dtype=torch.float64),
        gradients=False,
    ),
    "RBF fixed": Case(lambda: k.RBF(positive(0.7, trainable=False)), rbf(0.7)),
}
