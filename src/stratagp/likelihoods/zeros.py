"""Counts with more zeros than their law explains, or zeros that come about in a way of their own."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, bisect
from stratagp.likelihoods.counts import NegativeBinomial, Poisson, exposed
from stratagp.likelihoods.single import OneFunction
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_FAINT = -20.0  # log rate below which counts that are not zero are taken as ones
_SURE = 1e-8  # the same for log densities: 1 − p(0) is the rate to so many parts


class ZeroInflated(OneFunction, Likelihood):
    """``y = 0`` with probability ``share``, else a count of ``given``: some rows cannot have events at all.

    Arguments:
        given: :class:`Poisson` or :class:`NegativeBinomial`, with its exposure.
        share: of the rows that are zero whatever their rate, learnt.

    >>> ZeroInflated(Poisson(), share=0.25).moments(torch.zeros(1, 1)).mean.item()  # ¾ e⁰
    0.75
    """

    support = (0.0, math.inf)
    discrete = True

    def __init__(self, given: Likelihood, share: Value | Parameter = 0.2) -> None:
        super().__init__()
        self.given, self.share = _checked(given), positive(share, bounds=(0.0, 1.0), name="share")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log((1 − share) p(y | f) + share [y = 0])``."""
        return self._inflated(y, self.given.log_prob(y, f))

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """By quadrature where there are no events; ``log(1 − share)`` and that of ``given`` elsewhere."""
        some = self.given.expected_log_prob(y, q) + torch.log1p(-self.share).to(q.mean)
        return torch.where(_is_none(y), super().expected_log_prob(y, q), some)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """From that of ``given``."""
        return self._inflated(y, self.given.log_predictive(y, q))

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``(1 − share) m`` and ``(1 − share)(v + share · m²)`` for ``m`` and ``v`` of ``given``."""
        return _with_zeros(self.share, self.given.moments(f))

    def predict(self, q: Gaussian) -> Gaussian:
        """The same of its predictive moments."""
        return _with_zeros(self.share, self.given.predict(q))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``share + (1 − share) P(Y ≤ y | f)``."""
        return _raised(y, self.share, self.given.cdf(y, f))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Counts of ``given``, some of them replaced by zeros."""
        return _emptied(self.given.sample(f, generator), self.share, generator)

    def _inflated(self, y: Float[Tensor, "n p"], log_p: Float[Tensor, "*s n"]) -> Float[Tensor, "*s n"]:
        some = log_p + torch.log1p(-self.share).to(log_p)
        none = self.share.log().to(log_p)
        return torch.where(_is_none(y), none - logsigmoid(none - some), some)  # log(e^none + e^some)


class Hurdle(OneFunction, Likelihood):
    """``y = 0`` with probability ``share``, else a count of ``given`` that is not zero.

    Zeros come about in a way of their own, and may be rarer, too, than ``given`` would have them.

    Arguments:
        given: :class:`Poisson` or :class:`NegativeBinomial`, with its exposure.
        share: of zeros, learnt.

    >>> round(Hurdle(Poisson(), share=0.25).moments(torch.full((1, 1), -20.0)).mean.item(), 6)  # all others are ones
    0.75
    """

    support = (0.0, math.inf)
    discrete = True

    def __init__(self, given: Likelihood, share: Value | Parameter = 0.2) -> None:
        super().__init__()
        self.given, self.share = _checked(given), positive(share, bounds=(0.0, 1.0), name="share")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log share`` of zeros, ``log(1 − share) + log p(y | f) − log(1 − p(0 | f))`` of others."""
        _, log_rate = exposed(y, self.given.exposure, f)
        log_none = self.given.log_prob(torch.cat([torch.zeros_like(y[:, :1]), y[:, 1:]], 1), f)
        log_some = torch.where(
            log_none < -_SURE, (-torch.expm1(log_none.clamp_max(-_SURE))).log(), log_rate.squeeze(-1)
        )
        some = self.given.log_prob(y, f) - log_some + torch.log1p(-self.share).to(f)
        return torch.where(_is_none(y), self.share.log().to(f), some)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``(1 − share) m₊`` and ``(1 − share)(v₊ + share · m₊²)``, where ``m₊ = m/(1 − p₀)`` and ``v₊`` are those of
        counts that are not zero, ``v₊ = m₊ (v/m − m₊ p₀)``."""
        at = self._clamped(f)
        (mean, var), none = self.given.moments(at), self._none(at.double())
        some = mean / (1 - none).to(f)
        return _with_zeros(self.share, Gaussian(some, (some * (var / mean - some * none.to(f))).clamp_min(0)))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``share + (1 − share)(P(Y ≤ y | f) − p₀)/(1 − p₀)``."""
        at = self._clamped(f.double())
        none = self._none(at)
        below = (self.given.cdf(y.double(), at) - none) / (1 - none)
        return _raised(y, self.share, below.clamp(0, 1)).to(f)

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Quantiles of ``given`` at random levels above ``p₀``, some of them replaced by zeros."""
        at = self._clamped(f.double())
        none = self._none(at)
        level = none + (1 - none) * torch.rand(f.shape, generator=generator, dtype=torch.float64).to(at)
        found = bisect(lambda y: self.given.cdf(y, at), self.given.moments(at), level, True)
        return _emptied(found.floor().clamp_min(1), self.share, generator).to(f)

    def _clamped(self, f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """Latent values whose rate is not too faint to be told from zero."""
        return f.clamp_min(_FAINT - math.log(self.given.exposure))

    def _none(self, f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``p(0 | f)`` of ``given``."""
        return self.given.log_prob(f.new_zeros(f.shape[-2], 1), f).exp().unsqueeze(-1)


def _checked(given: Likelihood) -> Likelihood:
    if not isinstance(given, (Poisson, NegativeBinomial)):
        raise InputError(f"given must be Poisson() or NegativeBinomial(), got {given!r}")
    return given


def _is_none(y: Float[Tensor, "n p"]) -> Bool[Tensor, " n"]:
    return y[:, 0] == 0


def _with_zeros(share: Tensor, given: Gaussian) -> Gaussian:
    """Mean and variance of what is zero with probability ``share``."""
    share = share.to(given.mean)
    return Gaussian((1 - share) * given.mean, (1 - share) * (given.var + share * given.mean.square()))


def _raised(y: Tensor, share: Tensor, below: Tensor) -> Tensor:
    share = share.to(below)
    return torch.where(y >= 0, share + (1 - share) * below, 0.0)


def _emptied(counts: Tensor, share: Tensor, generator: torch.Generator | None) -> Tensor:
    """Counts, of which each is replaced by zero with probability ``share``."""
    chance = torch.rand(counts.shape, generator=generator, dtype=torch.float64).to(counts)
    return torch.where(chance < share.to(counts), torch.zeros_like(counts), counts)
