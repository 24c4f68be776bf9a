"""Regression whose noise has its own Gaussian process: the marginalised variational bound.

The model is ``y = f + exp(g/2) ε``, ``f ~ N(m, K)``, ``g ~ N(μ₀, G)``; ``g`` is the log of the noise *variance*. With a
Gaussian belief ``q(g) = N(μ, Σ)`` the function ``f`` is integrated out exactly (Lázaro-Gredilla and Titsias 2011):

    log p(y) ≥ F = log N(y; m, K + diag(ρ)) − ¼ tr Σ − KL(N(μ, Σ) ‖ N(μ₀, G)),    ρᵢ = exp(μᵢ − ½ Σᵢᵢ).

Write ``q(g)`` by Gaussian sites, ``Σ⁻¹ = G⁻¹ + diag(τ)`` and ``μ = μ₀ + Gα``. Then, with ``B = I + √τ G √τ``,

    KL = ½ (αᵀGα − Σᵢ τᵢΣᵢᵢ + log|B|),    ∂F/∂μ = λ − ½ − G⁻¹(μ − μ₀),    ∂F/∂Σᵢᵢ = ½ (τᵢ − λᵢ),
    λᵢ = ½ E(yᵢ − fᵢ)²/ρᵢ = ½ (ρᵢβᵢ² + 1 − ρᵢ[C⁻¹]ᵢᵢ),    C = K + diag(ρ),   β = C⁻¹(y − m),

so that at the maximum ``τ = λ`` and ``α = λ − ½``: n numbers determine ``q(g)``, and ``G`` is never inverted. They
are found by natural gradient steps, ``τ ← λ`` and ``τGα + α ← λGα + λ − ½``, shortened if F would fall. There F is
stationary in ``q(g)``, so its gradients are those at fixed ``q(g)``: ``½ (ααᵀ − (G + τ⁻¹)⁻¹)`` by G, ``Σᵢ αᵢ`` by μ₀,
and by K and m those of the Gaussian log density. Hyperparameters are all that remains to be trained.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning, NumericalWarning
from stratagp.linalg import blocked, gaussian_log_density
from stratagp.linalg.cholesky import blocked_factor
from stratagp.objectives.sites import Sites, SiteSystem, with_gradient

MAX_STEPS = 300
TOLERANCE = 1e-6  # for λ − τ and λ − ½ − α, entry by entry
MEMORY = 6  # past steps from which the next is extrapolated
ROUNDING = 1e-14  # relative gain of the bound at which the search ends
SMALLEST = 1e-10  # of λ: a site without precision would have no pseudo-observation


class NoiseBelief(NamedTuple):
    """``q(g)``: its sites, its mean minus the prior's, its variances, and the noise ``ρ`` that ``f`` sees."""

    sites: Sites
    offset: Float[Tensor, " n"]
    var: Float[Tensor, " n"]
    noise: Float[Tensor, " n"]


