"""Cases of the kernels in matern, periodic and spectral_mixture."""

import numpy as np
from scipy.special import gamma, kv

from stratagp.kernels.stationary.matern import Matern
from stratagp.kernels.stationary.periodic import Cosine, Periodic, locally_periodic
from stratagp.kernels.stationary.spectral_mixture import SpectralMixture
from stratagp.parameters import positive
from tests.kernels.case import Case, pairwise, points

ELL = np.array([0.7, 1.9])
PERIOD = np.array([1.5, 0.8])
WEIGHTS = np.array([0.5, 1.2, 0.3])
MEANS = np.array([[0.1, 0.4], [0.9, -0.2], [0.3, 0.3]])
VARIANCES = np.array([[0.02, 0.1], [0.3, 0.05], [0.01, 0.2]])


def matern(nu, ell, v=1.0):
    def k1(a, b):
        q = np.sqrt(2 * nu) * np.linalg.norm((a - b) / ell)
        return v if q == 0 else v * 2 ** (1 - nu) / gamma(nu) * q**nu * kv(nu, q)

    return pairwise(k1)


def periodic(ell, p, v=1.0):
    return pairwise(lambda a, b: v * np.exp(-2 * np.sum(np.sin(np.pi * (a - b) / p) ** 2 / ell**2)))


def spectral_mixture(weights, means, variances):
    def k1(a, b):
        t = a - b
        bells = np.exp(-2 * np.pi**2 * (variances * t**2).sum(-1))
        return np.sum(weights * bells * np.cos(2 * np.pi * (means * t).sum(-1)))

    return pairwise(k1)


CASES: dict[str, Case] = {
    "Matern": Case(lambda: Matern(2.5, 0.7, 1.3), matern(2.5, 0.7, 1.3)),
    "Matern 1/2": Case(lambda: Matern(0.5, ELL, 1.3), matern(0.5, ELL, 1.3)),
    "Matern 3/2 ard": Case(lambda: Matern(1.5, ELL, 1.3), matern(1.5, ELL, 1.3)),
    "Matern 5/2 ard": Case(lambda: Matern(2.5, ELL, 1.3), matern(2.5, ELL, 1.3)),
    "Matern general nu": Case(lambda: Matern(1.7, ELL, 1.3), matern(1.7, ELL, 1.3)),
    "Matern rough": Case(lambda: Matern(0.6, 0.7, 1.3), matern(0.6, 0.7, 1.3)),
    "Matern learnt nu": Case(lambda: Matern(positive(2.5), ELL, 1.3), matern(2.5, ELL, 1.3)),
    "Cosine": Case(lambda: Cosine(0.8, 1.3), pairwise(lambda a, b: 1.3 * np.cos(2 * np.pi * np.sum(a - b) / 0.8))),
    "Cosine per column": Case(
        lambda: Cosine(PERIOD), pairwise(lambda a, b: np.cos(2 * np.pi * np.sum((a - b) / PERIOD)))
    ),
    "Periodic": Case(lambda: Periodic(0.7, 1.5, 1.3), periodic(0.7, 1.5, 1.3)),
    "Periodic one column": Case(lambda: Periodic([0.7], 1.5), periodic(0.7, 1.5), x=points(9, 1)),
    "Periodic ard": Case(lambda: Periodic(ELL, PERIOD, 1.3), periodic(ELL, PERIOD, 1.3)),
    "Periodic local": Case(
        lambda: locally_periodic(1.5, 0.7, decay=3.0, variance=1.3),
        lambda x, z: (
            periodic(0.7, 1.5, 1.3)(x, z) * pairwise(lambda a, b: np.exp(-0.5 * np.sum((a - b) ** 2) / 9.0))(x, z)
        ),
    ),
    "SpectralMixture": Case(
        lambda: SpectralMixture(3, 2, WEIGHTS, MEANS, VARIANCES), spectral_mixture(WEIGHTS, MEANS, VARIANCES)
    ),
    "SpectralMixture default": Case(
        lambda: SpectralMixture(2),
        spectral_mixture(np.array([0.5, 0.5]), np.array([[0.25], [0.75]]), np.full((2, 1), 0.25)),
        x=points(9, 1),
    ),
}
