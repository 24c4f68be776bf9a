"""Observations that a likelihood makes of a belief about latent functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.likelihoods import Likelihood
from stratagp.likelihoods.base import at_nodes
from stratagp.objectives.predictive_bound import log_predictive_of
from stratagp.predictive.base import Predictive
from stratagp.predictive.location_scale import LocationScale
from stratagp.types import Gaussian, Mixture

Belief = Gaussian | Mixture


class Observed(Predictive):
    """``p(y) = E p(y | f)`` under a belief about ``f``.

    Arguments:
        likelihood: how observations come from the functions.
        n: the number of rows.
        belief: the belief about the functions at each row.
        moments: a belief whose mean and variance are exact where ``belief`` is known by samples; ``belief`` itself
            where it is left out. Each is computed when first asked for.

    >>> from stratagp.likelihoods import Poisson
    >>> rate = Gaussian(torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 1e-12, dtype=torch.float64))
    >>> count = Observed(Poisson(), 1, lambda: rate)
    >>> count.mean.round(6).item(), count.quantile([0.5]).item()  # of a Poisson variable with rate 1
    (1.0, 1.0)
    """

    def __init__(
        self, likelihood: Likelihood, n: int, belief: Callable[[], Belief], moments: Callable[[], Belief] | None = None
    ) -> None:
        self.likelihood, self.n, self._belief, self._moments = likelihood, n, belief, moments

    def __len__(self) -> int:
        return self.n

    @property
    def discrete(self) -> bool:
        """Whether observations are whole numbers."""
        return self.likelihood.unwrapped.discrete

    @property
    def support(self) -> tuple[float, float]:
        """What observations lie between."""
        return self.likelihood.unwrapped.support

    @cached_property
    def belief(self) -> Belief:
        """The belief about the functions, in double precision."""
        return _double(self._belief())

    @cached_property
    def moment_belief(self) -> Belief:
        """A belief with the right mean and variance."""
        return self.belief if self._moments is None else _double(self._moments())

    @cached_property
    def _mean_and_var(self) -> Gaussian:
        belief = self.moment_belief
        with torch.no_grad():
            if isinstance(belief, Gaussian):
                return self.likelihood.predict(belief)
            return Mixture(belief.log_weights, self.likelihood.predict(belief.parts)).moments()

    @property
    def mean(self) -> Float[np.ndarray, "n q"]:
        """The expected observation."""
        return _numbers(self._mean_and_var.mean)

    @property
    def var(self) -> Float[np.ndarray, "n q"]:
        """The variance of an observation."""
        return _numbers(self._mean_and_var.var)

    @property
    def probabilities(self) -> Float[np.ndarray, "n c"]:
        """The probability of each class, for likelihoods of classes."""
        belief = self.belief
        with torch.no_grad():
            if isinstance(belief, Gaussian):
                return _numbers(self.likelihood.probabilities(belief))
            weights = belief.log_weights.exp()
            return _numbers(torch.tensordot(weights, self.likelihood.probabilities(belief.parts), 1))

    @property
    def class_moments(self) -> tuple[Float[np.ndarray, "n c"], Float[np.ndarray, "n c"]]:
        """Mean and variance of the probability of each class, over the functions and the hidden values before them."""
        belief = self.belief
        mixture = belief if isinstance(belief, Mixture) else Mixture(belief.mean.new_zeros(1), _stacked(belief))
        with torch.no_grad():
            f, log_weights = at_nodes(mixture.parts)
            each = self.likelihood.moments(f).mean
            each = torch.cat([1 - each, each], -1) if each.shape[-1] == 1 else each
            weights = (log_weights.exp()[:, None] * mixture.log_weights.exp()).to(each)
            mean = torch.tensordot(weights, each, 2)
            return _numbers(mean), _numbers(torch.tensordot(weights, (each - mean).square(), 2))

    @property
    def latent(self) -> LocationScale:
        """The scores that observations come from."""
        belief = self.moment_belief
        mixture = belief if isinstance(belief, Mixture) else Mixture(belief.mean.new_zeros(1), _stacked(belief))
        with torch.no_grad():
            scores = self.likelihood.latent(mixture.parts)
        return LocationScale(_numbers(scores.mean), _numbers(scores.var), _numbers(mixture.log_weights))

    def cdf(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """``E P(Y ≤ y | f)``."""
        q = self.belief if isinstance(self.belief, Gaussian) else self.belief.parts
        values = torch.from_numpy(y).to(q.mean)
        with torch.no_grad():
            found = self.likelihood.predictive_cdf(values.expand(*q.mean.shape[:-2], *values.shape), q)
            if isinstance(self.belief, Mixture):
                found = torch.tensordot(self.belief.log_weights.exp(), found, 1)
            return _numbers(found)

    def log_density(self, y: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n 1"]:
        """``log E p(y | f)`` of each row, all its targets together."""
        with torch.no_grad():
            mean = self.belief.mean if isinstance(self.belief, Gaussian) else self.belief.parts.mean
            return _numbers(log_predictive_of(self.likelihood, torch.from_numpy(y).to(mean), self.belief))[:, None]

    def quantile(self, levels: Sequence[float]) -> Float[np.ndarray, "l n q"]:
        """As the likelihood computes them."""
        with torch.no_grad():
            return _numbers(self.likelihood.quantiles(self.belief, levels))

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Draws of the functions, and an observation of each."""
        belief = self.belief
        if isinstance(belief, Mixture):
            n = belief.parts.mean.shape[-2]
            weights = belief.log_weights.exp().cpu()
            chosen = torch.multinomial(weights, n_samples * n, replacement=True, generator=generator).reshape(-1, n)
            rows = torch.arange(n)
            belief = Gaussian(*(part[chosen.to(part.device), rows.to(part.device)] for part in belief.parts))
        shape = (n_samples, *belief.mean.shape[-2:])
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(belief.mean)
        with torch.no_grad():
            return _numbers(self.likelihood.sample(belief.sample(noise), generator))


def _stacked(belief: Gaussian) -> Gaussian:
    return Gaussian(belief.mean[None], belief.var[None])


def _double(belief: Belief) -> Belief:
    if isinstance(belief, Gaussian):
        return Gaussian(belief.mean.double(), belief.var.double())
    return Mixture(belief.log_weights.double(), Gaussian(*(part.double() for part in belief.parts)))


def _numbers(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
