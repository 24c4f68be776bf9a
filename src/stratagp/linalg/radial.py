"""The Matérn kernels of half-integer order as one operation, with the derivatives in closed form.

With ``r²`` the scaled squared distance of :mod:`stratagp.linalg.distances` and ``p`` = 0, 1, 2, that is ``ν = p + ½``
and ``r`` measured with weights ``√(2ν)/ℓ``,

    k = v P_p(r²),     P₀ = e^(−r),     P₁ = (1 + r) e^(−r),     P₂ = (1 + r + r²/3) e^(−r),

    ∂k/∂r² = −½ k t_p,     t₀ = 1/r,     t₁ = 1/(1 + r),     t₂ = (1 + r)/(3 + 3r + r²).

The slope follows from ``k`` without another exponential. So only ``k`` is kept. If the points need no gradient, as in
exact regression, ``r²`` is recomputed a few rows at a time: a new n × m buffer would take as long to fetch from the
system. Each block of rows passes through all steps while it is in the cache.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.distances import (
    centre,
    contract,
    extended,
    log_of,
    repair_,
    rounding_shows,
    scaled_norm,
    scaled_sqdist,
    weight_gradient,
    with_ones,
)
from stratagp.linalg.shapes import broadcast_shapes

_BLOCK = 2**17  # entries of a matrix handled at once, so that they stay in the cache


def matern_kernel(
    x: Float[Tensor, "*qx n d"],
    z: Float[Tensor, "*qz m d"],
    weight: Float[Tensor, "..."],
    variance: Float[Tensor, "..."],
    order: int,
) -> Float[Tensor, "*q n m"]:
    """``v P_p(Σ_d w_d² (x_id − z_jd)²)`` for ``order`` p = 0, 1 or 2, as often differentiable as the kernel itself.

    Shapes are those of :func:`stratagp.linalg.gaussian_kernel`.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> matern_kernel(x, x, torch.tensor(1.0), torch.tensor(2.0), order=1)  # 2 (1 + 1)/e
    tensor([[2.0000, 1.4715],
            [1.4715, 2.0000]])
    """
    by_points = torch.is_grad_enabled() and (x.requires_grad or z.requires_grad)
    return _MaternKernel.apply(x, z, weight, variance, order, by_points)


def matern_correlation(r2: Float[Tensor, "..."], order: int) -> Float[Tensor, "..."]:
    """``P_p(r²)`` with all derivatives, those of ``P₁`` and ``P₂`` also correct where points coincide.

    >>> matern_correlation(torch.tensor([0.0, 1.0]), order=0)
    tensor([1.0000, 0.3679])
    """
    return _HalfInteger.apply(r2, order) if order else torch.exp(-distance(r2))


def distance(r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """``√r²`` with gradient zero, not infinity, where points coincide.

    >>> distance(torch.tensor([0.0, 4.0]))
    tensor([0., 2.])
    """
    return torch.where(r2 != 0, r2, torch.ones_like(r2)).sqrt() * (r2 != 0)


class _HalfInteger(torch.autograd.Function):
    """``P₁`` and ``P₂`` as functions of ``r²``.

    ``dP₁/dr² = −P₀/2`` and ``dP₂/dr² = −P₁/6`` have no square root of a vanishing distance to differentiate, so second
    derivatives at coincident points are correct; autograd through ``r`` would lose them.
    """

    @staticmethod
    def forward(ctx: Any, r2: Tensor, order: int) -> Tensor:
        r = r2.sqrt()
        decay = torch.exp(-r)
        first = (1 + r) * decay
        ctx.order = order
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(r2, -0.5 * decay if order == 1 else first / -6)
        return first if order == 1 else torch.addcmul(first, r2, decay, value=1 / 3)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        r2, slope = ctx.saved_tensors
        if torch.is_grad_enabled():
            slope = matern_correlation(r2, ctx.order - 1) / (-2 if ctx.order == 1 else -6)
        return grad * slope, None


class _MaternKernel(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor, order: int, by_points: bool
    ) -> Tensor:
        squares = _Squares(x, z, weight, variance)
        k = torch.empty(squares.shape, dtype=x.dtype, device=x.device)
        kept = torch.empty_like(k) if by_points else None
        logs = log_of(variance).expand(*k.shape[:-2], 1)
        spare = squares.buffer(), squares.buffer()
        for at in squares.blocks():
            r2 = squares.at(at, kept[at] if kept is not None else k[at])
            _values(r2, logs[at[:-1]], order, spare, out=k[at])
        if x is z:
            k.diagonal(dim1=-2, dim2=-1).copy_(variance.squeeze(-1) if variance.dim() else variance)
        ctx.order, ctx.same = order, x is z
        ctx.save_for_backward(x, z, weight, variance, k, kept)
        return k

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, k, kept = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_with_graph(grad, inputs, ctx.order, ctx.needs_input_grad), None, None
        whole = k.dim() == 3 or ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        if whole:
            return *_by_points(grad, k, kept, inputs, ctx.order, ctx.needs_input_grad, ctx.same), None, None
        return *_by_scales(grad, k, inputs, ctx.order, ctx.needs_input_grad), None, None


def _with_graph(grad: Tensor, inputs: list[Tensor], order: int, needs: tuple[bool, ...]) -> list[Tensor | None]:
    """For second derivatives: those of the composed formula, with their graph."""
    x, z, weight, variance = (value.view_as(value) for value in inputs)  # x and z may be one tensor
    k = variance * matern_correlation(scaled_sqdist(x, z, weight), order)
    wanted = [value for value, need in zip((x, z, weight, variance), needs, strict=False) if need]
    found = iter(torch.autograd.grad(k, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needs[:4]]


def _by_scales(
    grad: Tensor, k: Tensor, inputs: list[Tensor], order: int, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Derivatives by weights and variance, forming and using ``G ∘ ∂K/∂r²`` a few rows at a time."""
    x, z, weight, variance = inputs
    squares = _Squares(x, z, weight, variance)
    xc, zc = centre(x, z)
    right = with_ones(zc)
    products = torch.empty(len(k), right.shape[1], dtype=k.dtype, device=k.device)
    h, total = k.new_zeros(k.shape[1]), k.new_zeros(())
    buffers = squares.buffer(), squares.buffer(), squares.buffer()
    for at in squares.blocks():
        r2, part, spare = (buffer[: len(k[at])] for buffer in buffers)
        torch.mul(grad[at], k[at], out=part)
        total += part.sum()
        _times_slope_(part, squares.at(at, r2), order, spare)
        torch.mm(part, right, out=products[at])
        h += part.sum(0)
    gz, g = products.split([x.shape[1], 1], -1)
    to_weight = -0.5 * weight_gradient(g, h[:, None], xc, zc, xc * gz, weight) if needs[2] else None
    return None, None, to_weight, (total / variance).sum_to_size(variance.shape) if needs[3] else None


