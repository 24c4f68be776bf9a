"""Laplace's approximation for two classes: a Gaussian at the mode of the posterior, with its evidence.

For ``f ~ N(0, K)`` and labels ``y = ±1`` the posterior is log-concave with one mode ``f̂ = Kα``,
``α = ∇ log p(y | f̂)``. With ``W = −∇∇ log p``, ``B = I + √W K √W`` and ``R = √W B⁻¹ √W``,

    log q(y) = log p(y | f̂) − ½ αᵀf̂ − ½ log|B|,
    ∂/∂K = ½ (ααᵀ − R) + ½ (uαᵀ + αuᵀ),   u = (I − R K) s,   sᵢ = ½ [(K⁻¹ + W)⁻¹]ᵢᵢ ∂³ log p / ∂fᵢ³.

The second part of the gradient comes from the mode, which moves with ``K``. It costs no product of matrices, because
``[(K⁻¹ + W)⁻¹]ᵢᵢ = (1 − [B⁻¹]ᵢᵢ)/Wᵢ`` and the third derivative is a multiple of ``W``.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.objectives.sites import Sites, SiteSystem, climb, with_gradient

MAX_STEPS = 100
TOLERANCE = 1e-9  # for α − ∇ log p(y | f), entry by entry
SLOW = 0.3  # if a step leaves more of the residual, the curvature is recomputed
ROUNDING = 1e-12  # nats: the search ends when a Newton step gains less


class LinkDerivatives(NamedTuple):
    """``log p(y | f)``, its first derivative, minus its second, and its third divided by minus the second."""

    log_prob: Float[Tensor, " n"]
    slope: Float[Tensor, " n"]
    curvature: Float[Tensor, " n"]
    skew: Float[Tensor, " n"]


def logit(f: Float[Tensor, " n"], sign: Float[Tensor, " n"]) -> LinkDerivatives:
    """``p(y | f) = σ(y f)``, with its derivatives by ``f``.

    >>> logit(torch.zeros(1), torch.ones(1)).curvature
    tensor([0.2500])
    """
    up, down = f.sigmoid(), (-f).sigmoid()
    slope = sign * (-sign * f).sigmoid()
    return LinkDerivatives(torch.nn.functional.logsigmoid(sign * f), slope, up * down, up - down)


def probit(f: Float[Tensor, " n"], sign: Float[Tensor, " n"]) -> LinkDerivatives:
    """``p(y | f) = Φ(y f)``, with its derivatives by ``f``.

    >>> probit(torch.zeros(1), torch.ones(1)).slope  # φ(0)/Φ(0)
    tensor([0.7979])
    """
    z = sign * f
    log_prob = torch.special.log_ndtr(z)
    ratio = torch.exp(-0.5 * z.square() - 0.5 * math.log(2 * math.pi) - log_prob)
    total = z + ratio
    curvature = (ratio * total).clamp(0, 1)
    return LinkDerivatives(log_prob, sign * ratio, curvature, sign * (total - (1 - curvature) / total))


LINKS: dict[str, Callable[[Tensor, Tensor], LinkDerivatives]] = {"logit": logit, "probit": probit}


def laplace_log_evidence(
    covariance: Float[Tensor, "n n"],
    t: Float[Tensor, " n"],
    link: str = "logit",
    start: Sites | None = None,
    name: object = "the covariance",
) -> tuple[Float[Tensor, ""], Sites]:
    """Laplace's ``log p(t)`` for labels 0 and 1, differentiable by ``covariance``, and the sites it ends at.

    ``start`` are the sites of an earlier call with the same labels and a similar covariance.

    >>> value, sites = laplace_log_evidence(torch.eye(2), torch.tensor([0.0, 1.0]))
    >>> round(value.item(), 4)  # the integral is 2 log ½ = −1.3863
    -1.4013
    """
    differentiable = covariance.requires_grad and torch.is_grad_enabled()
    sign, gradient = 2 * t - 1, None
    with torch.no_grad():
        system = SiteSystem(covariance.detach(), name)
        weights, f = _mode(system, sign, LINKS[link], start)
        at = LINKS[link](f, sign)
        system.factor_(at.curvature)
        value = at.log_prob.sum() - 0.5 * (weights @ f + system.log_det())
        if differentiable:
            gradient = _gradient_(system, weights, at.skew)
    return with_gradient(value, covariance, gradient), Sites(at.curvature, at.curvature * f + weights, weights)


def _mode(
    system: SiteSystem, sign: Tensor, likelihood: Callable[[Tensor, Tensor], LinkDerivatives], start: Sites | None
) -> tuple[Tensor, Tensor]:
    """Newton's method for ``α`` and ``f = Kα``, halving steps that would lower ``Ψ = log p(y | f) − ½ αᵀf``.

    A step with an old factor of ``B`` costs n² operations, a new factor n³/3: the old one is reused while it converges.
    """

    def psi(weights: Tensor, f: Tensor) -> Tensor:
        return likelihood(f, sign).log_prob.sum() - 0.5 * weights @ f

    point = torch.zeros_like(sign), torch.zeros_like(sign)
    if start is not None:
        earlier = start.weights, system.covariance @ start.weights
        point = earlier if psi(*earlier) > psi(*point) else point
    last = 0.0
    for _ in range(MAX_STEPS):
        at = likelihood(point[1], sign)
        uphill = at.slope - point[0]
        residual = float(uphill.abs().max())
        if residual < TOLERANCE:
            return point
        fresh = not residual < SLOW * last
        if fresh:
            system.factor_(at.curvature)
        last = residual
        target = point[0] + system.weights(uphill)
        point, gain = climb(psi, point, (target, system.covariance @ target))
        if fresh and gain < ROUNDING:
            return point
    warnings.warn(
        f"Newton's method for the mode under {system.name} stopped after {MAX_STEPS} steps at a gradient of "
        f"{residual:.1e}: lower the kernel variance",
        ConvergenceWarning,
        stacklevel=3,
    )
    return point


def _gradient_(system: SiteSystem, weights: Tensor, skew: Tensor) -> Float[Tensor, "n n"]:
    """``½ (ααᵀ − R + uαᵀ + αuᵀ)``, in the buffer of the system."""
    s = 0.5 * (1 - system.invert_()) * skew
    u = s - system.buffer @ (system.covariance @ s)
    left, right = torch.stack([weights + u, weights], -1), torch.stack([weights, u], -1)
    return system.buffer.addmm_(left, right.mT, beta=-0.5, alpha=0.5)
