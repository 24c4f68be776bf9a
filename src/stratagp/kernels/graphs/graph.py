"""Kernels on graphs whose nodes and edges may have labels: counts of neighbourhoods, and of shortest paths."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from stratagp.errors import InputError
from stratagp.kernels.objects.base import ObjectKernel
from stratagp.kernels.objects.counted import Counted
from stratagp.kernels.objects.encoded import parsed
from stratagp.kernels.settings import whole
from stratagp.parameters import UNSET, Parameter, Value

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Graph:
    """A graph of nodes 0, 1, … with a label each, and the edges between them.

    An edge given twice, or in both directions of an undirected graph, counts once.

    Arguments:
        edges: pairs ``(i, j)`` of node numbers, or triples ``(i, j, label)``.
        labels: one hashable value per node; give all the same value if nodes have no labels.
        directed: whether an edge leads only from ``i`` to ``j``.

    >>> water = Graph([(0, 1), (0, 2)], ["O", "H", "H"])
    >>> len(water.labels)
    3
    """

    edges: Sequence[Any]
    labels: Sequence[Any]
    directed: bool = False

    def __post_init__(self) -> None:
        labels = tuple(self.labels)
        _check_hashable(labels, "labels")
        edges = tuple(_edge(edge, len(labels)) for edge in self.edges)
        _check_hashable([bond for _, _, bond in edges], "labels of edges")
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "edges", edges)

    def arcs(self) -> list[tuple[int, int, Hashable]]:
        """Every edge once for each node from which it leads, as ``(from, to, label)``."""
        back = () if self.directed else ((j, i, bond) for i, j, bond in self.edges)
        return list(dict.fromkeys((*self.edges, *back)))


def _check_hashable(values: Iterable[Any], name: str) -> None:
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise InputError(f"{name} of a Graph must be hashable, got {value!r}: use a tuple or a text") from None


def _edge(edge: Any, n: int) -> tuple[int, int, Any]:
    """An edge with its label, or None without one."""
    try:
        i, j, *rest = edge
        i, j = operator.index(i), operator.index(j)
    except TypeError:
        raise InputError(f"edges of a Graph are pairs or triples of node numbers, got {edge!r}") from None
    except ValueError:
        rest = [None, None]
    if len(rest) > 1:
        raise InputError(f"an edge of a Graph is a pair (i, j) or a triple (i, j, label), got {edge!r}")
    if not (0 <= i < n and 0 <= j < n):
        raise InputError(f"edge ({i}, {j}) has a node without a label: labels cover nodes 0 to {n - 1}")
    return i, j, rest[0] if rest else None


def as_graph(item: Any) -> Graph:
    """A :class:`Graph`, from a networkx graph if need be: its labels are the attribute ``label`` of nodes and edges.

    >>> as_graph(Graph([], ["C"])).labels
    ('C',)
    """
    if isinstance(item, Graph):
        return item
    if not all(hasattr(item, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(
            f"objects of a graph kernel must be Graph or networkx graphs, got {type(item).__name__}: pass parse, a "
            "function that turns each into a Graph"
        )
    nodes = list(item.nodes(data=True))
    place = {node: i for i, (node, _) in enumerate(nodes)}
    edges = [(place[i], place[j], about.get("label")) for i, j, about in item.edges(data=True)]
    return Graph(edges, [about.get("label") for _, about in nodes], bool(item.is_directed()))


class _Pool(NamedTuple):
    """All nodes of a list of graphs and their arcs, with labels as numbers from 0."""

    owners: np.ndarray  # the graph of each node
    labels: np.ndarray
    tails: np.ndarray  # the start node of each arc
    heads: np.ndarray
    bonds: np.ndarray


def _numbered(values: Iterable[Hashable]) -> np.ndarray:
    """A number from 0 for each value, equal for equal values."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _pool(graphs: Sequence[Graph]) -> _Pool:
    sizes = np.array([len(graph.labels) for graph in graphs], dtype=np.int64)
    arcs = [graph.arcs() for graph in graphs]
    starts = np.repeat(np.cumsum(sizes) - sizes, [len(own) for own in arcs])
    ends = np.array([arc[:2] for own in arcs for arc in own], dtype=np.int64).reshape(-1, 2) + starts[:, None]
    return _Pool(
        np.repeat(np.arange(len(graphs)), sizes),
        _numbered(label for graph in graphs for label in graph.labels),
        ends[:, 0],
        ends[:, 1],
        _numbered(bond for own in arcs for _, _, bond in own),
    )


def _refined(pool: _Pool, labels: np.ndarray) -> np.ndarray:
    """A number for each node's label together with the labels of its neighbours, in any order."""
    seen = pool.bonds * (labels.max(initial=0) + 1) + labels[pool.heads]
    seen = seen[np.lexsort((seen, pool.tails))]
    ends = np.cumsum(np.bincount(pool.tails, minlength=len(labels))).tolist()
    starts = [0, *ends][:-1]
    return _numbered(
        (label, seen[start:end].tobytes()) for label, start, end in zip(labels.tolist(), starts, ends, strict=True)
    )


