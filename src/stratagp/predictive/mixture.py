"""Mixtures of any predictive distributions, and rows of several of them in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from stratagp.errors import InputError
from stratagp.predictive.base import Predictive
from stratagp.predictive.location_scale import LocationScale


@dataclass(frozen=True)
class MixtureOf(Predictive):
    """``Σ w_k p_k``: distributions of any kind at the same rows, with weights.

    >>> narrow = LocationScale(np.zeros((1, 1, 1)), np.full((1, 1, 1), 0.01), np.zeros(1))
    >>> heavy = LocationScale(np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1), dof=3.0)
    >>> both = MixtureOf([narrow, heavy], np.log([0.5, 0.5]))
    >>> round(both.var.item(), 3)  # ½ (0.01 + 1)
    0.505
    """

    parts: Sequence[Predictive]
    log_weights: Float[np.ndarray, " k"]

    def __post_init__(self) -> None:
        if len({part.discrete for part in self.parts}) > 1:
            raise InputError("a mixture needs parts that are all of whole numbers, or all of real numbers")

    def __len__(self) -> int:
        return len(self.parts[0])

    @property
    def discrete(self) -> bool:
        """Whether the parts are distributions of whole numbers."""
        return self.parts[0].discrete

    @property
    def support(self) -> tuple[float, float]:
        """From the least to the greatest that any part thinks possible."""
        lows, highs = zip(*(part.support for part in self.parts), strict=True)
        return min(lows), max(highs)

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k m_k``."""
        return self._average([part.mean for part in self.parts])

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """``Σ w_k (v_k + (m_k − m)²)``."""
        mean = self.mean
        return self._average([part.var + (part.mean - mean) ** 2 for part in self.parts])

    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """``Σ w_k F_k(y)``."""
        return self._average([_within(part, part.cdf, y, 0.0, 1.0) for part in self.parts])

    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n r"]:
        """``log Σ w_k p_k(y)``."""
        each = np.stack([_within(part, part.log_density, y, -np.inf, -np.inf) for part in self.parts])
        return logsumexp(each + self.log_weights[:, None, None], axis=0)

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """Between the quantiles of the parts, by bisection."""
        each = np.stack([part.quantile(levels) for part in self.parts])
        low, high = each.min(0), each.max(0)
        low = low - 1 if self.discrete else low  # the bracket is open below
        return np.stack([self._bisected(level, low[i], high[i]) for i, level in enumerate(levels)])

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """A part for each draw and row, and a draw of it."""
        drawn = np.stack([part.sample(n_samples, generator) for part in self.parts])
        weights, shape = torch.from_numpy(np.exp(self.log_weights)), drawn.shape[1:3]
        chosen = torch.multinomial(weights, int(np.prod(shape)), replacement=True, generator=generator)
        return np.take_along_axis(drawn, chosen.reshape(1, *shape, 1).numpy(), 0)[0]

    def _average(self, each: list[np.ndarray]) -> np.ndarray:
        return np.tensordot(np.exp(self.log_weights), np.stack(each), 1)


def _within(
    part: Predictive, ask: Callable[[np.ndarray], np.ndarray], y: np.ndarray, below: float, above: float
) -> np.ndarray:
    """What a part says about targets; ``below`` and ``above`` of those that it thinks impossible."""
    low, high = part.support
    first = y[:, :1]
    too_low, too_high = (first < low, first > high) if part.discrete else (first <= low, first >= high)
    outside = too_low | too_high
    if not outside.any():
        return ask(y)
    inside = np.floor(part.mean[:, :1]) if part.discrete else part.mean[:, :1]
    found = ask(np.concatenate([np.where(outside, inside, first), y[:, 1:]], 1))
    return np.where(too_low, below, np.where(too_high, above, found))


