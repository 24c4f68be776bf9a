"""Leave-one-out predictions of a Gaussian vector in closed form, with the gradient of their log density.

For ``C = K + diag(noise)``, ``α = C⁻¹r`` and ``c = diag C⁻¹``, entry i given all others is Gaussian with

    mean rᵢ − αᵢ/cᵢ,   variance 1/cᵢ,   log density ½ log cᵢ − ½ αᵢ²/cᵢ − ½ log 2π.

The gradient of their sum needs one product of n × n matrices: with ``w = ½(1/c + α²/c²)`` and ``v = −C⁻¹(α/c)``,

    ∂/∂C = −C⁻¹ diag(w) C⁻¹ − ½(v αᵀ + α vᵀ),   ∂/∂r = v.

Reference: Rasmussen and Williams 2006, section 5.4.2.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg import blocked
from stratagp.linalg.cholesky import blocked_factor, check_square
from stratagp.linalg.once import first_derivative_only


def leave_one_out_log_density(
    residual: Float[Tensor, " n"],
    covariance: Float[Tensor, "..."],
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    name: object = "the covariance",
) -> Float[Tensor, ""]:
    """``Σᵢ log p(rᵢ | r₋ᵢ)`` for ``r ~ N(0, covariance + diag(noise))``; first derivatives only.

    >>> r = torch.tensor([0.5, -0.5])
    >>> leave_one_out_log_density(r, torch.zeros(2, 2), torch.tensor(1.0))  # independent: the density itself
    tensor(-2.0879)
    """
    check_square(covariance, name)
    return _LeaveOneOut.apply(residual, covariance, noise, name)


class _LeaveOneOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor, covariance: Tensor, noise: Tensor, name: object) -> Tensor:
        inverse, inverses = blocked_factor(covariance, noise, name)
        blocked.invert_(inverse, inverses)
        alpha = inverse @ residual
        c = inverse.diagonal()
        ctx.save_for_backward(inverse, alpha)
        ctx.noise_shape = noise.shape
        return 0.5 * (c.log() - alpha.square() / c - math.log(2 * math.pi)).sum()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inverse, alpha = ctx.saved_tensors
        c = inverse.diagonal()
        v = -inverse @ (alpha / c)
        to_covariance = to_noise = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            half = inverse * (0.5 * (1 / c + (alpha / c).square())).sqrt()
            total = -(half @ half.mT)
            total -= 0.5 * (v[:, None] * alpha + alpha[:, None] * v)
            to_covariance = grad * total
            to_noise = to_covariance.diagonal().sum_to_size(ctx.noise_shape)
        return grad * v, to_covariance, to_noise, None
