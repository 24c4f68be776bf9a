"""The log density of a zero-mean Gaussian vector, with its gradient in closed form.

For ``C = K + diag(noise)`` and residuals ``r`` in ``q`` columns,

    log N(r; 0, C) = −½ Σ rᵀC⁻¹r − q/2 log|C| − nq/2 log 2π,
    ∂/∂C = ½ (α αᵀ − q C⁻¹),   ∂/∂noise = diag of that,   ∂/∂r = −α,   α = C⁻¹r.

One buffer of n × n holds C, its factor, its inverse and then the gradient in turn. Autograd through a Cholesky factor
would take about three times the operations and four such buffers.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg import blocked
from stratagp.linalg.cholesky import blocked_factor, check_square
from stratagp.linalg.once import first_derivative_only


def gaussian_log_density(
    residual: Float[Tensor, "n q"],
    covariance: Float[Tensor, "..."],
    noise: Float[Tensor, ""] | Float[Tensor, " n"],
    name: object = "the covariance",
) -> Float[Tensor, ""]:
    """``log N(residual; 0, covariance + diag(noise))`` summed over the columns of ``residual``.

    ``noise`` is one variance or one for each row. The gradient by ``covariance`` treats it as a full
    matrix, so for symmetric changes it is the ordinary one. First derivatives only. ``name`` appears in errors.

    >>> r = torch.tensor([[0.5], [-0.5]])
    >>> gaussian_log_density(r, torch.zeros(2, 2), torch.tensor(1.0))
    tensor(-2.0879)
    """
    check_square(covariance, name)
    return _LogDensity.apply(residual, covariance, noise, name, torch.is_grad_enabled())


class _LogDensity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor, covariance: Tensor, noise: Tensor, name: object, gradients: bool) -> Tensor:
        buffer, inverses = blocked_factor(covariance, noise, name)
        n, q = residual.shape
        alpha = blocked.solve(buffer, residual)
        log_det = 2 * buffer.diagonal().log().sum()
        value = -0.5 * ((residual * alpha).sum() + q * (log_det + n * math.log(2 * math.pi)))
        if gradients and (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            blocked.invert_(buffer, inverses)
            buffer.addmm_(alpha, alpha.mT, beta=-0.5 * q, alpha=0.5)
        ctx.noise_shape = noise.shape
        ctx.save_for_backward(alpha, buffer)
        return value

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        alpha, gradient = ctx.saved_tensors
        to_residual = to_covariance = to_noise = None
        if ctx.needs_input_grad[0]:
            to_residual = -grad * alpha
        if ctx.needs_input_grad[1]:
            to_covariance = gradient if grad.item() == 1 else grad * gradient
        if ctx.needs_input_grad[2]:
            to_noise = (grad * gradient.diagonal()).sum_to_size(ctx.noise_shape)
        return to_residual, to_covariance, to_noise, None, None
