"""The engine of exact processes that are too large to be factored."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.estimators.engines import Belief, Data, TrainedBySteps, constant
from stratagp.models import IterativeGP
from stratagp.models.iterative import Estimate
from stratagp.training.checkpoint import all_tensors
from stratagp.training.world import World


class Iterative(TrainedBySteps):
    """The exact process by conjugate gradients: O(n²) an iteration."""

    model: IterativeGP
    data: Data

    def score(self, leave_one_out: bool = False) -> Float[Tensor, ""]:
        """The evidence, estimated from random columns."""
        parts, blocks = zip(self.data.y.mT, self._levels(), strict=True), self.model.blocks(self.data.x)
        return torch.stack([self.model.log_evidence(self.data.x, y, level, blocks) for y, level in parts]).sum()

    def train(self, epochs: int, seed: int, progress: bool, penalty: Callable[[], Tensor] | None) -> list[Estimate]:
        """As many steps up the evidence of all rows."""
        self._share()
        generator = torch.Generator().manual_seed(int(World().from_first(seed)))
        return self.model.fit(
            self.data.x,
            self.data.y,
            self._levels,
            steps=epochs,
            penalty=penalty,
            generator=generator,
            progress=progress,
        )

    def condition(self) -> list[Belief]:
        """The posterior of each target."""
        self._share()
        parts, x = zip(self.data.y.mT, self._levels(), self.data.noises(self.model.noise), strict=True), self.data.x
        blocks = self.model.blocks(x)
        return [Belief(self.model.condition(x, y, level, blocks), constant(own)) for y, level, own in parts]

    def _share(self) -> None:
        """Let all processes have the values of the first, to the last bit."""
        World().copy_first(all_tensors(self.model))

    def _levels(self) -> list[Float[Tensor, " n"]]:
        """The variance of each row's noise, for each target."""
        levels = self.data.noise_of(self.model.noise)
        return [self.model.noise.expand(len(self.data.y)) if level is None else level for level in levels]
