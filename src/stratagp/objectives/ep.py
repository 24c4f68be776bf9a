"""Expectation propagation for two classes with the probit likelihood.

Each factor ``Φ(yᵢ fᵢ)`` becomes a Gaussian site, fitted so that its product with the cavity ``N(m, v)``, the posterior
without that site, has the right mean and variance. With ``z = y m/√(1 + v)`` and ``r = φ(z)/Φ(z)``,

    g = y r/√(1 + v),   ρ = r (z + r)/(1 + v),   τ = ρ/(1 − vρ),   ν = (g + m ρ)/(1 − vρ),

which avoid differences of nearly equal numbers. All sites move at once; the step is halved whenever they diverge.
At the fixed point the evidence does not change with the sites, so its gradient is ``½ (ααᵀ − R)``.
"""

import warnings
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.objectives.laplace import probit
from stratagp.objectives.sites import Sites, SiteSystem, with_gradient

MAX_SWEEPS = 200
TOLERANCE = 1e-7  # of a standard deviation of the posterior


class _Cavity(NamedTuple):
    """The posterior without one site: its mean, its variance and its moments after multiplying the exact factor."""

    mean: Tensor
    var: Tensor
    log_prob: Tensor
    precision: Tensor
    shift: Tensor


def ep_log_evidence(
    covariance: Float[Tensor, "n n"],
    t: Float[Tensor, " n"],
    start: Sites | None = None,
    name: object = "the covariance",
) -> tuple[Float[Tensor, ""], Sites]:
    """``log Z_EP`` for labels 0 and 1, differentiable by ``covariance``, and the sites it ends at.

    >>> value, sites = ep_log_evidence(torch.eye(2), torch.tensor([0.0, 1.0]))
    >>> round(value.item(), 4)  # 2 log ½, exact where the factors are independent
    -1.3863
    """
    differentiable = covariance.requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        system = SiteSystem(covariance.detach(), name)
        sites, mean, cavity = _fixed_point(system, 2 * t - 1, start)
        value = _log_z(sites, mean, cavity) - 0.5 * system.log_det()
        gradient = system.fixed_site_gradient_(sites.weights) if differentiable else None
    return with_gradient(value, covariance, gradient), sites


def _fixed_point(system: SiteSystem, sign: Tensor, start: Sites | None) -> tuple[Sites, Tensor, _Cavity]:
    zero = torch.zeros_like(sign)
    precision, shift = (zero, zero) if start is None else start[:2]
    step, last = 1.0, torch.inf
    for _ in range(MAX_SWEEPS):
        system.factor_(precision)
        sites = Sites(precision, shift, system.weights(shift))
        mean, var = system.covariance @ sites.weights, system.variances()
        cavity = _cavity(sites, mean, var, sign)
        change = _apart(sites, cavity, var)
        if change < TOLERANCE:
            return sites, mean, cavity
        step = step if change < last else max(0.5 * step, 0.05)
        last = change
        precision = precision + step * (cavity.precision - precision)
        shift = shift + step * (cavity.shift - shift)
    warnings.warn(
        f"EP under {system.name} stopped after {MAX_SWEEPS} sweeps with sites still moving by {change:.1e} standard "
        "deviations: lower the kernel variance",
        ConvergenceWarning,
        stacklevel=3,
    )
    return sites, mean, cavity


def _cavity(sites: Sites, mean: Tensor, var: Tensor, sign: Tensor) -> _Cavity:
    left = 1 - sites.precision * var
    cavity_mean, cavity_var = (mean - var * sites.shift) / left, var / left
    total = 1 + cavity_var
    at = probit(cavity_mean / total.sqrt(), sign)
    slope, curvature = at.slope / total.sqrt(), at.curvature / total
    rest = 1 - cavity_var * curvature
    shift = (slope + cavity_mean * curvature) / rest
    return _Cavity(cavity_mean, cavity_var, at.log_prob, curvature / rest, shift)


def _apart(sites: Sites, cavity: _Cavity, var: Tensor) -> float:
    """How far the sites are from matching moments, in standard deviations of the posterior."""
    by_precision = (cavity.precision - sites.precision).abs() * var
    by_shift = (cavity.shift - sites.shift).abs() * var.sqrt()
    return float((by_precision + by_shift).max())


def _log_z(sites: Sites, mean: Tensor, cavity: _Cavity) -> Tensor:
    """``log Z_EP + ½ log|B|``: equations 3.73 and 3.74 of Rasmussen and Williams, without dividing by a precision."""
    precision, shift, _ = sites
    total = 1 + precision * cavity.var
    quadratic = shift * mean - shift.square() * cavity.var / total
    quadratic = quadratic + cavity.mean * (precision * cavity.mean - 2 * shift) / total
    return (cavity.log_prob + 0.5 * total.log() + 0.5 * quadratic).sum()
