"""Expectations of kernels under Gaussian inputs ``x ~ N(μ, Σ)``, the psi statistics:

    psi0 = E k(x, x)        psi1 = E k(x, z)        psi2 = E k(x, z) k(x, z')

As functions of ``x`` the RBF, linear and constant kernels, their sums and most of their products are sums of terms

    f(x, z) = scale · exp(−½ (x − z)ᵀ P (x − z)) · Π_l Σ_d slope_ld x_d z_d.

The exponentials of two terms combine into one. With ``S = A + B``, pull ``p = A z + B w`` and centre ``c = S⁻¹p``,

    (x−z)ᵀA(x−z) + (x−w)ᵀB(x−w) = (x−c)ᵀS(x−c) + (z−w)ᵀ A S⁻¹ B (z−w).

The first part integrates to a number, and tilts ``x`` to another Gaussian that averages the slopes:

    E exp(−½ (x−c)ᵀS(x−c)) = |I + ΣS|^(−½) exp(−½ (μ−c)ᵀW(μ−c)),   W = S(I + ΣS)⁻¹
    x | tilt ~ N((I + ΣS)⁻¹(μ + Σp), V),                           V = (I + ΣS)⁻¹Σ.

``Σ⁻¹`` appears nowhere, so everything holds down to ``Σ = 0``. This one formula gives psi2, every cross term
of a sum, and psi1 (the second term being 1). Exponents and averages are products of a matrix for the points
with one for the pairs ``(z, w)``, as in ``(μ−c)ᵀW(μ−c) = [W, −2Wμ, μᵀWμ]·[ccᵀ, c, 1]``, so nothing has the
size ``n × m × m × d``; points are centred first, to keep the digits that the expansion would lose.
``P`` is stored as ``1 d`` if it is diagonal, otherwise as ``d d``.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import UnsupportedError
from stratagp.linalg.shapes import broadcast_shapes
from stratagp.types import Gaussian

if TYPE_CHECKING:
    from stratagp.kernels.base import Kernel


class Term(NamedTuple):
    """``scale · exp(−½ (x−z)ᵀP(x−z)) · Π_l Σ_d slope_ld x_d z_d``; no two slopes share a column.

    >>> Term(torch.ones(()), torch.ones(1, 2)).slopes
    ()
    """

    scale: Float[Tensor, "..."]
    precision: Float[Tensor, "*q r d"]  # r = 1: the diagonal of P; r = d: all of it
    slopes: tuple[Float[Tensor, "*q 1 d"], ...] = ()


def psi0(terms: list[Term], q: Gaussian) -> Float[Tensor, "*q n"]:
    """``E k(x, x)`` of the sum of some terms."""
    return reduce(torch.add, [_at_itself(term, q) for term in terms])


def psi1(terms: list[Term], q: Gaussian, z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
    """``E k(x, z)``."""
    one = Term(z.new_ones(()), torch.zeros_like(z[..., :1, :]))
    return reduce(torch.add, [_expect(term, one, q, z, z) for term in terms])


def psi1_along(
    terms: list[Term], q: Gaussian, z: Float[Tensor, "*qz m d"], direction: Float[Tensor, " d"]
) -> Float[Tensor, "*q n m"]:
    """``E (direction·x) k(x, z)``."""
    line = Term(z.new_ones(()), torch.zeros_like(z[..., :1, :]), (direction.expand(1, -1),))
    ones = torch.ones_like(z)
    return reduce(torch.add, [_expect(term, line, q, z, ones) for term in terms])


def psi2_pairs(terms: list[Term], q: Gaussian, z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n p"]:
    """Each entry of psi2 once, for the ``p = m (m + 1)/2`` pairs of :func:`from_pairs`: half the work."""
    i, j = torch.tril_indices(*[z.shape[-2]] * 2, device=z.device)
    first, second = z[..., i, :], z[..., j, :]
    squares = [_expect(f, f, q, first, second) for f in terms]
    crosses = [
        _expect(f, g, q, *ends) for f, g in combinations(terms, 2) for ends in ((first, second), (second, first))
    ]
    return reduce(torch.add, squares + crosses)


def from_pairs(values: Float[Tensor, "*q p"]) -> Float[Tensor, "*q m m"]:
    """A symmetric matrix from its entries ``i ≥ j``, row by row.

    >>> from_pairs(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 2.],
            [2., 3.]])
    """
    m = int((2 * values.shape[-1]) ** 0.5)
    i, j = torch.tril_indices(m, m)
    place = torch.empty(m, m, dtype=torch.long)
    place[i, j] = place[j, i] = torch.arange(len(i))
    return values[..., place.to(values.device)]


def terms_of(kernel: Kernel, dim: int) -> list[Term]:
    """The terms of a kernel on ``dim`` columns; an error names a kernel that has none."""
    kernel._check_columns(dim)
    return kernel.terms(dim)


def row(value: Float[Tensor, "..."], dim: int) -> Float[Tensor, "*q 1 dim"]:
    """A parameter as one entry for each column; its value is ``()``, ``d``, ``q 1 1`` or ``q 1 d``."""
    return value.expand(*value.shape[:-2], 1, dim)


def multiply(first: list[Term], second: list[Term]) -> list[Term]:
    """The terms of the product of two kernels: scales multiply, precisions add, slopes collect."""
    return [_times_term(f, g) for f in first for g in second]


def spread(term: Term, columns: list[int], dim: int) -> Term:
    """A term on some columns as one on all ``dim`` columns."""
    if len(set(columns)) < len(columns):
        raise UnsupportedError(f"columns {columns} repeat, so expectations do not factorise: name each column once")
    index = torch.tensor(columns, device=term.scale.device)
    wide = _scatter(term.precision, index, dim)
    if _is_full(term.precision):
        wide = _scatter(wide.mT, index, dim).mT
    return Term(term.scale, wide, tuple(_scatter(slope, index, dim) for slope in term.slopes))


def _scatter(values: Tensor, index: Tensor, dim: int) -> Tensor:
    return values.new_zeros(*values.shape[:-1], dim).index_copy(-1, index, values)


def _times_term(f: Term, g: Term) -> Term:
    if any(_overlap(a, b) for a in f.slopes for b in g.slopes):
        raise UnsupportedError(
            "products of two linear kernels on the same column have no expectation here: put them on different columns "
            "with .on(…), or keep one of them"
        )
    a, b = _alike(f.precision, g.precision)
    return Term(f.scale * g.scale, a + b, f.slopes + g.slopes)


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two slopes share a column."""
    return bool(((a != 0) & (b != 0)).any())


