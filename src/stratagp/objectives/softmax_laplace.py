"""Laplace's approximation for several classes with the softmax likelihood.

Each class ``c`` has a latent function ``f_c ~ N(0, K_c)``; ``π = softmax(f)``. The curvature ``W = diag π − ΠΠᵀ``
couples the classes, but with ``E_c = √π_c (I + √π_c K_c √π_c)⁻¹ √π_c`` factors of n × n matrices are enough:

    (I + WK)⁻¹ b = b − E K b + E (Σ E)⁻¹ Σ E K b,   log|I + WK| = Σ_c log|I + √π_c K_c √π_c| + log|Σ_c E_c|

(Rasmussen and Williams, algorithms 3.3 and 3.4). The mode is found without a graph; one more Newton step from there,
with a graph, carries the derivative of the mode by ``K``, and autograd does the rest.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning
from stratagp.linalg import cholesky
from stratagp.objectives.sites import climb

MAX_STEPS = 100
TOLERANCE = 1e-9  # for α − (t − π), entry by entry
ROUNDING = 1e-12  # nats: the search ends when a Newton step gains less


class Curvature(NamedTuple):
    """``E_c``, the factor of their sum, and ``log|I + WK|``."""

    blocks: Float[Tensor, "c n n"]
    factor: Float[Tensor, "n n"]
    log_det: Float[Tensor, ""]


def softmax_log_evidence(
    covariance: Float[Tensor, "*q n n"],
    t: Float[Tensor, "c n"],
    start: Float[Tensor, "c n"] | None = None,
    name: object = "the covariance",
) -> tuple[Float[Tensor, ""], Float[Tensor, "c n"]]:
    """Laplace's ``log p(t)`` for one-hot labels, one row per class, and the weights ``α = t − π`` found.

    ``covariance`` is one for all classes or one for each. ``start`` are the weights of an earlier call.

    >>> value, weights = softmax_log_evidence(1e-6 * torch.eye(2), torch.eye(2))
    >>> round(value.item(), 4)  # 2 log ½
    -1.3863
    """
    covariance = covariance.expand(len(t), *t.shape[1:], t.shape[1])
    with torch.no_grad():
        f = _mode(covariance.detach(), t, start, name)
    weights, f = _newton(covariance, t, f, name)
    value = _psi(t, weights, f) - 0.5 * softmax_curvature(covariance, f, name).log_det
    return value, weights.detach()


def softmax_curvature(covariance: Float[Tensor, "c n n"], f: Float[Tensor, "c n"], name: object) -> Curvature:
    """The matrices of this module at ``f``."""
    root = torch.exp(0.5 * f.log_softmax(0))
    eye = torch.eye(f.shape[1], dtype=f.dtype, device=f.device)
    lower = cholesky(eye + root[:, :, None] * covariance * root[:, None, :], name)
    blocks = root[:, :, None] * torch.cholesky_inverse(lower) * root[:, None, :]
    factor = cholesky(blocks.sum(0), name)
    log_det = lower.diagonal(dim1=-2, dim2=-1).log().sum() + factor.diagonal().log().sum()
    return Curvature(blocks, factor, 2 * log_det)


def _psi(t: Tensor, weights: Tensor, f: Tensor) -> Float[Tensor, ""]:
    """``log p(t | f) − ½ αᵀf``."""
    return (t * f.log_softmax(0)).sum() - 0.5 * (weights * f).sum()


def _newton(covariance: Tensor, t: Tensor, f: Tensor, name: object) -> tuple[Tensor, Tensor]:
    """The Newton point from ``f``, as weights ``α`` and ``f = Kα``."""
    p = f.softmax(0)
    b = p * (f - (p * f).sum(0)) + t - p
    at = softmax_curvature(covariance, f, name)
    c = _times(at.blocks, _times(covariance, b))
    shared = torch.cholesky_solve(c.sum(0)[:, None], at.factor).mT
    weights = b - c + _times(at.blocks, shared.expand_as(c))
    return weights, _times(covariance, weights)


def _times(matrices: Float[Tensor, "c n n"], vectors: Float[Tensor, "c n"]) -> Float[Tensor, "c n"]:
    return (matrices @ vectors[..., None]).squeeze(-1)


def _mode(covariance: Tensor, t: Tensor, start: Tensor | None, name: object) -> Float[Tensor, "c n"]:
    point = torch.zeros_like(t), torch.zeros_like(t)
    if start is not None:
        earlier = start, _times(covariance, start)
        point = earlier if _psi(t, *earlier) > _psi(t, *point) else point
    for _ in range(MAX_STEPS):
        point, gain = climb(lambda a, f: _psi(t, a, f), point, _newton(covariance, t, point[1], name))
        residual = float((t - point[1].softmax(0) - point[0]).abs().max())
        if residual < TOLERANCE or gain < ROUNDING:
            return point[1]
    warnings.warn(
        f"Newton's method for the mode under {name} stopped after {MAX_STEPS} steps at a gradient of {residual:.1e}: "
        "lower the kernel variance",
        ConvergenceWarning,
        stacklevel=3,
    )
    return point[1]
