"""Scaled squared distances and the Gaussian kernel, without tensors of size n × m × d.

With weights ``w`` (inverse lengthscales), ``r²ᵢⱼ = Σ_d w_d² (x_id − z_jd)²`` is one matrix product of the points
extended by their squared norms. Its derivatives contract the incoming gradient ``G`` (n × m) with the points:

    ∂/∂xᵢ = 2w² ∘ (gᵢ xᵢ − (Gz)ᵢ)          gᵢ = Σⱼ Gᵢⱼ,   hⱼ = Σᵢ Gᵢⱼ
    ∂/∂zⱼ = 2w² ∘ (hⱼ zⱼ − (Gᵀx)ⱼ)
    ∂/∂w  = 2w  ∘ (Σᵢ gᵢ xᵢ² + Σⱼ hⱼ zⱼ² − 2 Σᵢ xᵢ (Gz)ᵢ),    and Σᵢ xᵢ (Gz)ᵢ = Σⱼ zⱼ (Gᵀx)ⱼ

so a single product, ``G [z, 1]`` or ``Gᵀ [x, 1]``, serves the weights and one side of the points; what needs no
gradient is not computed. Of points with themselves, the product ``(G + Gᵀ) x`` serves all. Points are centred first,
since a difference does not know the origin but rounding does.

Shapes: points ``*q n d`` and ``*q m d``; weights broadcast against them, such as ``d``, ``q 1 d`` or a number.
Where only the weights or ``z`` carry the function axis, ``z`` is scaled and ``x`` multiplied once for all functions.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_CHUNK = 2**19  # numbers of a gradient matrix that are handled at once: about the size of a second-level cache


def scaled_sqdist(
    x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"], weight: Float[Tensor, "..."]
) -> Float[Tensor, "*q n m"]:
    """``Σ_d w_d² (x_id − z_jd)²``, exact where points nearly coincide, twice differentiable.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> scaled_sqdist(x, x, torch.tensor(2.0))
    tensor([[0., 4.],
            [4., 0.]])
    """
    return _ScaledSqdist.apply(x, z, weight)


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


class _ScaledSqdist(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
        ctx.same = x is z
        ctx.save_for_backward(x, z, weight)
        return _squares(x, z, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, weight = ctx.saved_tensors
        return contract(grad, *centre(x, z), weight, ctx.needs_input_grad, ctx.same)


class _GaussianKernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor) -> Tensor:
        xc, zc = centre(x, z)
        k = _gaussian(x, z, xc, zc, weight, variance)
        if x is z:
            k.diagonal(dim1=-2, dim2=-1).copy_(variance.squeeze(-1) if variance.dim() else variance)
        ctx.same, ctx.centred = x is z, (xc, zc)
        ctx.save_for_backward(x, z, weight, variance, k)
        return k

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, weight, variance, k = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: everything in terms of k and the inputs
            h = grad * k
            points = contract(-0.5 * h, *centre(x, z), weight, ctx.needs_input_grad, ctx.same)
            return *points, (h / variance).sum_to_size(variance.shape)
        xc, zc = ctx.centred
        return _gaussian_backward(grad, k, xc, zc, weight, variance, ctx.needs_input_grad, ctx.same)


def _squares(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    xc, zc = centre(x, z)
    norms = scaled_norm(xc, weight), scaled_norm(zc, weight)
    r2 = _quadratic(xc, zc, weight, *norms, scale=1.0)
    return repair_(r2, xc, zc, weight, *norms, first=0 if x is z else None)


def _gaussian(x: Tensor, z: Tensor, xc: Tensor, zc: Tensor, weight: Tensor, variance: Tensor) -> Tensor:
    """The exponent by one product, unless the points span so many lengthscales that rounding would show in it."""
    x_norm = scaled_norm(xc, weight)
    z_norm = x_norm if x is z else scaled_norm(zc, weight)
    if rounding_shows(x_norm, z_norm):
        same, wide = x is z, x.double()
        r2 = _squares(wide, wide if same else z.double(), weight.double())
        return (variance.double() * torch.exp(-0.5 * r2)).to(x.dtype)
    return _quadratic(xc, zc, weight, x_norm - 2 * log_of(variance), z_norm, scale=-0.5).exp_()


def rounding_shows(x_norm: Tensor, z_norm: Tensor) -> bool:
    """Whether squared distances by one product would be off by more than kernels may be."""
    tolerance = 1e-11 if x_norm.dtype == torch.float64 else 1e-5
    return torch.finfo(x_norm.dtype).eps * largest(x_norm, z_norm) > tolerance


def largest(x_norm: Tensor, z_norm: Tensor) -> float:
    """The largest of all norms; 0 where there are none."""
    if not x_norm.numel() or not z_norm.numel() or x_norm.is_meta:
        return 0.0
    return max(float(x_norm.max()), float(z_norm.max()))


def centre(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Both less the mean of ``z``."""
    middle = z.detach().reshape(-1, z.shape[-1]).mean(0).nan_to_num(0.0, 0.0, 0.0)  # a bad row spoils itself alone
    xc = x - middle
    return xc, xc if x is z else z - middle


