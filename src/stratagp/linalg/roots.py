"""Square roots ``R Rᵀ = A`` of covariance matrices, for draws: three ways for three kinds of matrix."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.linalg.cholesky import cholesky
from stratagp.linalg.pivoted import pivoted_rows


def root(a: Float[Tensor, "n n"], method: str = "cholesky", name: str = "the matrix") -> Float[Tensor, "n r"]:
    """A matrix ``R`` with ``R Rᵀ = A``.

    ``cholesky`` is the fastest and adds jitter by its policy; ``eigen`` clips negative eigenvalues to zero; ``pivoted``
    stops when only rounding is left, so a matrix of rank r gives a thin root ``n r``.

    >>> a = torch.ones(3, 3, dtype=torch.float64)
    >>> root(a, "pivoted")
    tensor([[1.],
            [1.],
            [1.]], dtype=torch.float64)
    """
    methods: dict[str, Callable[[Tensor], Tensor]] = {
        "cholesky": lambda a: cholesky(a, name),
        "eigen": lambda a: _eigen_root(a, name),
        "pivoted": pivoted_cholesky,
    }
    if method not in methods:
        raise InputError(f"method must be one of {', '.join(methods)}, got {method!r}")
    return methods[method](a)


def _eigen_root(a: Float[Tensor, "n n"], name: str) -> Float[Tensor, "n n"]:
    values, vectors = torch.linalg.eigh(a)
    if float(values[0]) < -1e-6 * float(values[-1]):
        raise NotPositiveDefiniteError(
            f"{name} has the eigenvalue {float(values[0]):.3g}, too far below zero to be rounding: its kernel is not "
            "positive semi-definite. Test it with stratagp.testing.check_kernel"
        )
    return vectors * values.clamp_min(0).sqrt()


def pivoted_cholesky(
    a: Float[Tensor, "n n"], max_rank: int | None = None, tolerance: float = 1e-12
) -> Float[Tensor, "n r"]:
    """The incomplete factor of a semi-definite matrix, one column for each of the largest remaining variances.

    Stops after ``max_rank`` columns, or when no remaining variance exceeds ``tolerance`` of the largest one.

    >>> x = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    >>> factor = pivoted_cholesky(torch.exp(-0.5 * (x - x.T).square()), max_rank=5)
    >>> factor.shape, bool((factor @ factor.T - torch.exp(-0.5 * (x - x.T).square())).abs().max() < 1e-5)
    (torch.Size([50, 5]), True)
    """
    rows, _ = pivoted_rows(a.diagonal(), lambda i: a[i], max_rank or len(a), tolerance)
    return rows.mT if len(rows) else a.new_zeros(len(a), 1)
