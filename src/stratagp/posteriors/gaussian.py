"""The full Gaussian posterior: one mean and one covariance for each latent function."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.linalg import whitened_marginals
from stratagp.linalg.once import first_derivative_only
from stratagp.linalg.triangular import Whitening
from stratagp.posteriors.base import Posterior
from stratagp.posteriors.sizes import check_sizes
from stratagp.types import Gaussian


class FullGaussian(Posterior):
    """``q(vⱼ) = N(meanⱼ, scaleⱼ scaleⱼᵀ)`` for each of ``q`` functions, independently; it starts at the prior.

    ``mean`` is ``q m`` and ``scale`` ``q m m``, whose part above the diagonal is ignored.

    >>> posterior = FullGaussian(2)
    >>> posterior.kl().item()
    0.0
    >>> posterior.marginals(torch.tensor([[0.6], [0.0]]), torch.ones(1)).var.item()
    1.0
    """

    def __init__(self, m: int, q: int = 1) -> None:
        super().__init__()
        check_sizes(m, q)
        self.mean = nn.Parameter(torch.zeros(q, m, dtype=torch.float64))
        self.scale = nn.Parameter(torch.eye(m, dtype=torch.float64).repeat(q, 1, 1))

    @property
    def shape(self) -> tuple[int, int]:
        """``(q, m)``."""
        return self.mean.shape[0], self.mean.shape[1]

    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Gaussian:
        """``Aᵀ mean`` and ``k − Σ A² + Σ (scaleᵀA)²``, each ``n q``."""
        return Gaussian(*whitened_marginals(a, kdiag, self.mean.to(a), self.scale.to(a)))

    def from_covariance(
        self, kzx: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"], whitening: Whitening
    ) -> Gaussian:
        """The same with fewer products."""
        return Gaussian(*whitened_marginals(kzx, kdiag, self.mean.to(kzx), self.scale.to(kzx), whitening))

    def covariance(self, a: Float[Tensor, "*q m n"], k: Float[Tensor, "*q n n"]) -> Float[Tensor, "q n n"]:
        """``k − AᵀA + (scaleᵀA)ᵀ(scaleᵀA)``: the joint covariance of all rows, for each function."""
        half = self.scale.to(a).tril().mT @ a
        return k - a.mT @ a + half.mT @ half

    def kl(self) -> Float[Tensor, ""]:
        """``½ Σ (|mean|² + |scale|² − m − log|scale scaleᵀ|)``."""
        return _Divergence.apply(self.mean, self.scale)

    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """``mean + scale ε`` with ``ε ~ N(0, I)``, for each function."""
        noise = torch.randn(self.shape, generator=generator, dtype=torch.float64).to(self.mean.device)
        return self.mean.double() + (self.scale.double().tril() @ noise[..., None]).squeeze(-1)


class _Divergence(torch.autograd.Function):
    """``KL(N(mean, scale scaleᵀ) ‖ N(0, I))`` and its gradients ``mean`` and ``scale − diag(1/scale)`` in one pass."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(mean, scale)
        log_det = scale.diagonal(dim1=-2, dim2=-1).double().square().log().sum()
        squares = mean.double().square().sum() + sum(t.tril().square().sum(dtype=torch.float64) for t in scale)
        return 0.5 * (squares - mean.numel() - log_det)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = ctx.saved_tensors
        to_scale = scale.tril().mul_(grad.to(scale))
        to_scale.diagonal(dim1=-2, dim2=-1).sub_(grad.to(scale) / scale.diagonal(dim1=-2, dim2=-1))
        return grad.to(mean) * mean, to_scale
