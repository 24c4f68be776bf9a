"""Kernels on ordered, labelled trees: counts of shared subtrees.

A tree is a nested tuple or list ``(label, child, child, …)``; a leaf is just its label, or ``(label,)``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.objects.base import KernelCache, ObjectKernel
from stratagp.kernels.objects.counted import Counted
from stratagp.kernels.objects.encoded import parsed
from stratagp.kernels.settings import share
from stratagp.parameters import UNSET, Parameter, Value

_NODES = 4096  # of each side compared at a time

Known = dict[tuple[Hashable, tuple[int, ...]], int]


class _Forest(NamedTuple):
    """The distinct complete subtrees of a list of trees; children have lower numbers than their parents."""

    counts: sparse.csr_array  # of each subtree in each tree
    children: list[tuple[int, ...]]
    rules: np.ndarray  # a number for the label of the root and those of its children; −1 for leaves
    heights: np.ndarray


def _split(node: Any) -> tuple[Hashable, Sequence[Any]]:
    """The label of a node and its children."""
    label, children = (node[0], node[1:]) if isinstance(node, (tuple, list)) and node else (node, ())
    try:
        hash(label)
    except TypeError:
        raise InputError(
            f"a tree is (label, child, child, …) with hashable labels and a leaf is just its label; got label {label!r}"
        ) from None
    if isinstance(label, tuple):
        raise InputError(f"a tree is (label, child, child, …), but {node!r} does not start with a label")
    return label, children


def _numbers(tree: Any, known: Known) -> list[int]:
    """A number for the complete subtree below each node, equal for equal subtrees; not recursive, for deep trees."""
    found: list[int] = []
    done: list[int] = []
    stack: list[tuple[Any, bool]] = [(tree, False)]
    while stack:
        node, ready = stack.pop()
        label, children = _split(node)
        if children and not ready:
            stack.append((node, True))
            stack.extend((child, False) for child in children)
            continue
        own = tuple(done[len(done) - len(children) :][::-1])
        del done[len(done) - len(children) :]
        done.append(known.setdefault((label, own), len(known)))
        found.append(done[-1])
    return found


def _forest(trees: Sequence[Any]) -> _Forest:
    known: Known = {}
    found = [_numbers(tree, known) for tree in trees]
    rows = np.repeat(np.arange(len(trees)), [len(own) for own in found])
    columns = np.array([number for own in found for number in own], dtype=np.int64)
    counts = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(trees), max(1, len(known)))).tocsr()
    labels, children = [label for label, _ in known], [own for _, own in known]
    rules: dict[Any, int] = {}
    numbers, heights = np.full(len(known), -1), np.zeros(len(known), np.int64)
    for i, (label, own) in enumerate(known):
        if own:
            numbers[i] = rules.setdefault((label, tuple(labels[child] for child in own)), len(rules))
            heights[i] = 1 + max(heights[child] for child in own)
    return _Forest(counts, children, numbers, heights)


class Subtree(Counted, ObjectKernel):
    """Counts of complete subtrees: a node with everything below it (Vishwanathan and Smola, 2002).

        s(a, b) = Σ_t n_t(a) n_t(b),     n_t(a) the number of nodes of a with subtree t

    Leaves are subtrees too. The order of children matters.

    Arguments:
        parse: a function that turns each object into a nested tuple.

    >>> from stratagp import kernels as k
    >>> tree, other = ("S", ("NP", "D", "N"), ("VP", "V")), ("NP", "D", "N")
    >>> k.Subtree(normalise=False)([tree], [tree, other])
    tensor([[6., 3.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
        parse: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.parse = parse

    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        """How often each complete subtree occurs in each tree."""
        return _forest(parsed(objects, self.parse)).counts


class SubsetTree(ObjectKernel):
    """Counts of fragments that keep or drop all children of a node together (Collins and Duffy, 2001).

        s(a, b) = Σ_{u ∈ a, v ∈ b} Δ(u, v)
        Δ(u, v) = decay · Π_i (1 + Δ(uᵢ, vᵢ))     if u and v and their children in order have the same labels

    and 0 otherwise and at leaves. So a fragment with ``r`` nodes that have children counts ``decay^r``, and a single
    leaf has no fragment at all.

    Arguments:
        decay: above 0 and at most 1; below 1, it keeps large fragments from dominating.
        parse: a function that turns each object into a nested tuple.

    >>> from stratagp import kernels as k
    >>> tree, other = ("S", ("NP", "D", "N"), ("VP", "V")), ("NP", "D", "N")
    >>> k.SubsetTree(1.0, normalise=False)([tree], [tree, other])
    tensor([[6., 1.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        decay: float = 0.5,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
        parse: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.decay, self.parse = share(decay, "decay"), parse

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """All pairs of trees, in blocks; compares each repeated subtree only once."""
        forest = _forest(parsed(x if z is x else [*x, *z], self.parse))
        n, total = len(x), forest.counts.shape[0]
        if z is x:
            cross = self._fragments(forest, range(n), range(n))
            return KernelCache(cross, cross.diagonal(), cross.diagonal())
        own = self._own(forest)
        return KernelCache(self._fragments(forest, range(n), range(n, total)), own[:n], own[n:])

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The weighted number of fragments that each pair shares."""
        forest = _forest(parsed([*a, *b], self.parse))
        return self._fragments(forest, range(len(a)), range(len(a), len(a) + len(b)))

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The weighted number of pairs of equal fragments of each tree."""
        return self._own(_forest(parsed(a, self.parse)))

    def _own(self, forest: _Forest) -> Float[Tensor, " n"]:
        rows = range(forest.counts.shape[0])
        own = [self._fragments(forest, range(i, i + 1), range(i, i + 1))[0, 0] for i in rows]
        return torch.stack(own) if own else torch.zeros(0).double()

    def _fragments(self, forest: _Forest, left: range, right: range) -> Float[Tensor, "n m"]:
        found = np.zeros((len(left), len(right)))
        others = [(cut, forest.counts[right[cut].start : right[cut].stop]) for cut in _blocks(forest, right)]
        for cut in _blocks(forest, left):
            rows = forest.counts[left[cut].start : left[cut].stop]
            for their_cut, columns in others:
                ids, their_ids = np.unique(rows.indices), np.unique(columns.indices)
                with np.errstate(over="ignore", invalid="ignore"):
                    shared = _shared(forest, ids, their_ids, self.decay)
                    found[cut, their_cut] = (columns[:, their_ids] @ (rows[:, ids] @ shared).T).T
        if not np.isfinite(found).all():
            raise InputError("the trees have too many fragments to count: lower decay")
        return torch.from_numpy(found)

    def _settings(self) -> str:
        return ", ".join(filter(None, [f"decay={self.decay:g}", super()._settings()]))


def _blocks(forest: _Forest, trees: range) -> Iterator[slice]:
    """Slices of a range of trees, each with few nodes."""
    sizes = np.diff(forest.counts.indptr)[trees.start : trees.stop]
    start, nodes = 0, 0
    for i, size in enumerate(sizes):
        if i > start and nodes + size > _NODES:
            yield slice(start, i)
            start, nodes = i, 0
        nodes += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def _shared(forest: _Forest, left: np.ndarray, right: np.ndarray, decay: float) -> np.ndarray:
    """``Δ`` of all pairs of subtrees, in order of height, children before their parents."""
    delta = np.zeros((len(left), len(right)))
    columns: defaultdict[int, list[int]] = defaultdict(list)
    for j, rule in enumerate(forest.rules[right]):
        columns[rule].append(j)
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for i, key in enumerate(zip(forest.heights[left].tolist(), forest.rules[left].tolist(), strict=True)):
        groups[key].append(i)
    for (height, rule), rows in sorted(groups.items()):
        if height == 0 or rule not in columns:
            continue
        below, beside = (
            np.searchsorted(ids, np.array([forest.children[node] for node in ids[some]])).T
            for ids, some in ((left, rows), (right, columns[rule]))
        )
        values = np.full((len(rows), len(columns[rule])), decay)
        for child, their_child in zip(below, beside, strict=True):
            values *= 1 + delta[np.ix_(child, their_child)]
        delta[np.ix_(rows, columns[rule])] = values
    return delta
