"""Scores of the hyperparameters of a Gaussian process with Gaussian noise: evidence and leave-one-out density."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.linalg import gaussian_log_density, leave_one_out_log_density


class CovarianceOf:
    """The name of a kernel's matrix in errors; the kernel is described only when an error is raised."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __str__(self) -> str:
        return f"the covariance of {self.kernel}"


MeanFunction = Callable[[Any], Tensor]
Noise = Float[Tensor, ""] | Float[Tensor, " n"]


def log_evidence(
    kernel: Kernel, mean: MeanFunction, noise: Noise, x: Any, y: Float[Tensor, " n *q"]
) -> Float[Tensor, ""]:
    """``log p(y) = log N(y; m(x), k(x, x) + noise)``, with the gradient in closed form.

    Several columns of ``y`` are independent functions that share kernel and noise: the sum, from one factor.

    >>> from stratagp import kernels as k
    >>> x, y = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    >>> log_evidence(k.RBF(), lambda x: 0 * x[:, 0], torch.tensor(1.0), x, y).item()  # log N(0; 0, 2)
    -1.265512...
    """
    return gaussian_log_density(residuals(mean, x, y), kernel(x), noise, CovarianceOf(kernel))


def log_leave_one_out(
    kernel: Kernel, mean: MeanFunction, noise: Noise, x: Any, y: Float[Tensor, " n *q"]
) -> Float[Tensor, ""]:
    """``Σᵢ log p(yᵢ | y₋ᵢ)``: each observation scored by the process given all others; columns as above.

    >>> from stratagp import kernels as k
    >>> x, y = torch.tensor([[0.0], [9.0]], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    >>> log_leave_one_out(k.RBF(), lambda x: 0 * x[:, 0], torch.tensor(1.0), x, y).item()  # 2 log N(0; 0, 2)
    -2.531024...
    """
    covariance, name = kernel(x), CovarianceOf(kernel)
    columns = residuals(mean, x, y).unbind(1)
    return torch.stack([leave_one_out_log_density(column, covariance, noise, name) for column in columns]).sum()


def residuals(mean: MeanFunction, x: Any, y: Float[Tensor, " n *q"]) -> Float[Tensor, "n columns"]:
    """``y − m(x)``, always with columns."""
    return y.reshape(len(y), -1) - mean(x)[:, None]
