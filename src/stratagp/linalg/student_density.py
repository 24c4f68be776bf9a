"""The log density of a multivariate Student t vector, with its gradient in closed form.

In the parameterisation whose covariance is ``C = K + diag(noise)`` itself (Shah, Wilson and Ghahramani 2014), with
``d = rᵀC⁻¹r`` and ``ν > 2`` degrees of freedom,

    log p(r) = log Γ((ν+n)/2) − log Γ(ν/2) − n/2 log((ν−2)π) − ½ log|C| − (ν+n)/2 log(1 + d/(ν−2)),
    ∂/∂C = ½ (w α αᵀ − C⁻¹),   ∂/∂r = −w α,   α = C⁻¹r,   w = (ν+n)/(ν−2+d).

It is the Gaussian's gradient with the data weighted by ``w``: below one if they vary more than C expects. For large
ν it is the Gaussian density.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg import blocked
from stratagp.linalg.cholesky import blocked_factor, check_square
from stratagp.linalg.once import first_derivative_only


def student_log_density(
    residual: Float[Tensor, " n"],
    covariance: Float[Tensor, "..."],
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    dof: Float[Tensor, ""],
    name: object = "the covariance",
) -> Float[Tensor, ""]:
    """``log p(residual)`` for a Student t with covariance ``covariance + diag(noise)``; first derivatives only.

    >>> r, one = torch.tensor([0.5, -0.5]).double(), torch.tensor(1.0).double()
    >>> student_log_density(r, torch.zeros(2, 2).double(), one, 1e6 * one).item()  # nearly Gaussian: −2.0879
    -2.0878...
    """
    check_square(covariance, name)
    quadratic, log_det = _Parts.apply(residual, covariance, noise, name)
    n = len(residual)
    gammas = torch.lgamma((dof + n) / 2) - torch.lgamma(dof / 2) - n / 2 * (dof - 2).log()
    return gammas - 0.5 * (n * math.log(math.pi) + log_det) - (dof + n) / 2 * torch.log1p(quadratic / (dof - 2))


class _Parts(torch.autograd.Function):
    """``d`` and ``log|C|``, with ``∂d/∂C = −ααᵀ``, ``∂d/∂r = 2α`` and ``∂ log|C|/∂C = C⁻¹``."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, covariance: Tensor, noise: Tensor, name: object) -> tuple[Tensor, Tensor]:
        buffer, inverses = blocked_factor(covariance, noise, name)
        alpha = blocked.solve(buffer, residual[:, None]).squeeze(-1)
        log_det = 2 * buffer.diagonal().log().sum()
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            blocked.invert_(buffer, inverses)
        ctx.noise_shape = noise.shape
        ctx.save_for_backward(alpha, buffer)
        return residual @ alpha, log_det

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, to_quadratic: Tensor, to_log_det: Tensor) -> tuple[Tensor | None, ...]:
        alpha, inverse = ctx.saved_tensors
        to_covariance = to_noise = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            to_covariance = torch.addr(to_log_det * inverse, -to_quadratic * alpha, alpha)
            to_noise = to_covariance.diagonal().sum_to_size(ctx.noise_shape)
        return 2 * to_quadratic * alpha, to_covariance, to_noise, None
