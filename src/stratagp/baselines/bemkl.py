"""Bayesian efficient multiple kernel learning."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, log_ndtr

from stratagp.baselines.kernels_of_views import ProbableClassifier
from stratagp.errors import InputError

_LOG_2PI = float(np.log(2 * np.pi))


class BEMKLClassifier(ProbableClassifier):
    """Bayesian efficient multiple kernel learning (BEMKL, Gönen 2012) for two classes, by mean-field updates.

    ::

        λᵢ ~ Gamma, aᵢ ~ N(0, 1/λᵢ);  gₘᵢ ~ N(a'kₘᵢ, σ²);  γ ~ Gamma, b ~ N(0, 1/γ);  ωₘ ~ Gamma, eₘ ~ N(0, 1/ωₘ);
        fᵢ ~ N(e'gᵢ + b, 1) with yᵢfᵢ > margin

    All Gamma distributions have shape and scale 1. The factors are q(a), q(λ), q(G), q(b, e), q(γ), q(ω), q(f). Unlike
    the author's code, prediction divides by the standard deviation of f, and the start is not random.

    Arguments:
        sweeps: over all factors.
        sigma: the standard deviation σ of the intermediate outputs g.
        margin: how far from zero f must be.
        precomputed: whether ``X`` holds kernels instead of views.

    After ``fit``, ``weights_`` holds the mean of e, what each kernel adds, and ``bounds_`` the lower bound of log p(y)
    after each sweep, which never falls.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> bemkl = BEMKLClassifier().fit({"useful": X[:, :1], "idle": X[:, 1:]}, X[:, 0] > 0)
    >>> bool(abs(bemkl.weights_[0]) > abs(bemkl.weights_[1]))
    True
    """

    def __init__(self, sweeps: int = 200, sigma: float = 0.1, margin: float = 1.0, precomputed: bool = False) -> None:
        self.sweeps, self.sigma, self.margin, self.precomputed = sweeps, sigma, margin, precomputed

    def _learn(self, kernels: np.ndarray, y: np.ndarray) -> None:
        if self.sweeps < 1 or self.sigma <= 0 or self.margin < 0:
            raise InputError(
                "sweeps must be ≥ 1, sigma > 0 and margin ≥ 0; "
                f"got sweeps={self.sweeps!r}, sigma={self.sigma!r}, margin={self.margin!r}"
            )
        self._variance = self.sigma**2
        p, n = kernels.shape[:2]
        squares = np.einsum("pij,pjk->ik", kernels, kernels, optimize=True)
        self._lam, self._omega = np.ones(n), np.ones(p + 1)  # expected precisions; ω begins with that of b
        self._f = 2 * max(self.margin, 0.5) * y
        self._g = np.tile(self._f, (p, 1))
        self._be, self._be_cov = np.r_[0.0, np.ones(p)], np.eye(p + 1)
        self.bounds_ = []
        for _ in range(self.sweeps):
            self._update_a(kernels, squares)
            self._update_g(kernels)
            self._update_be()
            self._update_f(y)
            self.bounds_.append(self._bound(kernels, squares, y))
        self.weights_ = self._be[1:]

    def _probability(self, cross: np.ndarray) -> np.ndarray:
        """Of f above the margin, against f below its negative."""
        h = np.vstack([np.ones(cross.shape[1]), cross @ self._a])
        mean, sd = self._be @ h, np.sqrt(1 + np.einsum("pn,pq,qn->n", h, self._be_cov, h))
        log_odds = log_ndtr((mean - self.margin) / sd) - log_ndtr((-mean - self.margin) / sd)
        return np.asarray(expit(log_odds))

    def _update_a(self, kernels: np.ndarray, squares: np.ndarray) -> None:
        self._a_cov = np.linalg.inv(np.diag(self._lam) + squares / self._variance)
        self._a = self._a_cov @ np.einsum("pij,pj->i", kernels, self._g) / self._variance
        self._lam_rate = 1 + (self._a**2 + np.diag(self._a_cov)) / 2
        self._lam = 1.5 / self._lam_rate

    def _update_g(self, kernels: np.ndarray) -> None:
        """S = (I/σ² + E ee')⁻¹, mean S([a'Kₘ]/σ² + E[e]f' − E[eb]1')."""
        moments = self._be_cov + np.outer(self._be, self._be)
        self._g_cov = np.linalg.inv(np.eye(len(self._g)) / self._variance + moments[1:, 1:])
        pull = kernels @ self._a / self._variance + np.outer(self._be[1:], self._f) - moments[1:, :1]
        self._g = self._g_cov @ pull

    def _update_be(self) -> None:
        """S = ([γ + N, 1'G'; G1, diag ω + GG' + N S_G])⁻¹, mean S[1; G]f."""
        h = np.vstack([np.ones(len(self._f)), self._g])
        precision = np.diag(self._omega) + h @ h.T
        precision[1:, 1:] += len(self._f) * self._g_cov
        self._be_cov = np.linalg.inv(precision)
        self._be = self._be_cov @ h @ self._f
        self._omega_rate = 1 + (self._be**2 + np.diag(self._be_cov)) / 2
        self._omega = 1.5 / self._omega_rate

    def _update_f(self, y: np.ndarray) -> None:
        """The mean of N(o, 1) truncated to yf > margin: o + yφ(z)/Φ(z), z = yo − margin."""
        self._o = self._be[0] + self._be[1:] @ self._g
        z = y * self._o - self.margin
        self._f = self._o + y * np.exp(-(z**2) / 2 - _LOG_2PI / 2 - log_ndtr(z))

    def _bound(self, kernels: np.ndarray, squares: np.ndarray, y: np.ndarray) -> float:
        """E log p(y, all) + entropies, at the end of a sweep, where much of it cancels."""
        (p, n), h = self._g.shape, np.vstack([np.ones(len(self._f)), self._g])
        moments = self._be_cov + np.outer(self._be, self._be)
        rates = np.r_[self._lam_rate, self._omega_rate]
        precisions = np.sum(gammaln(1.5) - _LOG_2PI / 2 - 1.5 * np.log(rates))  # E log p(a|λ) − KL of q(λ), and so on
        misfit = np.sum((self._g - kernels @ self._a) ** 2)
        misfit += n * np.trace(self._g_cov) + np.sum(self._a_cov * squares)
        inner = -n * p / 2 * (_LOG_2PI + np.log(self._variance)) - misfit / (2 * self._variance)
        spread = np.sum(self._be_cov * (h @ h.T)) + n * np.sum(moments[1:, 1:] * self._g_cov)
        outer = np.sum(log_ndtr(y * self._o - self.margin)) - spread / 2
        covariances = ((self._a_cov, 1), (self._g_cov, n), (self._be_cov, 1))
        entropy = sum(k * (np.linalg.slogdet(c)[1] + len(c) * (1 + _LOG_2PI)) / 2 for c, k in covariances)
        return float(precisions + inner + outer + entropy)
