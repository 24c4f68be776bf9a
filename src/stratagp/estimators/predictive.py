"""What an estimator says about new observations: a mixture of Gaussian or Student-t distributions for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special, stats

_BISECTIONS = 60
_POINT = 1e-150  # a spread of zero, that one can divide by


@dataclass(frozen=True)
class Predictive:
    """Components with weights; one component for a plain Gaussian process, more for averages over hyperparameters.

    Arguments:
        mean, var: of each component, row and target.
        log_weights: of the components, which sum to one.
        dof: degrees of freedom of each component's t distribution (``var`` is its variance); None for Gaussians.
    """

    mean: Float[np.ndarray, "k n q"]
    var: Float[np.ndarray, "k n q"]
    log_weights: Float[np.ndarray, " k"]
    dof: float | None = None

    @property
    def total_mean(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k m_k``."""
        return np.einsum("k,knq->nq", np.exp(self.log_weights), self.mean)

    @property
    def total_var(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k (v_k + m_k²) − (Σ w_k m_k)²``, the law of total variance."""
        weights = np.exp(self.log_weights)
        between = (self.mean - self.total_mean) ** 2
        return np.einsum("k,knq->nq", weights, self.var + between)

    def quantile(self, level: float) -> Float[np.ndarray, "n q"]:
        """The value that an observation exceeds with probability ``1 − level``."""
        if len(self.mean) == 1:
            return self.mean[0] + self._spread()[0] * self._standard().ppf(level)
        reach = self._standard().ppf(level)
        ends = self.mean + self._spread() * reach
        low, high = ends.min(0), ends.max(0)  # the quantile of a mixture lies between those of its components
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def cdf(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """The probability of an observation below ``y``."""
        each = self._standard().cdf((y - self.mean) / self._spread())
        return np.einsum("k,knq->nq", np.exp(self.log_weights), each)

    def log_density(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``log Σ w_k p_k(y)`` of each row and target."""
        spread = self._spread()
        each = self._standard().logpdf((y - self.mean) / spread) - np.log(spread)
        return special.logsumexp(each + self.log_weights[:, None, None], axis=0)

    def _standard(self) -> Any:
        return stats.norm if self.dof is None else stats.t(self.dof)

    def _spread(self) -> Float[np.ndarray, "k n q"]:
        """The scale of each component; a t distribution's variance is ``ν/(ν − 2)`` times its squared scale."""
        spread = np.sqrt(self.var if self.dof is None else self.var * (self.dof - 2) / self.dof)
        return np.maximum(spread, _POINT)
