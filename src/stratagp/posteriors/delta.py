"""A point instead of a distribution: maximum a posteriori for the whitened inducing values."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.linalg.triangular import LEAST_VARIANCE, project
from stratagp.posteriors.base import Posterior
from stratagp.posteriors.sizes import check_sizes
from stratagp.types import Gaussian


class Delta(Posterior):
    """The inducing values are exactly ``mean``, ``q m``, which starts at zero.

    A point has no finite divergence from a Gaussian, so :meth:`kl` is not one: it is the MAP penalty, and an objective
    with it is a log joint density rather than a bound on the evidence. Do not compare its values with those of other
    posteriors. Function values keep their variance given the inducing values.

    >>> Delta(2).marginals(torch.tensor([[0.6], [0.0]]), torch.ones(1)).var.item()  # 1 − 0.6²
    0.6399999856948853
    """

    def __init__(self, m: int, q: int = 1) -> None:
        super().__init__()
        check_sizes(m, q)
        self.mean = nn.Parameter(torch.zeros(q, m, dtype=torch.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """``(q, m)``."""
        return self.mean.shape[0], self.mean.shape[1]

    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Gaussian:
        """``Aᵀ mean`` and ``k − Σ A²``, each ``n q``."""
        mean = project(a, self.mean.to(a))
        var = (kdiag - a.square().sum(-2)).clamp_min(LEAST_VARIANCE)
        return Gaussian(mean, var.mT if var.dim() == 2 else var[:, None].expand_as(mean))

    def covariance(self, a: Float[Tensor, "*q m n"], k: Float[Tensor, "*q n n"]) -> Float[Tensor, "q n n"]:
        """``k − AᵀA``: the joint covariance of all rows given the inducing values, for each function."""
        return (k - a.mT @ a).expand(len(self.mean), -1, -1)

    def kl(self) -> Float[Tensor, ""]:
        """``½ |mean|² = −log N(mean; 0, I) − ½ q m log 2π``: the MAP penalty, not a divergence."""
        return 0.5 * self.mean.double().square().sum()

    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """Always the point; the generator is not used."""
        return self.mean.double().clone()
