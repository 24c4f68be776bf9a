"""Symmetric Toeplitz matrices ``Tᵢⱼ = c_|i−j|`` from their first column ``c``.

They are the covariances of stationary kernels on a regular grid.

*Product.* ``T`` is the corner of a circulant matrix, diagonal after a Fourier transform: ``O(m log m)``.

*Factor.* ``T − Z T Zᵀ = u uᵀ − v vᵀ`` for the downward shift ``Z``, ``u = c/√c₀`` and ``v = u`` but for
``v₀ = 0``. Schur's algorithm keeps such a pair for each Schur complement in turn. Its ``u`` is the next
column of the Cholesky factor; with ``u`` shifted, a hyperbolic rotation by ``ρ = v₀/u₀`` brings the pair
back to ``v₀ = 0``:

    u ← (u − ρ v) / √(1 − ρ²),      v ← √(1 − ρ²) v − ρ u.

That takes ``O(m²)`` operations and in this mixed form is as stable as a dense factorisation (Bojanczyk,
Brent, de Hoog and Sweet, 1995). ``|ρ| ≥ 1`` means that ``T`` is not positive definite.

*Gradients.* The gradient of ``c_k`` is a sum over the diagonals ``±k``. For ``x = T⁻¹b`` and ``λ = T⁻¹∂x``,

    ∂b = λ,      ∂c_k = −Σ_{|i−j| = k} λᵢ xⱼ,

which is a correlation. For ``log|T|`` they are sums over ``T⁻¹``. With its first column ``x = T⁻¹e₁`` the
formula of Gohberg and Semencul, ``T⁻¹ = (L(x) L(x)ᵀ − L(y) L(y)ᵀ)/x₀`` for the lower triangular Toeplitz
matrices of ``x`` and of ``y = (0, x_{m−1}, …, x₁)``, gives

    Σᵢ (T⁻¹)ᵢ,ᵢ₊ₖ = Σ_s (m − k − 2s) x_s x_{s+k} / x₀.

Columns are ``"*q m"``; a shared one may go with right-hand sides for each function, and the other way
round.
"""

from typing import Any

import torch
from jaxtyping import Float
from scipy.fft import next_fast_len
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.linalg.once import first_derivative_only


def toeplitz(column: Float[Tensor, "*q m"]) -> Float[Tensor, "*q m m"]:
    """The dense matrix ``Tᵢⱼ = c_|i−j|``.

    >>> toeplitz(torch.tensor([2.0, 1.0, 0.0]))
    tensor([[2., 1., 0.],
            [1., 2., 1.],
            [0., 1., 2.]])
    """
    return column[..., _lags(column)]


def toeplitz_matmul(column: Float[Tensor, "*qc m"], v: Float[Tensor, "*qv m p"]) -> Float[Tensor, "*q m p"]:
    """``T v`` in ``O(m log m)`` per column, by a Fourier transform; differentiable any number of times.

    >>> toeplitz_matmul(torch.tensor([2.0, 1.0, 0.0]), torch.eye(3)[:, :1]).squeeze(-1).round()
    tensor([2., 1., 0.])
    """
    _check(column, v, "v")
    m = column.shape[-1]
    n = _transform_length(m)
    gap = column.new_zeros(*column.shape[:-1], n - 2 * m + 1)
    circle = torch.cat([column, gap, column[..., 1:].flip(-1)], -1)
    eigenvalues = torch.fft.rfft(circle).real  # real, because the circle is symmetric
    product = eigenvalues[..., None] * torch.fft.rfft(v, n=n, dim=-2)
    return torch.fft.irfft(product, n=n, dim=-2)[..., :m, :]


def toeplitz_cholesky(column: Float[Tensor, "*q m"], name: str = "the Toeplitz matrix") -> Float[Tensor, "*q m m"]:
    """Lower triangular ``L`` with ``L Lᵀ = T`` in ``O(m²)``.

    The gradient takes ``O(m³)``; first derivatives only. ``name`` identifies the matrix in errors. There is
    no jitter: if you need it, add it to ``column[..., 0]``.

    >>> toeplitz_cholesky(torch.tensor([4.0, 2.0]))
    tensor([[2.0000, 0.0000],
            [1.0000, 1.7321]])
    """
    return _Cholesky.apply(column, name)


def toeplitz_solve(
    column: Float[Tensor, "*qc m"], b: Float[Tensor, "*qb m p"], name: str = "the Toeplitz matrix"
) -> Float[Tensor, "*q m p"]:
    """``T⁻¹ b`` in ``O(m²)`` per column, for positive definite ``T``. First derivatives only.

    >>> toeplitz_solve(torch.tensor([2.0, 1.0]), torch.tensor([[4.0], [5.0]])).squeeze(-1)
    tensor([1.0000, 2.0000])
    """
    _check(column, b, "b")
    return _Solve.apply(column, b, name)


def toeplitz_logdet(column: Float[Tensor, "*q m"], name: str = "the Toeplitz matrix") -> Float[Tensor, "*q"]:
    """``log|T|`` in ``O(m²)``, for positive definite ``T``. First derivatives only.

    >>> toeplitz_logdet(torch.tensor([2.0, 1.0])).exp()
    tensor(3.0000)
    """
    return _LogDet.apply(column, name)


