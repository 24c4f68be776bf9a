"""The Matérn family: kernels whose smoothness is a number ``ν``, fixed or learnt.

With ``q² = 2ν r²`` the correlation is ``ρ(q², ν) = 2^(1−ν)/Γ(ν) q^ν K_ν(q)``. For ν = 1/2, 3/2 and 5/2 it
is elementary. Otherwise an integral over the real line replaces the Bessel function,

    ρ(q², ν) = I₀(q², ν)/Γ(ν),        I_j(q², ν) = ∫ sʲ exp(νs − eˢ − q² e^(−s)/4) ds,

by the trapezoidal rule, which converges geometrically here: with 60 to 200 nodes the error is about 10⁻¹⁴.
It needs only exponentials and one matrix product, on any device, and its derivatives are integrals of the
same kind:

    ∂I_j/∂q² = −¼ I_j(q², ν−1),        ∂I_j/∂ν = I_{j+1}(q², ν).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.spectral import Rng, gamma_scale, normal, student_frequencies
from stratagp.kernels.stationary.scaled_distance import Stationary
from stratagp.linalg import matern_correlation, matern_kernel
from stratagp.linalg.shapes import broadcast_shapes
from stratagp.parameters import UNSET, Parameter, Value

_CLOSED = {0.5: 0, 1.5: 1, 2.5: 2}
_NEGLIGIBLE = 40.0  # e⁻⁴⁰ of the peak is cut off
_STEP = 0.25
_CHUNK = 2**11  # entries whose nodes are evaluated at once


class Matern(Stationary):
    """``k(x, z) = variance · 2^(1−ν)/Γ(ν) q^ν K_ν(q)`` with ``q = √(2ν) r``: ``ν`` sets the smoothness.

    The process has ``⌈ν⌉ − 1`` mean-square derivatives; ``ν = 1/2`` is the Ornstein-Uhlenbeck process, and
    for large ``ν`` the kernel becomes the RBF. The half-integers have closed forms:

        ν = 1/2:  exp(−q)        ν = 3/2:  (1 + q) exp(−q)        ν = 5/2:  (1 + q + q²/3) exp(−q)

    Arguments:
        nu: the smoothness; a number stays fixed, a parameter such as ``positive(1.7)`` is learnt.

    >>> Matern(nu=1.5, lengthscale=2.0)
    Matern(nu=1.5, lengthscale=2, variance=1)
    >>> Matern(nu=0.8)(torch.tensor([[0.0]]), torch.tensor([[1.0]])).item()
    0.42081906...
    """

    def __init__(
        self,
        nu: float | Parameter = 2.5,
        lengthscale: Value | Parameter = UNSET,
        variance: Value | Parameter = UNSET,
        ard: bool | int = False,
    ) -> None:
        super().__init__(lengthscale, variance, ard)
        if isinstance(nu, Parameter):
            if nu.natural.dim() != (0 if nu.functions is None else 1):
                raise InputError(f"nu must be one number, got a parameter of shape {tuple(nu.natural.shape)}")
        elif not (nu > 0 and math.isfinite(nu)):
            raise InputError(f"nu must be positive and finite, got {nu}; for the limit of large nu use RBF()")
        self.nu: Any = nu if isinstance(nu, Parameter) else float(nu)

    @property
    def differentiable(self) -> float:
        """How many mean-square derivatives the process has: the largest whole number below ``ν``."""
        nu = self.nu.detach().min().item() if isinstance(self.nu, Tensor) else self.nu
        return max(0, math.ceil(nu - 1e-9) - 1)  # a learnt value may be a whole number up to rounding

    def _settings(self) -> str:
        return "" if isinstance(self.nu, Tensor) else f"nu={self.nu:g}"

    def profile(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The correlation, with exact derivatives where points coincide."""
        if self._order is not None:
            return matern_correlation(2 * self.nu * r2, self._order)
        nu = torch.as_tensor(self.nu, dtype=r2.dtype, device=r2.device)
        return bessel_correlation(2 * nu * r2, nu)

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The same formula, for a half-integer as one fused operation."""
        if self._order is None:
            return super().forward(x, z)
        return matern_kernel(x, z, math.sqrt(2 * self.nu) / self.lengthscale, self.variance, self._order)

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The closed forms."""
        if self._order is None:
            return super().plain(x, z)
        return self._plain(self._closed, x, z)

    def _closed(self, r2: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        q = torch.sqrt(2 * self.nu * r2)
        return (1 + (q if self.nu > 1 else 0) + (q.square() / 3 if self.nu > 2 else 0)) * torch.exp(-q)

    @property
    def _order(self) -> int | None:
        """0, 1 or 2 if ``ν`` is fixed at 1/2, 3/2 or 5/2, else None."""
        return None if isinstance(self.nu, Tensor) else _CLOSED.get(self.nu)

    def _draw_frequencies(self, n: int, dim: int, generator: Rng) -> Float[Tensor, "n dim"]:
        """A Student t with ``2ν`` degrees of freedom; if ``ν`` is learnt, the normal numbers that it scales."""
        if isinstance(self.nu, Tensor):
            return normal(n, dim, generator)
        return student_frequencies(self.nu, n, dim, generator)

    def _spread(self, uniform: Float[Tensor, "f 1"]) -> Float[Tensor, "..."]:
        return 1 / gamma_scale(uniform, self.nu) if isinstance(self.nu, Tensor) else torch.ones_like(uniform)


def bessel_correlation(q2: Float[Tensor, "..."], nu: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """``2^(1−ν)/Γ(ν) q^ν K_ν(q)`` as a function of ``q²``, with value 1 at zero, and all its derivatives.

    Shapes: ``q2`` is ``*q n m``; ``nu`` is a number, or ``q 1 1`` for one smoothness per function.
    """
    shift = torch.lgamma(nu.detach())
    return _BesselIntegral.apply(q2, nu, shift, 0) * torch.exp(shift - torch.lgamma(nu))


class _BesselIntegral(torch.autograd.Function):
    """``e^(−shift) I_j(q², ν)``, with its limit at ``q² = 0``, or zero where the limit is infinite.

    One pass of exponentials gives the value and both derivatives, which are stored for the first backward pass;
    the second uses the same integrals.
    """

    @staticmethod
    def forward(ctx: Any, q2: Tensor, nu: Tensor, shift: Tensor, order: int) -> Tensor:
        needs = ctx.needs_input_grad
        powers = [(order, 0), *([(order, 1)] if needs[0] else []), *([(order + 1, 0)] if needs[1] else [])]
        value, *slopes = _integrals(q2, nu, shift, powers)
        ctx.order = order
        ctx.save_for_backward(q2, nu, shift, *slopes)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q2, nu, shift, *slopes = ctx.saved_tensors
        to_q2 = to_nu = None
        if ctx.needs_input_grad[0]:
            slope = slopes[0]
            if torch.is_grad_enabled():
                slope = _BesselIntegral.apply(q2, nu - 1, shift, ctx.order)
            to_q2 = -0.25 * (grad * slope).sum_to_size(q2.shape)
        if ctx.needs_input_grad[1]:
            slope = slopes[-1]
            if torch.is_grad_enabled():
                slope = _BesselIntegral.apply(q2, nu, shift, ctx.order + 1)
            to_nu = (grad * slope).sum_to_size(nu.shape)
        return to_q2, to_nu, None, None


def _integrals(q2: Tensor, nu: Tensor, shift: Tensor, powers: list[tuple[int, int]]) -> list[Tensor]:
    """``e^(−shift) I_j(q², ν − i)`` for each ``(j, i)`` in ``powers``."""
    some = q2[(q2 > 0) & q2.isfinite()]
    low, high = (float(some.min()), float(some.max())) if len(some) else (1.0, 1.0)
    s, step = _nodes(math.sqrt(low), math.sqrt(high), float(nu.min()), float(nu.max()))
    shape = broadcast_shapes(q2.shape, nu.shape)
    functions = q2.expand(shape).reshape(nu.numel(), math.prod(shape) // nu.numel())  # one row for each smoothness
    rows = []
    for entries, v, c in zip(functions, nu.reshape(-1).tolist(), shift.reshape(-1).tolist(), strict=True):
        weights = torch.stack([step * s**j * ((v - i) * s - s.exp() - c).exp() for j, i in powers], 1)
        rows.append(_sum_over_nodes(entries, -0.25 * torch.exp(-s).to(q2), weights.to(q2)))
    sums = torch.stack(rows).reshape(*shape, len(powers)).unbind(-1)
    limits = [_gamma_derivative(nu - i, j, shift) for j, i in powers]
    return [torch.where(q2 == 0, *pair) for pair in zip(limits, sums, strict=True)]


def _nodes(low: float, high: float, nu_min: float, nu_max: float) -> tuple[Tensor, float]:
    """The nodes ``s`` at which the integrand matters for some ``q`` from ``low`` to ``high``, and their step.

    At small ``s`` it dies like ``exp(q − eˢ − q² e^(−s)/4)`` or like ``exp((ν−1)s)``, whichever is sooner;
    at large ``s`` like the tail of a Gamma variable. Its width is about ``1/√ν``, so the step shrinks with
    ``ν``.
    """
    cut = low + _NEGLIGIBLE
    start = 2 * math.log(low) - math.log(2 * (cut + math.sqrt(cut * cut - low * low)))
    if nu_min > 1:
        start = max(start, -_NEGLIGIBLE / (nu_min - 1))
    peak = high / 2 + max(nu_max, 1.0)
    stop = math.log(peak + math.sqrt(2 * peak * _NEGLIGIBLE) + _NEGLIGIBLE)
    step = _STEP / math.sqrt(1 + max(nu_max, 0.0) / 5)
    return start + step * torch.arange(math.ceil((stop - start) / step) + 1, dtype=torch.float64), step


def _sum_over_nodes(entries: Tensor, rates: Tensor, weights: Tensor) -> Tensor:
    """``Σ_k exp(entry · rate_k) weight_k``, a block of entries at a time, through one buffer."""
    sums = torch.empty(len(entries), weights.shape[1], dtype=entries.dtype, device=entries.device)
    buffer = torch.empty(min(_CHUNK, len(entries)), len(rates), dtype=entries.dtype, device=entries.device)
    for start in range(0, len(entries), _CHUNK):
        rows = slice(start, min(start + _CHUNK, len(entries)))
        block = torch.mul(entries[rows, None], rates, out=buffer[: rows.stop - start])
        torch.mm(block.exp_(), weights, out=sums[rows])
    return sums


def _gamma_derivative(nu: Tensor, order: int, shift: Tensor) -> Tensor:
    """``e^(−shift) I_j(0, ν)``, a derivative of Γ, for ``ν > 0``; zero for ``ν ≤ 0``."""
    safe = torch.where(nu > 0, nu, torch.ones_like(nu))
    derivatives = [torch.exp(torch.lgamma(safe) - shift)]
    for j in range(order):  # Γ' = ψΓ, differentiated j times
        terms = [math.comb(j, i) * torch.polygamma(i, safe) * derivatives[j - i] for i in range(j + 1)]
        derivatives.append(torch.stack(terms).sum(0))
    return torch.where(nu > 0, derivatives[order], torch.zeros_like(nu))
