"""Exact processes that are too large to be factored, by conjugate gradients."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import Kernel
from stratagp.models import ExactGP, IterativeGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import noise_of
from stratagp.recipes.processes import ProcessModel, TargetPosterior, check_device, settled, spread_of_filled
from stratagp.recipes.search import Centres, Criterion, Search
from stratagp.recipes.sparse import learn_from_some
from stratagp.training.checkpoint import all_tensors
from stratagp.training.start import start_from_data
from stratagp.training.world import World, join

_SOME = 2000  # rows of the exact process from whose values conjugate gradients start
_STEPS = 10


class IterativeModel(ProcessModel):
    """The exact process by conjugate gradients: O(n²) an iteration."""

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The evidence, estimated from random columns."""
        parts, blocks = zip(self.data.y.mT, self.levels(), strict=True), self.prior.blocks(self.data.x)
        return torch.stack([self.prior.log_evidence(self.data.x, y, level, blocks) for y, level in parts]).sum()

    def condition(self) -> list[TargetPosterior]:
        """The posterior of each target."""
        World().copy_first(all_tensors(self.prior))  # all processes have the values of the first, to the last bit
        parts, x = zip(self.data.y.mT, self.levels(), self.data.noises(self.prior.noise), strict=True), self.data.x
        blocks = self.prior.blocks(x)
        return [TargetPosterior(self.prior.condition(x, y, level, blocks), settled(own)) for y, level, own in parts]

    def levels(self) -> list[Float[Tensor, " n"]]:
        """The variance of each row's noise, for each target."""
        levels = self.data.row_noise(self.prior.noise)
        return [self.prior.noise.expand(len(self.data)) if level is None else level for level in levels]

    @property
    def residual(self) -> float:
        """``|y − m − C α| / |y − m|`` of the system that predictions come from."""
        return max(target.process.solved_to for target in self.draws[0])


@dataclass(frozen=True)
class IterativeRecipe(Recipe):
    """Learn an exact process by conjugate gradients, from the values of the exact process on some rows.

    Arguments:
        kernel: bound to its columns, or over objects.
        mean: the prior mean; zero if left out.
        search: how the exact process on some rows learns.
        max_epochs: steps up the evidence of all rows; None for 10.
    """

    kernel: Kernel
    mean: Any = None
    search: Search = field(default_factory=Search)
    max_epochs: int | None = None

    def fit(self, rows: Rows, context: FitContext) -> IterativeModel:
        """Start values, steps, and a solve."""
        context = replace(context, seed=int(join().from_first(context.seed)))  # processes of torchrun share the work
        data, centres = rows.data, Centres()
        start_from_data(self.kernel, data.x, data.y.mean(1))
        mean, noise = copy.deepcopy(self.mean), noise_of(data, "cg")
        learn_from_some(ExactGP(self.kernel, mean, noise), data, _SOME, self.search, context, centres)
        model = IterativeModel(IterativeGP(self.kernel, mean, noise), data)
        check_device(data.x, context)
        model.to(context.device)
        for round_ in range(1 if rows.filled is None else 2):
            if round_:
                model.data = replace(model.data, extra=spread_of_filled(model, rows))
            self._climb(model, context, centres)
            model.draws = [model.condition()]
        return model

    def _climb(self, model: IterativeModel, context: FitContext, centres: Centres) -> None:
        World().copy_first(all_tensors(model.prior))
        criterion = Criterion(self.search.criterion, model.module, model.score, centres)
        model.result = model.prior.fit(
            model.data.x,
            model.data.y,
            model.levels,
            steps=_STEPS if self.max_epochs is None else self.max_epochs,
            penalty=criterion.log_prior if self.search.criterion == "map" else None,
            generator=context.generator(),
            progress=context.progress,
        )
