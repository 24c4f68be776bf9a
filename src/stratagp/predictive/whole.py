"""Predictions of real numbers, read as predictions of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import logsumexp

from stratagp.likelihoods.single import refuse
from stratagp.predictive.base import Predictive

_CENTRAL = (1e-5, 1 - 1e-5)  # levels between which moments are summed
_MOST = 1000  # numbers, or stretches of numbers, that are summed
_LEAST = 1e-12  # variance
_CANCELLED = 1e-8  # of a probability: below that, digits of a difference are lost
_NODES = 20


@dataclass(frozen=True)
class Whole(Predictive):
    """The nearest whole number to ``Y``, or zero where that is negative: ``P(y) = F(y + ½) − F(y − ½)``, ``F(½)`` of 0.

    ``log_density`` is a log probability. Mean and variance are sums over probabilities, where the outermost 1/100,000
    on either side counts as the quantile there.

    >>> from stratagp.predictive import LocationScale
    >>> count = Whole(LocationScale(np.full((1, 1, 1), 3.0), np.ones((1, 1, 1)), np.zeros(1)))
    >>> np.exp(count.log_density(np.array([[3.0]]))).round(3).item(), count.quantile([0.9]).item()  # Φ(½) − Φ(−½)
    (0.383, 4.0)
    """

    base: Predictive

    def __len__(self) -> int:
        return len(self.base)

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return True

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return 0.0, np.inf

    @cached_property
    def _moments(self) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
        """``low + Σ P(Y > k)`` and ``Σ (2(k − low) + 1) P(Y > k)`` less a square, over ``k`` from ``low`` on.

        Where there are more than a thousand numbers, the middle of as many equal stretches stands for each of them.
        """
        low, high = self.quantile(_CENTRAL)
        stretch = np.maximum(np.ceil((high - low) / _MOST), 1.0)
        first = second = np.zeros_like(low)
        for step in range(int(((high - low) / stretch).max(initial=0))):
            beyond = stretch * step + (stretch - 1) / 2
            above = np.where(low + beyond < high, stretch * (1 - self.cdf(low + beyond)), 0.0)
            first, second = first + above, second + (2 * beyond + 1) * above
        return low + first, np.maximum(second - first**2, _LEAST)

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """``Σ y P(y)``."""
        return self._moments[0]

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """``Σ (y − mean)² P(y)``."""
        return self._moments[1]

    def cdf(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``F(⌊y⌋ + ½)``, and zero of negative numbers."""
        return np.where(y >= 0, self.base.cdf(np.floor(np.maximum(y, 0)) + 0.5), 0.0)

    def log_density(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """``log P(y)``; by quadrature of the density where the difference has lost its digits."""
        counts = torch.from_numpy(y)
        refuse(counts, (counts >= 0) & (counts == counts.floor()), "y must be counts 0, 1, 2, …")
        upto = self.base.cdf(y + 0.5)
        mass = upto - np.where(y > 0, self.base.cdf(y - 0.5), 0.0)
        lost = mass <= _CANCELLED * upto
        found = np.log(np.where(lost, 1.0, mass))
        return np.where(lost, self._by_quadrature(y), found) if lost.any() else found

    def _by_quadrature(self, y: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        each = [self.base.log_density(y + 0.5 * node) for node in nodes]
        return logsumexp(np.stack(each), axis=0, b=0.5 * weights[:, None, None])

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """The counts of the quantiles of ``Y``."""
        return as_counts(self.base.quantile(levels))

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """The counts of draws of ``Y``."""
        return as_counts(self.base.sample(n_samples, generator))


def as_counts(values: np.ndarray) -> np.ndarray:
    """The nearest whole numbers, or zero.

    >>> as_counts(np.array([-3.0, 0.4, 1.6])).tolist()
    [0.0, 0.0, 2.0]
    """
    return np.maximum(np.ceil(values - 0.5), 0.0)
