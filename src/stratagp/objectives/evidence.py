"""Scores of the hyperparameters of a Gaussian process with Gaussian noise: evidence and leave-one-out density."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.linalg import gaussian_log_density, leave_one_out_log_density


class CovarianceOf:
    """The name of a kernel's matrix in errors; a kernel is put into words only when one is raised."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __str__(self) -> str:
        return f"the covariance of {self.kernel}"


MeanFunction = Callable[[Any], Tensor]
Noise = Float[Tensor, ""] | Float[Tensor, " n"]


def log_evidence(kernel: Kernel, mean: MeanFunction, noise: Noise, x: Any, y: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """``log p(y) = log N(y; m(x), k(x, x) + noise)``, with the gradient in closed form."""
    return gaussian_log_density((y - mean(x))[:, None], kernel(x), noise, CovarianceOf(kernel))


def log_leave_one_out(
    kernel: Kernel, mean: MeanFunction, noise: Noise, x: Any, y: Float[Tensor, " n"]
) -> Float[Tensor, ""]:
    """``Σᵢ log p(yᵢ | y₋ᵢ)``: each observation scored by the process given all others."""
    return leave_one_out_log_density(y - mean(x), kernel(x), noise, CovarianceOf(kernel))
