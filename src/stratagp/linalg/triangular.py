"""The whitened conditional of sparse Gaussian processes and its derivatives.

With ``Kzz = L Lᵀ`` and ``q(v) = N(m, S)`` for the whitened inducing values ``v = L⁻¹u``, ``S = T Tᵀ``, the marginals at
row n are, for ``A = L⁻¹ Kzx``,

    mean = Aᵀ m,        var = kₙₙ − Σ A² + Σ (TᵀA)².

Autograd would keep A, TᵀA and their squares and pass over each several times. Here only A and TᵀA are kept;
with incoming gradients ``g`` of the mean and ``h`` of the variance,

    ∂A = m gᵀ + 2 (T Tᵀ A − A) ∘ h,     ∂T = 2 tril(A ∘ h (TᵀA)ᵀ),     ∂m = A g,     ∂kₙₙ = h.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.lower import lower_product, lower_times, transposed_times
from stratagp.linalg.once import first_derivative_only

LEAST_VARIANCE = 1e-10  # of a marginal, as a guard against rounding


def whitened_marginals(
    a: Float[Tensor, "*q m n"],
    kdiag: Float[Tensor, "*q n"],
    mean: Float[Tensor, "q m"],
    scale: Float[Tensor, "q m m"],
) -> tuple[Float[Tensor, "n q"], Float[Tensor, "n q"]]:
    """Mean and variance of ``q`` functions at ``n`` rows from the whitened projection ``a = L⁻¹ Kzx``.

    ``a`` and ``kdiag`` may be shared between the functions (no function axis) or given for each. ``scale`` is lower
    triangular; its upper part is ignored. Variances are clamped above zero.

    >>> mean, scale = torch.tensor([[2.0]]), torch.tensor([[[0.5]]])
    >>> whitened_marginals(torch.tensor([[0.6]]), torch.ones(1), mean, scale)  # 0.6 · 2, and 1 − 0.36 + 0.09
    (tensor([[1.2000]]), tensor([[0.7300]]))
    """
    return _WhitenedMarginals.apply(a, kdiag, mean, scale)


def project(a: Float[Tensor, "*q m n"], values: Float[Tensor, "q m"]) -> Float[Tensor, "n q"]:
    """``aₙᵀ values`` at each row for each function; the projection may be shared between them.

    >>> project(torch.eye(2), torch.tensor([[1.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    return a.mT @ values.mT if a.dim() == 2 else (a.mT @ values[..., None]).squeeze(-1).mT


def column_squares(a: Float[Tensor, "*q m n"]) -> Float[Tensor, "*q n"]:
    """``Σᵢ aᵢₙ²``, one function at a time in a buffer that stays in the processor's cache."""
    if a.dim() == 2:
        return a.square().sum(0)
    buffer, out = torch.empty_like(a[0]), a.new_empty(len(a), a.shape[-1])
    for part, sums in zip(a, out, strict=True):
        torch.sum(torch.mul(part, part, out=buffer), 0, out=sums)
    return out


class _WhitenedMarginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, kdiag: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        t = scale.tril()
        ta = transposed_times(t, a)
        var = kdiag - column_squares(a) + column_squares(ta)
        positive = var > LEAST_VARIANCE
        ctx.save_for_backward(a, mean, t, ta, positive)
        ctx.kdiag_shape = kdiag.shape
        return project(a, mean), var.clamp_min(LEAST_VARIANCE).mT.contiguous()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, to_mean: Tensor, to_var: Tensor) -> tuple[Tensor | None, ...]:
        a, mean, t, ta, positive = ctx.saved_tensors
        g, h = to_mean.mT, to_var.mT * positive
        weighted = ta * (2 * h[:, None, :])
        to_a = to_m = to_t = None
        if ctx.needs_input_grad[0]:
            to_a = lower_times(t, weighted)
            if a.dim() == 2:
                to_a = torch.addmm(to_a.sum(0), mean.mT, g).addcmul_(a, h.sum(0), value=-2)
            else:
                to_a.addcmul_(a, h[:, None, :], value=-2).addcmul_(mean[..., None], g[:, None, :])
        if ctx.needs_input_grad[2]:
            to_m = (a @ g.mT).mT if a.dim() == 2 else (a @ g[..., None]).squeeze(-1)
        if ctx.needs_input_grad[3]:
            to_t = lower_product(a, weighted)
        return to_a, h.sum_to_size(ctx.kdiag_shape) if ctx.needs_input_grad[1] else None, to_m, to_t
