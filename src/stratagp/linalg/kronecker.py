"""Kronecker products ``A = A₁ ⊗ … ⊗ A_D`` that are never formed.

With factors of size ``m_d`` and ``m = Π_d m_d``, a vector of ``m`` numbers is an array of ``m₁ × … × m_D``
in row-major order (the last factor runs fastest, as in ``torch.kron``), and ``A`` acts on each axis by one
factor:

    (A₁ ⊗ A₂) vec(E) = vec(A₁ E A₂ᵀ),

which costs ``O(m Σ_d m_d)`` for one vector instead of ``m²``. One matrix product handles an axis and moves
it to the end, so that after ``D`` of them the axes are back in order.

Factors are a list of matrices ``m_d m_d``, or ``q m_d m_d`` with a function axis; shared and separate factors
mix. A Cholesky factor is lower triangular with a positive diagonal; what is above its diagonal is
ignored.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError

Factors = Sequence[Float[Tensor, "... _rows _columns"]]


def kron(factors: Factors) -> Float[Tensor, "*q r m"]:
    """The dense product ``A₁ ⊗ … ⊗ A_D``, for small sizes and for checking.

    >>> kron([torch.tensor([[1.0, 2.0]]), torch.eye(2)])
    tensor([[1., 0., 2., 0.],
            [0., 1., 0., 2.]])
    """
    _check(factors, "factors", square=False)
    return reduce(_kron_pair, factors)


def kron_diag(factors: Factors) -> Float[Tensor, "*q m"]:
    """The diagonal of ``A₁ ⊗ … ⊗ A_D``: the Kronecker product of the diagonals.

    >>> kron_diag([torch.tensor([[1.0, 9.0], [9.0, 2.0]]), torch.tensor([[3.0, 9.0], [9.0, 4.0]])])
    tensor([3., 4., 6., 8.])
    """
    _check(factors, "factors")
    return kron([a.diagonal(dim1=-2, dim2=-1)[..., None] for a in factors]).squeeze(-1)


def kron_matmul(factors: Factors, v: Float[Tensor, "*qv m p"]) -> Float[Tensor, "*q r p"]:
    """``(A₁ ⊗ … ⊗ A_D) v``, with factors of any shape ``r_d m_d``.

    >>> a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> kron_matmul([a, b], torch.arange(4.0)[:, None]).squeeze(-1)
    tensor([7., 4.])
    """
    _check(factors, "factors", square=False)
    return _along_each_axis(factors, v, lambda a, x: x.mT @ a.mT)


def kron_triangular_solve(
    factors: Factors, v: Float[Tensor, "*qv m p"], upper: bool = False
) -> Float[Tensor, "*q m p"]:
    """``(A₁ ⊗ … ⊗ A_D)⁻¹ v`` for triangular factors, all lower or, with ``upper``, all upper.

    >>> a = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> kron_triangular_solve([a, a], torch.tensor([[4.0], [4.0], [4.0], [4.0]])).squeeze(-1)
    tensor([1., 1., 1., 1.])
    """
    _check(factors, "factors")
    return _along_each_axis(factors, v, lambda a, x: torch.linalg.solve_triangular(a, x, upper=upper).mT)


def kron_solve(cholesky_factors: Factors, v: Float[Tensor, "*qv m p"]) -> Float[Tensor, "*q m p"]:
    """``K⁻¹ v`` for ``K = ⊗_d L_d L_dᵀ``, given the Cholesky factors ``L_d``.

    >>> kron_solve([2 * torch.eye(2), torch.eye(3)], torch.ones(6, 1)).squeeze(-1)
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500])
    """
    _check(cholesky_factors, "cholesky_factors")
    return _along_each_axis(cholesky_factors, v, lambda a, x: _cholesky_solve(a, x).mT)


def kron_logdet(cholesky_factors: Factors) -> Float[Tensor, "*q"]:
    """``log|K| = 2 Σ_d (m/m_d) Σ_p log L_d,pp`` for ``K = ⊗_d L_d L_dᵀ``, given the Cholesky factors ``L_d``.

    >>> kron_logdet([2 * torch.eye(2), torch.eye(3)]) / math.log(2.0)
    tensor(12.)
    """
    _check(cholesky_factors, "cholesky_factors")
    m = math.prod(a.shape[-1] for a in cholesky_factors)
    terms = [(2 * m // a.shape[-1]) * _diagonal(a).log().sum(-1) for a in cholesky_factors]
    return reduce(torch.add, terms)


def kron_trace(factors: Factors) -> Float[Tensor, "*q"]:
    """``tr(A₁ ⊗ … ⊗ A_D) = Π_d tr A_d``.

    >>> kron_trace([torch.eye(2), torch.eye(3)])
    tensor(6.)
    """
    _check(factors, "factors")
    return reduce(torch.mul, [_diagonal(a).sum(-1) for a in factors])


def kron_trace_solve(prior_factors: Factors, scale_factors: Factors) -> Float[Tensor, "*q"]:
    """``tr(K⁻¹S)`` from the Cholesky factors of ``K_d = L_d L_dᵀ`` and ``S_d = T_d T_dᵀ``.

    ``tr(K⁻¹S) = Π_d tr(K_d⁻¹S_d) = Π_d ‖L_d⁻¹T_d‖²``, in the Frobenius norm.

    >>> kron_trace_solve([torch.eye(2), 2 * torch.eye(3)], [3 * torch.eye(2), 2 * torch.eye(3)])
    tensor(54.)
    """
    _check_pair(prior_factors, scale_factors)
    ratios = [
        torch.linalg.solve_triangular(prior, scale.tril(), upper=False)
        for prior, scale in zip(prior_factors, scale_factors, strict=True)
    ]
    return reduce(torch.mul, [ratio.square().sum((-2, -1)) for ratio in ratios])


def kron_gaussian_kl(
    mean: Float[Tensor, "*qm m"], scale_factors: Factors, prior_factors: Factors
) -> Float[Tensor, "*q"]:
    """``KL(N(μ, S) ‖ N(0, K))`` for ``S = ⊗_d T_d T_dᵀ`` and ``K = ⊗_d L_d L_dᵀ``, one for each function.

    ``½ { log|K| − log|S| − m + tr(K⁻¹S) + |L⁻¹μ|² }`` at the cost of triangular solves with the factors.

    >>> kron_gaussian_kl(torch.ones(4), [torch.eye(2), torch.eye(2)], [torch.eye(2), torch.eye(2)])
    tensor(2.)
    """
    trace = kron_trace_solve(prior_factors, scale_factors)
    quadratic = kron_triangular_solve(prior_factors, mean[..., None]).square().sum((-2, -1))
    log_ratio = kron_logdet(prior_factors) - kron_logdet(scale_factors)
    return 0.5 * (log_ratio - mean.shape[-1] + trace + quadratic)


def _along_each_axis(factors: Factors, v: Tensor, act: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """For each axis in turn, ``act(a, x)`` maps ``x "m_d rest"`` to the transposed result, ``"rest r_d"``.

    The axes of ``v`` begin as ``m₁ … m_D p``; each step moves the first to the end: ``p r₁ … r_D`` is left.
    """
    p, m = v.shape[-1], math.prod(a.shape[-1] for a in factors)
    if v.shape[-2] != m:
        sizes = " × ".join(str(a.shape[-1]) for a in factors)
        raise InputError(f"v has {v.shape[-2]} rows, but the factors have {sizes} = {m} columns: they must agree")
    for a in factors:
        v = act(a, v.reshape(*v.shape[:-2], a.shape[-1], -1))
    return v.reshape(*v.shape[:-2], p, math.prod(a.shape[-2] for a in factors)).mT


def _kron_pair(a: Tensor, b: Tensor) -> Tensor:
    blocks = a[..., :, None, :, None] * b[..., None, :, None, :]
    return blocks.reshape(*blocks.shape[:-4], a.shape[-2] * b.shape[-2], a.shape[-1] * b.shape[-1])


def _cholesky_solve(factor: Tensor, x: Tensor) -> Tensor:
    half = torch.linalg.solve_triangular(factor, x, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


def _diagonal(a: Tensor) -> Tensor:
    return a.diagonal(dim1=-2, dim2=-1)


def _check(factors: Factors, name: str, square: bool = True) -> None:
    if not len(factors):
        raise InputError(f"{name} is empty: a Kronecker product needs at least one factor")
    for d, a in enumerate(factors):
        if a.dim() < 2 or (square and a.shape[-1] != a.shape[-2]):
            kind = "square matrix" if square else "matrix"
            raise InputError(f"{name}[{d}] must be a {kind} (or one for each function), got shape {tuple(a.shape)}")


def _check_pair(prior_factors: Factors, scale_factors: Factors) -> None:
    _check(prior_factors, "prior_factors")
    _check(scale_factors, "scale_factors")
    prior, scale = ([a.shape[-1] for a in factors] for factors in (prior_factors, scale_factors))
    if prior != scale:
        raise InputError(f"prior_factors have sizes {prior} but scale_factors {scale}: they must agree one by one")