def _at_itself(term: Term, q: Gaussian) -> Float[Tensor, "*q n"]:
    """``E f(x, x) = scale · Π_l Σ_d slope_ld (μ_d² + σ_d²)``."""
    value = term.scale * torch.ones_like(q.mean[..., :1])
    for slope in term.slopes:
        value = value * (slope * (q.mean.square() + q.var)).sum(-1, keepdim=True)
    return value.squeeze(-1)


def _expect(
    f: Term, g: Term, q: Gaussian, z: Float[Tensor, "*qz p d"], w: Float[Tensor, "*qz p d"]
) -> Float[Tensor, "*q n p"]:
    """``E f(x, zᵢ) g(x, wᵢ)`` for each row of ``q`` and each pair ``i``: the module's formula."""
    A, B = _alike(f.precision, g.precision)
    S = A + B
    origin = z.detach().reshape(-1, z.shape[-1]).mean(0)
    gap = z - w
    apart = (_times(gap, A) * _divide(_times(gap, B), S)).sum(-1, keepdim=True)
    pull = _times(z - origin, A) + _times(w - origin, B)
    centre = _divide(pull, S)
    pairs = _beside(_outer(centre, centre, S), centre, torch.ones_like(apart), (f.scale * g.scale).log() - 0.5 * apart)
    tilt = _tilt(Gaussian(q.mean - origin, q.var), S)
    value = (tilt.exponent @ pairs.mT).exp()
    if not f.slopes and not g.slopes:
        return value

    def mean(r: Tensor) -> Tensor:  # E r·x, with x = origin + its centred part
        return tilt.affine @ _beside(r, _outer(r, pull, S), (r * origin).sum(-1, keepdim=True)).mT

    left, right = [slope * z for slope in f.slopes], [slope * w for slope in g.slopes]
    matches = _match(f.slopes, g.slopes, S)
    for i, j in matches:
        value = value * (mean(left[i]) * mean(right[j]) + tilt.cov @ _outer(left[i], right[j], S).mT)
    alone = [r for i, r in enumerate(left) if i not in {i for i, _ in matches}]
    alone += [r for j, r in enumerate(right) if j not in {j for _, j in matches}]
    for r in alone:
        value = value * mean(r)
    return value


