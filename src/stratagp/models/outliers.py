"""A model of most rows, beside which a few targets are gross mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stratagp.models.fitted import Around
from stratagp.predictive import InUnits, LocationScale, Predictive, mixture
from stratagp.predictive.mixture import Spliced
from stratagp.types import PointsLike

_DOF = 3.0  # of mistakes, whose size few rows tell


@dataclass
class OutliersModel(Around):
    """``p(y | x) = (1 − share) p₀(y | x) + share · t₃(m₀(x), width²)``, where ``p₀`` is learnt from most rows.

    Both parts have the same mean, so that mistakes widen a prediction and do not move it; ``of="f"`` asks about the
    function, which they do not touch.

    Arguments:
        model: ``p₀``, of targets less ``shift`` in units of ``scale``: those of the rows that were kept.
        shift, scale: mean and deviation of the targets that were kept.
        share: of mistakes among new targets.
        width: the standard deviation of mistakes.
        rows: all training rows.
        kept: which of them the model has learnt from.
    """

    shift: float
    scale: float
    share: float
    width: float
    rows: Float[Tensor, "n d"] = field(repr=False)
    kept: Bool[Tensor, " n"] = field(repr=False)

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The score of the model, of the rows that were kept."""
        return self.model.score(leave_one_out)

    def held_out(self) -> Predictive | None:
        """What was said of training rows unseen; no model has seen those that were left out."""
        found = self.model.held_out()
        if found is None:
            return None
        assert isinstance(found, Predictive)
        whole = self.model.predictive(self.rows)
        assert isinstance(whole, Predictive)
        return self._with_mistakes(Spliced(whole, found, self.kept.numpy()))

    def predictive(self, x: Any, of: str = "y") -> Predictive:
        """The distribution of targets, mistakes included; or of the function."""
        found = self.model.predictive(x, of)
        assert isinstance(found, Predictive)
        return self._in_units(found) if of == "f" else self._with_mistakes(found)

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The expected function."""
        return self.shift + self.scale * self.model.function(x)

    def draw(self, x: PointsLike, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Joint draws of the model; each target is a mistake with the probability ``share``."""
        drawn = self.shift + self.scale * self.model.draw(x, n_samples, of, generator)
        if of == "f":
            return drawn
        mistakes = self._mistakes(self.predictive(x).mean).sample(n_samples, generator)
        wrong = torch.rand(drawn.shape, generator=generator, dtype=torch.float64).numpy() < self.share
        return np.where(wrong, mistakes, drawn)

    def _with_mistakes(self, found: Predictive) -> Predictive:
        own = self._in_units(found)
        return mixture([own, self._mistakes(own.mean)], np.log([1 - self.share, self.share]))

    def _mistakes(self, mean: Float[np.ndarray, "n 1"]) -> LocationScale:
        return LocationScale(mean[None], np.full((1, *mean.shape), self.width**2), np.zeros(1), _DOF)

    def _in_units(self, found: Predictive) -> Predictive:
        return InUnits(found, np.array([self.shift]), np.array([self.scale]))
