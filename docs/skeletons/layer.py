"""A layer to copy: from points to a belief, its cost in the bound, and one whole function."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.layers import Layer
from stratagp.types import Gaussian


class BayesianLinear(Layer):
    """``f(x) = xW`` with prior ``W ~ N(0, I)`` and posterior ``N(mean, scale²)``, independent weights.

    The belief at a row is ``N(x·mean, Σ_d x_d² scale_d²)``.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(inputs, outputs, dtype=torch.float64))
        self.log_scale = nn.Parameter(torch.zeros(inputs, outputs, dtype=torch.float64))

    def forward(self, x: Float[Tensor, "*s n d"]) -> Gaussian:
        """Mean and variance of each output at each row."""
        return Gaussian(x @ self.mean, x.square() @ (2 * self.log_scale).exp())

    def kl(self) -> Float[Tensor, ""]:
        """``KL(N(mean, scale²) ‖ N(0, 1))``, summed over the weights."""
        return 0.5 * (self.mean.square() + (2 * self.log_scale).exp() - 1 - 2 * self.log_scale).sum()

    def draw(self, generator: torch.Generator | None = None) -> Callable[[Tensor], Tensor]:
        """One weight matrix for the whole function."""
        noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype)
        weight = (self.mean + self.log_scale.exp() * noise).detach()
        return lambda x: x @ weight
