"""The Cholesky factor of a matrix some of whose rows and columns are gone, from the factor of the whole."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_BLOCK = 64  # columns that become triangular at once, at least


def factor_without(factor: Float[Tensor, "n n"], gone: Bool[Tensor, " n"]) -> Float[Tensor, "k k"]:
    """``L'`` with ``L' L'ᵀ = A`` without the rows and columns ``gone``, where ``L Lᵀ = A``: O(n² r) for r of them.

    Without its rows, ``L`` is a triangle and r more columns. Rotations from the right, which leave ``A`` as it is, move
    these columns into the triangle, some columns after others:

        [Lⱼⱼ Vⱼ] Q = [L'ⱼⱼ 0],   [L V] ← [L V] Q in the rows below.

    Rows before the first that is gone stay as they are. Entries above the diagonal are not looked at. Works in double
    precision, and returns that of ``factor``.

    >>> whole = torch.tensor([[4.0, 2.0, 2.0], [2.0, 5.0, 3.0], [2.0, 3.0, 6.0]])
    >>> less = factor_without(torch.linalg.cholesky(whole), torch.tensor([True, False, False]))
    >>> less @ less.mT
    tensor([[5.0000, 3.0000],
            [3.0000, 6.0000]])
    """
    left, out = (~gone).nonzero()[:, 0], gone.nonzero()[:, 0]
    found = factor[left[:, None], left].tril_()
    if not len(out):
        return found
    more = factor[left[:, None], out].masked_fill(left[:, None] < out, 0.0).double()
    step = max(_BLOCK, len(out))
    for start in range(int(out[0]), len(left), step):
        b = min(step, len(left) - start)
        both = torch.cat([found[start:, start : start + b].double(), more[start:]], 1)
        rotation = torch.linalg.qr(both[:b].mT, mode="complete").Q
        both = both @ rotation
        triangle = both[:, :b] * torch.where(both.diagonal()[:b] < 0, -1.0, 1.0)
        triangle[:b].tril_()
        found[start:, start : start + b], more[start:] = triangle.to(found), both[:, b:]
    return found
