"""Gaussians and Student-t distributions, and mixtures of them, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy import special

from stratagp.predictive.base import Predictive

_POINT = 1e-150  # a spread of zero that one can divide by


@dataclass(frozen=True)
class LocationScale(Predictive):
    """Components with weights: one for a plain Gaussian process, more for averages over hyperparameters.

    Arguments:
        means, variances: of each component, row and target.
        log_weights: of the components, which sum to one.
        dof: degrees of freedom of each component's t distribution (``variances`` are its variances); None for
            Gaussians.

    >>> two = LocationScale(np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1)), np.log([0.5, 0.5]))
    >>> two.mean.item(), two.var.item(), round(two.cdf(np.zeros((1, 1))).item(), 3)
    (0.0, 2.0, 0.5)
    """

    means: Float[np.ndarray, "k n q"]
    variances: Float[np.ndarray, "k n q"]
    log_weights: Float[np.ndarray, " k"]
    dof: float | None = None

    def __len__(self) -> int:
        return self.means.shape[1]

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k m_k``."""
        return np.einsum("k,knq->nq", np.exp(self.log_weights), self.means)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k (v_k + (m_k − m)²)``, the law of total variance."""
        between = (self.means - self.mean) ** 2
        return np.einsum("k,knq->nq", np.exp(self.log_weights), self.variances + between)

    def cdf(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``Σ w_k F_k(y)``."""
        z = (y - self.means) / self._spread()
        each = special.ndtr(z) if self.dof is None else special.stdtr(self.dof, z)
        return np.einsum("k,knq->nq", np.exp(self.log_weights), each)

    def log_density(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``log Σ w_k p_k(y)`` of each row and target."""
        spread = self._spread()
        each = self._standard_log_density((y - self.means) / spread) - np.log(spread)
        return special.logsumexp(each + self.log_weights[:, None, None], axis=0)

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """In closed form for one component; else between the quantiles of the components."""
        of_standard = special.ndtri(levels) if self.dof is None else special.stdtrit(self.dof, levels)
        of_standard = np.where(np.asarray(levels) == 0, -np.inf, of_standard)  # which SciPy takes for the upper end
        ends = [self.means + self._spread() * z for z in of_standard]
        if len(self.means) == 1:
            return np.stack([end[0] for end in ends])
        return np.stack(
            [self._bisected(level, end.min(0), end.max(0)) for level, end in zip(levels, ends, strict=True)]
        )

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """A component for each draw and row, and a value of it."""
        n, q = self.means.shape[1:]
        weights = torch.from_numpy(np.exp(self.log_weights))
        chosen = torch.multinomial(weights, n_samples * n, replacement=True, generator=generator).reshape(-1, n)
        normal = torch.randn(n_samples, n, q, generator=generator, dtype=torch.float64).numpy()
        if self.dof is not None:
            gamma = torch._standard_gamma(torch.full((n_samples, n, q), self.dof / 2).double(), generator=generator)
            normal = normal * np.sqrt(self.dof / (2 * gamma.numpy()))
        rows = np.arange(n)
        return self.means[chosen, rows] + self._spread()[chosen, rows] * normal

    def _standard_log_density(self, z: Float[np.ndarray, "k n q"]) -> Float[np.ndarray, "k n q"]:
        if self.dof is None:
            return -0.5 * (z**2 + np.log(2 * np.pi))
        scale = 0.5 * np.log(self.dof * np.pi) + special.gammaln(self.dof / 2) - special.gammaln((self.dof + 1) / 2)
        return -0.5 * (self.dof + 1) * np.log1p(z**2 / self.dof) - scale

    def _spread(self) -> Float[np.ndarray, "k n q"]:
        """The scale of each component; a t distribution's variance is ``ν/(ν − 2)`` times its squared scale."""
        share = 1.0 if self.dof is None else (self.dof - 2) / self.dof
        return np.maximum(np.sqrt(self.variances * share), _POINT)
