"""Predictions of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import softmax

_LEAST = 1e-6  # probability that a product of several models reads where one says less


@dataclass(frozen=True)
class Classes:
    """The probability of each class at each row.

    >>> coin = Classes(np.array([[0.25, 0.75]]))
    >>> coin.log_density(np.array([1])).round(3).tolist()  # log ¾
    [-0.288]
    """

    probabilities: Float[np.ndarray, "n c"]

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def logs(self) -> Float[np.ndarray, "n c"]:
        """The logs of probabilities, of at least one in a million."""
        return np.log(np.maximum(self.probabilities, _LEAST))

    def log_density(self, codes: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """``log p(c)`` of each row's class, −∞ where it was thought impossible."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities[np.arange(len(codes)), codes])

    def sample(self, n_samples: int, generator: torch.Generator) -> Int[np.ndarray, "s n"]:
        """Draws of classes, by their numbers."""
        weights = torch.from_numpy(np.ascontiguousarray(self.probabilities))
        return torch.multinomial(weights, n_samples, replacement=True, generator=generator).numpy().T

    def averaged(self, versions: int) -> Classes:
        """The average over versions of the same rows, all rows of one version after those of another."""
        return Classes(self.probabilities.reshape(versions, -1, self.probabilities.shape[1]).mean(0))


def pooled(parts: Sequence[Classes], weights: Float[np.ndarray, " k"]) -> Classes:
    """``p(c) ∝ Π_k p_k(c)^w_k``.

    >>> sure, doubtful = Classes(np.array([[0.9, 0.1]])), Classes(np.array([[0.5, 0.5]]))
    >>> pooled([sure, doubtful], np.array([0.5, 0.5])).probabilities.round(3).tolist()  # odds of 3
    [[0.75, 0.25]]
    """
    return Classes(softmax(np.einsum("k,knc->nc", weights, np.stack([part.logs for part in parts])), axis=1))
