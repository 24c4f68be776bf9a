"""The contract of learning: rows and a context in, a fitted model out."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from stratagp.data import Stream
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.models.fitted import Fitted
from stratagp.models.observations import Data as Data
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


class Recipe(ABC):
    """How one kind of model is learnt."""

    @abstractmethod
    def fit(self, rows: Rows, context: FitContext) -> Fitted:
        """Learn from rows."""

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> Fitted:
        """Learn from other rows of the same table; a recipe may begin where a model of its own ended before."""
        return self.fit(rows, context)
