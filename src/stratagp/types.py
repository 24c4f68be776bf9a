"""Beliefs about function values: what layers return and likelihoods integrate over."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Gaussian(NamedTuple):
    """Independent Gaussians, one for each row and latent function; ``*s`` are sample axes."""

    mean: Float[Tensor, "*s n q"]
    var: Float[Tensor, "*s n q"]

    def sample(self, noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Reparameterised draw ``mean + √var · noise`` for standard normal ``noise``."""
        return self.mean + self.var.sqrt() * noise


class Mixture(NamedTuple):
    """K Gaussians with log weights; the components are the leading axis of ``parts``."""

    log_weights: Float[Tensor, " k"]
    parts: Gaussian
