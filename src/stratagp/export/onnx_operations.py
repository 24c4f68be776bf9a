"""Operations that onnxruntime lacks in double precision, by those that it has.

With ``z = |x|`` and ``t = 2/(2 + z)``, ``erfc z = t exp(P(t) − z²)`` for a smooth ``P``, of which interpolation at 33
Chebyshev points, by the barycentric rule, has all digits, in the tails too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.special import erfcx
from torch import Tensor
from torch.overrides import TorchFunctionMode

_POINTS = 33
_SQRT2 = math.sqrt(2)


@cache
def _table() -> tuple[Tensor, Tensor]:
    """Chebyshev nodes of ``s = 2t − 1``, and the weights of the barycentric rule with and without ``P`` there."""
    angle = (2 * np.arange(_POINTS) + 1) * math.pi / (2 * _POINTS)
    nodes, weights = np.cos(angle), np.where(np.arange(_POINTS) % 2, -1.0, 1.0) * np.sin(angle)
    t = (nodes + 1) / 2
    columns = np.stack([weights * np.log(erfcx(2 / t - 2) / t), weights], 1)
    return torch.from_numpy(nodes), torch.from_numpy(columns)


def _log_erfc(z: Tensor) -> Tensor:
    """``log erfc z`` for ``z ≥ 0``: few operations, of which graphs are slow to make if they have many."""
    t = 2 / (2 + z)
    nodes, columns = (part.to(z) for part in _table())
    gap = (2 * t - 1).unsqueeze(-1) - nodes
    sums = (1 / torch.where(gap == 0, torch.finfo(z.dtype).tiny, gap)) @ columns
    return t.log() + sums[..., 0] / sums[..., 1] - z * z


def erf(x: Tensor) -> Tensor:
    """``erf x``.

    >>> round(erf(torch.tensor(0.5, dtype=torch.float64)).item(), 12)
    0.520499877813
    """
    return torch.sign(x) * (1 - _log_erfc(x.abs()).exp())


def erfc(x: Tensor) -> Tensor:
    """``1 − erf x``, with its digits in the upper tail."""
    tail = _log_erfc(x.abs()).exp()
    return torch.where(x < 0, 2 - tail, tail)


def ndtr(x: Tensor) -> Tensor:
    """The normal distribution ``Φ(x)``."""
    return 0.5 * erfc(-x / _SQRT2)


def log_ndtr(x: Tensor) -> Tensor:
    """``log Φ(x)``, with its digits in the lower tail."""
    log_tail = _log_erfc(x.abs() / _SQRT2) - math.log(2)
    return torch.where(x < 0, log_tail, torch.log(1 - log_tail.exp()))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp βx)/β``."""
    scaled = beta * x
    return (scaled.clamp_min(0) + torch.log(1 + torch.exp(-scaled.abs()))) / beta


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """``x Φ(x)``, or its approximation by a hyperbolic tangent."""
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return x * ndtr(x)


class InPlainOperations(TorchFunctionMode):
    """The functions above in place of torch's, while a graph is traced."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


_REPLACED: dict[Any, Callable[..., Tensor]] = {
    torch.erf: erf,
    torch.erfc: erfc,
    torch.special.erf: erf,
    torch.special.erfc: erfc,
    torch.special.ndtr: ndtr,
    torch.special.log_ndtr: log_ndtr,
    Tensor.erf: erf,
    Tensor.erfc: erfc,
    torch.nn.functional.softplus: softplus,
    torch.nn.functional.gelu: gelu,
}