def _by_points(
    grad: Tensor,
    k: Tensor,
    kept: Tensor | None,
    inputs: list[Tensor],
    order: int,
    needs: tuple[bool, ...],
    same: bool,
) -> tuple[Tensor | None, ...]:
    """All derivatives, with one more n × m matrix; also for several functions."""
    x, z, weight, variance = inputs
    squares = _Squares(x, z, weight, variance)
    total = k.new_zeros(*k.shape[:-2], 1, 1)
    slope = torch.empty_like(k)
    buffers = squares.buffer(), squares.buffer()
    for at in squares.blocks():
        r2, spare = (buffer[: len(k[at])] for buffer in buffers)
        part = torch.mul(grad[at], k[at], out=slope[at])
        total[at[:-1]] += part.sum()
        _times_slope_(part, kept[at] if kept is not None else squares.at(at, r2), order, spare)
    found = contract(slope, *centre(x, z), weight, needs, same)
    to_variance = (total / variance).sum_to_size(variance.shape) if needs[3] else None
    return *(None if value is None else -0.5 * value for value in found), to_variance


def _values(r2: Tensor, log_variance: Tensor, order: int, spare: tuple[Tensor, Tensor], out: Tensor) -> None:
    """``v P_p(r²)`` of a block; ``out`` may be ``r2`` itself."""
    r, decay = (buffer[: len(r2)] for buffer in spare)
    _root(r2, out=r)
    torch.sub(log_variance, r, out=decay).exp_()
    if order == 0:
        out.copy_(decay)
    else:
        torch.addcmul(decay, r if order == 1 else r.add_(r2, alpha=1 / 3), decay, out=out)


