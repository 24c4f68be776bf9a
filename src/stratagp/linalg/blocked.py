"""Cholesky factor and inverse of a symmetric positive definite matrix, in place, by large matrix products.

LAPACK's ``potrf`` and ``potri`` reach about half the speed of a plain matrix product. Both turn into matrix products
when done by blocks, here of rows, which suits the row-major storage of torch:

*Factor*, ``A = UᵀU``, left-looking. With the rows above block ``j`` finished,

    A[j, j:] ← A[j, j:] − U[:j, j]ᵀ U[:j, j:],      U[j, j:] = Lⱼ⁻¹ A[j, j:],   Lⱼ Lⱼᵀ = A[j, j].

*Inverse*, ``S = A⁻¹``, from ``U S = U⁻ᵀ``, which is lower triangular. From the last block upwards, with
``P = Uⱼⱼ⁻¹ U[j, j+1:]``,

    S[j, j+1:] = −P S[j+1:, j+1:],                  S[j, j] = Uⱼⱼ⁻¹ Uⱼⱼ⁻ᵀ − S[j, j+1:] Pᵀ.

Both together take n³ operations, as ``potrf`` and ``potri`` do, and no memory beyond one block of rows.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def block_size(n: int) -> int:
    """Rows in a block: small blocks waste fewer operations, large ones multiply faster."""
    return 96 if n < 1500 else 192 if n < 5000 else 512


def factor_(
    a: Float[Tensor, "n n"], block: int | None = None, tell: Callable[[float], None] = lambda done: None
) -> list[Tensor] | None:
    """Overwrite the upper triangle of ``a`` by ``U`` with ``A = UᵀU``.

    Returns the inverses ``Lⱼ⁻¹`` of the diagonal blocks, which :func:`invert_` needs, or None if ``a`` is not
    positive definite. Only the upper triangle of ``a`` is read. ``tell`` gets the share of the work that is done.
    """
    n = len(a)
    block = block or block_size(n)
    inverses = []
    for j in range(0, n, block):
        e = min(j + block, n)
        if j:
            a[j:e, j:].addmm_(a[:j, j:e].mT, a[:j, j:], alpha=-1)
        diagonal, info = torch.linalg.cholesky_ex(a[j:e, j:e].mT)
        if int(info) != 0 or not bool(diagonal.diagonal().isfinite().all()):
            return None
        eye = torch.eye(e - j, dtype=a.dtype, device=a.device)
        inverse = torch.linalg.solve_triangular(diagonal, eye, upper=False)
        inverses.append(inverse)
        a[j:e, j:e] = diagonal.mT
        a[j:e, e:] = inverse @ a[j:e, e:]
        tell((e / n) ** 2 * (3 - 2 * e / n))  # block j takes j (n − j)
    return inverses


def invert_(u: Float[Tensor, "n n"], inverses: list[Tensor]) -> None:
    """Overwrite the factor in ``u``, from :func:`factor_`, by the full symmetric inverse ``(UᵀU)⁻¹``."""
    e = len(u)
    for inverse in reversed(inverses):
        j = e - len(inverse)
        p = inverse.mT @ u[j:e, e:]
        s = u[j:e, e:]
        torch.mm(p, u[e:, e:], out=s)
        s.neg_()
        u[e:, j:e] = s.mT
        u[j:e, j:e] = (inverse.mT @ inverse).addmm_(s, p.mT, alpha=-1)
        e = j


def solve(u: Float[Tensor, "n n"], b: Float[Tensor, "n q"]) -> Float[Tensor, "n q"]:
    """``(UᵀU)⁻¹ b`` for the upper factor ``U``; ignores what is below the diagonal."""
    half = torch.linalg.solve_triangular(u.mT, b, upper=False)
    return torch.linalg.solve_triangular(u, half, upper=True)


def inverse_diagonal(u: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """The diagonal of ``(UᵀU)⁻¹``, in the precision of ``u`` and without a second matrix: n³/3 operations.

    It has the squared lengths of the columns of ``U⁻ᵀ``, which are found for some rows at a time.

    >>> inverse_diagonal(torch.tensor([[2.0, 1.0], [0.0, 2.0]]))  # of [[4, 2], [2, 5]]
    tensor([0.3125, 0.2500])
    """
    n, found = len(u), []
    for j in range(0, n, block_size(n)):
        e = min(j + block_size(n), n)
        half = torch.eye(n - j, e - j, dtype=u.dtype, device=u.device)
        for i in range(j, n, block_size(n)):
            rows, own = slice(i - j, i - j + block_size(n)), u[i : i + block_size(n), i : i + block_size(n)]
            if i > j:
                half[rows].addmm_(u[j:i, i : i + block_size(n)].mT, half[: i - j], alpha=-1)
            half[rows] = torch.linalg.solve_triangular(own.mT, half[rows], upper=False)
        found.append(half.square().sum(0))
    return torch.cat(found)
