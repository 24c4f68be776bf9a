"""The log evidence of a Gaussian process with Gaussian noise."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.linalg import gaussian_log_density


def log_evidence(
    kernel: Kernel,
    mean: Callable[[Tensor], Tensor],
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
) -> Float[Tensor, ""]:
    """``log p(y) = log N(y; m(x), k(x, x) + noise)``, with the gradient in closed form."""
    return gaussian_log_density((y - mean(x))[:, None], kernel(x), noise, f"the covariance of {kernel}")
