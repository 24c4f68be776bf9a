"""Scaled squared distances, without tensors of size n × m × d.

With weights ``w`` (inverse lengthscales), ``r²ᵢⱼ = Σ_d w_d² (x_id − z_jd)²`` is one matrix product of the points
extended by their squared norms. Its derivatives contract the incoming gradient ``G`` (n × m) with the points:

    ∂/∂xᵢ = 2w² ∘ (gᵢ xᵢ − (Gz)ᵢ)          gᵢ = Σⱼ Gᵢⱼ,   hⱼ = Σᵢ Gᵢⱼ
    ∂/∂zⱼ = 2w² ∘ (hⱼ zⱼ − (Gᵀx)ⱼ)
    ∂/∂w  = 2w  ∘ (Σᵢ gᵢ xᵢ² + Σⱼ hⱼ zⱼ² − 2 Σᵢ xᵢ (Gz)ᵢ),    and Σᵢ xᵢ (Gz)ᵢ = Σⱼ zⱼ (Gᵀx)ⱼ

so a single product, ``G [z, 1]`` or ``Gᵀ [x, 1]``, serves the weights and one side of the points; what needs no
gradient is not computed. For points with themselves, ``(G + Gᵀ) x`` serves all. Points are centred first,
because differences do not depend on the origin, but rounding does.

Shapes: points ``*q n d`` and ``*q m d``; weights broadcast against them, such as ``d``, ``q 1 d`` or a number.
If only the weights or ``z`` have the function axis, ``z`` is scaled and ``x`` multiplied once for all functions.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


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


class _ScaledSqdist(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
        ctx.same = x is z
        ctx.save_for_backward(x, z, weight)
        return squares(x, z, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, weight = ctx.saved_tensors
        return contract(grad, *centre(x, z), weight, ctx.needs_input_grad, ctx.same)


def squares(x: Tensor, z: Tensor, weight: Tensor) -> Tensor:
    """The squared distances of uncentred points."""
    xc, zc = centre(x, z)
    norms = scaled_norm(xc, weight), scaled_norm(zc, weight)
    r2 = quadratic(xc, zc, weight, *norms, scale=1.0)
    return repair_(r2, xc, zc, weight, *norms, first=0 if x is z else None)


def rounding_shows(x_norm: Tensor, z_norm: Tensor) -> bool:
    """Whether squared distances by one product would err by more than kernels allow."""
    tolerance = 1e-11 if x_norm.dtype == torch.float64 else 1e-5
    return torch.finfo(x_norm.dtype).eps * largest(x_norm, z_norm) > tolerance


def largest(x_norm: Tensor, z_norm: Tensor) -> float:
    """The largest of all norms; 0 if there are none."""
    if not x_norm.numel() or not z_norm.numel() or x_norm.is_meta:
        return 0.0
    return max(float(x_norm.max()), float(z_norm.max()))


def centre(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Both minus the mean of ``z``."""
    middle = z.detach().reshape(-1, z.shape[-1]).mean(0).nan_to_num(0.0, 0.0, 0.0)  # a bad row spoils only itself
    xc = x - middle
    return xc, xc if x is z else z - middle


def scaled_norm(x: Tensor, weight: Tensor) -> Float[Tensor, "*q n"]:
    """``Σ_d w_d² x_d²``, without a tensor of size q × n × d if only the weights have a function axis."""
    if weight.dim() < 3 or x.dim() == 3:
        return (x * weight).square().sum(-1)
    weights = weight.square().expand(-1, -1, x.shape[-1])
    return (weights @ x.square().mT).squeeze(-2)


def log_of(variance: Tensor) -> Tensor:
    """``log v`` in a shape that adds to norms ``*q n``."""
    return variance.log().squeeze(-1) if variance.dim() else variance.log()


def quadratic(x: Tensor, z: Tensor, weight: Tensor, x_norm: Tensor, z_norm: Tensor, scale: float) -> Tensor:
    """``scale · (x_norm + z_norm − 2 Σ_d w_d² x_d z_d)``, by products of extended points if that saves a pass."""
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
    """Recompute, from differences, the entries that lost more than half their digits to cancellation.

    If ``x`` are rows of ``z`` itself, ``first`` is the number of the first: their distance to themselves is zero.
    """
    own = r2.diagonal(first, -2, -1) if first is not None else r2[..., :0]
    own.fill_(torch.inf)
    limit = torch.finfo(r2.dtype).eps ** 0.5
    bound = limit * largest(x_norm, z_norm)
    if r2.numel() and not r2.amin() >= bound:  # "not ≥" also catches NaN
        _from_differences_(r2, x, z, weight, x_norm, z_norm, (r2 < bound).nonzero(as_tuple=True))
    own.zero_()
    return r2


def _from_differences_(
    r2: Tensor, x: Tensor, z: Tensor, weight: Tensor, x_norm: Tensor, z_norm: Tensor, found: tuple[Any, ...]
) -> None:
    """Recompute the entries at ``found`` that are small relative to their own points' norms."""
    limit = torch.finfo(r2.dtype).eps ** 0.5
    *function, i, j = found
    close = r2[found] < limit * (_pick(x_norm, function, i, 2) + _pick(z_norm, function, j, 2))
    for index in zip(*(part[close].split(2**16) for part in found), strict=True):
        *function, i, j = index
        difference = _pick(x, function, i, 3) - _pick(z, function, j, 3)
        weights = weight.expand(*r2.shape[:-2], 1, x.shape[-1])[(*function, 0)] if weight.dim() > 1 else weight
        r2[index] = (weights * difference).square().sum(-1)


def _pick(values: Tensor, function: list[Tensor], row: Tensor, axes: int) -> Tensor:
    """Rows of a tensor, which has ``axes`` axes if each function has its own."""
    return values[(*function, row)] if values.dim() == axes else values[row]


def contract(
    grad: Tensor, x: Tensor, z: Tensor, weight: Tensor, needs: tuple[bool, ...], same: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Derivatives of ``Σ G ∘ r²`` for centred points, by the products above; all go to ``x`` if ``z`` is the same."""
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
