"""The contract of learning: rows and a context in, a fitted model out."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.data import Stream
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.models.fitted import Fitted
from stratagp.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class FitContext:
    """All that a fit needs to know and that is no option of the model.

    Arguments:
        seed: of everything random, the same in all processes.
        device: where values are learnt.
        checkpoint: where training by steps leaves its state.
        log: called with one line for each thing that is done.
        progress: whether to show a bar.
    """

    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint: Checkpoint | None = None
    log: Callable[[str], None] = lambda message: None
    progress: bool = False

    def generator(self) -> torch.Generator:
        """A source of random numbers, from the seed."""
        return torch.Generator().manual_seed(self.seed)


def given_kernel(kernel: Kernel | None, default: Kernel) -> Kernel:
    """A copy of the kernel, or of the default one."""
    return copy.deepcopy(default if kernel is None else kernel)


@runtime_checkable
class Views(Protocol):
    """How columns belong to views, each with a kernel of its own."""

    @property
    def views(self) -> dict[str, list[int]] | None:
        """The columns of each view by its name; None where there are no views."""

    def kernels(self, kernel: Kernel, columns: int) -> list[Kernel]:
        """A kernel for each view, on its columns: a copy of ``kernel``, or its own."""

    def anchor_points(self, columns: int) -> list[Tensor | None]:
        """The inducing points of each view of objects; None for the others."""

    def features(self, name: str) -> list[int]:
        """The columns of a view that a linear function may see."""


@dataclass
class Data:
    """Points, targets as the likelihood sees them, and what is known about the noise of each row.

    Arguments:
        x: points ``n d``, images, or a list of objects.
        y: standardised targets, or numbers of classes in one column.
        weights: how many times as precise as an average observation a row is.
        noise: known noise variances.
        extra: variance that a row has beside the noise, such as that of filled inputs.
    """

    x: Any
    y: Float[Tensor, "n p"]
    weights: Float[Tensor, " n"] | None = None
    noise: Float[Tensor, "n q"] | None = None
    extra: Float[Tensor, " n"] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def codes(self) -> Int[Tensor, " n"]:
        """The number of each row's class."""
        return self.y[:, 0].long()

    def take(self, chosen: Int[Tensor, " r"]) -> Data:
        """Some of the rows."""
        x = self.x[chosen] if isinstance(self.x, Tensor) else [self.x[i] for i in chosen.tolist()]
        rest = (None if part is None else part[chosen] for part in (self.weights, self.noise, self.extra))
        return Data(x, self.y[chosen], *rest)

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


@dataclass(frozen=True)
class Rows:
    """What a recipe learns from.

    Arguments:
        data: the rows in memory; a sample of them, where there is a stream.
        n_classes: how many classes there are; 0 where targets are numbers.
        likelihood: how targets come from latent functions; None where the recipe knows.
        columns: names of the columns that kernels see.
        bind: makes a copy of a kernel (or of a default one) that knows its columns and categories.
        views: how columns belong to views; None where the estimator knows none.
        code_sizes: how many categories each column of codes has, by its place; None where there are no codes.
        filled: which rows had missing entries, and what draws these rows.
        stream: all rows, where these do not fit in memory.
        held_out: rows that training must not see, where that was decided before.
    """

    data: Data
    n_classes: int = 0
    likelihood: Likelihood | None = None
    columns: list[str] = field(default_factory=list)
    bind: Callable[[Kernel | None, Kernel], Kernel] = given_kernel
    views: Views | None = None
    code_sizes: Mapping[int, int] | None = None
    filled: tuple[Tensor, Callable[[], Tensor]] | None = None
    stream: Stream | None = None
    held_out: Data | None = None

    @property
    def total(self) -> int:
        """How many rows training sees."""
        return len(self.data) if self.stream is None else self.stream.rows


def some_rows(n: int, most: int, seed: int) -> Int[Tensor, " r"]:
    """At most ``most`` of ``n`` rows at random, in their order."""
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most]
    return chosen.sort().values


class Recipe(ABC):
    """How one kind of model is learnt."""

    @abstractmethod
    def fit(self, rows: Rows, context: FitContext) -> Fitted:
        """Learn from rows."""
