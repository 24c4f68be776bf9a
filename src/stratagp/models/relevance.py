"""How much each input drives the prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import NoAttributeError
from stratagp.models.fitted import Fitted

_ROWS, _SHUFFLES = 500, 5
_QUESTIONS = 15_000  # rows that a model is asked about at most, unless columns are very many
_LEAST_ROWS = 40


def relevance(fitted: Fitted, source: Sequence[int], columns: int) -> Float[np.ndarray, " d"]:
    """The share of each column of ``X`` in the variance of the expected function, with all interactions.

    Arguments:
        source: which column of ``X`` each column that the model sees comes from; −1 for none.
        columns: how many columns ``X`` has.
    """
    origin = torch.tensor(source)
    if not (origin >= 0).any():
        raise NoAttributeError("relevance_ ranks columns, but objects and images have none")
    fitted = fitted.rough()
    most = min(_ROWS, max(_LEAST_ROWS, _QUESTIONS // (_SHUFFLES * columns)))
    points = fitted.points[:: max(1, len(fitted.points) // most)].cpu()
    expected = fitted.function(points)
    effects = np.array([_effect(fitted, points, expected, origin == j) for j in range(columns)])
    return effects / effects.sum() if effects.sum() > 0 else effects


def _effect(fitted: Fitted, points: Tensor, expected: np.ndarray, columns: Tensor) -> float:
    """``½ E (f(x) − f(x'))²`` where ``x'`` has the given columns of another row, over a few shuffles."""
    total = 0.0
    for shuffle in range(_SHUFFLES):
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(shuffle))
        other = torch.where(columns, points[order], points)
        total += float(np.mean(np.square(fitted.function(other) - expected)))
    return 0.5 * total / _SHUFFLES
