"""The squared exponential kernel ``k = v exp(−½ Σ_d w_d² (x_id − z_jd)²)`` and its gradient.

The exponent is one matrix product, and only ``K`` is kept for the gradient. For ``H = G ∘ K`` with the
incoming gradient ``G`` (n × m), row sums ``g`` and column sums ``h``,

    ∂/∂z = w² ∘ e,     e = Hᵀx − h ∘ z,     ∂/∂w = w ∘ (Σⱼ zⱼ (e + Hᵀx)ⱼ − Σᵢ gᵢ xᵢ²),     ∂/∂v = Σ H / v.

For points with themselves, ``∂/∂x = w² ∘ e`` and ``∂/∂w = w ∘ Σᵢ xᵢ eᵢ`` for ``e = (H + Hᵀ) x − h ∘ x`` with the row
sums ``h`` of ``H + Hᵀ``. Several functions are handled a few at a time, so that their data stay in the
processor's cache from the product to the last sum.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.distances import (
    centre,
    contract,
    log_of,
    quadratic,
    rounding_shows,
    scaled_norm,
    squares,
    weight_gradient,
    with_ones,
)
from stratagp.linalg.lower import CHUNK, chunks


def gaussian_kernel(
    x: Float[Tensor, "*qx n d"],
    z: Float[Tensor, "*qz m d"],
    weight: Float[Tensor, "..."],
    variance: Float[Tensor, "..."],
) -> Float[Tensor, "*q n m"]:
    """``v exp(−½ Σ_d w_d² (x_id − z_jd)²)``: one matrix product and one pass, one n × m buffer kept for the gradient.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> gaussian_kernel(x, x, torch.tensor(1.0), torch.tensor(2.0))
    tensor([[2.0000, 1.2131],
            [1.2131, 2.0000]])
    """
    return _GaussianKernel.apply(x, z, weight, variance)


class _GaussianKernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor) -> Tensor:
        xc, zc = centre(x, z)
        k = _values(x, z, xc, zc, weight, variance)
        if x is z:
            k.diagonal(dim1=-2, dim2=-1).copy_(variance.squeeze(-1) if variance.dim() else variance)
        ctx.same, ctx.centred = x is z, (xc, zc)
        ctx.save_for_backward(x, z, weight, variance, k)
        return k

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, weight, variance, k = ctx.saved_tensors
        needs, same = ctx.needs_input_grad, ctx.same
        if torch.is_grad_enabled():  # for second derivatives, everything in terms of k and the inputs
            h = grad * k
            points = contract(-0.5 * h, *centre(x, z), weight, needs, same)
            return *points, (h / variance).sum_to_size(variance.shape)
        xc, zc = ctx.centred
        if k.dim() == 3 and (same or not needs[0]):
            return _by_functions(grad, k, xc, zc, weight, variance, needs[0] or needs[1], same)
        if needs[0] or needs[1]:
            return _by_points(grad, k, xc, zc, weight, variance, needs, same)
        return _by_scales(grad, k, xc, zc, weight, variance)


def _values(x: Tensor, z: Tensor, xc: Tensor, zc: Tensor, weight: Tensor, variance: Tensor) -> Tensor:
    """The exponent by one product, unless the points span so many lengthscales that rounding would show in it."""
    x_norm = scaled_norm(xc, weight)
    z_norm = x_norm if x is z else scaled_norm(zc, weight)
    if rounding_shows(x_norm, z_norm):
        same, wide = x is z, x.double()
        r2 = squares(wide, wide if same else z.double(), weight.double())
        return (variance.double() * torch.exp(-0.5 * r2)).to(x.dtype)
    q = max((len(each) for each in (x, z, weight, variance) if each.dim() == 3), default=0)
    if not q:
        return quadratic(xc, zc, weight, x_norm - 2 * log_of(variance), z_norm, scale=-0.5).exp_()
    out = x.new_empty(q, z.shape[-2], x.shape[-2])
    row, column = (log_of(variance) - 0.5 * x_norm).expand(q, -1), (-0.5 * z_norm).expand(q, -1)
    xc, zc, scales = _with_functions(q, xc, zc, weight.square())
    for at in chunks(out):
        torch.bmm(zc[at] * scales[at], xc[at].mT, out=out[at])
        out[at].add_(column[at, :, None]).add_(row[at, None, :]).exp_()
    return out.mT


def _by_functions(
    grad: Tensor, k: Tensor, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor, by_points: bool, same: bool
) -> tuple[Tensor | None, ...]:
    """Derivatives by weights and variances of several functions, and ``by_points`` also by ``z``."""
    xs, zs, weights = _with_functions(len(k), x, z, weight)
    squared = None if same else xs.square() if x.dim() == 3 else x.square().expand_as(xs)
    to_z, to_weight = torch.empty_like(zs, memory_format=torch.contiguous_format), torch.empty_like(weights)
    to_variance = k.new_empty(len(k), 1, 1)
    for at in chunks(k):
        part = grad[at].mT * k[at].mT
        torch.sum(part, (-2, -1), keepdim=True, out=to_variance[at])
        if squared is None:
            part = part + part.mT
        h = part.sum(-1, keepdim=True)
        products = torch.bmm(part, xs[at], out=to_z[at])
        if squared is None:
            e = products.addcmul_(h, zs[at], value=-1)
            slope = (zs[at] * e).sum(-2, keepdim=True)
        else:
            twice = torch.addcmul(2 * products, h, zs[at], value=-1)
            slope = torch.sum(twice.mul_(zs[at]), -2, keepdim=True) - part.sum(-2, keepdim=True) @ squared[at]
            e = products.addcmul_(h, zs[at], value=-1) if by_points else products
        torch.mul(slope, weights[at], out=to_weight[at])
        if by_points:
            e.mul_(weights[at].square())
    to_points = to_z.sum_to_size(z.shape) if by_points else None
    scales = to_weight.sum_to_size(weight.shape), (to_variance / variance).sum_to_size(variance.shape)
    return (to_points, None, *scales) if same else (None, to_points, *scales)


def _by_points(
    grad: Tensor,
    k: Tensor,
    x: Tensor,
    z: Tensor,
    weight: Tensor,
    variance: Tensor,
    needs: tuple[bool, ...],
    same: bool,
) -> tuple[Tensor | None, ...]:
    """All derivatives, with one more matrix of the size of ``K``."""
    full = grad * k
    to_variance = (full.sum((-2, -1), keepdim=True) / variance).sum_to_size(variance.shape) if needs[3] else None
    return *contract(full.mul_(-0.5), x, z, weight, needs, same), to_variance


def _by_scales(
    grad: Tensor, k: Tensor, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor
) -> tuple[Tensor | None, ...]:
    """Derivatives by weights and variance of one function, using ``G ∘ K`` a few rows at a time."""
    right = with_ones(z)
    products = torch.empty(len(k), right.shape[1], dtype=k.dtype, device=k.device)
    h = torch.zeros(k.shape[1], 1, dtype=k.dtype, device=k.device)
    step = max(1, CHUNK // max(1, k.shape[1]))
    buffer = torch.empty(min(step, len(k)), k.shape[1], dtype=k.dtype, device=k.device)
    for start in range(0, len(k), step):
        rows = slice(start, min(start + step, len(k)))
        part = torch.mul(grad[rows], k[rows], out=buffer[: rows.stop - start])
        torch.mm(part, right, out=products[rows])
        h += part.sum(0)[:, None]
    gz, g = products.split([x.shape[1], 1], -1)
    to_weight = -0.5 * weight_gradient(g, h, x, z, x * gz, weight)
    return None, None, to_weight, (g.sum() / variance).sum_to_size(variance.shape)


def _with_functions(q: int, x: Tensor, z: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points and weights with a function axis, shared ones repeated without a copy."""
    return x.expand(q, *x.shape[-2:]), z.expand(q, *z.shape[-2:]), weight.expand(q, 1, x.shape[-1])
