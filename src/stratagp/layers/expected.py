"""An inducing layer read at uncertain points, in closed form by the expectations of its kernel.

For ``x ~ N(μ, Σ)`` with the psi statistics of :mod:`stratagp.kernels.expectations`, ``Kzz = L Lᵀ``, whitened inducing
values of mean ``m`` and covariance ``S``, ``a = L⁻ᵀm`` and ``W = L⁻ᵀ(S + mmᵀ − I)L⁻¹``,

    E f(x) = ψ₁ᵀa,        var f(x) = ψ₀ + Σᵢⱼ Wᵢⱼ ψ₂ᵢⱼ − (ψ₁ᵀa)².

A prior mean ``c + w·x`` adds ``c + w·μ`` to the first and ``wᵀΣw + 2 (E[(w·x) k(x, z)]ᵀa − (w·μ) ψ₁ᵀa)`` to the second.
The moments are exact; the distribution they belong to is a mixture over ``x`` that is not Gaussian. All is computed in
float64, because ``W`` is as large as ``Kzz⁻¹``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.kernels import Kernel
from stratagp.kernels.expectations import WithExpectations, terms_of
from stratagp.linalg.triangular import LEAST_VARIANCE
from stratagp.means import Constant, Polynomial, Zero
from stratagp.posteriors import Posterior
from stratagp.types import Gaussian


class MeanAt(NamedTuple):
    """A prior mean ``c + w·x`` at ``x ~ N(μ, Σ)``: its expectation, its variance and ``w``; None if it is zero."""

    mean: Float[Tensor, " n"]
    var: Float[Tensor, " n"]
    direction: Float[Tensor, " d"] | None


def expected_mean(mean: Any, q: Gaussian) -> MeanAt:
    """A constant or linear prior mean under uncertain points."""
    if isinstance(mean, (Zero, Constant)):
        value = mean(q.mean)
        return MeanAt(value, torch.zeros_like(value), None)
    if isinstance(mean, Polynomial) and torch.atleast_2d(mean.weight).shape[0] == 1:
        direction = mean.weight.reshape(-1)
        return MeanAt(mean(q.mean), q.var @ direction.square(), direction)
    raise UnsupportedError(
        f"the mean {type(mean).__name__} has no closed-form expectation under Gaussian inputs; Zero, Constant and a "
        "linear Polynomial have: use these, or propagate samples, not moments"
    )


def expected_belief(
    kernel: Kernel,
    z: Float[Tensor, "*q m d"],
    factor: Float[Tensor, "*q m m"],
    posterior: Posterior,
    mean: Any,
    q: Gaussian,
) -> Gaussian:
    """The module's formula at ``n`` rows, each part ``n q``; everything in float64."""
    terms_of(kernel, z.shape[-1])  # refuses kernels without expectations
    assert isinstance(kernel, WithExpectations)
    m, S = _whitened_moments(posterior, z)
    eye = torch.eye(m.shape[-1], dtype=z.dtype, device=z.device)
    a = torch.linalg.solve_triangular(factor.mT, m[..., None], upper=True)
    half = torch.linalg.solve_triangular(factor.mT, S + m[..., None] * m[..., None, :] - eye, upper=True)
    W = torch.linalg.solve_triangular(factor, half, upper=False, left=False)
    first, second = kernel.psi1(q, z), kernel.psi2(q, z).flatten(-2)
    fit = _weighted(first, a)
    prior = expected_mean(mean, q)
    var = _by_row(kernel.psi0(q)) + _weighted(second, W.flatten(-2)[..., None]) - fit.square() + prior.var[:, None]
    if prior.direction is not None:
        along = _weighted(kernel.psi1_along(q, z, prior.direction), a)
        var = var + 2 * (along - (q.mean @ prior.direction)[:, None] * fit)
    return Gaussian(fit + prior.mean[:, None], var.clamp_min(LEAST_VARIANCE))


def _whitened_moments(posterior: Posterior, z: Tensor) -> tuple[Float[Tensor, "q m"], Float[Tensor, "q m m"]]:
    """Mean and covariance of the whitened values: the belief where they are asked for themselves."""
    eye = torch.eye(z.shape[-2], dtype=z.dtype, device=z.device)
    belief = posterior.marginals(eye, eye.diagonal())
    own = belief if isinstance(belief, Gaussian) else belief.moments()
    return own.mean.mT, posterior.covariance(eye, eye)


def _weighted(values: Float[Tensor, "*q n p"], weights: Float[Tensor, "q p 1"]) -> Float[Tensor, "n q"]:
    """``values @ weights`` of each function, which may share the values."""
    return values @ weights.squeeze(-1).mT if values.dim() == 2 else (values @ weights).squeeze(-1).mT


def _by_row(values: Float[Tensor, "*q n"]) -> Float[Tensor, "n q"]:
    return values[:, None] if values.dim() == 1 else values.mT
