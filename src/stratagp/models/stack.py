"""A mixture of unlike models, weighted by how well each predicts rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.models.fitted import Fitted
from stratagp.models.warps import Chosen, NormalScores, Warp
from stratagp.parameterised import Parameterised
from stratagp.predictive import Classes, Predictive, mixture, narrowed, pooled
from stratagp.predictive.warped import Warped
from stratagp.predictive.whole import Whole, as_counts
from stratagp.types import PointsLike


@dataclass(frozen=True)
class Entry:
    """How a candidate did.

    Arguments:
        name: of the candidate.
        density: the mean log density of held-out rows, of standardised targets; log probability of classes and counts.
        error: root mean square error of held-out rows, of standardised targets or counts; share of wrong classes.
        weight: in the stack; 0 for those that are no members.
        rows: that it was judged after learning from.
        seconds: that it took.
    """

    name: str
    density: float
    error: float
    weight: float
    rows: int
    seconds: float


@dataclass
class Member:
    """A fitted model that sees columns, and its target, through increasing functions.

    Arguments:
        name: of the candidate it was.
        why: what its weight says about the data.
        fitted: the model.
        inputs: what columns go through; None for columns as they are.
        warp: what targets went through; None for targets as they are.
        width: the factor of the spread of what it says: a mixture of models that are right is too wide, and
            processes of few rows are too doubtful of classes.
        whole: whether it predicts real numbers, which are read as counts.
    """

    name: str
    why: str
    fitted: Fitted
    inputs: NormalScores | Chosen | None = None
    warp: Warp | None = None
    width: float = 1.0
    whole: bool = False

    def predictive(self, x: Any, of: str = "y") -> Predictive | Classes:
        """The distribution at rows ``x``, of targets as they are."""
        found = self.fitted.predictive(self._seen(x), of)
        return self._as_it_is(found, of)

    def held_out(self) -> Predictive | Classes | None:
        """What was said of training rows by models that had not seen them, where learning tells."""
        found = self.fitted.held_out()
        return None if found is None else self._as_it_is(found)

    def _as_it_is(self, found: Predictive | Classes, of: str = "y") -> Predictive | Classes:
        if self.warp is not None and isinstance(found, Predictive):
            found = Warped(found, self.warp)
        found = narrowed(found, self.width)
        return Whole(found) if self.whole and of == "y" and isinstance(found, Predictive) else found

    def function(self, x: Any) -> Float[np.ndarray, "n q"]:
        """The expected function; that of a warped target is its median."""
        found = self.fitted.function(self._seen(x))
        return found if self.warp is None else self.warp.inverse(found)

    def draw(self, x: Any, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Joint draws, of targets as they are."""
        drawn = self.fitted.draw(self._seen(x), n_samples, of, generator)
        if self.width != 1:
            found = self.fitted.predictive(self._seen(x), of)
            assert isinstance(found, Predictive)
            drawn = found.mean + self.width * (drawn - found.mean)
        drawn = drawn if self.warp is None else self.warp.inverse(drawn)
        return as_counts(drawn) if self.whole and of == "y" else drawn

    def _seen(self, x: Any) -> Any:
        return x if self.inputs is None else self.inputs(x)


class Modules(Parameterised):
    """The modules of all members."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)


@dataclass
class StackModel(Fitted):
    """``p(y | x) = Σ w_k p_k(y | x)``; of classes ``p(c | x) ∝ Π p_k(c | x)^w_k``.

    Arguments:
        members: the models.
        weights: of the members, which sum to one.
        rows: training rows.
        board: how every candidate did, the best first.
        plan: the candidates that were judged, in their order: with these names the same fit needs no clock.
        columns: names of the columns that members see.
    """

    members: list[Member]
    weights: Float[Tensor, " k"]
    rows: Any = field(repr=False)
    board: list[Entry] = field(default_factory=list)
    plan: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def module(self) -> Parameterised:
        """The modules of all members."""
        return Modules([member.fitted.module for member in self.members])

    @property
    def points(self) -> Any:
        """Training rows."""
        return self.rows

    @property
    def of_classes(self) -> bool:
        """Whether it tells probabilities of classes."""
        return isinstance(self.members[0].predictive(self.rows[:1]), Classes)

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers."""
        found = self.members[0].predictive(self.rows[:1])
        return isinstance(found, Predictive) and found.discrete

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """Not known: members are judged by held-out rows, not by evidence."""
        raise InputError("a stack has no evidence: leaderboard_ tells the held-out density of its members")

    def predictive(self, x: Any, of: str = "y") -> Predictive | Classes:
        """The mixture of the members' distributions, of classes their product; these have no function in common."""
        if of == "f" and self.of_classes:
            raise InputError("a stack of classes has no function of its own, as its members differ: ask for of='y'")
        weights = self.weights.numpy()
        parts = [member.predictive(x, of) for member in self.members]
        classes = [part for part in parts if isinstance(part, Classes)]
        if classes:
            return pooled(classes, weights)
        return mixture([part for part in parts if isinstance(part, Predictive)], np.log(weights))

    def function(self, x: PointsLike) -> Float[np.ndarray, "n q"]:
        """The average of the members' functions; probabilities of classes, whose functions are not alike."""
        if self.of_classes:
            found = self.predictive(x)
            assert isinstance(found, Classes)
            return found.probabilities
        return np.tensordot(self.weights.numpy(), np.stack([member.function(x) for member in self.members]), 1)

    def draw(self, x: Any, n_samples: int, of: str, generator: torch.Generator) -> Float[np.ndarray, "s n q"]:
        """Each draw from one member; those of trees and of likelihoods of counts are independent over rows."""
        chosen = torch.multinomial(self.weights, n_samples, replacement=True, generator=generator)
        parts = [
            member.draw(x, count, of, generator)
            for k, member in enumerate(self.members)
            if (count := int((chosen == k).sum()))
        ]
        drawn = np.concatenate(parts)
        return drawn[torch.randperm(n_samples, generator=generator).numpy()]
