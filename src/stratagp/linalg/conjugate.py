"""Systems ``A x = b`` by preconditioned conjugate gradients, for matrices used only in products.

Each iteration multiplies by ``A`` once, for all columns of ``b`` together. The preconditioner is a low-rank part plus a
diagonal, ``P = RᵀR + D`` with the rows ``R`` of a pivoted Cholesky factor (Gardner et al. 2018): it removes the few
large eigenvalues of a covariance, on which conjugate gradients would spend most of their iterations.

The coefficients of the iterations are those of Lanczos' tridiagonal matrix ``T`` of ``P^-½ A P^-½``, started from
``P^-½ b``, and so the same iterations also give ``bᵀ P^-½ log(P^-½ A P^-½) P^-½ b = |P^-½ b|² e₁ᵀ log(T) e₁``: for
random ``b ~ N(0, P)`` an unbiased estimate of ``log |A| − log |P|``, up to the error of stopping early.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Product = Callable[[Tensor], Tensor]


class LowRankPlusDiagonal:
    """``P = RᵀR + diag(d)``: products with its inverse, its log determinant, and draws from ``N(0, P)``.

    P⁻¹ = D⁻¹ − D⁻¹ Rᵀ (I + R D⁻¹ Rᵀ)⁻¹ R D⁻¹,      log |P| = log |I + R D⁻¹ Rᵀ| + Σ log dᵢ

    Arguments:
        rows: ``R``, as ``r n``.
        diagonal: ``d``, positive.

    >>> p = LowRankPlusDiagonal(torch.ones(1, 2), torch.ones(2))  # [[2, 1], [1, 2]]
    >>> p.solve(torch.tensor([[3.0], [0.0]])).mT, round(float(p.log_determinant().exp()), 4)
    (tensor([[ 2.0000, -1.0000]]), 3.0)
    """

    def __init__(self, rows: Float[Tensor, "r n"], diagonal: Float[Tensor, " n"]) -> None:
        self.rows, self.diagonal = rows, diagonal
        self._half = rows / diagonal  # R D⁻¹
        inner = torch.eye(len(rows), dtype=rows.dtype, device=rows.device) + self._half @ rows.mT
        self._factor = torch.linalg.cholesky(inner)

    def solve(self, b: Float[Tensor, "n s"]) -> Float[Tensor, "n s"]:
        """``P⁻¹ b``."""
        return b / self.diagonal[:, None] - self._half.mT @ torch.cholesky_solve(self._half @ b, self._factor)

    def log_determinant(self) -> Float[Tensor, ""]:
        """``log |P|``."""
        return 2 * self._factor.diagonal().log().sum() + self.diagonal.log().sum()

    def draw(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "n s"]:
        """``count`` columns from ``N(0, P)``."""
        low, own = (
            torch.randn(size, count, generator=generator, dtype=self.rows.dtype).to(self.rows.device)
            for size in self.rows.shape
        )
        return self.rows.mT @ low + self.diagonal.sqrt()[:, None] * own


class Solution(NamedTuple):
    """Columns ``x``, the residual ``b − A x`` by the recurrence, and the coefficients of the iterations."""

    b: Float[Tensor, "n s"]
    x: Float[Tensor, "n s"]
    left: Float[Tensor, "n s"]
    steps: Float[Tensor, "k s"]
    ratios: Float[Tensor, "k2 s"]

    @property
    def iterations(self) -> int:
        """The number of products with ``A``."""
        return len(self.steps)

    @property
    def residual(self) -> Float[Tensor, " s"]:
        """``|b − A x| / |b|`` of each column; 0 if ``b`` is."""
        length = self.b.norm(dim=0)
        return torch.where(length > 0, self.left.norm(dim=0) / length, 0.0)

    def columns(self, first: int) -> "Solution":
        """The solution of all columns from ``first`` on."""
        return Solution(*(part[:, first:] for part in self))

    def quadratic(self) -> Float[Tensor, " s"]:
        """``bᵀ A⁻¹ b`` of each column, from below: too small by ``(x − A⁻¹b)ᵀ A (x − A⁻¹b)``, the square of the error.

        bᵀx + xᵀ(b − A x) = bᵀA⁻¹b − (x − A⁻¹b)ᵀ A (x − A⁻¹b),   for any ``x``.
        """
        return (self.x * (self.b + self.left)).sum(0)


def conjugate_gradients(
    product: Product,
    b: Float[Tensor, "n s"],
    solve: Product,
    tolerance: float = 1e-6,
    most: int = 1000,
    enough: float = math.inf,
    agree: Callable[[Tensor], None] | None = None,
) -> Solution:
    """``x`` with ``|b − A x| ≤ tolerance |b|`` for each column, or as close as ``most`` iterations get.

    Arguments:
        product: ``A`` times a matrix of columns, for a symmetric positive definite ``A``.
        solve: ``P⁻¹`` times a matrix of columns.
        enough: also an upper limit on ``rᵀP⁻¹r`` of the residual ``r = b − A x``. If ``A − P`` has no negative
            eigenvalue, it bounds ``rᵀA⁻¹r``, the error of the quadratic form.
        agree: makes the flags of unfinished columns equal, in place, in all processes that share the products.

    >>> a = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda v: a @ v, torch.tensor([[3.0], [4.0]]), lambda v: v).x.mT
    tensor([[1.0000, 1.0000]])
    """
    x, r, z = torch.zeros_like(b), b.clone(), solve(b)
    p, rz = z.clone(), (b * z).sum(0)
    limit = tolerance * b.norm(dim=0)
    moving = (r.norm(dim=0) > limit) | (rz > enough)
    agree = agree or (lambda flags: None)
    agree(moving)
    steps, ratios = list[Tensor](), list[Tensor]()
    while bool(moving.any()) and len(steps) < most:
        q = product(p)
        bend = (p * q).sum(0)
        step = torch.where(moving & (bend > 0), rz / bend, 0.0)
        x.addcmul_(step, p)
        r.addcmul_(step, q, value=-1)
        steps.append(step)
        z = solve(r)
        left = (r * z).sum(0)
        moving = moving & (bend > 0) & ((r.norm(dim=0) > limit) | (left > enough))
        agree(moving)
        ratio = torch.where(moving, left / rz, 0.0)
        ratios.append(ratio)
        p, rz = torch.addcmul(z, ratio, p), ratio * rz
    none = b.new_zeros(0, b.shape[1])
    return Solution(b, x, r, torch.stack(steps) if steps else none, torch.stack(ratios) if ratios else none)


def log_quadratures(found: Solution) -> Float[Tensor, " s"]:
    """``e₁ᵀ log(T) e₁`` for the tridiagonal matrix of each column's iterations; 0 if there were none.

    Tₖₖ = 1/αₖ + βₖ₋₁/αₖ₋₁,      Tₖ,ₖ₊₁ = √βₖ / αₖ    for steps ``α`` and ratios ``β``.
    """
    values = []
    for steps, ratios in zip(found.steps.unbind(1), found.ratios.unbind(1), strict=True):
        alpha = steps[: int((steps > 0).sum())]
        if not len(alpha):
            values.append(steps.new_zeros(()))
            continue
        beta = ratios[: max(0, len(alpha) - 1)]
        diagonal = 1 / alpha
        diagonal[1:] += beta / alpha[:-1]
        beside = beta.sqrt() / alpha[:-1]
        nodes, vectors = torch.linalg.eigh(diagonal.diag() + beside.diag(1) + beside.diag(-1))
        values.append((vectors[0].square() * nodes.clamp_min(torch.finfo(nodes.dtype).tiny).log()).sum())
    return torch.stack(values)
