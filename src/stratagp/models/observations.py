"""The rows that a model is learnt from, as kernels and likelihoods see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass
class Data:
    """Points, targets as the likelihood sees them, and what is known about the noise of each row.

    Arguments:
        x: points ``n d``, images, or a list of objects.
        y: standardised targets, or numbers of classes in one column.
        weights: how many times as precise as an average observation a row is.
        noise: known noise variances.
        extra: variance that a row has beside the noise, such as that of filled inputs.
        order: the place of each row where new rows will be later than these.
        groups: the group of each row where new rows will be of other groups.
    """

    x: Any
    y: Float[Tensor, "n p"]
    weights: Float[Tensor, " n"] | None = None
    noise: Float[Tensor, "n q"] | None = None
    extra: Float[Tensor, " n"] | None = None
    order: Float[Tensor, " n"] | None = None
    groups: Int[Tensor, " n"] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def codes(self) -> Int[Tensor, " n"]:
        """The number of each row's class."""
        return self.y[:, 0].long()

    def take(self, chosen: Int[Tensor, " r"]) -> Data:
        """Some of the rows."""
        x = self.x[chosen] if isinstance(self.x, Tensor) else [self.x[i] for i in chosen.tolist()]
        parts = (self.weights, self.noise, self.extra, self.order, self.groups)
        rest = (None if part is None else part[chosen] for part in parts)
        return Data(x, self.y[chosen], *rest)

    def joined(self, more: Data) -> Data:
        """These rows and others of the same kind; a row has weight 1 and nothing extra where that was not given."""
        x = torch.cat([self.x, more.x]) if isinstance(self.x, Tensor) else [*self.x, *more.x]
        noise = None if self.noise is None or more.noise is None else torch.cat([self.noise, more.noise])
        weights, extra = _joined(self, more, "weights", 1.0), _joined(self, more, "extra", 0.0)
        return Data(x, torch.cat([self.y, more.y]), weights, noise, extra)

    def without(self, gone: Int[Tensor, " r"]) -> Data:
        """All but some of the rows."""
        left = torch.ones(len(self), dtype=torch.bool, device=gone.device).index_fill(0, gone, False)
        return self.take(left.nonzero()[:, 0])

    def some(self, most: int, seed: int) -> Data:
        """At most ``most`` rows at random, in their order."""
        return self.take(some_rows(len(self), most, seed))

    def to(self, device: torch.device) -> Data:
        """The rows on a device; objects, which are no tensors, stay."""
        moved = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **moved)

    def noises(self, noise: Tensor) -> list[Float[Tensor, ""]]:
        """The noise variance of each target."""
        return list(noise.expand(self.y.shape[1]))

    def row_noise(self, noise: Tensor) -> list[Float[Tensor, " n"] | None]:
        """The variance of each row's noise, for each target; None where it is the model's for all rows."""
        if self.noise is None and self.weights is None and self.extra is None and self.y.shape[1] == 1:
            return [None]
        levels: list[Any] = []
        for j, own in enumerate(self.noises(noise)):
            level = own.expand(len(self.y)) if self.noise is None else self.noise[:, j]
            level = level if self.weights is None else level / self.weights
            levels.append(level if self.extra is None else level + self.extra)
        return levels


def _joined(one: Data, other: Data, name: str, default: float) -> Float[Tensor, " n"] | None:
    """What is known of each row of both; None where it is known of neither."""
    parts = [getattr(each, name) for each in (one, other)]
    if parts[0] is parts[1] is None:
        return None
    both = zip((one, other), parts, strict=True)
    return torch.cat([each.y.new_full((len(each),), default) if part is None else part for each, part in both])


def some_rows(n: int, most: int, seed: int) -> Int[Tensor, " r"]:
    """At most ``most`` of ``n`` rows at random, in their order."""
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most]
    return chosen.sort().values
