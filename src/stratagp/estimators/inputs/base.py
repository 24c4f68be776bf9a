"""The contract of inputs: learn from the training rows how rows become points, and do the same with new ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from torch import Tensor

from stratagp.data import Source, TableEncoder
from stratagp.errors import InputError
from stratagp.kernels import Anchors, Kernel
from stratagp.recipes.base import given_kernel

RowsLike: TypeAlias = ArrayLike | Mapping[str, Any] | Sequence[object] | Source | PathLike[str]
"""What users give as ``X``: arrays and frames, views by name, lists of objects, files."""


@dataclass(frozen=True)
class Points:
    """Rows that a kernel can see, missing entries filled with what is expected of them.

    Arguments:
        values: ``n d``, or a list of objects.
        incomplete: which rows had missing entries; None where none had.
        raw: the rows before they were filled.
    """

    values: Any
    incomplete: np.ndarray | None = None
    raw: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, start: int, stop: int) -> Points:
        """Some consecutive rows."""
        return self.take(np.arange(start, min(stop, len(self))))

    def take(self, chosen: Int[np.ndarray, " r"]) -> Points:
        """Some of the rows."""
        numbers = isinstance(self.values, Tensor)
        values = self.values[torch.from_numpy(chosen)] if numbers else [self.values[i] for i in chosen]
        if self.incomplete is None or self.raw is None or not self.incomplete[chosen].any():
            return Points(values)
        return Points(values, self.incomplete[chosen], self.raw[chosen])


@dataclass(frozen=True)
class InputOptions:
    """How rows are to be read.

    Arguments:
        name: of the estimator, for messages.
        categorical: which columns are categories.
        encoding: of categories, "one-hot" or "codes".
        missing: "raise" or "impute".
        can_impute: whether the user can ask for that.
        scale: whether inputs are centred and scaled.
        texts: what to do with texts, for messages.
        view_kernels: whether the user can give kernels for columns.
        seed: of draws of missing entries, and of anchors.
        n_anchors: how many objects stand for all of a view.
        anchors: how these are chosen.
        ngrams: the columns of text that become points by their n-grams, or "auto".
        dates: "days", or "parts" for the times of the year, the week and the day as well.
    """

    name: str
    categorical: Any = "auto"
    encoding: str = "one-hot"
    missing: str = "raise"
    can_impute: bool = False
    scale: bool = False
    texts: str = ""
    view_kernels: bool = False
    seed: int = 0
    n_anchors: int = 0
    anchors: str = "random"
    ngrams: Any = ()
    dates: str = "days"


class Inputs(ABC):
    """How the inputs of a fitted estimator are read."""

    columns: list[str]
    """Names of the columns that kernels see; none for objects and images."""

    source: list[int]
    """Which column of ``X`` each of them comes from; −1 for none."""

    encoder: TableEncoder | None = None
    centre: Tensor | None = None
    scale: Tensor | None = None
    objects: bool = False
    takes_views: bool = False
    shape: tuple[int, ...] = ()
    """Of an image; empty for all else."""

    anchors: Mapping[str, Anchors] = {}
    """The objects that stand for all of a view, by its name."""

    @property
    def code_sizes(self) -> Mapping[int, int] | None:
        """How many categories each column of codes has, by its place; None where there are no codes."""
        return None if self.encoder is None or self.encoder.encoding != "codes" else self.encoder.sizes

    @abstractmethod
    def learn(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """Learn from the training rows, and return them as points; the estimator learns its columns."""

    @abstractmethod
    def points(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """New rows as points, the way the training rows were."""

    def bind(self, kernel: Kernel | None, default: Kernel) -> Kernel:
        """A copy of a kernel (or of a default one) that knows its columns and categories."""
        return given_kernel(kernel, default)

    def draws(self, points: Points, joint: bool = False) -> Float[Tensor, "s r d"]:
        """The incomplete rows, their missing entries drawn at random given the others."""
        raise InputError("only tables have missing entries that are filled")


def forget_columns(estimator: BaseEstimator) -> None:
    """Drop the number and the names of columns that an earlier fit has left."""
    for name in ("n_features_in_", "feature_names_in_"):
        estimator.__dict__.pop(name, None)
