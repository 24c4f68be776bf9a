"""Scores of classes whose rows are Gaussian each."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class GaussianScores:
    """``log π_c + log N(x; μ_c, Σ_c)`` but for a constant, for several folds; of two classes the difference.

    Arguments:
        middles: ``μ_c``, for each fold and class.
        whitening: ``L_c⁻¹`` where ``Σ_c = L_c L_cᵀ``.
        offset: ``log π_c − ½ log |Σ_c|``.

    >>> scores = GaussianScores(torch.tensor([[[0.0], [2.0]]]), torch.ones(1, 2, 1, 1), torch.zeros(1, 2))
    >>> scores(torch.tensor([[1.0], [2.0]])).tolist()  # the log odds of the second class
    [[0.0], [2.0]]
    """

    middles: Float[Tensor, "g k d"] = field(repr=False)
    whitening: Float[Tensor, "g k d d"] = field(repr=False)
    offset: Float[Tensor, "g k"]

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n gk"]:
        """The scores at rows ``x``, those of one fold after those of another."""
        x = x.detach().cpu().to(self.middles)
        apart = torch.stack([self._distances(x, g) for g in range(len(self.middles))], 1)
        scores = self.offset - 0.5 * apart
        return (scores[..., 1:] - scores[..., :1] if scores.shape[2] == 2 else scores).flatten(1)

    def _distances(self, x: Float[Tensor, "n d"], fold: int) -> Float[Tensor, "n k"]:
        pairs = zip(self.middles[fold], self.whitening[fold], strict=True)
        return torch.stack([((x - middle) @ root.mT).square().sum(1) for middle, root in pairs], 1)