def heteroscedastic_bound(
    covariance: Float[Tensor, "n n"],
    noise_covariance: Float[Tensor, "n n"],
    residual: Float[Tensor, " n"],
    log_noise: Float[Tensor, ""],
    start: NoiseBelief | None = None,
    names: tuple[object, object] = ("the covariance", "the covariance of the log noise"),
) -> tuple[Float[Tensor, ""], NoiseBelief]:
    """The best lower bound on ``log p(y)``, differentiable by the first four arguments, and the belief it ends at.

    Arguments:
        covariance: ``K`` of the function; ``noise_covariance``: ``G`` of the log noise variance.
        residual: ``y − m``.
        log_noise: ``μ₀``, the prior mean of the log noise variance.
        start: the belief of an earlier call with the same targets and similar covariances.

    First derivatives only.

    >>> y, zero = torch.tensor([0.5, -0.5]), torch.zeros(2, 2)
    >>> heteroscedastic_bound(zero, zero, y, torch.tensor(0.0))[0]  # two standard normal densities
    tensor(-2.0879)
    """
    with torch.no_grad():
        search = _Search(covariance.detach(), noise_covariance.detach(), residual.detach(), log_noise.detach(), names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # of trial steps; the density below warns about the last
            belief, penalty = search.run(start)
        gradient = None
        if noise_covariance.requires_grad:
            search.system.factor_(belief.sites.precision)
            gradient = search.system.fixed_site_gradient_(belief.sites.weights)
    value = gaussian_log_density(residual[:, None], covariance, belief.noise, names[0])
    value = value - with_gradient(penalty, noise_covariance, None if gradient is None else -gradient)
    return value + belief.sites.weights.sum() * (log_noise - log_noise.detach()), belief


class _Point(NamedTuple):
    """A belief, the bound there, its part ``¼ tr Σ + KL``, and ``λ``, the target of the precisions."""

    belief: NoiseBelief
    value: float
    penalty: Float[Tensor, ""]
    target: Float[Tensor, " n"]


class _Search:
    """Natural gradient ascent of the bound in ``q(g)``, for one pair of covariances."""

    def __init__(
        self, covariance: Tensor, noise_covariance: Tensor, residual: Tensor, log_noise: Tensor, names: tuple
    ) -> None:
        self.covariance, self.residual, self.log_noise, self.name = covariance, residual, log_noise, names[0]
        self.system = SiteSystem(noise_covariance, names[1])
        self.past: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)

    def run(self, start: NoiseBelief | None) -> tuple[NoiseBelief, Float[Tensor, ""]]:
        """From ``start``, or the prior, to the best belief and its penalty."""
        here = self._begin(start)
        for _ in range(MAX_STEPS):
            sites, before = here.belief.sites, here.value
            gap = float(torch.cat([here.target - sites.precision, here.target - 0.5 - sites.weights]).abs().max())
            if gap < TOLERANCE:
                return here.belief, here.penalty
            here = self._step(here, near=gap < 1)
            if here.value - before < ROUNDING * (1 + abs(before)):
                return here.belief, here.penalty
        warnings.warn(
            f"the belief about the log noise under {self.system.name} stopped after {MAX_STEPS} steps at a gradient of "
            f"{gap:.1e}: lower the variance of the noise kernel",
            ConvergenceWarning,
            stacklevel=5,
        )
        return here.belief, here.penalty

    def _begin(self, start: NoiseBelief | None) -> _Point:
        zero = torch.zeros_like(self.residual)
        first = self._evaluate(torch.stack([zero + 0.5, zero]))
        if start is None:
            return first
        earlier = self._evaluate(torch.stack(start.sites[:2]))
        return earlier if earlier.value > first.value else first

    def _step(self, here: _Point, near: bool) -> _Point:
        """The natural gradient step, halved until the bound rises; near the end Anderson's instead, if it is better."""
        at = torch.stack(here.belief.sites[:2])
        step = torch.stack([here.target, here.target * (1 + here.belief.offset) - 0.5]) - at
        self.past.append((at, step))
        if near and len(self.past) > 1:
            there = self._evaluate(at + _extrapolate(self.past))
            if there.value > here.value:
                return there
        for halvings in range(30):
            there = self._evaluate(at + step / 2**halvings)
            if there.value >= here.value:
                return there
        return here

    def _evaluate(self, natural: Float[Tensor, "2 n"]) -> _Point:
        system, precision, shift = self.system, natural[0].clamp_min(SMALLEST), natural[1]
        system.factor_(precision)
        weights, var = system.weights(shift), system.variances()
        offset = system.covariance @ weights
        penalty = 0.25 * var.sum() + 0.5 * (weights @ offset - precision @ var + system.log_det())
        noise = (self.log_noise + offset - 0.5 * var).exp()
        belief = NoiseBelief(Sites(precision, shift, weights), offset, var, noise)
        if not bool((noise.isfinite() & (noise > 0)).all()):
            return _Point(belief, -math.inf, penalty, precision)
        density, target = self._function(noise)
        return _Point(belief, density - float(penalty), penalty, target)

    def _function(self, noise: Tensor) -> tuple[float, Tensor]:
        """``log N(y; m, C)`` and ``λ`` for ``C = K + diag(noise)``."""
        buffer, inverses = blocked_factor(self.covariance, noise, self.name)
        beta = blocked.solve(buffer, self.residual[:, None]).squeeze(-1)
        log_det = 2 * buffer.diagonal().log().sum()
        density = -0.5 * (self.residual @ beta + log_det + len(noise) * math.log(2 * math.pi))
        blocked.invert_(buffer, inverses)
        target = 0.5 * (noise * beta.square() + 1 - noise * buffer.diagonal())
        return float(density), target.clamp_min(SMALLEST)


def _extrapolate(past: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Anderson's step: the combination of past points whose own step would be the shortest."""
    at, step = (torch.stack([pair[i].flatten() for pair in past], 1) for i in (0, 1))
    mix = torch.linalg.lstsq(step.diff(), step[:, -1:], driver="gelsd").solution
    return (step[:, -1:] - (at.diff() + step.diff()) @ mix).reshape(past[-1][0].shape)
