"""Rows that training does not see, and what is asked of them."""

from __future__ import annotations

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

_LEAST_SPREAD = 1e-4  # of a column as a share of its size, for single precision


def split(n: int, share: float, generator: torch.Generator, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Which of ``n`` rows are held out, and which are kept; with ``labels``, a share of each, and never all of one.

    >>> held, kept = split(10, 0.2, torch.Generator().manual_seed(0))
    >>> len(held), len(kept)
    (2, 8)
    >>> labels = torch.tensor([0] * 9 + [1])
    >>> 9 in split(10, 0.4, torch.Generator().manual_seed(0), labels)[1]  # the only row of its class
    True
    """
    order = torch.randperm(n, generator=generator)
    if labels is None:
        taken = [order[: min(max(1, round(share * n)), n - 1)]]
    else:
        own = [order[labels[order] == label] for label in labels.unique()]
        taken = [rows[: min(round(share * len(rows)), len(rows) - 1)] for rows in own]
        if not any(map(len, taken)):
            most = max(own, key=len)
            taken = [most[: min(1, len(most) - 1)]]
    held = torch.cat(taken).sort().values if share else order[:0]
    kept = torch.ones(n, dtype=torch.bool)
    kept[held] = False
    return held, kept.nonzero()[:, 0]


def warn_of_rounding(x: Float[Tensor, "n d"], columns: list[str], remedy: str) -> None:
    """Tell of columns that vary too little, beside their size, for single precision."""
    spread = x.std(0, correction=0)
    lost = (spread > 0) & (spread < _LEAST_SPREAD * x.abs().amax(0))
    if lost.any():
        names = ", ".join(repr(columns[i]) for i in lost.nonzero()[:5, 0].tolist())
        warnings.warn(
            f"single precision rounds {names}, which varies by less than {_LEAST_SPREAD:g} of its size: take {remedy}",
            stacklevel=4,
        )
