"""Gaussian posteriors for inducing points on a product grid: the covariance is a Kronecker product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.linalg.kronecker import kron_matmul
from stratagp.linalg.triangular import LEAST_VARIANCE, project
from stratagp.posteriors.base import Posterior
from stratagp.posteriors.sizes import check_sizes
from stratagp.types import Gaussian


class KroneckerGaussian(Posterior):
    """``q(vⱼ) = N(meanⱼ, ⊗_d Tⱼ_d Tⱼ_dᵀ)`` for ``m = Π_d m_d`` points of a grid; it starts at the prior.

    The last axis of the grid runs fastest. ``mean`` is ``q m`` and ``scales[d]`` ``q m_d m_d``, whose part above the
    diagonal is ignored: ``m + Σ m_d²`` numbers per function instead of ``m + m²``. Only the product of the factors is
    determined; a scale may move from one to another.

    Arguments:
        sizes: the number of points along each axis of the grid.
        q: the number of functions.

    >>> posterior = KroneckerGaussian([3, 4])
    >>> posterior.shape, posterior.kl().item()
    ((1, 12), 0.0)
    """

    def __init__(self, sizes: Any, q: int = 1) -> None:
        super().__init__()
        self.sizes = _sizes(sizes)
        check_sizes(math.prod(self.sizes), q)
        self.mean = nn.Parameter(torch.zeros(q, math.prod(self.sizes), dtype=torch.float64))
        starts = [torch.eye(size, dtype=torch.float64).repeat(q, 1, 1) for size in self.sizes]
        self.scales = nn.ParameterList([nn.Parameter(start) for start in starts])

    @property
    def shape(self) -> tuple[int, int]:
        """``(q, m)``."""
        return self.mean.shape[0], self.mean.shape[1]

    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Gaussian:
        """``Aᵀ mean`` and ``k − Σ A² + Σ (TᵀA)²``, each ``n q``, in O(n m Σ m_d)."""
        var = kdiag - a.square().sum(-2) + self._half(a).square().sum(-2)
        return Gaussian(project(a, self.mean.to(a)), var.clamp_min(LEAST_VARIANCE).mT)

    def covariance(self, a: Float[Tensor, "*q m n"], k: Float[Tensor, "*q n n"]) -> Float[Tensor, "q n n"]:
        """``k − AᵀA + (TᵀA)ᵀ(TᵀA)``: the joint covariance of all rows, for each function."""
        half = self._half(a)
        return k - a.mT @ a + half.mT @ half

    def kl(self) -> Float[Tensor, ""]:
        """``½ Σ (|mean|² + Π_d |T_d|² − m − Σ_d (m/m_d) log|T_d T_dᵀ|)``, the sum over functions."""
        mean, scales = self.mean.double(), [scale.double().tril() for scale in self.scales]
        trace = reduce(torch.mul, [scale.square().sum((-2, -1)) for scale in scales])
        diagonals = [scale.diagonal(dim1=-2, dim2=-1).square().log().sum() for scale in scales]
        m = mean.shape[-1]
        log_det = reduce(torch.add, [(m // size) * own for size, own in zip(self.sizes, diagonals, strict=True)])
        return 0.5 * (mean.square().sum() + trace.sum() - mean.numel() - log_det)

    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """``mean + (⊗_d T_d) ε`` with ``ε ~ N(0, I)``, for each function."""
        noise = torch.randn(self.shape, generator=generator, dtype=torch.float64).to(self.mean.device)
        scales = [scale.double().tril() for scale in self.scales]
        return self.mean.double() + kron_matmul(scales, noise[..., None]).squeeze(-1)

    def _half(self, a: Float[Tensor, "*q m n"]) -> Float[Tensor, "q m n"]:
        return kron_matmul([scale.to(a).tril().mT for scale in self.scales], a)


def _sizes(sizes: Any) -> tuple[int, ...]:
    whole = isinstance(sizes, Sequence) and all(isinstance(size, int) and size > 0 for size in sizes)
    if not whole or not sizes:
        raise InputError(f"sizes must be the number of points along each axis of the grid, like [8, 5], got {sizes!r}")
    return tuple(sizes)
