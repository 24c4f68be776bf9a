"""Learning with several kernels, for comparison: BEMKL, MKGP and two SVMs, on kernels that are given.

Labels are −1 and +1. ``kernels`` are P × N × N between the training rows, ``cross`` P × M × N from new rows to them.
All models take the same kernels; :func:`rbf_kernels` makes them from the views.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import expit, gammaln, log_ndtr, logit, ndtr, xlogy
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

LOG_2PI = np.log(2 * np.pi)
LEAST_SPREAD = 0.1  # of the spread of a view: what a feature is divided by at the least
COSTS = 10.0 ** np.arange(-2, 4)  # of an SVM
Views = dict[str, np.ndarray]


def rbf_kernels(train: Views, test: Views) -> tuple[np.ndarray, np.ndarray]:
    """exp(−|x − x'|² / 2ℓ²) on each view, between training rows and from test rows to them.

    Views are standardised by the training rows; ℓ is the median distance of two of these. A feature that hardly varies
    among the training rows is divided by a tenth of the root mean square spread of its view, lest it rule elsewhere.
    """
    kernels, cross = [], []
    for name, x in train.items():
        spread = x.std(0)
        spread = np.maximum(spread, LEAST_SPREAD * np.sqrt(np.mean(spread**2)))
        x, x_test = (part / spread for part in (x, test[name]))
        scale = 2 * np.median(pdist(x)) ** 2
        kernels.append(np.exp(-cdist(x, x, "sqeuclidean") / scale))
        cross.append(np.exp(-cdist(x_test, x, "sqeuclidean") / scale))
    return np.stack(kernels), np.stack(cross)


class BEMKL:
    """Bayesian efficient multiple kernel learning (Gönen 2012), binary, by mean-field updates.

    λᵢ ~ Gamma, aᵢ ~ N(0, 1/λᵢ); gₘᵢ ~ N(a'kₘᵢ, σ²); γ ~ Gamma, b ~ N(0, 1/γ); ωₘ ~ Gamma, eₘ ~ N(0, 1/ωₘ);
    fᵢ ~ N(e'gᵢ + b, 1) with yᵢfᵢ > margin. All Gamma distributions have shape and scale 1. The factors are q(a), q(λ),
    q(G), q(b, e), q(γ), q(ω), q(f). ``bounds`` holds the lower bound of log p(y) after each sweep; it never falls.
    Unlike the author's code, prediction divides by the standard deviation of f, and the start is not random.
    """

    def __init__(self, sweeps: int = 200, sigma: float = 0.1, margin: float = 1.0) -> None:
        self.sweeps, self.variance, self.margin = sweeps, sigma**2, margin

    def fit(self, kernels: np.ndarray, y: np.ndarray) -> BEMKL:
        """The posterior of labels −1 and +1 under P kernels."""
        p, n = kernels.shape[:2]
        self.kernels, self.y = kernels, y
        self.squares = np.einsum("pij,pjk->ik", kernels, kernels, optimize=True)
        self.lam, self.omega = np.ones(n), np.ones(p + 1)  # expected precisions; ω begins with that of b
        self.f = 2 * self.margin * y
        self.g = np.tile(self.f, (p, 1))
        self.be, self.be_cov = np.r_[0.0, np.ones(p)], np.eye(p + 1)
        self.bounds: list[float] = []
        for _ in range(self.sweeps):
            self._update_a()
            self._update_g()
            self._update_be()
            self._update_f()
            self.bounds.append(self._bound())
        return self

    def predict_proba(self, cross: np.ndarray) -> np.ndarray:
        """p(y = +1) of new rows, of f above the margin against f below its negative."""
        h = np.vstack([np.ones(cross.shape[1]), cross @ self.a])
        mean, sd = self.be @ h, np.sqrt(1 + np.einsum("pn,pq,qn->n", h, self.be_cov, h))
        return expit(log_ndtr((mean - self.margin) / sd) - log_ndtr((-mean - self.margin) / sd))

    @property
    def weights(self) -> np.ndarray:
        """The mean of e: what each kernel adds."""
        return self.be[1:]

    def _update_a(self) -> None:
        self.a_cov = np.linalg.inv(np.diag(self.lam) + self.squares / self.variance)
        self.a = self.a_cov @ np.einsum("pij,pj->i", self.kernels, self.g) / self.variance
        self.lam_rate = 1 + (self.a**2 + np.diag(self.a_cov)) / 2
        self.lam = 1.5 / self.lam_rate

    def _update_g(self) -> None:
        """S = (I/σ² + E ee')⁻¹, mean S([a'Kₘ]/σ² + E[e]f' − E[eb]1')."""
        moments = self.be_cov + np.outer(self.be, self.be)
        self.g_cov = np.linalg.inv(np.eye(len(self.g)) / self.variance + moments[1:, 1:])
        pull = self.kernels @ self.a / self.variance + np.outer(self.be[1:], self.f) - moments[1:, :1]
        self.g = self.g_cov @ pull

    def _update_be(self) -> None:
        """S = ([γ + N, 1'G'; G1, diag ω + GG' + N S_G])⁻¹, mean S[1; G]f."""
        h = np.vstack([np.ones(len(self.f)), self.g])
        precision = np.diag(self.omega) + h @ h.T
        precision[1:, 1:] += len(self.f) * self.g_cov
        self.be_cov = np.linalg.inv(precision)
        self.be = self.be_cov @ h @ self.f
        self.omega_rate = 1 + (self.be**2 + np.diag(self.be_cov)) / 2
        self.omega = 1.5 / self.omega_rate

    def _update_f(self) -> None:
        """The mean of N(o, 1) truncated to yf > margin: o + yφ(z)/Φ(z), z = yo − margin."""
        self.o = self.be[0] + self.be[1:] @ self.g
        z = self.y * self.o - self.margin
        self.f = self.o + self.y * np.exp(-(z**2) / 2 - LOG_2PI / 2 - log_ndtr(z))

    def _bound(self) -> float:
        """E log p(y, all) + entropies, at the end of a sweep, where much of it cancels."""
        (p, n), h = self.g.shape, np.vstack([np.ones(len(self.f)), self.g])
        moments = self.be_cov + np.outer(self.be, self.be)
        rates = np.r_[self.lam_rate, self.omega_rate]
        precisions = np.sum(gammaln(1.5) - LOG_2PI / 2 - 1.5 * np.log(rates))  # E log p(a|λ) − KL of q(λ), and so on
        misfit = np.sum((self.g - self.kernels @ self.a) ** 2)
        misfit += n * np.trace(self.g_cov) + np.sum(self.a_cov * self.squares)
        inner = -n * p / 2 * (LOG_2PI + np.log(self.variance)) - misfit / (2 * self.variance)
        spread = np.sum(self.be_cov * (h @ h.T)) + n * np.sum(moments[1:, 1:] * self.g_cov)
        outer = np.sum(log_ndtr(self.y * self.o - self.margin)) - spread / 2
        covariances = ((self.a_cov, 1), (self.g_cov, n), (self.be_cov, 1))
        entropy = sum(k * (np.linalg.slogdet(c)[1] + len(c) * (1 + LOG_2PI)) / 2 for c, k in covariances)
        return float(precisions + inner + outer + entropy)


class MKGP:
    """Spike-and-slab sum of Gaussian processes after Lázaro-Gredilla and Titsias (2011): regression on the labels.

    y = mean + Σₘ sₘwₘφₘ(x) + ε, φₘ ~ GP(0, kₘ), wₘ ~ N(0, σ_w²), sₘ ~ Bernoulli(π), ε ~ N(0, σ²), and the mean field
    Πₘ q(wₘ, sₘ) q(φₘ). The updates are our derivation for one output, not taken from the authors' code. With
    γ = q(s = 1), q(w | s = 1) = N(μ, v), q(w | s = 0) = p(w), r = y − Σ_{l≠m} γμφ̄ and c = γ(μ² + v)/σ²::

        q(φ):     covariance (K⁻¹ + cI)⁻¹, mean φ̄ = K(I + cK)⁻¹ r γμ/σ²
        q(w, s):  1/v = 1/σ_w² + E|φ|²/σ²,  μ = v φ̄'r/σ²,  logit γ = logit π + log(v/σ_w²)/2 + μ²/2v
        σ² = E|y − Σ swφ|²/N,  σ_w² = Σ γ(μ² + v)/Σ γ,  π = the mean of γ

    Each raises the bound; ``bounds`` holds it after each sweep. Processes start at the posterior of equal weights. The
    probability is that of y > 0. Views that say the same compete, and often one alone remains.
    """

    def __init__(self, sweeps: int = 500, tolerance: float = 1e-6) -> None:
        self.sweeps, self.tolerance = sweeps, tolerance

    def fit(self, kernels: np.ndarray, y: np.ndarray) -> MKGP:
        """The posterior and the hyperparameters of labels −1 and +1 under P kernels."""
        p, n = kernels.shape[:2]
        self.mean = y.mean()
        self.y = y - self.mean
        self.values, self.vectors = np.linalg.eigh(kernels)
        self.values = np.maximum(self.values, 0.0)
        self.noise, self.slab, self.pi = self.y.var() / 2, 1.0, 0.5
        self.gamma, self.mu, self.v = np.ones(p), np.full(p, p**-0.5), np.zeros(p)
        shared = np.linalg.solve(kernels.mean(0) + self.noise * np.eye(n), self.y)
        self.phi = p**-0.5 * kernels @ shared
        self.alpha, self.c, self.norm, self.kl = np.zeros((p, n)), np.zeros(p), np.zeros(p), np.zeros(p)
        self.bounds: list[float] = []
        for _ in range(self.sweeps):
            for m in range(p):
                self._update_phi(m)
                self._update_w(m)
            self._update_hyperparameters()
            self.bounds.append(self._bound())
            if len(self.bounds) > 1 and self.bounds[-1] - self.bounds[-2] < self.tolerance * n:
                break
        return self

    def predict_proba(self, cross: np.ndarray, diagonal: float = 1.0) -> np.ndarray:
        """p(y > 0) of new rows; ``diagonal`` is k(x, x)."""
        phi = np.einsum("pmn,pn->pm", cross, self.alpha)
        shrink = self.c[:, None] / (1 + self.c[:, None] * self.values)
        second = phi**2 + diagonal - np.einsum("pmn,pn->pm", (cross @ self.vectors) ** 2, shrink)
        mean = self.weights @ phi
        variance = self._w_squared() @ second - self.weights**2 @ phi**2
        return ndtr((self.mean + mean) / np.sqrt(variance + self.noise))

    @property
    def weights(self) -> np.ndarray:
        """The mean of sw: what each kernel adds."""
        return self.gamma * self.mu

    def _w_squared(self) -> np.ndarray:
        return self.gamma * (self.mu**2 + self.v)

    def _residual(self, m: int) -> np.ndarray:
        return self.y - self.weights @ self.phi + self.weights[m] * self.phi[m]

    def _update_phi(self, m: int) -> None:
        """In the eigenvectors of K; α = K⁻¹φ̄, E|φ|² and the KL to the prior are kept."""
        values, vectors = self.values[m], self.vectors[m]
        self.c[m] = self._w_squared()[m] / self.noise
        shrink = 1 / (1 + self.c[m] * values)
        along = shrink * (vectors.T @ self._residual(m)) * self.weights[m] / self.noise
        self.alpha[m], self.phi[m] = vectors @ along, vectors @ (values * along)
        self.norm[m] = self.phi[m] @ self.phi[m] + values @ shrink
        self.kl[m] = np.sum(shrink - 1 - np.log(shrink) + values * along**2) / 2

    def _update_w(self, m: int) -> None:
        self.v[m] = 1 / (1 / self.slab + self.norm[m] / self.noise)
        self.mu[m] = self.v[m] * (self.phi[m] @ self._residual(m)) / self.noise
        odds = logit(self.pi) + np.log(self.v[m] / self.slab) / 2 + self.mu[m] ** 2 / (2 * self.v[m])
        self.gamma[m] = expit(odds)

    def _misfit(self) -> float:
        """E|y − Σ swφ|²."""
        squares = self._w_squared() * self.norm - self.weights**2 * np.sum(self.phi**2, 1)
        return float(np.sum((self.y - self.weights @ self.phi) ** 2) + squares.sum())

    def _update_hyperparameters(self) -> None:
        self.noise = max(self._misfit() / len(self.y), 1e-6)
        self.slab = max(self._w_squared().sum() / self.gamma.sum(), 1e-6)
        self.pi = np.clip(self.gamma.mean(), 0.01, 0.99)

    def _bound(self) -> float:
        n, ratio = len(self.y), self.v / self.slab
        fit = -n / 2 * (LOG_2PI + np.log(self.noise)) - self._misfit() / (2 * self.noise)
        slabs = self.gamma * (ratio + self.mu**2 / self.slab - 1 - np.log(ratio)) / 2
        spikes = xlogy(self.gamma, self.gamma / self.pi)
        spikes += xlogy(1 - self.gamma, (1 - self.gamma) / (1 - self.pi))
        return float(fit - np.sum(self.kl + slabs + spikes))


class Machine(NamedTuple):
    """What an SVM says of new rows (above 0 is +1), its cost, and its F1 in cross-validation, with the view if one."""

    decision: np.ndarray
    cost: float
    score: float
    view: int | None = None


def svm_uniform(kernels: np.ndarray, y: np.ndarray, cross: np.ndarray, seed: int = 0) -> Machine:
    """The SVM on the mean of the kernels; its cost has the best F1 in five folds."""
    kernel = kernels.mean(0)
    score, cost = best_cost(kernel, y, seed)
    return Machine(machine(cost).fit(kernel, y).decision_function(cross.mean(0)), cost, score)


def svm_best_view(kernels: np.ndarray, y: np.ndarray, cross: np.ndarray, seed: int = 0) -> Machine:
    """The SVM on one kernel; kernel and cost have the best F1 in five folds."""
    tried = [best_cost(kernel, y, seed) for kernel in kernels]
    view = max(range(len(tried)), key=lambda m: tried[m][0])
    score, cost = tried[view]
    return Machine(machine(cost).fit(kernels[view], y).decision_function(cross[view]), cost, score, view)


def best_cost(kernel: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """The best mean F1 of five folds and its cost, the smallest where several are as good."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(kernel, y))

    def score(cost: float) -> float:
        found = []
        for train, held in folds:
            predicted = machine(cost).fit(kernel[np.ix_(train, train)], y[train]).predict(kernel[np.ix_(held, train)])
            found.append(f1_score(y[held], predicted, zero_division=0.0))
        return float(np.mean(found))

    scores = [score(cost) for cost in COSTS]
    best = int(np.argmax(scores))
    return scores[best], float(COSTS[best])


def machine(cost: float) -> SVC:
    return SVC(C=cost, kernel="precomputed")
