"""Trees that were grown by scikit-learn, as tensors that model files can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stratagp.errors import InputError

_AT_ONCE = 2**21  # places in trees that are looked at together: rows times trees


@dataclass(frozen=True)
class Forest:
    """Sums of trees, ``f_{gw}(x) = c_{gw} + Σ_t v_w(leaf of x in tree t g)``, by one walk down all trees.

    At an inner node a row goes left if its feature is at most the threshold; a leaf is its own child.

    Arguments:
        feature, threshold: of each node.
        children: the nodes to the left and to the right, which come later.
        value: of each leaf, one number or several.
        roots: the first nodes of the trees, those of one sum in one column.
        offset: what each sum starts from, for each column of ``roots`` and of ``value``.
        single: whether rows are rounded to single precision before they are compared.

    >>> stump = Forest(
    ...     feature=torch.tensor([0, 0, 0]), threshold=torch.tensor([0.5, torch.inf, torch.inf]).double(),
    ...     children=torch.tensor([[1, 2], [1, 1], [2, 2]]), value=torch.tensor([[0.0], [-1.0], [1.0]]).double(),
    ...     roots=torch.tensor([[0]]), offset=torch.tensor([10.0]).double(),
    ... )
    >>> stump(torch.tensor([[0.5], [0.6]]).double())[:, 0].tolist()
    [9.0, 11.0]
    """

    feature: Int[Tensor, " nodes"] = field(repr=False)
    threshold: Float[Tensor, " nodes"] = field(repr=False)
    children: Int[Tensor, "nodes 2"] = field(repr=False)
    value: Float[Tensor, "nodes w"] = field(repr=False)
    roots: Int[Tensor, "t g"] = field(repr=False)
    offset: Float[Tensor, " gw"]
    single: bool = False

    def __post_init__(self) -> None:
        own = torch.arange(len(self.feature))[:, None]
        leaf = (self.children == own).all(1, keepdim=True)
        if not bool((leaf | (self.children > own)).all()) or not bool((self.feature >= 0).all()):
            raise InputError("children must come after their parents, and features must be numbers of columns")

    @cached_property
    def depth(self) -> int:
        """How many comparisons the longest path has."""
        level, steps = self.roots.flatten(), 0
        while True:
            below = self.children[level.long()]
            level = below[below != level[:, None]]
            if not len(level):
                return steps
            level, steps = level.unique(), steps + 1

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n gw"]:
        """The sums at rows ``x``, in chunks of constant size."""
        x = x.detach().cpu().double()
        x = x.float().double() if self.single else x
        parts = x.split(max(1, _AT_ONCE // max(1, self.roots.numel())))
        return self.offset + torch.cat([self._sums(part) for part in parts])

    def _sums(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n gw"]:
        node = self.roots.flatten().long().expand(len(x), -1)
        below = self.children.flatten()
        for _ in range(self.depth):
            right = x.gather(1, self.feature[node].long()) > self.threshold[node]
            node = below[2 * node + right].long()
        reached = self.value[node].unflatten(1, self.roots.shape)
        return reached.sum(1).flatten(1)


def of_boosting(models: Sequence[Any], n_trees: int | None = None) -> Forest:
    """The raw scores of scikit-learn's histogram boosting, those of one model after those of another.

    A regressor and a classifier of two classes have one column, others a column for each class.

    Arguments:
        models: fitted, all of the same kind and with at least ``n_trees`` iterations.
        n_trees: how many iterations to take; all where it is left out.
    """
    rounds = [model._predictors[:n_trees] for model in models]
    columns = [tree for own in rounds for tree in zip(*own, strict=True)]  # the trees of one sum
    nodes = [tree.nodes for column in columns for tree in column]
    parts = [
        _nodes(
            own["feature_idx"], own["num_threshold"], own["left"], own["right"], own["value"][:, None], own["is_leaf"]
        )
        for own in nodes
    ]
    offset = np.concatenate([np.ravel(model._baseline_prediction) for model in models])
    return _joined(parts, len(columns), offset)


def of_extra_trees(models: Sequence[Any]) -> Forest:
    """The averages of scikit-learn's extra trees, those of one model after those of another: means, or shares.

    Arguments:
        models: fitted, all of the same kind and with the same number of trees.
    """
    trees = [(own.tree_, len(model.estimators_)) for model in models for own in model.estimators_]
    parts = [
        _nodes(
            own.feature,
            own.threshold,
            own.children_left,
            own.children_right,
            own.value[:, 0] / count,
            own.children_left < 0,
        )
        for own, count in trees
    ]
    width = parts[0][3].shape[1]
    return _joined(parts, len(models), np.zeros(len(models) * width), single=True)


def _nodes(
    feature: np.ndarray, threshold: np.ndarray, left: np.ndarray, right: np.ndarray, value: np.ndarray, leaf: np.ndarray
) -> tuple[np.ndarray, ...]:
    """One tree, whose leaves are their own children."""
    own = np.arange(len(leaf))
    children = np.where(leaf[:, None], own[:, None], np.stack([left, right], 1).astype(np.int64))
    return np.where(leaf, 0, feature), np.where(leaf, np.inf, threshold), children, np.where(leaf[:, None], value, 0.0)


def _joined(parts: Sequence[tuple[np.ndarray, ...]], sums: int, offset: np.ndarray, single: bool = False) -> Forest:
    """Trees as one forest; those of one sum come one after the other."""
    starts = np.cumsum([0, *(len(part[0]) for part in parts)])
    feature, threshold, value = (np.concatenate([part[i] for part in parts]) for i in (0, 1, 3))
    children = np.concatenate([part[2] + start for part, start in zip(parts, starts[:-1], strict=True)])
    roots = starts[:-1].reshape(sums, -1).T
    whole = (torch.from_numpy(np.ascontiguousarray(each, dtype=np.int32)) for each in (feature, children, roots))
    real = (torch.from_numpy(np.ascontiguousarray(each, dtype=np.float64)) for each in (threshold, value, offset))
    (features, below, first), (at, leaves, start) = whole, real
    return Forest(features, at, below, leaves, first, start, single)