class _Tilt(NamedTuple):
    """Each point's factor in the products; a matrix takes ``d`` columns if it is diagonal, else ``d²``."""

    exponent: Float[Tensor, "*q n e"]  # [−½W, Wμ, −½μᵀWμ − ½log|I + ΣS|, 1]
    affine: Float[Tensor, "*q n a"]  # [(I + ΣS)⁻¹μ, V, 1]
    cov: Float[Tensor, "*q n v"]  # V


def _tilt(q: Gaussian, S: Tensor) -> _Tilt:
    if _is_full(S):
        K = torch.eye(S.shape[-1]).to(S) + q.var.unsqueeze(-1) * S.unsqueeze(-3)
        inverse = torch.linalg.inv(K)  # small and well conditioned: the eigenvalues of K are at least 1
        W = S.unsqueeze(-3) @ inverse
        mean, weighted = _apply(inverse, q.mean), _apply(W, q.mean)
        W, V = W.flatten(-2), (inverse * q.var.unsqueeze(-2)).flatten(-2)
        logdet = torch.linalg.slogdet(K)[1].unsqueeze(-1)
    else:
        shrink = 1 / (1 + q.var * S)
        W, V, mean = S * shrink, q.var * shrink, q.mean * shrink
        weighted = W * q.mean
        logdet = torch.log1p(q.var * S).sum(-1, keepdim=True)
    constant = -0.5 * ((q.mean * weighted).sum(-1, keepdim=True) + logdet)
    one = torch.ones_like(constant)
    return _Tilt(_beside(-0.5 * W, weighted, constant, one), _beside(mean, V, one), V)


def _match(left: tuple[Tensor, ...], right: tuple[Tensor, ...], S: Tensor) -> list[tuple[int, int]]:
    """Which slopes of two terms depend on each other: those that share a column, with at most one partner each."""
    full = _is_full(S)
    pairs = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if full or _overlap(a, b)]
    simple = len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    if not simple or (full and max(len(left), len(right)) > 1):
        raise UnsupportedError(
            "products of more than two linear kernels on shared columns have no expectation here: use fewer linear "
            "factors, or put them on the same columns in every part of the sum"
        )
    return pairs


# --- small matrices, stored as ``1 d`` if they are diagonal ---


def _is_full(P: Tensor) -> bool:
    return P.shape[-2] > 1


def _alike(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both matrices in one layout: diagonal if both are, else full."""
    if _is_full(A) == _is_full(B):
        return A, B
    return (A, B.squeeze(-2).diag_embed()) if _is_full(A) else (A.squeeze(-2).diag_embed(), B)


def _times(x: Float[Tensor, "*qx p d"], P: Tensor) -> Float[Tensor, "*q p d"]:
    return x @ P if _is_full(P) else x * P


def _divide(x: Float[Tensor, "*qx p d"], S: Tensor) -> Float[Tensor, "*q p d"]:
    """``S⁻¹x``, zero in columns where ``S`` is zero."""
    if not _is_full(S):
        return x / (S + (S == 0))
    unused = (S.diagonal(dim1=-2, dim2=-1) == 0).to(S).diag_embed()
    return torch.linalg.solve(S + unused, x.mT).mT


def _apply(matrix: Float[Tensor, "*qm n d d"], x: Float[Tensor, "*qx n d"]) -> Float[Tensor, "*q n d"]:
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def _outer(x: Float[Tensor, "*qx p d"], y: Float[Tensor, "*qy p d"], S: Tensor) -> Float[Tensor, "*q p f"]:
    """``x yᵀ`` in the layout of ``S``: its diagonal, or all entries in a row."""
    return (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2) if _is_full(S) else x * y


def _beside(*blocks: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Blocks side by side, after broadcasting all axes but the last."""
    shapes = [block.shape[:-1] for block in blocks]
    if any(shape != shapes[0] for shape in shapes):  # not called otherwise: the n of a traced graph has no value
        shape = broadcast_shapes(*shapes)
        blocks = tuple(block.expand(*shape, block.shape[-1]) for block in blocks)
    return torch.cat(blocks, -1)
