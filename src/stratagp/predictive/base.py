"""The contract of every prediction of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

_DOUBLINGS, _BISECTIONS = 60, 60


class Predictive(ABC):
    """The distribution of q targets at each of n rows.

    A subclass says what ``mean``, ``var``, ``cdf``, ``log_density`` and ``sample`` are. Quantiles follow by bisection
    of the distribution function, and a closed form may replace them.

    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> found = GPRegressor().fit(X, np.sin(X[:, 0])).predictive([[1.0], [2.0]])
    >>> isinstance(found, Predictive), len(found), found.quantile([0.1, 0.9]).shape
    (True, 2, (2, 2, 1))
    """

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return False

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return -np.inf, np.inf

    @property
    @abstractmethod
    def mean(self) -> Float[np.ndarray, "n q"]:
        """The expected target."""

    @property
    @abstractmethod
    def var(self) -> Float[np.ndarray, "n q"]:
        """The variance of the target."""

    @abstractmethod
    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """``P(Y ≤ y)`` of each row and target."""

    @abstractmethod
    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n r"]:
        """``log p(y)`` of each row and target; one column for all targets of a row that a likelihood couples."""

    @abstractmethod
    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws, independent over rows."""

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """The values that a target stays below with the given probabilities; least whole numbers of counts."""
        low, high = self.mean, self.mean
        width = np.maximum(np.sqrt(self.var), np.finfo(float).tiny)
        return np.stack([self._crossing(level, low - width, high + width, width) for level in levels])

    def _crossing(self, level: float, low: np.ndarray, high: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Where the distribution function passes ``level``: a bracket that doubles until it holds it, then halves."""
        for _ in range(_DOUBLINGS):
            above, under = self.cdf(low) >= level, self.cdf(high) < level
            if not (above.any() or under.any()):
                break
            width = 2 * width
            low, high = np.where(above, low - width, low), np.where(under, high + width, high)
        return self._bisected(level, low, high)

    def _bisected(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Halve a bracket that holds the quantile until nothing is left to halve."""
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < level
            low, high = np.where(under, middle, low), np.where(under, high, middle)
            if self.discrete and (high - low < 1).all():  # one whole number is left in each
                break
        return np.floor(high) if self.discrete else 0.5 * (low + high)
