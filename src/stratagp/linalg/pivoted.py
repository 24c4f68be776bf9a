"""Incomplete Cholesky factors with pivots: each row is the one that those before it determine least."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor


def pivoted_rows(
    diagonal: Float[Tensor, " n"], row: Callable[[int], Float[Tensor, " n"]], most: int, tolerance: float = 1e-12
) -> tuple[Float[Tensor, "r n"], list[int]]:
    """Rows ``R`` with ``RᵀR ≈ A`` for a positive semi-definite ``A``, given by its diagonal and rows; and the pivots.

    The next pivot is the row with the largest remaining variance, ``Aᵢᵢ − |R·ᵢ|²``. Stops after ``most`` rows, or
    when no remaining variance exceeds ``tolerance`` of the largest one. O(n r²) operations, ``r`` rows of ``A``.

    >>> import torch
    >>> a = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])
    >>> pivoted_rows(a.diagonal(), lambda i: a[i], most=3)
    (tensor([[0., 0., 2.],
            [1., 1., 0.]]), [2, 0])
    """
    left = diagonal.clone()
    rows, chosen = left.new_zeros(min(most, len(left)), len(left)), list[int]()
    enough = tolerance * float(left.max()) if len(left) else 0.0
    while len(chosen) < len(rows):
        i, step = int(left.argmax()), len(chosen)
        if not float(left[i]) > enough:
            break
        rows[step] = (row(i) - rows[:step, i] @ rows[:step]) / left[i].sqrt()
        left = (left - rows[step].square()).clamp_min(0)
        left[i] = 0
        chosen.append(i)
    return rows[: len(chosen)], chosen
