"""The local variational bound of Jaakkola and Jordan for two classes with the logistic likelihood.

Each factor is bounded from below by a Gaussian that touches it at ``±ξ``: with ``λ(ξ) = tanh(ξ/2)/(4ξ)``,

    log σ(y f) ≥ log σ(ξ) − ξ/2 + λ(ξ) ξ² + (t − ½) f − λ(ξ) f²,

so the integral is a true lower bound on the evidence for every ``ξ``, and largest where ``ξ² = E f²``:

    log p(t) ≥ ½ mᵀ(t − ½) − ½ log|B| + Σ [log σ(ξ) − ξ/2 + λ ξ²],   τ = 2λ,   ν = t − ½,   m = K α.

At the best ``ξ`` the bound does not change with it, so the gradient by ``K`` is ``½ (ααᵀ − R)``.
"""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.objectives.sites import Sites, SiteSystem, with_gradient

MAX_SWEEPS = 600
TOLERANCE = 1e-8  # for log ξ
SMALLEST = 1e-30


def local_evidence_bound(
    covariance: Float[Tensor, "n n"],
    t: Float[Tensor, " n"],
    start: Sites | None = None,
    name: object = "the covariance",
) -> tuple[Float[Tensor, ""], Sites]:
    """A lower bound on ``log p(t)`` for labels 0 and 1, differentiable by ``covariance``, and the sites it ends at.

    >>> value, sites = local_evidence_bound(torch.eye(2), torch.tensor([0.0, 1.0]))
    >>> round(value.item(), 4)  # below the integral, 2 log ½ = −1.3863
    -1.4003
    """
    differentiable = covariance.requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        system = SiteSystem(covariance.detach(), name)
        xi = _touching_points(system, t - 0.5, torch.full_like(t, 0.25) if start is None else start.precision)
        value, sites, _ = _sweep(system, t - 0.5, xi)
        gradient = system.fixed_site_gradient_(sites.weights) if differentiable else None
    return with_gradient(value, covariance, gradient), sites


def _sweep(system: SiteSystem, shift: Tensor, xi: Tensor) -> tuple[Tensor, Sites, Tensor]:
    """The bound at ``ξ``, its sites, and the next ``ξ² = [K − K R K]ᵢᵢ + mᵢ²``."""
    precision = _precision(xi)
    system.factor_(precision)
    weights = system.weights(shift)
    mean = system.covariance @ weights
    constants = torch.nn.functional.logsigmoid(xi) - 0.5 * xi + 0.5 * precision * xi.square()
    value = constants.sum() + 0.5 * (shift @ mean - system.log_det())
    return value, Sites(precision, shift, weights), _second_moment_root(system, mean)


def _second_moment_root(system: SiteSystem, mean: Tensor) -> Float[Tensor, " n"]:
    return (system.variances() + mean.square()).clamp_min(SMALLEST).sqrt()


def _touching_points(system: SiteSystem, shift: Tensor, precision: Tensor) -> Float[Tensor, " n"]:
    """The fixed point ``ξ``, by sweeps of which every third starts from an extrapolation of the last two.

    Plain sweeps creep if the kernel's variance is large. The jump is that of SQUAREM (Varadhan and Roland 2008) in
    ``log ξ``, and is undone if the bound would fall.
    """
    system.factor_(precision)
    xi = _second_moment_root(system, system.covariance @ system.weights(shift))
    for _ in range(MAX_SWEEPS // 3):
        first = _sweep(system, shift, xi)[2]
        value, _, second = _sweep(system, shift, first)
        step, change = (first / xi).log(), (second / first).log()
        if float(change.abs().max()) < TOLERANCE:
            return second
        bend = change - step
        length = max(1.0, float(step.norm() / bend.norm().clamp_min(SMALLEST)))
        jump = xi * torch.exp((2 * length * step + length**2 * bend).clamp(-5, 5))
        reached, _, third = _sweep(system, shift, jump)
        xi = third if reached >= value else second
    warnings.warn(
        f"the local bound under {system.name} stopped after {MAX_SWEEPS} sweeps before it converged, but is still a "
        "valid bound: to converge, lower the kernel variance",
        ConvergenceWarning,
        stacklevel=3,
    )
    return xi


def _precision(xi: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``2λ(ξ) = tanh(ξ/2)/(2ξ)``, a quarter at zero."""
    safe = xi.clamp_min(1e-4)
    return torch.where(xi < 1e-4, 0.25 - xi.square() / 48, torch.tanh(0.5 * safe) / (2 * safe))
