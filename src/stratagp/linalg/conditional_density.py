"""The log density of one Gaussian variable given others, in a batch, with its gradient in closed form.

For a covariance ``C`` of ``m + 1`` variables with residuals ``r``, the last of them given the others has

    a = C₁₁⁻¹ c,    s = c₂₂ − cᵀa,    e = r₂ − aᵀr₁,    log p = −½ log 2πs − e²/2s.

With ``β = C₁₁⁻¹ r₁``, ``ã = (−a, 1)`` and ``β̃ = (β, 0)``,

    ∂/∂C = (g ã − h β̃) ãᵀ,    ∂/∂r = h ã,    g = ∂/∂s = (e²/s − 1)/2s,    h = ∂/∂e = −e/s,

so the gradient takes two triangular solves, where autograd through the factor would take ``m³`` operations thrice more.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.cholesky import cholesky
from stratagp.linalg.once import first_derivative_only


def last_given_others(
    residual: Float[Tensor, "b k"], covariance: Float[Tensor, "b k k"], name: object = "the covariance"
) -> Float[Tensor, " b"]:
    """``log p(r_k | r_1 … r_{k−1})`` for each of ``b`` zero-mean Gaussian vectors.

    The gradient treats the covariance as a full matrix, so for symmetric changes it is the ordinary one. First
    derivatives only. ``name`` is printed in errors.

    >>> r, c = torch.tensor([[1.0, 0.5]]), torch.tensor([[[1.0, 0.5], [0.5, 1.0]]])
    >>> last_given_others(r, c).exp()  # N(0.5; 0.5, 0.75)
    tensor([0.4607])
    """
    return _LastGivenOthers.apply(residual, covariance, name)


class _LastGivenOthers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, residual: Tensor, covariance: Tensor, name: object) -> Tensor:
        factor = cholesky(covariance, name)
        white = torch.linalg.solve_triangular(factor, residual[..., None], upper=False)[..., 0]
        deviation = factor[:, -1, -1]
        error = white[:, -1] * deviation
        if any(ctx.needs_input_grad):
            both = torch.stack([factor[:, -1, :-1], white[:, :-1]], -1)
            a, beta = torch.linalg.solve_triangular(factor[:, :-1, :-1].mT, both, upper=True).unbind(-1)
            last = torch.ones_like(a[:, :1]) if a.shape[1] else residual.new_ones(len(residual), 1)
            ctx.save_for_backward(torch.cat([-a, last], 1), torch.cat([beta, 0 * last], 1), deviation, error)
        return -0.5 * (white[:, -1].square() + math.log(2 * math.pi)) - deviation.log()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, beta, deviation, error = ctx.saved_tensors
        variance = deviation.square()
        by_variance = grad * 0.5 * (error.square() / variance - 1) / variance
        by_error = -grad * error / variance
        to_covariance = None
        if ctx.needs_input_grad[1]:
            left = by_variance[:, None] * weights - by_error[:, None] * beta
            to_covariance = left[:, :, None] * weights[:, None, :]
        return by_error[:, None] * weights, to_covariance, None
