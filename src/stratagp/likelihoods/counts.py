"""Counts: events in a time or an area, and successes among trials."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.beta import beta_cdf
from stratagp.likelihoods.scale import exp_moments, finite_exp
from stratagp.likelihoods.single import OneFunction, number, refuse, with_second
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian


class Poisson(OneFunction, Likelihood):
    """``y ~ Poisson(exposure · e^f)``: counts of independent events.

    Observations are counts, or ``(count, exposure)`` if rows cover different times or areas.

    Arguments:
        exposure: that of rows without their own, and of all predictions.

    >>> Poisson().predict(Gaussian(torch.zeros(1, 1), torch.zeros(1, 1)))
    Gaussian(mean=tensor([[1.]]), var=tensor([[1.]]))
    """

    support = (0.0, math.inf)
    discrete = True

    def __init__(self, exposure: float = 1.0) -> None:
        super().__init__()
        self.exposure = _checked_exposure(exposure)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``y log λ − λ − log y!`` with ``log λ = f + log exposure``."""
        count, log_rate = exposed(y, self.exposure, f)
        return _poisson(count, log_rate, finite_exp(log_rate.double(), f.dtype)).to(f)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``y E log λ − E λ − log y!`` with ``E λ = exposure · exp(mean + var/2)``."""
        count, log_rate = exposed(y, self.exposure, q.mean)
        return _poisson(count, log_rate, finite_exp((log_rate + 0.5 * q.var).double(), q.mean.dtype)).to(q.mean)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``λ`` and ``λ``."""
        rate = self.exposure * finite_exp(f)
        return Gaussian(rate, rate)

    def predict(self, q: Gaussian) -> Gaussian:
        """``E λ`` and ``E λ + Var λ``."""
        mean, var = exp_moments(q)
        return Gaussian(self.exposure * mean, self.exposure * mean + self.exposure**2 * var)

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """The upper incomplete gamma function of ``⌊y⌋ + 1`` at the rate."""
        below = torch.special.gammaincc(y.clamp_min(0).floor() + 1, self.exposure * finite_exp(f))
        return torch.where(y >= 0, below, 0.0)

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Counts at the ``exposure`` argument."""
        return torch.poisson(self.exposure * finite_exp(f), generator=generator)


class NegativeBinomial(OneFunction, Likelihood):
    """Counts with mean ``m = exposure · e^f`` and variance ``m + dispersion · m²``: events that come in clusters.

    Observations are counts, or ``(count, exposure)``; without dispersion this is :class:`Poisson`.

    Arguments:
        dispersion: the squared coefficient of variation of the rate, learnt.
        exposure: that of rows without their own, and of all predictions.

    >>> NegativeBinomial(dispersion=0.5).moments(torch.zeros(1, 1)).var.item()
    1.5
    """

    support = (0.0, math.inf)
    discrete = True

    def __init__(self, dispersion: Value | Parameter = 0.5, exposure: float = 1.0) -> None:
        super().__init__()
        self.dispersion = number(dispersion, "dispersion")
        self.exposure = _checked_exposure(exposure)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log Γ(y + r)/(Γ(r) y!) + y log(m/r) − (y + r) log(1 + m/r)`` with ``r = 1/dispersion``.

        In float64 throughout, because large terms cancel.
        """
        count, log_mean = exposed(y, self.exposure, f)
        r, y64 = 1 / self.dispersion.double(), count.double()
        ways = torch.lgamma(y64 + r) - torch.lgamma(r) - torch.lgamma(y64 + 1) - y64 * r.log()
        log_odds = log_mean.double() - r.log()
        return (ways + y64 * log_mean.double() - (y64 + r) * softplus(log_odds)).squeeze(-1).to(f)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``m`` and ``m + dispersion · m²``."""
        mean = self.exposure * finite_exp(f)
        return Gaussian(mean, mean + self.dispersion * mean.square())

    def predict(self, q: Gaussian) -> Gaussian:
        """``E m`` and ``E m + dispersion · E m² + Var m``."""
        mean, var = exp_moments(q)
        mean, var = self.exposure * mean, self.exposure**2 * var
        return Gaussian(mean, mean + self.dispersion * (var + mean.square()) + var)

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """The regularised incomplete beta function ``I_p(r, ⌊y⌋ + 1)`` with ``p = r/(r + m)``."""
        p = torch.sigmoid(-(f + (math.log(self.exposure) + self.dispersion.log())))
        below = beta_cdf(p, (1 / self.dispersion).to(f).expand(f.shape), y.clamp_min(0).floor() + 1)
        return torch.where(y >= 0, below, 0.0)

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Counts at the ``exposure`` argument: Poisson draws with gamma-distributed rates."""
        factor = torch._standard_gamma((1 / self.dispersion).to(f).expand(f.shape), generator=generator)
        return torch.poisson(self.exposure * finite_exp(f) * factor * self.dispersion, generator=generator)


