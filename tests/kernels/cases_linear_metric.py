"""Cases of the kernels in linear, metric, convolution and centred."""

import numpy as np

from stratagp.kernels import RBF, Constant, Exponential
from stratagp.kernels.algebra.centred import Centred
from stratagp.kernels.algebra.convolution import Convolved, Smoothed
from stratagp.kernels.nonstationary.linear import Linear, Polynomial
from stratagp.kernels.stationary.metric import MetricRBF
from tests.kernels.case import Case, pairwise, points

V = np.array([0.5, 2.0])
ELL = np.array([0.7, 1.9])
WIDTH = np.array([0.4, 0.3])
FACTOR = np.array([[1.3, 0.0], [-0.6, 0.8]])
OFFSETS = np.array([[0.0, 0.0], [0.5, -0.2], [-0.3, 0.4]])
WEIGHTS = np.array([0.5, 0.7, -0.2])


def metric_rbf(factor, v):
    J = np.linalg.inv(factor @ factor.T)
    return pairwise(lambda a, b: v * np.exp(-0.5 * (a - b) @ np.linalg.solve(J, a - b)))


def smoothed(ell, width, v, d=2):
    square, width = np.broadcast_to(ell, d) ** 2, np.broadcast_to(width, d)
    wide = square + 2 * width**2
    height = v * np.prod(np.sqrt(square / wide))
    return pairwise(lambda a, b: height * np.exp(-0.5 * np.sum((a - b) ** 2 / wide)))


def convolved(k1, offsets, weights):
    shifts = list(zip(offsets, weights, strict=True))
    return pairwise(lambda a, b: sum(v * w * k1(a + s, b + t) for s, v in shifts for t, w in shifts))


def centred(k1, places, weights):
    weights = np.array(weights) / np.sum(weights)
    kb = pairwise(k1)
    s = np.array(places)[:, None]
    mean = lambda x: kb(x, s) @ weights  # noqa: E731
    return lambda x, z: kb(x, z) - np.outer(mean(x), mean(z)) / (weights @ mean(s))


CASES: dict[str, Case] = {
    "Linear": Case(lambda: Linear(0.5), lambda x, z: 0.5 * x @ z.T),
    "Linear ard": Case(lambda: Linear(V), pairwise(lambda a, b: np.sum(V * a * b))),
    "Polynomial": Case(lambda: Polynomial(), lambda x, z: (x @ z.T + 1) ** 2),
    "Polynomial cubic": Case(lambda: Polynomial(3, 0.6, V), pairwise(lambda a, b: (np.sum(V * a * b) + 0.6) ** 3)),
    "MetricRBF": Case(lambda: MetricRBF(FACTOR, 1.3), metric_rbf(FACTOR, 1.3)),
    "MetricRBF identity": Case(lambda: MetricRBF(2), pairwise(lambda a, b: np.exp(-0.5 * np.sum((a - b) ** 2)))),
    "Smoothed": Case(lambda: Smoothed(RBF(0.7, 1.3), 0.4), smoothed(0.7, 0.4, 1.3)),
    "Smoothed ard": Case(lambda: Smoothed(RBF(ELL, 1.3), WIDTH), smoothed(ELL, WIDTH, 1.3)),
    "Smoothed one width": Case(lambda: Smoothed(RBF(ELL), 0.4), smoothed(ELL, 0.4, 1.0)),
    "Smoothed one lengthscale": Case(lambda: Smoothed(RBF(0.7), WIDTH), smoothed(0.7, WIDTH, 1.0)),
    "Smoothed sum": Case(
        lambda: Smoothed(RBF(0.7) + RBF(ELL, 1.3) + Constant(2.0), 0.4),
        lambda x, z: smoothed(0.7, 0.4, 1.0)(x, z) + smoothed(ELL, 0.4, 1.3)(x, z) + 2.0,
    ),
    "Convolved": Case(
        lambda: Convolved(RBF(0.7, 1.3), OFFSETS, WEIGHTS),
        convolved(lambda a, b: 1.3 * np.exp(-0.5 * np.sum((a - b) ** 2) / 0.49), OFFSETS, WEIGHTS),
    ),
    "Convolved rough": Case(
        lambda: Convolved(Exponential(), OFFSETS[:, :1], WEIGHTS),
        convolved(lambda a, b: np.exp(-np.abs(a - b).sum()), OFFSETS[:, :1], WEIGHTS),
        x=points(9, 1),
        z=points(5, 1, seed=3),
    ),
    "Centred": Case(
        lambda: Centred(RBF(0.7, 1.3), [-1.0, 0.2, 1.5], [1.0, 2.0, 0.5]),
        centred(lambda a, b: 1.3 * np.exp(-0.5 * np.sum((a - b) ** 2) / 0.49), [-1.0, 0.2, 1.5], [1.0, 2.0, 0.5]),
        x=points(9, 1),
    ),
    "Centred rough": Case(
        lambda: Centred(Exponential(0.7), [-1.0, 0.2, 1.5]),
        centred(lambda a, b: np.exp(-np.abs(a - b).sum() / 0.7), [-1.0, 0.2, 1.5], [1.0, 1.0, 1.0]),
        x=points(9, 1),
    ),
}
