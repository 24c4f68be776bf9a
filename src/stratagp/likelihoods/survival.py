"""Survival times, some of them known only to be longer than the observation period.

An observation is ``(time, observed)``: with ``observed`` 1 the event happened at ``time`` and the row contributes the
density; with 0 it had not happened yet (right-censored), and the row contributes the probability ``S(time)`` of a
longer time. Without the second column all events were observed. Predictions are of the time of the event.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.gaussian import gaussian_log_reciprocal
from stratagp.likelihoods.scale import exp_moments, finite_exp
from stratagp.likelihoods.single import OneFunction, number, refuse, with_second
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian


class Weibull(OneFunction, Likelihood):
    """``S(t) = exp(−(t/e^f)^shape)``: times with scale ``e^f``, and a risk that grows with age for a shape above 1.

    >>> survived = torch.tensor([[2.0, 0.0]])  # no event until time 2
    >>> Weibull(shape=1.0).log_prob(survived, torch.zeros(1, 1)).item()
    -2.0
    """

    support = (0.0, math.inf)
    of_times = True

    def __init__(self, shape: Value | Parameter = 1.0) -> None:
        super().__init__()
        self.shape = number(shape, "shape")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``observed · (log shape − log t + log H) − H`` with ``log H = shape · (log t − f)``."""
        log_t, observed = _survived(y)
        log_hazard = self.shape * (log_t - f)
        return self._log_density(log_t, observed, log_hazard, finite_exp(log_hazard))

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """The same, with ``E H = exp(shape · (log t − mean) + shape² · var/2)``."""
        log_t, observed = _survived(y)
        log_hazard = self.shape * (log_t - q.mean)
        hazard = finite_exp(log_hazard + 0.5 * self.shape.square() * q.var)
        return self._log_density(log_t, observed, log_hazard, hazard)

    def _log_density(self, log_t: Tensor, observed: Tensor, log_hazard: Tensor, hazard: Tensor) -> Tensor:
        density = torch.where(observed, self.shape.log() - log_t + log_hazard, 0.0)
        return (density - hazard).squeeze(-1)

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``g₁ e^f`` and ``(g₂ − g₁²) e^{2f}`` with ``g_k = Γ(1 + k/shape)``."""
        return self._times(Gaussian(finite_exp(f), torch.zeros_like(f)))

    def predict(self, q: Gaussian) -> Gaussian:
        """``g₁ E e^f`` and ``(g₂ − g₁²) E e^{2f} + g₁² Var e^f``."""
        return self._times(exp_moments(q))

    def _times(self, scale: Gaussian) -> Gaussian:
        """Mean and variance of the time from those of the scale."""
        first, second = (torch.lgamma(1 + k / self.shape).exp() for k in (1, 2))
        var = (second - first.square()) * (scale.mean.square() + scale.var) + first.square() * scale.var
        return Gaussian(first * scale.mean, var)

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``1 − S(t)``."""
        return -torch.expm1(-finite_exp(self.shape * (_log(y) - f)))

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Times, none of them censored."""
        return finite_exp(f + torch.empty_like(f).exponential_(generator=generator).log() / self.shape)


class LogNormal(OneFunction, Likelihood):
    """``log t ~ N(f, noise)``: times with median ``e^f``.

    >>> LogNormal(0.5).quantiles(Gaussian(torch.zeros(1, 1), torch.ones(1, 1)), [0.5]).item()
    1.0
    """

    support = (0.0, math.inf)
    of_times = True

    def __init__(self, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        self.noise = number(noise, "noise")

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n"]:
        """``log N(log t; f, noise) − log t``, or ``log Φ((f − log t)/√noise)`` if censored."""
        return self._log_prob(y, f, self.noise)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log N(log t; mean, noise) − log t − var/(2 noise)``, or by quadrature if censored."""
        log_t, observed = _survived(y)
        seen = (_log_density(log_t, q.mean, self.noise) - 0.5 * q.var / self.noise).squeeze(-1)
        return torch.where(observed.squeeze(-1), seen, super().expected_log_prob(y, q))

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """As ``log_prob`` at the mean, with the variance ``noise + var``."""
        return self._log_prob(y, q.mean, q.var + self.noise)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log t + ½ [log 2π noise − log(1 − r) + (log t − mean)²/(noise (1 − r))]``, or by quadrature if censored.

        The expectation exists if ``r = var/noise < 1``; to keep gradients finite, ``r`` is capped at 0.99.
        """
        log_t, observed = _survived(y)
        seen = log_t + gaussian_log_reciprocal(log_t, q.mean, q.var, self.noise)
        return torch.where(observed.squeeze(-1), seen.squeeze(-1), super().log_reciprocal(y, q))

    def moments(self, f: Float[Tensor, "*s n 1"]) -> Gaussian:
        """``m = exp(f + noise/2)`` and ``m² (e^noise − 1)``."""
        return exp_moments(Gaussian(f, self.noise.to(f).expand(f.shape)))

    def predict(self, q: Gaussian) -> Gaussian:
        """The same at the mean, with the variance ``noise + var``."""
        return exp_moments(Gaussian(q.mean, q.var + self.noise))

    def cdf(self, y: Float[Tensor, "*s n 1"], f: Float[Tensor, "*s n 1"]) -> Float[Tensor, "*s n 1"]:
        """``Φ((log t − f)/√noise)``."""
        return torch.special.ndtr((_log(y) - f) / self.noise.to(f).sqrt())

    def predictive_cdf(self, y: Float[Tensor, "*s n 1"], q: Gaussian) -> Float[Tensor, "*s n 1"]:
        """``Φ((log t − mean)/√(var + noise))``."""
        return torch.special.ndtr((_log(y) - q.mean) / (q.var + self.noise.to(q.var)).sqrt())

    def sample(self, f: Float[Tensor, "*s n 1"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Times, none of them censored."""
        noise = torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f)
        return finite_exp(f + self.noise.to(f).sqrt() * noise)

    def _log_prob(self, y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        log_t, observed = _survived(y)
        survival = torch.special.log_ndtr((mean - log_t) / var.sqrt())
        return torch.where(observed, _log_density(log_t, mean, var), survival).squeeze(-1)


def _log_density(log_t: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """The log density of ``t`` for ``log t ~ N(mean, var)``."""
    return -log_t - 0.5 * ((log_t - mean).square() / var + torch.log(2 * math.pi * var))


def _survived(y: Float[Tensor, "n p"]) -> tuple[Float[Tensor, "n 1"], Bool[Tensor, "n 1"]]:
    """The logs of valid times, and whether the event was observed."""
    time, observed = with_second(y, 1.0, "(time, observed)")
    refuse(time, (time > 0) & time.isfinite(), "times (first column of y) must be positive")
    rule = "observed (second column of y) must be 1 for an event, 0 for a censored time"
    refuse(observed, (observed == 0) | (observed == 1), rule)
    return time.log(), observed == 1


def _log(t: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """``log t``, and about the least finite number for times that are not positive."""
    return t.clamp_min(torch.finfo(t.dtype).tiny).log()
