"""The diagonal Gaussian posterior: independent whitened inducing values."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.linalg.triangular import LEAST_VARIANCE, project
from stratagp.posteriors.base import Posterior
from stratagp.posteriors.sizes import check_sizes
from stratagp.types import Gaussian


class DiagonalGaussian(Posterior):
    """``q(vⱼ) = N(meanⱼ, diag scaleⱼ²)`` for each of ``q`` functions, independently; it starts at the prior.

    Linear in ``m``, where the full Gaussian is quadratic. ``mean`` and ``scale`` are ``q m``; training moves
    ``log_scale``, so that scales stay positive.

    >>> posterior = DiagonalGaussian(2)
    >>> posterior.kl().item()
    0.0
    >>> posterior.marginals(torch.tensor([[0.6], [0.0]]), torch.ones(1)).var.item()
    1.0
    """

    def __init__(self, m: int, q: int = 1) -> None:
        super().__init__()
        check_sizes(m, q)
        self.mean = nn.Parameter(torch.zeros(q, m, dtype=torch.float64))
        self.log_scale = nn.Parameter(torch.zeros(q, m, dtype=torch.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """``(q, m)``."""
        return self.mean.shape[0], self.mean.shape[1]

    @property
    def scale(self) -> Float[Tensor, "q m"]:
        """The standard deviations, in float64."""
        return self.log_scale.double().exp()

    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Gaussian:
        """``Aᵀ mean`` and ``k + Σ (scale² − 1) A²``, each ``n q``."""
        excess = (self.scale.square() - 1).to(a)
        var = kdiag.mT if kdiag.dim() == 2 else kdiag[:, None]
        return Gaussian(project(a, self.mean.to(a)), (var + project(a.square(), excess)).clamp_min(LEAST_VARIANCE))

    def covariance(self, a: Float[Tensor, "*q m n"], k: Float[Tensor, "*q n n"]) -> Float[Tensor, "q n n"]:
        """``k + Aᵀ diag(scale² − 1) A``: the joint covariance of all rows, for each function."""
        excess = (self.scale.square() - 1).to(a)
        return k + a.mT @ (excess[..., None] * a)

    def kl(self) -> Float[Tensor, ""]:
        """``½ Σ (mean² + scale² − 1) − Σ log scale``."""
        square = self.mean.double().square() + self.scale.square() - 1
        return 0.5 * square.sum() - self.log_scale.double().sum()

    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """``mean + scale ε`` with ``ε ~ N(0, I)``."""
        noise = torch.randn(self.shape, generator=generator, dtype=torch.float64).to(self.mean.device)
        return self.mean.double() + self.scale * noise