class WeisfeilerLehman(Counted, ObjectKernel):
    """Counts of neighbourhoods of nodes up to a number of steps: the subtree kernel of Shervashidze et al. (2011).

    A node's label is refined repeatedly by the labels ``l`` of its neighbours and of the edges to them,

        l₀(v) = label of v,     l_{t+1}(v) = ( l_t(v), {{ (label of vu, l_t(u)) : u beside v }} )

    and ``s(a, b) = Σ_t Σ_c n_t(a, c) n_t(b, c)``, with ``n_t(a, c)`` the number of nodes of ``a`` whose ``l_t`` is
    ``c``, for ``t`` from 0 to ``iterations``. Neighbours in a directed graph are those that an edge leads to.

    Arguments:
        iterations: how often labels are refined; 0 compares only the counts of labels.
        parse: a function that turns each object into a :class:`Graph`, such as :func:`read_smiles`.

    >>> from stratagp import kernels as k
    >>> ethanol, ether = k.Graph([(0, 1), (1, 2)], "CCO"), k.Graph([(0, 1), (1, 2)], "COC")
    >>> k.WeisfeilerLehman(1, normalise=False)([ethanol], [ethanol, ether])
    tensor([[8., 5.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        iterations: int = 3,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
        parse: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.parse = parse
        self.iterations = whole(iterations, "iterations", 0)

    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        """How many nodes of each graph have each label, original or refined."""
        graphs = [as_graph(item) for item in parsed(objects, self.parse)]
        pool = _pool(graphs)
        labels, columns, width = pool.labels, [pool.labels], pool.labels.max(initial=-1) + 1
        for _ in range(self.iterations):
            labels = _refined(pool, labels)
            columns.append(labels + width)
            width += labels.max(initial=-1) + 1
        places = (np.tile(pool.owners, len(columns)), np.concatenate(columns))
        return sparse.coo_array((np.ones(len(places[0])), places), shape=(len(graphs), max(1, width))).tocsr()

    def _settings(self) -> str:
        return ", ".join(filter(None, [str(self.iterations), super()._settings()]))


class ShortestPath(Counted, ObjectKernel):
    """Counts of shortest paths by their length and the labels of both ends (Borgwardt and Kriegel, 2005).

        s(a, b) = Σ_{l, d, m} n(a; l, d, m) n(b; l, d, m)

    with ``n(a; l, d, m)`` the number of ordered pairs of nodes of ``a`` with labels ``l`` and ``m``, ``d`` steps apart.
    Pairs without a path do not count; labels of edges are ignored.

    Arguments:
        nodes: whether each node counts as a path of length 0, so that graphs without edges differ by their labels.
        parse: a function that turns each object into a :class:`Graph`.

    >>> from stratagp import kernels as k
    >>> ethanol, ether = k.Graph([(0, 1), (1, 2)], "CCO"), k.Graph([(0, 1), (1, 2)], "COC")
    >>> k.ShortestPath(nodes=False, normalise=False)([ethanol], [ethanol, ether])
    tensor([[8., 4.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        nodes: bool = True,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
        parse: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self.parse = parse
        self.nodes = nodes

    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        """How many pairs of nodes of each graph have each pair of labels and distance."""
        graphs = [as_graph(item) for item in parsed(objects, self.parse)]
        labels = _numbered(label for graph in graphs for label in graph.labels)
        kinds, longest = int(labels.max(initial=0)) + 1, max((len(graph.labels) for graph in graphs), default=0)
        found, start = [], 0
        for graph in graphs:
            own, start = labels[start : start + len(graph.labels)], start + len(graph.labels)
            i, j, steps = _distances(graph, self.nodes)
            found.append(np.unique((own[i] * kinds + own[j]) * longest + steps, return_counts=True))
        keys, columns = np.unique(np.concatenate([_NONE, *(keys for keys, _ in found)]), return_inverse=True)
        rows = np.repeat(np.arange(len(graphs)), [len(keys) for keys, _ in found])
        values = np.concatenate([_NONE, *(counts for _, counts in found)]).astype(float)
        return sparse.coo_array((values, (rows, columns)), shape=(len(graphs), max(1, len(keys)))).tocsr()

    def _settings(self) -> str:
        return ", ".join(filter(None, ["" if self.nodes else "nodes=False", super()._settings()]))


def _distances(graph: Graph, nodes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of nodes with a path from the first to the second, and its number of steps."""
    n = len(graph.labels)
    if n == 0:
        return (_NONE,) * 3
    ends = np.array([arc[:2] for arc in graph.arcs()], dtype=np.int64).reshape(-1, 2)
    beside = sparse.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n)).tocsr()
    steps = shortest_path(beside, method="D", unweighted=True)
    i, j = np.nonzero(np.isfinite(steps) & (nodes | ~np.eye(n, dtype=bool)))
    return i, j, steps[i, j].astype(np.int64)
