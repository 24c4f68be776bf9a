"""What candidates tell rows that they have not seen, and how wrong that is."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.predictive import Classes, Predictive, narrowed

_LARGEST_ERROR = 1e50  # of a model that explodes: its squares have a sum
_LEAST_DENSITY = -30.0  # nats: one row that a model thinks impossible must not decide alone
WIDTHS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)

_AS_IT_IS = WIDTHS.index(1.0)


def scores(said: Predictive | Classes, y: Float[Tensor, "h 1"]) -> tuple[Float[Tensor, "h w"], Float[Tensor, " h"]]:
    """The log density of each target at all widths, and its squared error; or probabilities, and what is wrong."""
    if isinstance(said, Classes):
        wrong = said.probabilities.argmax(1) != y[:, 0].long().numpy()
        return torch.from_numpy(said.probabilities), torch.from_numpy(wrong.astype(float))
    with np.errstate(over="ignore", invalid="ignore"):  # of a model that explodes
        gap = np.nan_to_num(said.mean - y.numpy(), nan=_LARGEST_ERROR)[:, 0]
        wrong = np.square(gap.clip(-_LARGEST_ERROR, _LARGEST_ERROR))
        as_it_is, each = _density(said, y), [narrowed(said, width) for width in WIDTHS]
        found = np.stack([as_it_is if one is said else _density(one, y) for one in each], 1)
    densities = np.clip(np.nan_to_num(found, nan=_LEAST_DENSITY), _LEAST_DENSITY, -_LEAST_DENSITY)
    return torch.from_numpy(densities), torch.from_numpy(wrong)


def mean_density(told: Float[np.ndarray, "h w"], codes: Int[np.ndarray, " h"] | None) -> float:
    """The mean log density of rows by a candidate as it is, or the log probability of their classes."""
    if codes is None:
        return float(told[:, _AS_IT_IS].mean())
    return float(Classes(told).log_density(codes).clip(_LEAST_DENSITY).mean())


def _density(said: Predictive | Classes, y: Float[Tensor, "h 1"]) -> Float[np.ndarray, " h"]:
    assert isinstance(said, Predictive)
    return said.log_density(y.numpy())[:, 0]
