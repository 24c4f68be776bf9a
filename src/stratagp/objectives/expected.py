"""The bound on the evidence of a sparse process whose inputs are uncertain, with the inducing values integrated out.

For each output of ``y = m(b) + f(b) + ε`` with noise variance ``σ²`` and inputs ``bₙ ~ N(μₙ, diag Σₙ)``, all that the
bound needs of the ``n`` rows are the sums

    R = Σ E (y − m(b))²,    c = Σ E k(z, b) (y − m(b)),    ψ₀ = Σ E k(b, b),    Ψ₂ = Σ E k(z, b) k(b, z).

With ``Kzz = L Lᵀ``, ``B = L⁻¹Ψ₂L⁻ᵀ/σ²`` and ``C = I + B`` (Titsias and Lawrence 2010),

    ℒ = −½ (n log 2πσ² + log|C| + ψ₀/σ² − tr B + R/σ² − cᵀL⁻ᵀC⁻¹L⁻¹c/σ⁴),

summed over the outputs, minus the divergence of the inputs' belief from their prior. The whitened inducing values of an
output are ``N(C⁻¹L⁻¹c/σ², C⁻¹)`` when the bound is attained. Known inputs give the bound of
:func:`stratagp.objectives.collapsed.sgpr`. Outputs with the same noise share ``C`` and its factor.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.kernels.expectations import from_pairs, terms_of
from stratagp.layers.inducing_moments import by_chunks, expected_mean
from stratagp.linalg import cholesky
from stratagp.types import Gaussian

Noise = Float[Tensor, ""] | Float[Tensor, " p"]


class Sums(NamedTuple):
    """The sums over rows that the bound needs."""

    rows: int
    square: Float[Tensor, " p"]
    cross: Float[Tensor, "m p"]
    psi0: Float[Tensor, ""]
    psi2: Float[Tensor, "m m"]


class Optimal(NamedTuple):
    """The belief about whitened inducing values that attains the bound, for each output."""

    mean: Float[Tensor, "p m"]
    scale: Float[Tensor, "p m m"]  # the lower factor of the covariance


def sums(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    mean: Any,
    inputs: Gaussian | Tensor,
    y: Gaussian | Float[Tensor, "n p"],
) -> Sums:
    """The sums over rows of inputs, uncertain or known, and of targets, which may also be uncertain."""
    target = y if isinstance(y, Gaussian) else Gaussian(y, torch.zeros_like(y))
    if isinstance(inputs, Tensor):
        residual, kxz = target.mean - mean(inputs)[:, None], kernel(inputs, z)
        square = (residual.square() + target.var).sum(0)
        return Sums(len(inputs), square, kxz.mT @ residual, kernel.diag(inputs).sum(), kxz.mT @ kxz)
    terms_of(kernel, z.shape[-1])  # refuses kernels without expectations
    parts = by_chunks(partial(_chunk, kernel, z, mean), len(z), *inputs, *target)
    square, cross, psi0, psi2 = (torch.stack(each).sum(0) for each in zip(*parts, strict=True))
    return Sums(len(inputs.mean), square, cross, psi0, from_pairs(psi2))


def collapsed(seen: Sums, factor: Float[Tensor, "m m"], noise: Noise) -> Float[Tensor, ""]:
    """The bound above, without the divergence of the inputs; ``factor`` is that of ``Kzz``."""
    outputs = seen.cross.shape[1]
    B, inner, white = _whitened(seen, factor, noise)
    log_det = 2 * inner.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    trace = B.diagonal(dim1=-2, dim2=-1).sum(-1)
    each = seen.rows * (2 * math.pi * noise).log() + log_det + seen.psi0 / noise - trace
    return -0.5 * (each.expand(outputs).sum() + (seen.square / noise).sum() - white.square().sum())


def optimal(seen: Sums, factor: Float[Tensor, "m m"], noise: Noise) -> Optimal:
    """The belief about the whitened inducing values that attains the bound.

    With ``C = U Uᵀ``, ``U`` upper triangular, the lower factor of ``C⁻¹`` is ``U⁻ᵀ``: no inverse is factored.
    """
    B, inner, white = _whitened(seen, factor, noise)
    mean = torch.linalg.solve_triangular(inner.mT, white, upper=True)
    mean = mean.mT if inner.dim() == 2 else mean.squeeze(-1)
    eye = torch.eye(B.shape[-1], dtype=B.dtype, device=B.device)
    upper = cholesky((B + eye).flip(-2, -1), "I + L⁻¹Ψ₂L⁻ᵀ/noise").flip(-2, -1)
    scale = torch.linalg.solve_triangular(upper, eye, upper=True).mT
    return Optimal(mean, scale.expand(len(mean), -1, -1))


def _whitened(seen: Sums, factor: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """``B``, the factor ``M`` of ``C`` and ``M⁻¹L⁻¹c/σ²``: for all outputs, or for each if they differ in noise."""
    half = torch.linalg.solve_triangular(factor, seen.psi2, upper=False)
    B = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    B = 0.5 * (B + B.mT) / noise[..., None, None]
    inner = cholesky(B + torch.eye(B.shape[-1], dtype=B.dtype, device=B.device), "I + L⁻¹Ψ₂L⁻ᵀ/noise")
    projected = torch.linalg.solve_triangular(factor, seen.cross, upper=False) / noise
    white = projected if noise.dim() == 0 else projected.mT[..., None]
    return B, inner, torch.linalg.solve_triangular(inner, white, upper=False)


def _chunk(
    kernel: Kernel, z: Tensor, prior_mean: Any, mean: Tensor, var: Tensor, y: Tensor, doubt: Tensor
) -> tuple[Tensor, ...]:
    """``R``, ``c``, ``ψ₀`` and the pairs of ``Ψ₂`` of some rows."""
    q = Gaussian(mean, var)
    prior = expected_mean(prior_mean, q)
    residual = y - prior.mean[:, None]
    psi1 = kernel.psi1(q, z)
    cross = psi1.mT @ residual
    if prior.direction is not None:  # the joint terms of mean and kernel
        along = kernel.psi1_along(q, z, prior.direction) - (mean @ prior.direction)[:, None] * psi1
        cross = cross - along.sum(0)[:, None]
    square = (residual.square() + doubt).sum(0) + prior.var.sum()
    return square, cross, kernel.psi0(q).sum(), kernel.psi2_pairs(q, z).sum(0)
