"""A spike-and-slab sum of Gaussian processes."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtr, xlogy

from stratagp.baselines.kernels_of_views import ProbableClassifier
from stratagp.errors import InputError

_LOG_2PI = float(np.log(2 * np.pi))
_LEAST = 1e-6  # variance
_UNIT = 1e-6  # how far the diagonal of a kernel may be from one


class MKGPClassifier(ProbableClassifier):
    """Spike-and-slab sum of Gaussian processes after Lázaro-Gredilla and Titsias (2011): regression on the labels.

    y = mean + Σₘ sₘwₘφₘ(x) + ε, φₘ ~ GP(0, kₘ), wₘ ~ N(0, σ_w²), sₘ ~ Bernoulli(π), ε ~ N(0, σ²), and the mean field
    Πₘ q(wₘ, sₘ) q(φₘ). The updates are our derivation for one output, not taken from the authors' code. With
    γ = q(s = 1), q(w | s = 1) = N(μ, v), q(w | s = 0) = p(w), r = y − Σ_{l≠m} γμφ̄ and c = γ(μ² + v)/σ²::

        q(φ):     covariance (K⁻¹ + cI)⁻¹, mean φ̄ = K(I + cK)⁻¹ r γμ/σ²
        q(w, s):  1/v = 1/σ_w² + E|φ|²/σ²,  μ = v φ̄'r/σ²,  logit γ = logit π + log(v/σ_w²)/2 + μ²/2v
        σ² = E|y − Σ swφ|²/N,  σ_w² = Σ γ(μ² + v)/Σ γ,  π = the mean of γ

    Each raises the bound. Processes start at the posterior of equal weights. The probability is that of y > 0. Views
    that say the same compete, and often one alone remains.

    Arguments:
        sweeps: at most so many, over all processes.
        tolerance: a sweep that raises the bound by less, for each row, is the last.
        precomputed: whether ``X`` holds kernels instead of views; their diagonals must be one.

    After ``fit``, ``weights_`` holds the mean of sw, what each kernel adds, and ``bounds_`` the bound after each sweep.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> mkgp = MKGPClassifier().fit({"useful": X[:, :1], "idle": X[:, 1:]}, X[:, 0] > 0)
    >>> bool(abs(mkgp.weights_[0]) > abs(mkgp.weights_[1]))
    True
    """

    def __init__(self, sweeps: int = 500, tolerance: float = 1e-6, precomputed: bool = False) -> None:
        self.sweeps, self.tolerance, self.precomputed = sweeps, tolerance, precomputed

    def _learn(self, kernels: np.ndarray, y: np.ndarray) -> None:
        if self.sweeps < 1 or self.tolerance < 0:
            raise InputError(f"sweeps must be ≥ 1 and tolerance ≥ 0, got {self.sweeps!r} and {self.tolerance!r}")
        if np.abs(np.diagonal(kernels, axis1=1, axis2=2) - 1).max() > _UNIT:
            raise InputError(
                "precomputed=True: MKGPClassifier needs kernels with k(x, x) = 1, so divide each by √(k k')"
            )
        p, n = kernels.shape[:2]
        self._mean = y.mean()
        self._y = y - self._mean
        self._values, self._vectors = np.linalg.eigh(kernels)
        self._values = np.maximum(self._values, 0.0)
        self._noise, self._slab, self._pi = self._y.var() / 2, 1.0, 0.5
        self._gamma, self._mu, self._v = np.ones(p), np.full(p, p**-0.5), np.zeros(p)
        shared = np.linalg.solve(kernels.mean(0) + self._noise * np.eye(n), self._y)
        self._phi = p**-0.5 * kernels @ shared
        self._alpha, self._c, self._norm, self._kl = np.zeros((p, n)), np.zeros(p), np.zeros(p), np.zeros(p)
        self.bounds_ = []
        for _ in range(self.sweeps):
            for m in range(p):
                self._update_phi(m)
                self._update_w(m)
            self._update_hyperparameters()
            self.bounds_.append(self._bound())
            if len(self.bounds_) > 1 and self.bounds_[-1] - self.bounds_[-2] < self.tolerance * n:
                break
        self.weights_ = self._gamma * self._mu

    def _probability(self, cross: np.ndarray) -> np.ndarray:
        """That of y > 0."""
        phi = np.einsum("pmn,pn->pm", cross, self._alpha)
        shrink = self._c[:, None] / (1 + self._c[:, None] * self._values)
        second = phi**2 + 1 - np.einsum("pmn,pn->pm", (cross @ self._vectors) ** 2, shrink)
        mean = self.weights_ @ phi
        variance = self._w_squared() @ second - self.weights_**2 @ phi**2
        return np.asarray(ndtr((self._mean + mean) / np.sqrt(variance + self._noise)))

    def _w_squared(self) -> np.ndarray:
        return np.asarray(self._gamma * (self._mu**2 + self._v))

    def _expected(self) -> np.ndarray:
        return np.asarray((self._gamma * self._mu) @ self._phi)

    def _update_phi(self, m: int) -> None:
        """In the eigenvectors of K; α = K⁻¹φ̄, E|φ|² and the KL to the prior are kept."""
        values, vectors, weight = self._values[m], self._vectors[m], self._gamma[m] * self._mu[m]
        residual = self._y - self._expected() + weight * self._phi[m]
        self._c[m] = self._w_squared()[m] / self._noise
        shrink = 1 / (1 + self._c[m] * values)
        along = shrink * (vectors.T @ residual) * weight / self._noise
        self._alpha[m], self._phi[m] = vectors @ along, vectors @ (values * along)
        self._norm[m] = self._phi[m] @ self._phi[m] + values @ shrink
        self._kl[m] = np.sum(shrink - 1 - np.log(shrink) + values * along**2) / 2

    def _update_w(self, m: int) -> None:
        residual = self._y - self._expected() + self._gamma[m] * self._mu[m] * self._phi[m]
        self._v[m] = 1 / (1 / self._slab + self._norm[m] / self._noise)
        self._mu[m] = self._v[m] * (self._phi[m] @ residual) / self._noise
        odds = logit(self._pi) + np.log(self._v[m] / self._slab) / 2 + self._mu[m] ** 2 / (2 * self._v[m])
        self._gamma[m] = expit(odds)

    def _misfit(self) -> float:
        """E|y − Σ swφ|²."""
        squares = self._w_squared() * self._norm - (self._gamma * self._mu) ** 2 * np.sum(self._phi**2, 1)
        return float(np.sum((self._y - self._expected()) ** 2) + squares.sum())

    def _update_hyperparameters(self) -> None:
        self._noise = max(self._misfit() / len(self._y), _LEAST)
        self._slab = max(float(self._w_squared().sum() / self._gamma.sum()), _LEAST)
        self._pi = float(np.clip(self._gamma.mean(), 0.01, 0.99))

    def _bound(self) -> float:
        n, ratio = len(self._y), self._v / self._slab
        fit = -n / 2 * (_LOG_2PI + np.log(self._noise)) - self._misfit() / (2 * self._noise)
        slabs = self._gamma * (ratio + self._mu**2 / self._slab - 1 - np.log(ratio)) / 2
        spikes = xlogy(self._gamma, self._gamma / self._pi)
        spikes += xlogy(1 - self._gamma, (1 - self._gamma) / (1 - self._pi))
        return float(fit - np.sum(self._kl + slabs + spikes))
