"""A kernel of your own.

One class with one method. Parameters are declared, and learnt with all others; `check_kernel` tests what a kernel
must promise.
"""

import numpy as np
import torch

from stratagp import GPRegressor, positive
from stratagp import kernels as k
from stratagp.testing import check_kernel


class Cauchy(k.Kernel):
    """Heavy tails: k(x, z) = 1 / (1 + |x − z|² / ℓ²)."""

    def __init__(self, lengthscale: float = 1.0) -> None:
        super().__init__()
        self.lengthscale = positive(lengthscale)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """The covariances of rows of ``x`` and ``z``."""
        return 1 / (1 + (torch.cdist(x, z) / self.lengthscale).square())


check_kernel(Cauchy(), torch.randn(8, 2, dtype=torch.float64))
X = np.linspace(0, 10, 60)[:, None]
y = np.sin(X[:, 0]) + 0.3 * X[:, 0] + 0.2 * np.random.default_rng(0).normal(size=60)
gp = GPRegressor(Cauchy() * k.Constant() + k.Linear()).fit(X, y)
print(gp.hyperparameters_)
