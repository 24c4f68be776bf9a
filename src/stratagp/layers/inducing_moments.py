"""An inducing layer at uncertain points, in closed form by the expectations of its kernel.

For ``x ~ N(μ, Σ)`` with the psi statistics of :mod:`stratagp.kernels.expectations`, ``Kzz = L Lᵀ``, whitened inducing
values of mean ``m`` and covariance ``S``, ``a = L⁻ᵀm`` and ``W = L⁻ᵀ(S + mmᵀ − I)L⁻¹``,

    E f(x) = ψ₁ᵀa,        var f(x) = ψ₀ + Σᵢⱼ Wᵢⱼ ψ₂ᵢⱼ − (ψ₁ᵀa)².

A prior mean ``c + w·x`` adds ``c + w·μ`` to the first and ``wᵀΣw + 2 (E[(w·x) k(x, z)]ᵀa − (w·μ) ψ₁ᵀa)`` to the second.
The moments are exact; their distribution is a mixture over ``x`` that is not Gaussian. Everything is computed in
float64, because ``W`` is as large as ``Kzz⁻¹``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stratagp.errors import UnsupportedError
from stratagp.kernels import Kernel
from stratagp.kernels.expectations import terms_of
from stratagp.linalg.triangular import LEAST_VARIANCE
from stratagp.means import Constant, Polynomial, Zero
from stratagp.posteriors import Posterior
from stratagp.types import Gaussian

_CHUNK = 2**23  # entries of ψ₂ held at once


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
        f"the mean {type(mean).__name__} has no closed-form expectation under Gaussian inputs: use Zero, Constant or a "
        "linear Polynomial, or propagate samples instead of moments"
    )


class Weights(NamedTuple):
    """The weights in the formula: ``a``, and the entries of ``W`` for each pair of inducing values."""

    a: Float[Tensor, "q m 1"]
    pairs: Float[Tensor, "q p 1"]


def weights_of(z: Float[Tensor, "*q m d"], factor: Float[Tensor, "*q m m"], posterior: Posterior) -> Weights:
    """The weights of an inducing layer, which all rows share."""
    m, S = _whitened_moments(posterior, z)
    eye = torch.eye(m.shape[-1], dtype=z.dtype, device=z.device)
    a = torch.linalg.solve_triangular(factor.mT, m[..., None], upper=True)
    half = torch.linalg.solve_triangular(factor.mT, S + m[..., None] * m[..., None, :] - eye, upper=True)
    W = torch.linalg.solve_triangular(factor, half, upper=False, left=False)
    i, j = torch.tril_indices(*W.shape[-2:], device=W.device)
    pairs = torch.where(i == j, 0.5, 1.0).to(W) * (W[..., i, j] + W[..., j, i])
    return Weights(a, pairs[..., None])


def expected_belief(kernel: Kernel, z: Float[Tensor, "*q m d"], weights: Weights, mean: Any, q: Gaussian) -> Gaussian:
    """The module's formula at ``n`` rows, each part ``n q``; everything in float64."""
    terms_of(kernel, z.shape[-1])  # refuses kernels without expectations
    functions = kernel.functions or (len(z) if z.dim() == 3 else 1)
    parts = by_chunks(partial(moments_at, kernel, z, mean, *weights), int(z.shape[-2] * functions**0.5), *q)
    return Gaussian(*(torch.cat(each) for each in zip(*parts, strict=True)))


def moments_at(kernel: Kernel, z: Tensor, prior_mean: Any, a: Tensor, W: Tensor, mean: Tensor, var: Tensor) -> Gaussian:
    """The module's formula at some rows; ``W`` has the weight of each pair of inducing points."""
    q = Gaussian(mean, var)
    fit, prior = _weighted(kernel.psi1(q, z), a), expected_mean(prior_mean, q)
    total = _by_row(kernel.psi0(q)) + _weighted(kernel.psi2_pairs(q, z), W) - fit.square() + prior.var[:, None]
    if prior.direction is not None:
        along = _weighted(kernel.psi1_along(q, z, prior.direction), a)
        total = total + 2 * (along - (mean @ prior.direction)[:, None] * fit)
    return Gaussian(fit + prior.mean[:, None], total.clamp_min(LEAST_VARIANCE))


def by_chunks(function: Callable[..., Any], m: int, *rows: Tensor) -> list[Any]:
    """``function`` of chunks of rows, so that only a bounded part of ψ₂, ``m²`` numbers per row, is held at once.

    If gradients are needed, each part is recomputed in the backward pass.
    """
    size = max(1, _CHUNK // m**2)
    again = torch.is_grad_enabled() and len(rows[0]) > size
    chunks = zip(*(part.split(size) for part in rows), strict=True)
    return [checkpoint(function, *chunk, use_reentrant=False) if again else function(*chunk) for chunk in chunks]


def _whitened_moments(posterior: Posterior, z: Tensor) -> tuple[Float[Tensor, "q m"], Float[Tensor, "q m m"]]:
    """Mean and covariance of the whitened values: the marginals at the values themselves."""
    eye = torch.eye(z.shape[-2], dtype=z.dtype, device=z.device)
    belief = posterior.marginals(eye, eye.diagonal())
    own = belief if isinstance(belief, Gaussian) else belief.moments()
    return own.mean.mT, posterior.covariance(eye, eye)


def _weighted(values: Float[Tensor, "*q n p"], weights: Float[Tensor, "q p 1"]) -> Float[Tensor, "n q"]:
    """``values @ weights`` of each function, which may share the values."""
    return values @ weights.squeeze(-1).mT if values.dim() == 2 else (values @ weights).squeeze(-1).mT


def _by_row(values: Float[Tensor, "*q n"]) -> Float[Tensor, "n q"]:
    return values[:, None] if values.dim() == 1 else values.mT
