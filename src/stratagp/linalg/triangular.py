"""The whitened conditional of sparse Gaussian processes and its derivatives.

With ``Kzz = L Lᵀ`` and ``q(v) = N(m, S)`` for the whitened inducing values ``v = L⁻¹u``, ``S = T Tᵀ``, the marginals at
row n are, for ``A = L⁻¹ Kzx``,

    mean = Aᵀ m,        var = kₙₙ + Σ Kzx ∘ U,        U = L⁻ᵀ D A,        D = T Tᵀ − I.

With incoming gradients ``g`` of the mean and ``h`` of the variance, and ``R = A (A ∘ h)ᵀ``, which is symmetric,

    ∂Kzx = L⁻ᵀ m gᵀ + 2 U ∘ h,     ∂m = A g,     ∂T = 2 tril(R T),     ∂Kzz = −L⁻ᵀ P L⁻¹,     ∂kₙₙ = h,

where ``P`` is the lower triangle of ``∂A Aᵀ = m ∂mᵀ + 2 D R`` with half its diagonal. Autograd would take six products
of m × m and m × n matrices; here are three, and the rest are of m × m. If there are few rows, six are faster, without
``U``. Functions are handled one after the other: their matrices stay in the cache, and only two of m × n are kept.

``∂Kzz`` saves a product over the factor's own gradient, because ``LᵀL̄`` and ``−∂A Aᵀ`` agree in their lower triangles.
Only its symmetric part matters, because ``Kzz`` moves symmetrically; it is not symmetrised.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.lower import each, lower_part, lower_product, lower_times, mirror_, transposed_times
from stratagp.linalg.once import first_derivative_only

LEAST_VARIANCE = 1e-10  # of a marginal, as a guard against rounding


class Whitening(NamedTuple):
    """``Kzz``, and ``L⁻¹`` for ``L Lᵀ = Kzz + jitter · mean(diag Kzz)``, which carries no graph."""

    kzz: Float[Tensor, "*q m m"]
    inverse: Float[Tensor, "*q m m"]
    jitter: float


def whiten(kzx: Float[Tensor, "*q m n"], whitening: Whitening) -> Float[Tensor, "*q m n"]:
    """``A = L⁻¹ Kzx``, with gradients for both matrices.

    >>> whiten(torch.tensor([[1.0]]), Whitening(torch.tensor([[4.0]]), torch.tensor([[0.5]]), 0.0))
    tensor([[0.5000]])
    """
    return _Whiten.apply(kzx, *whitening)


def whitened_marginals(
    a: Float[Tensor, "*q m n"],
    kdiag: Float[Tensor, "*q n"],
    mean: Float[Tensor, "q m"],
    scale: Float[Tensor, "q m m"],
    whitening: Whitening | None = None,
) -> tuple[Float[Tensor, "n q"], Float[Tensor, "n q"]]:
    """Mean and variance of ``q`` functions at ``n`` rows from ``a = L⁻¹ Kzx``, or from ``Kzx`` and its whitening.

    ``a`` and ``kdiag`` may be shared between the functions (no function axis) or given for each. ``scale`` is lower
    triangular; its upper part is ignored. Variances are clamped above zero.

    >>> mean, scale = torch.tensor([[2.0]]), torch.tensor([[[0.5]]])
    >>> whitened_marginals(torch.tensor([[0.6]]), torch.ones(1), mean, scale)  # 0.6 · 2, and 1 − 0.36 + 0.09
    (tensor([[1.2000]]), tensor([[0.7300]]))
    """
    found, change = _Marginals.apply(a, mean, scale, *(whitening or (None, None, 0.0)))
    return found.mT, (kdiag + change).clamp_min(LEAST_VARIANCE).mT.contiguous()


def project(a: Float[Tensor, "*q m n"], values: Float[Tensor, "q m"]) -> Float[Tensor, "n q"]:
    """``aₙᵀ values`` at each row for each function; the projection may be shared between them.

    >>> project(torch.eye(2), torch.tensor([[1.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    return a.mT @ values.mT if a.dim() == 2 else (a.mT @ values[..., None]).squeeze(-1).mT


class _Whiten(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kzx: Tensor, kzz: Tensor, inverse: Tensor, jitter: float) -> Tensor:
        a = lower_times(inverse, kzx)
        ctx.dtype, ctx.jitter = kzz.dtype, jitter
        ctx.save_for_backward(a, inverse)
        return a

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, inverse = ctx.saved_tensors
        to_kzx = transposed_times(inverse, grad) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return to_kzx, None, None, None
        to_kzz = torch.empty_like(inverse, dtype=ctx.dtype)
        for target, inv, product in zip(*map(each, (to_kzz, inverse, lower_product(grad, a))), strict=True):
            target.copy_(_to_kzz(product, inv, ctx.jitter))
        return to_kzx, to_kzz, None, None


class _Marginals(torch.autograd.Function):
    """The mean, and the change of the variance from ``kₙₙ``, each ``q n``; without a whitening ``L`` is one."""

    @staticmethod
    def forward(
        ctx: Any, kzx: Tensor, mean: Tensor, scale: Tensor, kzz: Tensor | None, inverse: Tensor | None, jitter: float
    ) -> tuple[Tensor, Tensor]:
        k = each(kzx)
        a = k if inverse is None else torch.empty_like(k)
        kept = k.new_empty(len(mean), *k.shape[1:])
        change = k.new_empty(len(mean), k.shape[-1])
        steps = _steps(k)
        for j, i in _pairs(mean, k):
            inv = None if inverse is None else each(inverse)[i]
            if inv is not None and (len(k) > 1 or not j):
                a[i] = lower_times(inv, k[i])
            kept[j], change[j] = steps.forward(k[i], a[i], scale[j].tril(), inv)
        ctx.save_for_backward(a, kept, mean, scale, inverse)
        ctx.shared, ctx.dtype, ctx.jitter = kzx.dim() == 2, kzz.dtype if kzz is not None else None, jitter
        return project(a[0] if ctx.shared else a, mean).mT, change

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, to_mean: Tensor, to_var: Tensor) -> tuple[Tensor | None, ...]:
        a, kept, mean, scale, inverse = ctx.saved_tensors
        to_kzx, to_m, to_t = torch.zeros_like(a), torch.empty_like(mean), torch.empty_like(scale)
        wanted = inverse is not None and ctx.needs_input_grad[3]
        to_kzz = torch.zeros_like(each(inverse), dtype=ctx.dtype) if wanted else None
        steps = _steps(a)
        for j, i in _pairs(mean, a):
            inv = None if inverse is None else each(inverse)[i]
            g, h = to_mean[j], 2 * to_var[j]
            to_m[j] = a[i] @ g
            part, to_t[j], product = steps.backward(a[i], kept[j], scale[j].tril(), inv, mean[j], g, h)
            to_kzx[i] += part
            if to_kzz is not None and inv is not None:
                to_kzz[i] += _to_kzz(product, inv, ctx.jitter)
        found = (part[0] if part is not None and ctx.shared else part for part in (to_kzx, to_kzz))
        return next(found), to_m, to_t, next(found), None, None


class _Wide:
    """For one function and many rows, by ``U``: three products of m × m with m × n, and five of m × m."""

    @staticmethod
    def forward(k: Tensor, a: Tensor, t: Tensor, inverse: Tensor | None) -> tuple[Tensor, Tensor]:
        """``U`` and ``Σ Kzx ∘ U``."""
        excess = mirror_(lower_part(t, t.mT))
        excess.diagonal().sub_(1)
        u = (excess if inverse is None else transposed_times(inverse, excess)) @ a
        return u, (k * u).sum(0)

    @staticmethod
    def backward(
        a: Tensor, u: Tensor, t: Tensor, inverse: Tensor | None, mean: Tensor, g: Tensor, h: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``∂Kzx``, ``∂T``, and a matrix with the lower triangle of ``∂A Aᵀ``; ``h`` is twice the gradient above."""
        r = mirror_(lower_product(a * h, a))
        tr = transposed_times(t, r)
        product = lower_part(t, tr).sub_(r).addr_(mean, a @ g)
        to_kzx = (u * h).addr_(mean if inverse is None else inverse.mT @ mean, g)
        return to_kzx, tr.mT.contiguous().tril_(), product


class _Square:
    """The same for fewer rows, by ``W = TᵀA``: six products of m × m with m × n, and one of m × m.

    var = kₙₙ − Σ A² + Σ W²,     ∂A = m gᵀ + 2 (T W − A) ∘ h,     ∂Kzx = L⁻ᵀ ∂A,     ∂T = 2 tril(A (W ∘ h)ᵀ).
    """

    @staticmethod
    def forward(k: Tensor, a: Tensor, t: Tensor, inverse: Tensor | None) -> tuple[Tensor, Tensor]:
        w = transposed_times(t, a)
        return w, w.square().sum(0) - a.square().sum(0)

    @staticmethod
    def backward(
        a: Tensor, w: Tensor, t: Tensor, inverse: Tensor | None, mean: Tensor, g: Tensor, h: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        weighted = w * h
        to_a = lower_times(t, weighted).addcmul_(a, h, value=-1).addr_(mean, g)
        to_kzx = to_a if inverse is None else transposed_times(inverse, to_a)
        return to_kzx, lower_product(a, weighted), lower_product(to_a, a)


def _steps(k: Float[Tensor, "q m n"]) -> type[_Wide] | type[_Square]:
    """Whatever takes fewer operations."""
    return _Wide if k.shape[-1] > 1.5 * k.shape[-2] else _Square


def _to_kzz(product: Tensor, inverse: Tensor, jitter: float) -> Tensor:
    """``∂Kzz`` from the lower triangle of ``∂A Aᵀ``; what the jitter's gradient adds goes to the diagonal."""
    p = product.tril_().neg_()
    p.diagonal().mul_(0.5)
    found = transposed_times(inverse, lower_part(p, inverse))
    diagonal = found.diagonal()
    diagonal.add_(jitter * diagonal.mean())
    return found


def _pairs(functions: Tensor, matrices: Tensor) -> Iterator[tuple[int, int]]:
    """Each function and its matrix, which all may share."""
    return ((j, j if len(matrices) > 1 else 0) for j in range(len(functions)))
