"""What every Gaussian process answers, before and after it has seen data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg import root
from stratagp.types import Gaussian, PointsLike


class Process(ABC):
    """A Gaussian process: its mean and covariance at any points, and draws from it.

    Points are ``n d`` (or a list of objects, for kernels on objects). The answers are about the function ``f``; an
    observation adds noise.

    >>> from stratagp import ExactGP, kernels as k
    >>> prior = ExactGP(k.RBF())
    >>> prior.sample(torch.linspace(0, 6, 3)[:, None], 2).shape
    torch.Size([2, 3])
    """

    mean: Any
    """``mean(x)``: the expected function at each row, ``n``."""

    @abstractmethod
    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n m"]:
        """``cov(f(x), f(z))``, or of ``f(x)`` with itself without ``z``."""

    @abstractmethod
    def variance(self, x: PointsLike) -> Float[Tensor, " n"]:
        """``var f(x)`` at each row, without the joint covariance."""

    @abstractmethod
    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One whole function, which can be evaluated anywhere, any number of times.

        The prior part comes from random features of the kernel, an approximation that becomes exact as ``n_features``
        grows.
        """

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance at each row, as ``n 1``."""
        return Gaussian(self.mean(x)[:, None], self.variance(x)[:, None])

    def sample(
        self, x: PointsLike, n_samples: int = 1, method: str = "cholesky", generator: torch.Generator | None = None
    ) -> Float[Tensor, "s n"]:
        """Joint draws of ``f`` at the rows of ``x``: exact, from a root of the covariance.

        ``method`` is ``cholesky``, ``eigen`` or ``pivoted``; the last two need no jitter for covariances that are only
        semi-definite, such as those of dense points with a long lengthscale.
        """
        with torch.no_grad():
            scale = root(self.covariance(x), method, "the covariance of the points")
            noise = torch.randn(scale.shape[1], n_samples, generator=generator, dtype=scale.dtype, device=scale.device)
            return self.mean(x) + (scale @ noise).mT