def _times_slope_(part: Tensor, r2: Tensor, order: int, spare: Tensor) -> None:
    """``part ∘ t_p(r²)`` in place; zero where ``t₀`` is infinite."""
    r = _root(r2, out=spare)
    if order == 0:
        part.div_(r.masked_fill_(r == 0, torch.inf))
    elif order == 1:
        part.div_(r.add_(1))
    else:
        part.mul_(r.add_(1)).div_(torch.add(r2, r, alpha=3, out=r))


def _root(r2: Tensor, out: Tensor) -> Tensor:
    """``√r²`` as ``1/(1/√r²)``, which is also correct at zero; torch's own root of float64 takes twice as long."""
    return torch.rsqrt(r2, out=out).reciprocal_()


class _Squares:
    """``r²`` between ``x`` and ``z``, a few rows of one function at a time.

    float32 points are subtracted in float64 if they span many lengthscales.
    """

    def __init__(self, x: Tensor, z: Tensor, weight: Tensor, variance: Tensor) -> None:
        self.dtype, self.device = x.dtype, x.device
        axes = broadcast_shapes(*(value.shape[:-2] for value in (x, z, weight, variance)))
        self.shape = (*axes, x.shape[-2], z.shape[-2])
        self._prepare(x, z, weight)
        if self.dtype == torch.float32 and rounding_shows(self.x_norm, self.z_norm):
            wide = x.double()
            self._prepare(wide, wide if x is z else z.double(), weight.double())

    def _prepare(self, x: Tensor, z: Tensor, weight: Tensor) -> None:
        self.x, self.z = centre(x, z)
        self.weight = weight
        self.x_norm, self.z_norm = scaled_norm(self.x, weight), scaled_norm(self.z, weight)
        self._function: tuple[int, ...] | None = None

    @property
    def _step(self) -> int:
        return max(1, min(self.shape[-2], _BLOCK // max(1, self.shape[-1])))

    def buffer(self) -> Tensor:
        """A buffer for the largest block."""
        return torch.empty(self._step, self.shape[-1], dtype=self.dtype, device=self.device)

    def blocks(self) -> Iterator[tuple[Any, ...]]:
        """The index of each block in a matrix: rows, after the number of a function if there are several."""
        for function in range(self.shape[0]) if len(self.shape) == 3 else [None]:
            for start in range(0, self.shape[-2], self._step):
                rows = slice(start, start + self._step)
                yield (rows,) if function is None else (function, rows)

    def at(self, place: tuple[Any, ...], out: Tensor) -> Tensor:
        """One block, written to ``out``."""
        *function, rows = place
        self._choose(tuple(function))
        x, z, weight, x_norm, z_norm = self._of_function
        left, right = self._extended
        narrow = left.dtype == out.dtype
        r2 = torch.mm(left[rows], right.mT, out=out) if narrow else left[rows] @ right.mT
        repair_(r2, x[rows], z, weight, x_norm[rows], z_norm, rows.start if self.x is self.z else None)
        return out if narrow else out.copy_(r2)

    def _choose(self, function: tuple[int, ...]) -> None:
        if function == self._function:
            return
        x, z, weight = (part[function] if part.dim() == 3 else part for part in (self.x, self.z, self.weight))
        x_norm, z_norm = (part[function] if part.dim() == 2 else part for part in (self.x_norm, self.z_norm))
        self._function, self._of_function = function, (x, z, weight, x_norm, z_norm)
        self._extended = extended(x, z * weight.square(), x_norm, z_norm)
