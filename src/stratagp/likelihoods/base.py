"""What a likelihood is: the density of an observation, and its integrals over a Gaussian belief.

A new likelihood is two methods, :meth:`Likelihood.log_prob` and :meth:`Likelihood.moments`; the integrals follow by
quadrature, and you may override any of them by a closed form. :meth:`Likelihood.cdf` adds quantiles,
:meth:`Likelihood.sample` adds draws of observations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, UnsupportedError
from stratagp.likelihoods.quadrature import central_nodes, normal_nodes
from stratagp.parameterised import Parameterised
from stratagp.types import Gaussian, Mixture

_BISECTIONS = 50
_LINE, _SHORT_LINE = 257, 33  # points of a fine grid
_MANY, _FEW = 32, 64  # beliefs per row that will be averaged, and the nodes that each then needs at most
_LEAST, _ALL = 4, 64 * 64  # nodes that each needs at least, and that all need together
_DOUBLINGS = 60


class Likelihood(Parameterised, ABC):
    """``p(y | f)`` for observations ``n p`` and latent values ``*s n q``, independent over rows.

    >>> from stratagp.likelihoods import Poisson
    >>> belief = Gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    >>> Poisson().predict(belief).mean.item()  # E e^f = e^½
    1.648721...
    """

    discrete: ClassVar[bool] = False
    """Whether observations are whole numbers."""

    is_gaussian: ClassVar[bool] = False
    """Whether observations are the functions plus Gaussian noise, so that only means and variances matter."""

    scalable: ClassVar[bool] = False
    """Whether targets may be shifted and scaled: the likelihood depends neither on their zero nor on their unit."""

    direct: ClassVar[bool] = False
    """Whether each target has one function, in the target's unit."""

    of_classes: ClassVar[bool] = False
    """Whether observations are class numbers."""

    one_score: ClassVar[bool] = False
    """Whether one function tells all classes apart."""

    ordered: ClassVar[bool] = False
    """Whether classes are ordered and share one score."""

    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The range of observations; the ends are possible if observations are whole numbers."""

    of_times: ClassVar[bool] = False
    """Whether observations are times of events, which may not have happened yet."""

    smooth: ClassVar[bool] = True
    """Whether the density changes smoothly with the functions, so that a network can learn from it."""

    closed_reciprocal: bool = False
    """Whether :meth:`log_reciprocal` has a closed form, so that samples would only add noise."""

    @property
    def unwrapped(self) -> Likelihood:
        """The likelihood of observations itself, without samplers and mixtures of functions around it."""
        return self

    @property
    def several_scores(self) -> bool:
        """Whether each class has a score, in a smooth density whose integrals have no closed form: a softmax."""
        return self.of_classes and not self.one_score and self.smooth

    def functions(self, outputs: int) -> int:
        """The number of latent functions for ``outputs`` columns of observations."""
        return outputs

    def start(self, y: Float[Tensor, "n p"]) -> float:
        """A constant latent value that suits the observations: a start for the prior mean of all functions."""
        return 0.0

    @abstractmethod
    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``log p(yₙ | fₙ)``, summed over the outputs of a row."""

    @abstractmethod
    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """Mean and variance of ``y`` given ``f``, each ``*s n p``."""

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n p"]:
        """The probability of an observation of at most ``y``, for each output."""
        raise UnsupportedError(f"{type(self).__name__} has no cumulative distribution function, and so no quantiles")

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """One observation for each value of ``f``."""
        raise UnsupportedError(f"{type(self).__name__} cannot draw observations")

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``E log p(yₙ | fₙ)`` under ``fₙ ~ N(q.mean, q.var)``: the data term of every variational bound."""
        f, log_weights = at_nodes(q)
        return torch.tensordot(log_weights.exp(), self.log_prob(y, f), 1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(yₙ | fₙ)``: the log density of an observation under the belief."""
        f, log_weights = at_nodes(q)
        return log_average(self.log_prob(y, f), log_weights)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E 1/p(yₙ | fₙ)``: minus its log density given all other rows, if ``q`` has seen every row.

        The expectation may be infinite, as for densities with thin tails: it is taken over the central part of the
        belief, as far as four standard deviations of one function reach.
        """
        f, log_weights = at_nodes(q, central_nodes)
        return log_average(-self.log_prob(y, f), log_weights)

    def sampled_log_prob(
        self, y: Float[Tensor, "n p"], q: Gaussian, noise: Float[Tensor, "k *s n q"]
    ) -> Float[Tensor, "*s n"]:
        """The average of ``log p(yₙ | fₙ)`` over reparameterised samples, for standard normal ``noise``."""
        return self.log_prob(y, q.sample(noise)).mean(0)

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of ``y`` under the belief: ``E E[y|f]`` and ``E Var[y|f] + Var E[y|f]``."""
        f, log_weights = at_nodes(q)
        given = self.moments(f)
        weights = log_weights.exp()
        mean = torch.tensordot(weights, given.mean, 1)
        return Gaussian(mean, torch.tensordot(weights, given.var + (given.mean - mean).square(), 1))

    def probabilities(self, q: Gaussian) -> Float[Tensor, "*s n c"]:
        """The probability of each class under the belief, for likelihoods of classes."""
        found = self.predict(q).mean
        found = torch.cat([1 - found, found], -1) if found.shape[-1] == 1 else found
        return found / found.sum(-1, keepdim=True)

    def latent(self, q: Gaussian) -> Gaussian:
        """The belief about the scores behind the observations, if these are mixtures of the functions."""
        return q

    def predictive_cdf(self, y: Float[Tensor, "*s n p"], q: Gaussian) -> Float[Tensor, "*s n p"]:
        """``E P(Y ≤ y | f)``: the probability of at most ``y`` under the belief, for each output."""
        f, log_weights = on_a_line(q) if q.mean.shape[-1] == 1 else at_nodes(q)
        return torch.tensordot(log_weights.exp(), self.cdf(y.expand(len(f), *y.shape), f), 1)

    def quantiles(self, q: Gaussian | Mixture, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """The values below which an observation falls with the given probabilities; least whole numbers for counts.

        By bisection of ``E P(Y ≤ y | f) = level``.
        """
        if not all(0 < level < 1 for level in levels):
            raise InputError(f"levels must lie between 0 and 1, such as [0.1, 0.9], got {list(levels)}")
        mixture = q if isinstance(q, Mixture) else Mixture(q.mean.new_zeros(1), Gaussian(*(t[None] for t in q)))
        weights = mixture.log_weights.exp().to(mixture.parts.mean)

        def below(y: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
            each = self.predictive_cdf(y.expand(len(weights), *y.shape), mixture.parts)
            return torch.tensordot(weights, each, 1)

        start = self.predict(Gaussian(mixture.parts.mean.mean(0), mixture.parts.var.mean(0)))
        found = torch.stack([bisect(below, start, level, self.discrete) for level in levels])
        return found.floor() if self.discrete else found


def at_nodes(
    q: Gaussian, nodes: Callable[..., tuple[Tensor, Tensor]] = normal_nodes
) -> tuple[Float[Tensor, "k *s n q"], Float[Tensor, " k"]]:
    """Latent values at the nodes, in a new first axis, and the nodes' log weights.

    If each row has many beliefs, which are averaged later, each gets fewer nodes, and different ones.
    """
    dim, lead = q.mean.shape[-1], q.mean.shape[:-2]
    if dim <= 2 or lead.numel() < _MANY:
        points, log_weights = nodes(dim, q.mean)
        return q.sample(points.reshape(len(points), *[1] * (q.mean.dim() - 1), -1)), log_weights
    few = min(_FEW, max(_LEAST, _ALL // lead.numel()))
    points, log_weights = nodes(dim, q.mean, few * lead.numel())
    blocks = points.reshape(*lead, few, 1, dim).movedim(-3, 0)  # each run of consecutive points fills space evenly
    return q.sample(blocks), log_weights[:few] + math.log(lead.numel())


def on_a_line(q: Gaussian) -> tuple[Float[Tensor, "k *s n q"], Float[Tensor, " k"]]:
    """Latent values of each function on an even grid over ± five standard deviations, and log weights.

    Many more than the nodes of :func:`at_nodes`, because a distribution of ``y`` given ``f`` may be narrow.
    """
    many = q.mean.shape[:-2].numel() >= _MANY
    points = torch.linspace(-5, 5, _SHORT_LINE if many else _LINE).to(q.mean)
    log_weights = (-0.5 * points.square()).log_softmax(0)
    points = points.reshape(-1, *[1] * q.mean.dim())
    if many:  # interleaved grids, whose errors cancel in the average
        lead = q.mean.shape[:-2]
        shift = (torch.arange(lead.numel()).to(q.mean) + 0.5) / lead.numel() - 0.5
        points = points + 10 / (_SHORT_LINE - 1) * shift.reshape(*lead, 1, 1)
    return q.sample(points), log_weights


def log_average(logs: Float[Tensor, " k *s"], log_weights: Float[Tensor, " k"]) -> Float[Tensor, "*s"]:
    """``log Σ wₖ exp lₖ`` over the first axis."""
    return torch.logsumexp(log_weights.reshape(-1, *[1] * (logs.dim() - 1)) + logs, 0)


def bisect(
    below: Callable[[Tensor], Tensor], start: Gaussian, level: float | Tensor, whole: bool
) -> Float[Tensor, "*s n p"]:
    """Where an increasing function crosses ``level``: doubling brackets until they contain it, then bisection.

    For whole numbers, the step is at the only one left in a bracket narrower than one.
    """
    width = start.var.sqrt().clamp_min(torch.finfo(start.var.dtype).tiny)
    low, high = start.mean - width, start.mean + width
    for _ in range(_DOUBLINGS):
        above, under = below(low) >= level, below(high) < level
        if not (above.any() or under.any()):
            break
        width = 2 * width
        low, high = torch.where(above, low - width, low), torch.where(under, high + width, high)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        under = below(middle) < level
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
        if whole and bool((high - low < 0.5).all()):
            break
    return high