class _Cholesky(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, column: Tensor, name: str) -> Tensor:
        factor = _schur(column, name)
        ctx.save_for_backward(factor)
        return factor

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """``∂T = L⁻ᵀ Φ(Lᵀ ∂L) L⁻¹``, Φ the lower triangle with half of the diagonal; then summed."""
        (factor,) = ctx.saved_tensors
        phi = (factor.mT @ grad.tril()).tril()
        phi.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        left = torch.linalg.solve_triangular(factor.mT, phi, upper=True)
        to_matrix = torch.linalg.solve_triangular(factor, left, upper=False, left=False)
        lags = _lags(to_matrix[..., 0]).flatten()
        to_column = torch.zeros_like(to_matrix[..., 0], memory_format=torch.contiguous_format)
        return to_column.index_add_(-1, lags, to_matrix.flatten(-2)), None


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, column: Tensor, b: Tensor, name: str) -> Tensor:
        factor = _schur(column, name)
        x = torch.cholesky_solve(b, factor)
        ctx.save_for_backward(factor, x)
        ctx.b_shape = b.shape
        return x

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        factor, x = ctx.saved_tensors
        adjoint = torch.cholesky_solve(grad, factor)
        to_column = to_b = None
        if ctx.needs_input_grad[0]:
            sums = _correlate(adjoint, x, dim=-2) + _correlate(x, adjoint, dim=-2)
            to_column = -_halve_first_(sums.sum(-1)).sum_to_size(factor.shape[:-1])
        if ctx.needs_input_grad[1]:
            to_b = adjoint.sum_to_size(ctx.b_shape)
        return to_column, to_b, None


class _LogDet(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, column: Tensor, name: str) -> Tensor:
        factor = _schur(column, name)
        if ctx.needs_input_grad[0]:
            unit = torch.zeros_like(column)[..., None]
            unit[..., 0, :] = 1
            ctx.save_for_backward(torch.cholesky_solve(unit, factor).squeeze(-1))
        return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        m = x.shape[-1]
        s = torch.arange(m, dtype=x.dtype, device=x.device)
        sums = ((m - s) * _correlate(x, x) - 2 * _correlate(s * x, x)) / x[..., :1]
        return 2 * grad[..., None] * _halve_first_(sums), None


def _schur(column: Tensor, name: str) -> Tensor:
    """The Cholesky factor by Schur's algorithm, or an error if there is none."""
    m = column.shape[-1]
    rows = column.new_zeros(*column.shape, m)  # rows of Lᵀ, for contiguous writes
    u = v = column / column[..., :1].sqrt()
    rows[..., 0, :] = u
    for k in range(1, m):
        u, v = u[..., :-1], v[..., 1:]
        rho = v[..., :1] / u[..., :1]
        root = ((1 - rho) * (1 + rho)).sqrt()
        u = (u - rho * v) / root
        v = root * v - rho * u
        rows[..., k, k:] = u
    _refuse_indefinite(rows.diagonal(dim1=-2, dim2=-1), column, name)
    return rows.mT


def _refuse_indefinite(diagonal: Tensor, column: Tensor, name: str) -> None:
    """Raise if the diagonal shows a failed step, which leaves NaN or infinity in the rest of the factor."""
    good = diagonal.isfinite() & (diagonal > 0)
    if good.all():
        return
    if not column.isfinite().all():
        raise NotPositiveDefiniteError(
            f"{name} has NaN or infinite entries in its first column. Look for missing values, or for a "
            "hyperparameter that diverged (use a smaller learning rate or a prior)"
        )
    *function, step = (~good).nonzero()[0].tolist()
    which = f" of function {function[0]}" if function else ""
    raise NotPositiveDefiniteError(
        f"{name}{which}, {column.shape[-1]} × {column.shape[-1]}, is not positive definite: its leading "
        f"block of size {step + 1} has no Cholesky factor. Add jitter or noise to the first entry of the "
        "column, shorten the lengthscale or use fewer grid points"
    )


def _correlate(a: Tensor, b: Tensor, dim: int = -1) -> Tensor:
    """``Σ_s a_s b_{s+k}`` for ``k = 0 … m − 1`` along ``dim``."""
    m = a.shape[dim]
    n = _transform_length(m)
    product = torch.fft.rfft(a, n=n, dim=dim).conj() * torch.fft.rfft(b, n=n, dim=dim)
    return torch.fft.irfft(product, n=n, dim=dim).narrow(dim, 0, m)


def _halve_first_(sums: Tensor) -> Tensor:
    """Halve the first entry: lag 0 is one diagonal, every other lag two."""
    sums[..., 0] *= 0.5
    return sums


def _transform_length(m: int) -> int:
    """The shortest length with small prime factors that holds ``m`` lags on either side."""
    return int(next_fast_len(2 * m - 1, real=True))


def _lags(column: Tensor) -> Tensor:
    steps = torch.arange(column.shape[-1], device=column.device)
    return (steps[:, None] - steps).abs()


def _check(column: Tensor, v: Tensor, name: str) -> None:
    if v.shape[-2] != column.shape[-1]:
        raise InputError(f"{name} has {v.shape[-2]} rows, but column has {column.shape[-1]} entries: they must agree")