def scaled_norm(x: Tensor, weight: Tensor) -> Float[Tensor, "*q n"]:
    """``Σ_d w_d² x_d²``, without a tensor of size q × n × d where only the weights have a function axis."""
    if weight.dim() < 3 or x.dim() == 3:
        return (x * weight).square().sum(-1)
    weights = weight.square().expand(-1, -1, x.shape[-1])
    return (weights @ x.square().mT).squeeze(-2)


def log_of(variance: Tensor) -> Tensor:
    """``log v`` in a shape that adds to norms ``*q n``."""
    return variance.log().squeeze(-1) if variance.dim() else variance.log()


def _quadratic(x: Tensor, z: Tensor, weight: Tensor, x_norm: Tensor, z_norm: Tensor, scale: float) -> Tensor:
    """``scale · (x_norm + z_norm − 2 Σ_d w_d² x_d z_d)``, by products of extended points where that saves a pass."""
    scaled = z * weight.square()
    if x.dim() == 2 and scaled.dim() == 2 and x_norm.dim() == 1:
        left, right = extended(x, scaled, x_norm, z_norm)
        return (scale * left) @ right.mT
    if scaled.dim() == 3 and x.dim() == 2:  # one product for all functions
        norms = z_norm.expand(scaled.shape[:-1]).reshape(-1, 1).expand(-1, len(x))
        out = torch.addmm(norms, scaled.flatten(0, 1), x.mT, beta=scale, alpha=-2 * scale)
        return out.unflatten(0, scaled.shape[:-1]).add_(scale * x_norm[..., None, :]).mT
    cross = -2 * scale * (x @ scaled.mT)
    return cross + scale * x_norm[..., None] + scale * z_norm[..., None, :]


