"""A kernel to copy: one class, one method. Replace the formula; keep the docstring's shape."""

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.parameters import positive


class Cauchy(Kernel):
    """``k(x, z) = variance / (1 + |x − z|²/lengthscale²)``: smooth functions with long memory."""

    differentiable = float("inf")  # how many mean-square derivatives the process has; 0 if you are not sure

    def __init__(self, lengthscale: float = 1.0, variance: float = 1.0) -> None:
        super().__init__()
        self.lengthscale = positive(lengthscale)  # stored as a parameter, read as a tensor
        self.variance = positive(variance)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The formula, for all pairs of rows."""
        return self.variance / (1 + (torch.cdist(x, z) / self.lengthscale).square())
