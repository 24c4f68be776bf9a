"""Marginals of functions that are weighted cosines and sines, and their derivatives.

With phases ``θ = h Ωᵀ``, ``C = cos θ``, ``S = sin θ`` and independent weights of mean ``m`` and variance ``v``, each in
a part for cosines and one for sines, the function values at a row have

    mean = C m₁ + S m₂,        var = C² v₁ + S² v₂ = Σ v₁ + S² (v₂ − v₁).

Autograd would keep ``θ``, ``C``, ``S`` and both squares, and pass over each several times. Here only ``C`` and
``S`` are kept. With incoming gradients ``g`` of the mean and ``k`` of the variance,

    ∂θ = C ∘ (g m₂ᵀ + 2 S ∘ k (v₂ − v₁)ᵀ) − S ∘ g m₁ᵀ,        ∂h = ∂θ Ω,        ∂Ω = ∂θᵀ h,
    ∂m₁ = Cᵀ g,        ∂m₂ = Sᵀ g,        ∂v₂ = (S²)ᵀ k,        ∂v₁ = Σ k − ∂v₂.

Rows are handled in blocks that stay in the processor's cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.linalg.once import first_derivative_only

_BLOCK = 2**18  # entries of a block


def wave_marginals(
    h: Float[Tensor, "*s n d"],
    omega: Float[Tensor, "*t f d"],
    mean: Float[Tensor, "q p"],
    var: Float[Tensor, "q p"],
) -> tuple[Float[Tensor, "*b n q"], Float[Tensor, "*b n q"]]:
    """Mean and variance of ``q`` functions at rows ``h``, with ``p = 2f`` weights: of the cosines, then of the sines.

    Frequencies are the same for all rows, or one set for each sample; rows then have a sample axis of that size, or
    none if all samples see the same rows.

    >>> one, zero = torch.ones(1, 2), torch.zeros(1, 1)
    >>> wave_marginals(zero, torch.ones(1, 1), one, one)  # cos 0 = 1, sin 0 = 0
    (tensor([[1.]]), tensor([[1.]]))
    """
    if omega.dim() == 2:
        found = _WaveMarginals.apply(h.reshape(1, -1, h.shape[-1]), omega[None], mean, var)
        return found[0].reshape(*h.shape[:-1], -1), found[1].reshape(*h.shape[:-1], -1)
    return _WaveMarginals.apply(h if h.dim() == 3 else h[None], omega, mean, var)


class _WaveMarginals(torch.autograd.Function):
    """On ``s n d`` and ``t f d``, where ``s`` and ``t`` are equal or one of them is 1.

    Products keep their few functions or columns as rows of ``q f`` and ``d f``, where the matrix library is fastest.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, omega: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        (n, f, q), samples = (h.shape[1], omega.shape[1], len(mean)), max(len(h), len(omega))
        blocks, keep = _blocks(samples, n, f), any(ctx.needs_input_grad)
        cosines, sines = h.new_empty(2, samples, n, f) if keep else h.new_empty(2, *blocks[0].shape, f)
        found, spread = h.new_empty(2, samples, n, q)
        excess, base = var[:, f:] - var[:, :f], var[:, :f].sum(1)
        square = h.new_empty(*blocks[0].shape, f)
        for block in blocks:
            c, s = (block.of(part) if keep else block.first_of(part) for part in (cosines, sines))
            torch.bmm(block.of(h), block.of(omega, rows=False).mT, out=s)
            torch.cos(s, out=c)
            s.sin_()
            torch.mm(_flat(c), mean[:, :f].mT, out=_flat(block.of(found))).addmm_(_flat(s), mean[:, f:].mT)
            squares = _flat(torch.mul(s, s, out=block.first_of(square)))
            torch.addmm(base, squares, excess.mT, out=_flat(block.of(spread)))
        if keep:
            ctx.save_for_backward(h, omega, mean, excess, cosines, sines)
        return found, spread

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, to_mean: Tensor, to_var: Tensor) -> tuple[Tensor | None, ...]:
        h, omega, mean, excess, cosines, sines = ctx.saved_tensors
        to_mean, to_var = to_mean.contiguous(), to_var.contiguous()
        f, turned = omega.shape[1], omega.mT.contiguous()
        need_h, need_omega, *_ = ctx.needs_input_grad
        to_h, to_turned = torch.zeros_like(h), torch.zeros_like(turned)
        to_m, to_excess = torch.zeros_like(mean), torch.zeros_like(excess)
        blocks = _blocks(*cosines.shape)
        buffers = h.new_empty(2, *blocks[0].shape, f)
        for block in blocks:
            c, s, t, u = (*map(block.of, (cosines, sines)), *map(block.first_of, buffers))
            g, k = _flat(block.of(to_mean)), _flat(block.of(to_var))
            to_m[:, :f].addmm_(g.mT, _flat(c))
            to_m[:, f:].addmm_(g.mT, _flat(s))
            to_excess.addmm_(k.mT, _flat(torch.mul(s, s, out=u)))
            if need_h or need_omega:
                torch.mm(g, mean[:, f:], out=_flat(t))
                torch.mm(k, excess, out=_flat(u))
                t.addcmul_(s, u, value=2).mul_(c)
                torch.mm(g, mean[:, :f], out=_flat(u))
                t.addcmul_(s, u, value=-1)
            if need_h:
                _add(block.of(to_h, expand=False), t, block.of(turned, rows=False).mT)
            if need_omega:
                _add(block.of(to_turned, rows=False, expand=False), block.of(h).mT, t)
        to_v = torch.cat([to_var.sum((0, 1))[:, None] - to_excess, to_excess], 1)
        return to_h if need_h else None, to_turned.mT if need_omega else None, to_m, to_v


class _Block(NamedTuple):
    """Some rows of one sample, or all rows of some."""

    samples: slice
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.stop - self.samples.start, self.rows.stop - self.rows.start

    def of(self, whole: Tensor, rows: bool = True, expand: bool = True) -> Tensor:
        """The block of a tensor, with or without an axis of rows; shared tensors are expanded to all samples."""
        if len(whole) > 1:
            whole = whole[self.samples]
        elif expand:
            whole = whole.expand(self.shape[0], -1, -1)
        return whole[:, self.rows] if rows else whole

    def first_of(self, buffer: Tensor) -> Tensor:
        """A part of a buffer with the size of the block."""
        samples, rows = self.shape
        return buffer[:samples, :rows]


def _blocks(samples: int, n: int, f: int) -> list[_Block]:
    """All samples and rows in blocks, the first of which is the largest."""
    rows, count = max(1, min(n, _BLOCK // f)), max(1, min(samples, _BLOCK // max(1, n * f)))
    return [
        _Block(slice(i, min(i + count, samples)), slice(start, min(start + rows, n)))
        for i in range(0, max(1, samples), count)
        for start in range(0, max(1, n), rows)
    ]


def _flat(block: Tensor) -> Tensor:
    """All rows of a block along one axis, in the same memory."""
    return block.view(-1, block.shape[-1])


def _add(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add ``a b`` of each sample to its own total, or to the common one."""
    if len(total) == len(a):
        total.baddbmm_(a, b)
    else:
        total[0] += torch.bmm(a, b).sum(0)
