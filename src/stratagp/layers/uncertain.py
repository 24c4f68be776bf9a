"""Uncertain inputs as layers: points with noise, and latent points without any measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.layers.base import Layer
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian


class Noisy(Layer):
    """``b ~ N(x, variance)``: inputs measured with noise. The belief about them stays at this prior.

    Arguments:
        variance: of the noise, for all columns or for each; learnt unless given as a fixed parameter. A bound that
            averages log densities over the noise is never better with more of it, so training leads to none: to find
            the noise from data takes a belief about each row, as in :class:`~stratagp.models.cascade.CascadedGP`.

    >>> Noisy(0.5)(torch.zeros(2, 1)).var.flatten()
    tensor([0.5000, 0.5000], grad_fn=...)
    """

    def __init__(self, variance: Value | Parameter) -> None:
        super().__init__()
        self.variance = positive(variance, name="variance")

    def forward(self, x: Gaussian | Float[Tensor, "*s n d"]) -> Gaussian:
        """The points, with the variance of each entry; for uncertain points the variances add up."""
        if isinstance(x, Gaussian):
            return Gaussian(x.mean, x.var + self.variance.to(x.var))
        return Gaussian(x, self.variance.to(x).expand_as(x))

    def kl(self) -> Float[Tensor, ""]:
        """Zero: the belief is the prior."""
        return torch.zeros((), dtype=torch.float64)

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """Points with noise; the same row number always gets the same noise."""
        seed = int(torch.randint(2**31 - 1, (), generator=generator))

        def function(x: Tensor) -> Tensor:
            own = torch.Generator().manual_seed(seed)
            noise = torch.randn(x.shape[-2:], generator=own, dtype=torch.float64).to(x)
            return x + self.variance.detach().to(x).sqrt() * noise

        return function


class LatentRows(Layer):
    """``bₙ ~ N(0, I)`` for each of ``n`` rows, known through ``q(bₙ) = N(mean, exp(2 log_scale))``.

    Points are row numbers, ``n 1``.

    Arguments:
        mean: the initial means, ``n d``.
        scale: the initial standard deviation.

    >>> LatentRows(torch.zeros(3, 2), scale=1.0).kl().item()
    0.0
    """

    def __init__(self, mean: Tensor, scale: float = 0.3) -> None:
        super().__init__()
        if mean.dim() != 2 or not mean.numel():
            raise InputError(f"mean must have shape (n, d) with a row for each observation, got {tuple(mean.shape)}")
        if not scale > 0:
            raise InputError(f"scale must be positive, got {scale}")
        self.mean = nn.Parameter(mean.detach().double().clone())
        self.log_scale = nn.Parameter(torch.full_like(self.mean.data, scale).log())

    def forward(self, x: Any) -> Gaussian:
        """The belief about the latent points of some rows."""
        rows = torch.as_tensor(x).reshape(-1).long()
        return Gaussian(self.mean[rows], (2 * self.log_scale[rows]).exp())

    def kl(self) -> Float[Tensor, ""]:
        """``½ Σ (mean² + scale² − 1) − Σ log scale``."""
        square = self.mean.square() + (2 * self.log_scale).exp() - 1
        return 0.5 * square.sum() - self.log_scale.sum()

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One latent point for each row."""
        with torch.no_grad():
            noise = torch.randn(self.mean.shape, generator=generator, dtype=torch.float64).to(self.mean)
            points = self.mean + self.log_scale.exp() * noise
        return lambda x: points[torch.as_tensor(x).reshape(-1).long()]