class Binomial(OneFunction, Likelihood):
    """``y`` successes among ``trials`` that each succeed with probability ``σ(f)``, the logistic function.

    Observations are successes, or ``(successes, trials)`` if the number of trials differs between rows.

    Arguments:
        trials: that of rows without their own, and of all predictions.

    >>> Binomial(10).moments(torch.zeros(1, 1))
    Gaussian(mean=tensor([[5.]]), var=tensor([[2.5000]]))
    """

    support = (0.0, math.inf)
    discrete = True
    closed_reciprocal = True

    def __init__(self, trials: int = 1) -> None:
        super().__init__()
        if trials < 1 or trials != int(trials):
            raise InputError(f"trials must be a whole number ≥ 1, got {trials}")
        self.trials = int(trials)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log C(trials, y) + y log σ(f) + (trials − y) log σ(−f)``."""
        count, trials = self._columns(y)
        ways = _log_choose(trials, count).to(f)
        return (ways + count * logsigmoid(f) + (trials - count) * logsigmoid(-f)).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``trials · p`` and ``trials · p (1 − p)`` with ``p = σ(f)``."""
        p = torch.sigmoid(f)
        return Gaussian(self.trials * p, self.trials * p * torch.sigmoid(-f))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """The regularised incomplete beta function ``I_{1−p}(trials − ⌊y⌋, ⌊y⌋ + 1)``."""
        count = y.clamp(0, self.trials - 1).floor()
        below = beta_cdf(torch.sigmoid(-f), self.trials - count, count + 1)
        return torch.where(y >= self.trials, 1.0, torch.where(y >= 0, below, 0.0))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Successes among as many trials as the argument says."""
        return torch.binomial(torch.full_like(f, self.trials), torch.sigmoid(f), generator=generator)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log Σ_j C(trials, j) exp[(j − y) mean + ½ (j − y)² var] − log C(trials, y)`` over ``j = 0 … trials``."""
        count, trials = self._columns(y)
        j = torch.arange(int(trials.max()) + 1, device=y.device, dtype=y.dtype)
        ways = _log_choose(trials, j).to(q.mean)  # −∞ above the trials of a row
        terms = ways + (j - count) * q.mean + 0.5 * (j - count).square() * q.var
        return terms.logsumexp(-1) - _log_choose(trials, count).to(q.mean).squeeze(-1)

    def _columns(self, y: Float[Tensor, "n p"]) -> tuple[Float[Tensor, "n 1"], Float[Tensor, "n 1"]]:
        count, trials = with_second(y, self.trials, "(successes, trials)")
        refuse(trials, (trials >= 1) & (trials == trials.floor()) & trials.isfinite(), "trials must be 1, 2, 3, …")
        fine = (count >= 0) & (count == count.floor()) & (count <= trials)
        refuse(count, fine, "y must be whole numbers of successes from 0 to the number of trials")
        return count, trials


def _log_choose(n: Float[Tensor, "n 1"], k: Tensor) -> Tensor:
    """``log n!/(k! (n − k)!)`` in float64, ``−∞`` for ``k > n``."""
    n, k = n.double(), k.double()
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)


def _poisson(count: Float[Tensor, "n 1"], log_rate: Tensor, rate: Tensor) -> Float[Tensor, "*s n"]:
    """``y log λ − λ − log y!`` in float64, because terms cancel for large counts."""
    return (count.double() * log_rate.double() - rate - torch.lgamma(count.double() + 1)).squeeze(-1)


def exposed(
    y: Float[Tensor, "n p"], default: float, f: Float[Tensor, "*s n 1"]
) -> tuple[Float[Tensor, "n 1"], Float[Tensor, "*s n 1"]]:
    """Valid counts, and ``f`` with the log of the exposure added."""
    count, exposure = with_second(y, default, "(count, exposure)")
    refuse(exposure, (exposure > 0) & exposure.isfinite(), "the exposure (second column of y) must be positive")
    fine = (count >= 0) & (count == count.floor()) & count.isfinite()
    refuse(count, fine, "y must be counts 0, 1, 2, …")
    return count, f + exposure.log()


def _checked_exposure(exposure: float) -> float:
    if not 0 < exposure < math.inf:
        raise InputError(f"exposure must be positive, got {exposure}; a row may have its own in column 2 of y")
    return float(exposure)
