"""What the families of posteriors share: their sizes, and the way of inducing values to the rows."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError

LEAST_VARIANCE = 1e-10  # of a marginal, against rounding; as in linalg.whitened_marginals


def project(a: Float[Tensor, "*q m n"], values: Float[Tensor, "q m"]) -> Float[Tensor, "n q"]:
    """``aₙᵀ values`` at each row for each function; the projection may be shared between them.

    >>> import torch
    >>> project(torch.eye(2), torch.tensor([[1.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    return a.mT @ values.mT if a.dim() == 2 else (a.mT @ values[..., None]).squeeze(-1).mT


def check_sizes(m: int, q: int, n_components: int = 1) -> None:
    """Refuse sizes below one."""
    for name, size in (("m", m), ("q", q), ("n_components", n_components)):
        if size < 1:
            raise InputError(
                f"a posterior needs m ≥ 1 inducing values of q ≥ 1 functions (in n_components ≥ 1), got {name}={size}"
            )