def extended(x: Tensor, scaled: Tensor, x_norm: Tensor, z_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Points ``[x, ‖x‖², 1]`` and ``[−2w²z, 1, ‖z‖²]``, whose products are the squared distances."""
    left = torch.cat([x, x_norm[:, None], torch.ones_like(x_norm)[:, None]], -1)
    return left, torch.cat([-2 * scaled, torch.ones_like(z_norm)[:, None], z_norm[:, None]], -1)


def repair_(
    r2: Tensor, x: Tensor, z: Tensor, weight: Tensor, x_norm: Tensor, z_norm: Tensor, first: int | None
) -> Tensor:
    """Recompute, from differences, the entries that lost more than half of their digits to cancellation.

    Where ``x`` are rows of ``z`` itself, ``first`` is the number of the first: their distance to themselves is zero.
    """
    own = r2.diagonal(first, -2, -1) if first is not None else r2[..., :0]
    own.fill_(torch.inf)
    limit = torch.finfo(r2.dtype).eps ** 0.5
    bound = limit * largest(x_norm, z_norm)
    if r2.numel() and not r2.amin() >= bound:  # not: a missing value makes the least one missing
        _from_differences_(r2, x, z, weight, x_norm, z_norm, (r2 < bound).nonzero(as_tuple=True))
    own.zero_()
    return r2


def _from_differences_(
    r2: Tensor, x: Tensor, z: Tensor, weight: Tensor, x_norm: Tensor, z_norm: Tensor, found: tuple[Any, ...]
) -> None:
    """The entries at ``found`` that are small beside their own points' norms."""
    limit = torch.finfo(r2.dtype).eps ** 0.5
    *function, i, j = found
    close = r2[found] < limit * (_pick(x_norm, function, i, 2) + _pick(z_norm, function, j, 2))
    for index in zip(*(part[close].split(2**16) for part in found), strict=True):
        *function, i, j = index
        difference = _pick(x, function, i, 3) - _pick(z, function, j, 3)
        weights = weight.expand(*r2.shape[:-2], 1, x.shape[-1])[(*function, 0)] if weight.dim() > 1 else weight
        r2[index] = (weights * difference).square().sum(-1)


def _pick(values: Tensor, function: list[Tensor], row: Tensor, axes: int) -> Tensor:
    """Rows of a tensor that has ``axes`` axes where it belongs to the functions one by one."""
    return values[(*function, row)] if values.dim() == axes else values[row]


def contract(
    grad: Tensor, x: Tensor, z: Tensor, weight: Tensor, needs: tuple[bool, ...], same: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Derivatives of ``Σ G ∘ r²`` for centred points, by the products above; all to ``x`` where ``z`` is the same."""
    if same and needs[0]:
        return _contract_same(grad, x, weight)
    d = x.shape[-1]
    to_x = to_z = to_weight = None
    if needs[1]:
        gx, h = (grad.mT @ with_ones(x)).split([d, 1], -1)
        to_z = (2 * weight.square() * torch.addcmul(-gx, h, z)).sum_to_size(z.shape)
    if needs[0] or not needs[1]:
        gz, g = (grad @ with_ones(z)).split([d, 1], -1)
    if needs[0]:
        to_x = (2 * weight.square() * (g * x - gz)).sum_to_size(x.shape)
    if needs[2]:
        g = g if needs[0] or not needs[1] else grad.sum(-1, keepdim=True)
        h = h if needs[1] else grad.sum(-2).unsqueeze(-1)
        to_weight = weight_gradient(g, h, x, z, z * gx if needs[1] else x * gz, weight)
    return to_x, to_z, to_weight


def _contract_same(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, None, Tensor]:
    """``2w² ∘ e`` and ``2w ∘ Σᵢ xᵢ eᵢ`` for ``e = h ∘ x − (G + Gᵀ) x`` with the row sums ``h`` of ``G + Gᵀ``."""
    both = grad + grad.mT
    e = torch.addcmul(-(both @ x), both.sum(-1, keepdim=True), x)
    to_weight = 2 * weight * (x * e).sum(-2, keepdim=True)
    return (2 * weight.square() * e).sum_to_size(x.shape), None, to_weight.sum_to_size(weight.shape)


def with_ones(x: Tensor) -> Tensor:
    """``[x, 1]``."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def weight_gradient(g: Tensor, h: Tensor, x: Tensor, z: Tensor, cross: Tensor, weight: Tensor) -> Tensor:
    """``2w ∘ (Σᵢ gᵢ xᵢ² + Σⱼ hⱼ zⱼ² − 2 Σ cross)`` for column sums of ``cross``, either ``x ∘ Gz`` or ``z ∘ Gᵀx``."""
    squares = g.mT @ x.square() + h.mT @ z.square() - 2 * cross.sum(-2, keepdim=True)
    return (2 * weight * squares).sum_to_size(weight.shape)


def _gaussian_backward(
    grad: Tensor,
    k: Tensor,
    x: Tensor,
    z: Tensor,
    weight: Tensor,
    variance: Tensor,
    needs: tuple[bool, ...],
    same: bool,
) -> tuple[Tensor | None, ...]:
    """The derivatives of the Gaussian kernel for centred points, ``G ∘ K`` being used a few rows at a time."""
    if k.dim() == 3 or needs[0] or needs[1]:
        full = grad * k
        to_variance = (full.sum((-2, -1), keepdim=True) / variance).sum_to_size(variance.shape) if needs[3] else None
        return *contract(full.mul_(-0.5), x, z, weight, needs, same), to_variance
    right = with_ones(z)
    products = torch.empty(len(k), right.shape[1], dtype=k.dtype, device=k.device)
    h = torch.zeros(k.shape[1], 1, dtype=k.dtype, device=k.device)
    step = max(1, _CHUNK // max(1, k.shape[1]))
    buffer = torch.empty(min(step, len(k)), k.shape[1], dtype=k.dtype, device=k.device)
    for start in range(0, len(k), step):
        rows = slice(start, min(start + step, len(k)))
        part = torch.mul(grad[rows], k[rows], out=buffer[: rows.stop - start])
        torch.mm(part, right, out=products[rows])
        h += part.sum(0)[:, None]
    gz, g = products.split([x.shape[1], 1], -1)
    to_weight = -0.5 * weight_gradient(g, h, x, z, x * gz, weight) if needs[2] else None
    return None, None, to_weight, (g.sum() / variance).sum_to_size(variance.shape) if needs[3] else None