@dataclass(frozen=True)
class Spliced(Predictive):
    """Rows of one distribution, some of which another one replaces.

    Arguments:
        whole: of all n rows.
        part: of the rows that ``where`` marks, in their order.

    >>> zeros = LocationScale(np.zeros((1, 3, 1)), np.ones((1, 3, 1)), np.zeros(1))
    >>> ones = LocationScale(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.zeros(1))
    >>> Spliced(zeros, ones, np.array([False, True, False])).mean[:, 0]
    array([0., 1., 0.])
    """

    whole: Predictive
    part: Predictive
    where: Bool[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return self.whole.discrete

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """The expected target."""
        return self._put(self.whole.mean, self.part.mean)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """The variance of the target."""
        return self._put(self.whole.var, self.part.var)

    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """``P(Y ≤ y)``."""
        return self._put(self.whole.cdf(y), self.part.cdf(y[self.where]))

    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n r"]:
        """``log p(y)``."""
        return self._put(self.whole.log_density(y), self.part.log_density(y[self.where]))

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """Those of each row's own distribution."""
        found = self.whole.quantile(levels).copy()
        found[:, self.where] = self.part.quantile(levels)
        return found

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws of each row's own distribution."""
        found = self.whole.sample(n_samples, generator).copy()
        found[:, self.where] = self.part.sample(n_samples, generator)
        return found

    def _put(self, whole: np.ndarray, part: np.ndarray) -> np.ndarray:
        found = whole.copy()
        found[self.where] = part
        return found


@dataclass(frozen=True)
class Averaged(Predictive):
    """Even mixtures over versions of the same rows, of which one distribution tells all.

    Arguments:
        whole: of ``versions`` times n rows, all rows of one version after those of another.
        versions: how many there are.

    >>> values = np.array([[-1.0], [5.0], [1.0], [5.0]])  # two versions of two rows
    >>> found = Averaged(LocationScale(values[None], np.ones((1, 4, 1)), np.zeros(1)), 2)
    >>> found.mean[:, 0], found.var[:, 0]
    (array([0., 5.]), array([2., 1.]))
    """

    whole: Predictive
    versions: int

    def __len__(self) -> int:
        return len(self.whole) // self.versions

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        return self.whole.discrete

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return self.whole.support

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """The average of the means."""
        return self._apart(self.whole.mean).mean(0)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """The law of total variance."""
        return self._apart(self.whole.var).mean(0) + self._apart(self.whole.mean).var(0)

    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """The average of the distribution functions."""
        return self._apart(self.whole.cdf(np.tile(y, (self.versions, 1)))).mean(0)

    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n r"]:
        """The log of the average density."""
        each = self._apart(self.whole.log_density(np.tile(y, (self.versions, 1))))
        return logsumexp(each, axis=0) - np.log(self.versions)

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """A version for each draw and row, and a draw of it."""
        drawn = self.whole.sample(n_samples, generator)
        drawn = drawn.reshape(n_samples, self.versions, -1, drawn.shape[-1])
        chosen = torch.randint(self.versions, (n_samples, 1, drawn.shape[2], 1), generator=generator)
        return np.take_along_axis(drawn, chosen.numpy(), 1)[:, 0]

    def _apart(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(self.versions, -1, values.shape[-1])


def mixture(parts: Sequence[Predictive], log_weights: Float[np.ndarray, " k"]) -> Predictive:
    """A mixture in its simplest form: one set of components where all parts have such, of one kind.

    >>> low, high = (LocationScale(np.full((1, 1, 1), value), np.ones((1, 1, 1)), np.zeros(1)) for value in (-1.0, 1.0))
    >>> mixture([low, high], np.log([0.5, 0.5])).log_weights.round(3)
    array([-0.693, -0.693])
    """
    if len(parts) == 1:
        return parts[0]
    plain = [part for part in parts if isinstance(part, LocationScale)]
    if len(plain) < len(parts) or len({part.dof for part in plain}) > 1:
        return MixtureOf(parts, log_weights)
    join: Callable[[list[np.ndarray]], np.ndarray] = np.concatenate
    weights = [own + part.log_weights for own, part in zip(log_weights, plain, strict=True)]
    return LocationScale(
        join([part.means for part in plain]), join([part.variances for part in plain]), join(weights), plain[0].dof
    )
