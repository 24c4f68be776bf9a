import networkx as nx
import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from tests.kernels.cases_structures import (
    assert_well_behaved,
    normalised,
    random_graph,
    shortest_path,
    weisfeiler_lehman,
)

MANY = [random_graph(np.random.default_rng(seed), 12, directed=seed % 3 == 0) for seed in range(30)]
KERNELS = [k.WeisfeilerLehman(2), k.ShortestPath()]


@pytest.mark.parametrize(
    ("kernel", "truth"),
    [(k.WeisfeilerLehman(2), weisfeiler_lehman(2)), (k.ShortestPath(), shortest_path(True))],
    ids=["WeisfeilerLehman", "ShortestPath"],
)
def test_many_random_graphs(kernel, truth):
    np.testing.assert_allclose(kernel(MANY).detach(), normalised(truth)(MANY, MANY), rtol=0, atol=1e-12)
    assert_well_behaved(kernel, MANY)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_order_of_nodes_and_edges_does_not_matter(kernel):
    rng = np.random.default_rng(1)
    for graph in MANY[:10]:
        order = rng.permutation(len(graph.labels))
        labels = [graph.labels[int(np.flatnonzero(order == i)[0])] for i in range(len(order))]
        edges = [(int(order[i]), int(order[j]), bond) for i, j, bond in graph.edges[::-1]]
        assert kernel([graph], [k.Graph(edges, labels, graph.directed)]).item() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_graphs_without_edges_and_without_nodes(kernel):
    none, carbon, pair, oxygen = (k.Graph([], labels) for labels in ("", "C", "CC", "O"))
    gram = kernel([none, carbon, pair, oxygen, none]).detach()
    expected = [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    np.testing.assert_allclose(gram, expected, rtol=0, atol=1e-14)


def test_pairs_without_a_path_count_nothing():
    apart, joined = k.Graph([(0, 1)], "CCO"), k.Graph([(0, 1), (1, 2)], "CCO")
    kernel = k.ShortestPath(nodes=False, normalise=False)
    assert kernel([apart], [apart, joined]).tolist() == [[4.0, 4.0]]  # C-C both ways, as ordered pairs: 2 · 2
    assert k.ShortestPath(nodes=False)([k.Graph([], "C")], [apart]).item() == 0.0


def test_labels_of_edges_and_directions_tell_graphs_apart():
    single, double = (k.Graph([(0, 1, bond)], "CC") for bond in "-=")
    forth, back = k.Graph([(0, 1)], "CO", directed=True), k.Graph([(1, 0)], "CO", directed=True)
    assert k.WeisfeilerLehman(1, normalise=False)([single], [double]).item() == 4.0  # labels alone
    assert k.WeisfeilerLehman(1, normalise=False)([single], [single]).item() == 8.0
    assert k.WeisfeilerLehman(1, normalise=False)([forth], [forth, back]).tolist() == [[4.0, 2.0]]
    assert k.ShortestPath(nodes=False)([forth], [forth, back]).tolist() == [[1.0, 0.0]]


def test_an_edge_given_twice_is_one_edge():
    once, twice = k.Graph([(0, 1)], "CO"), k.Graph([(0, 1), (1, 0), (0, 1)], "CO")
    for kernel in (k.WeisfeilerLehman(2, normalise=False), k.ShortestPath(normalise=False)):
        assert kernel([once], [once]).item() == kernel([twice], [twice]).item() == kernel([once], [twice]).item()


def test_networkx_graphs_are_read_as_they_are():
    theirs = nx.Graph()
    theirs.add_nodes_from([("a", {"label": "C"}), ("b", {"label": "O"}), ("c", {})])
    theirs.add_edge("a", "b", label="=")
    theirs.add_edge("b", "c")
    ours = k.Graph([(0, 1, "="), (1, 2)], ["C", "O", None])
    assert k.as_graph(theirs) == ours
    assert k.as_graph(nx.DiGraph([(0, 1)])) == k.Graph([(0, 1)], [None, None], directed=True)
    for kernel in KERNELS:
        assert kernel([theirs], [ours]).item() == pytest.approx(1.0, abs=1e-14)


def test_regular_graphs_that_refinement_cannot_tell_apart():
    hexagon = k.Graph([(i, (i + 1) % 6) for i in range(6)], [0] * 6)
    triangles = k.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)], [0] * 6)
    assert k.WeisfeilerLehman(4)([hexagon], [triangles]).item() == pytest.approx(1.0, abs=1e-14)
    # hexagon: 6 nodes, 12 ordered pairs at 1 step, 12 at 2, 6 at 3; triangles: 6 and 12
    expected = (6 * 6 + 12 * 12) / np.sqrt((36 + 144 + 144 + 36) * (36 + 144))
    assert k.ShortestPath()([hexagon], [triangles]).item() == pytest.approx(expected, abs=1e-14)


def test_parse_is_applied_to_each_object():
    kernel = k.WeisfeilerLehman(1, parse=lambda text: k.Graph([(i, i + 1) for i in range(len(text) - 1)], text))
    plain = k.WeisfeilerLehman(1)
    chain = k.Graph([(0, 1), (1, 2)], "CCO")
    assert kernel(["CCO"], ["COC"]).item() == plain([chain], [k.Graph([(0, 1), (1, 2)], "COC")]).item()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Graph([(0, 2)], "CO"), "has a node without a label: labels cover nodes 0 to 1"),
        (lambda: k.Graph([(0, 1, "-", 2)], "CO"), "is a pair"),
        (lambda: k.Graph([(0,)], "CO"), "is a pair"),
        (lambda: k.Graph([("a", "b")], "CO"), "pairs or triples of node numbers"),
        (lambda: k.Graph([5], "CO"), "pairs or triples of node numbers"),
        (lambda: k.Graph([], [[1]]), "must be hashable"),
        (lambda: k.Graph([(0, 1, [2])], "CO"), "must be hashable"),
        (lambda: k.WeisfeilerLehman(-1), "iterations must be a whole number"),
        (lambda: k.WeisfeilerLehman()(["CCO"]), "must be Graph or networkx graphs, got str"),
        (lambda: k.ShortestPath()([np.eye(3)]), "must be Graph or networkx graphs, got ndarray"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_settings_are_shown():
    assert repr(k.WeisfeilerLehman(2)) == "WeisfeilerLehman(2, variance=1)"
    assert repr(k.ShortestPath(nodes=False)) == "ShortestPath(nodes=False, variance=1)"
    assert torch.equal(k.WeisfeilerLehman(2, 1.5).diag(MANY[:2]), torch.tensor([1.5, 1.5]).double())


def test_graphs_without_any_node():
    empty = k.Graph([], [])
    assert k.WeisfeilerLehman(2)([empty]).tolist() == [[1.0]]
    assert k.WeisfeilerLehman(2)([empty], [k.Graph([], ["C"])]).tolist() == [[0.0]]
