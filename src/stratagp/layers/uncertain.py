"""Uncertain inputs as layers: points with noise, measured points, and latent points without any measurement."""

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
            averages log densities over the noise is never better with more of it, so training leads to none, and given
            noise flattens the function: columns with known errors take a belief about each row, as in
            :class:`~stratagp.estimators.NoisyInputRegressor`.

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
        return _draw(self, generator)


class Measured(Layer):
    """The true columns of rows that were measured: ``b ~ N(x, var)`` given ``x``, where all values are likely.

    Where true values are normal instead, ``b ~ N(c, v)``, and the measurement adds noise of variance ``s²``,

        b | x ~ N(c + share (x − c), share s²),    share = v/(v + s²).

    Arguments:
        var: of what is left unknown, for each column; 0 for a column that is known.
        centre, share: ``c`` and ``share`` above, for each column.

    >>> Measured(torch.tensor([0.5]), torch.tensor([1.0]), torch.tensor([0.5]))(torch.tensor([[3.0]]))
    Gaussian(mean=tensor([[2.]]), var=tensor([[0.5000]]))
    """

    var: Tensor
    centre: Tensor
    share: Tensor

    def __init__(self, var: Float[Tensor, " d"], centre: Float[Tensor, " d"], share: Float[Tensor, " d"]) -> None:
        super().__init__()
        for name, values in {"var": var, "centre": centre, "share": share}.items():
            self.register_buffer(name, values)

    def forward(self, x: Gaussian | Float[Tensor, "*s n d"]) -> Gaussian:
        """What measurements tell about true values; those of uncertain ones add to it."""
        mean, var = x if isinstance(x, Gaussian) else (x, torch.zeros_like(x))
        centre, share = self.centre.to(mean), self.share.to(mean)
        return Gaussian(centre + share * (mean - centre), share.square() * var + self.var.to(mean))

    def kl(self) -> Float[Tensor, ""]:
        """Zero: the belief is what measurements tell."""
        return torch.zeros((), dtype=torch.float64)

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One true value for each row; the same row number always gets the same noise."""
        return _draw(self, generator)


def _draw(layer: Layer, generator: torch.Generator | None) -> Callable[[Tensor], Tensor]:
    """Values drawn from the belief about each row, with the same normal numbers in each call."""
    seed = int(torch.randint(2**31 - 1, (), generator=generator))

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            belief = layer(x)
        noise = torch.randn(x.shape[-2:], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return belief.mean + belief.var.sqrt() * noise.to(x)

    return function


class LatentRows(Layer):
    """``bₙ ~ N(0, I)`` for each of ``n`` rows, known through ``q(bₙ) = N(mean, exp(2 log_scale))``.

    Points are row numbers, ``n 1``.

    Arguments:
        mean: the initial means, ``n d``.
        scale: the initial standard deviation.
        prior: another prior of each row than the standard normal; ``mean`` and ``scale`` are in its units then.

    >>> LatentRows(torch.zeros(3, 2), scale=1.0).kl().item()
    0.0
    """

    def __init__(self, mean: Tensor, scale: float = 0.3, prior: Gaussian | None = None) -> None:
        super().__init__()
        if mean.dim() != 2 or not mean.numel():
            raise InputError(f"mean must have shape (n, d) with a row for each observation, got {tuple(mean.shape)}")
        if not scale > 0:
            raise InputError(f"scale must be positive, got {scale}")
        self.mean = nn.Parameter(mean.detach().double().clone())
        self.log_scale = nn.Parameter(torch.full_like(self.mean.data, scale).log())
        self.prior = prior

    def forward(self, x: Any) -> Gaussian:
        """The belief about the latent points of some rows."""
        rows = torch.as_tensor(x).reshape(-1).long()
        found = Gaussian(self.mean[rows], (2 * self.log_scale[rows]).exp())
        if self.prior is None:
            return found
        mean, var = (part[rows] for part in self.prior)
        return Gaussian(mean + var.sqrt() * found.mean, var * found.var)

    def kl(self) -> Float[Tensor, ""]:
        """``½ Σ (mean² + scale² − 1) − Σ log scale``."""
        square = self.mean.square() + (2 * self.log_scale).exp() - 1
        return 0.5 * square.sum() - self.log_scale.sum()

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One latent point for each row."""
        with torch.no_grad():
            points = self(torch.arange(len(self.mean))).sample(
                torch.randn(self.mean.shape, generator=generator, dtype=torch.float64).to(self.mean)
            )
        return lambda x: points[torch.as_tensor(x).reshape(-1).long()]
