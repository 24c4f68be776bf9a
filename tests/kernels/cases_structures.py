"""Cases of the kernels in graphs, molecules, trees, sets, alignment, signature and encoded, all by brute force."""

import copy
import math
import pickle
from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import torch

from stratagp import kernels as k
from tests.kernels.case import Case

RNG = np.random.default_rng(0)


def normalised(similarity):
    """The slow, obvious matrix of s(a, b)/√(s(a, a) s(b, b))."""

    def one(a, b):
        size = similarity(a, a) * similarity(b, b)
        return similarity(a, b) / math.sqrt(size) if size else float(similarity(a, a) == similarity(b, b))

    return lambda x, z: np.array([[one(a, b) for b in z] for a in x])


def plain(similarity):
    return lambda x, z: np.array([[similarity(a, b) for b in z] for a in x])


def dot(a, b):
    return float(sum(count * b[feature] for feature, count in a.items()))


def assert_well_behaved(kernel, objects):
    """Symmetric, definite, one on the diagonal, and the same through every way to compute it."""
    with torch.no_grad():
        gram = kernel(objects)
        assert torch.equal(gram, gram.mT) or (gram - gram.mT).abs().max() < 1e-14
        torch.testing.assert_close(gram.diagonal(), torch.ones(len(objects)).double(), rtol=0, atol=1e-12)
        values = torch.linalg.eigvalsh(gram)
        assert values[0] > -1e-10 * values[-1]
        rows = torch.arange(len(objects))[:, None]
        for other in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            assert torch.equal(other(objects), gram)
        torch.testing.assert_close(kernel.cached(objects)(rows), gram, rtol=0, atol=1e-12)
        anchors = k.Anchors(kernel + 2 * kernel, objects[:3])
        found = anchors.kernel(anchors.encode(objects), anchors.rows())
        torch.testing.assert_close(found, 3 * gram[:, :3], rtol=0, atol=1e-12)
        torch.testing.assert_close((kernel * kernel)(objects, objects[:2]), gram[:, :2] ** 2, rtol=0, atol=1e-12)
        assert kernel([], objects).shape == (0, len(objects))
        assert kernel(objects, []).shape == (len(objects), 0)


# --- graphs ---


def random_graph(rng, most=9, directed=False):
    n = int(rng.integers(0, most))
    pairs = [(i, j) for i in range(n) for j in range(n) if (directed or j < i) and i != j and rng.random() < 0.35]
    return k.Graph(
        [(i, j, str(rng.choice(["-", "="]))) for i, j in pairs], rng.choice(list("CNO"), n).tolist(), directed
    )


def neighbours(graph):
    beside = [set() for _ in graph.labels]
    for i, j, bond in graph.edges:
        beside[i].add((bond, j))
        if not graph.directed:
            beside[j].add((bond, i))
    return beside


def weisfeiler_lehman(iterations):
    """Refined labels as nested tuples, never numbered."""

    def features(graph):
        beside, labels = neighbours(graph), list(graph.labels)
        found = Counter((0, label) for label in labels)
        for step in range(1, iterations + 1):
            labels = [
                (labels[i], tuple(sorted((repr(b), repr(labels[j])) for b, j in beside[i]))) for i in range(len(labels))
            ]
            found.update((step, repr(label)) for label in labels)
        return found

    return lambda a, b: dot(features(a), features(b))


def shortest_path(nodes):
    """Floyd and Warshall's three loops."""

    def features(graph):
        n = len(graph.labels)
        far = [[0 if i == j else math.inf for j in range(n)] for i in range(n)]
        for i, beside in enumerate(neighbours(graph)):
            for _, j in beside:
                far[i][j] = min(far[i][j], 1)
        for via, i, j in product(range(n), repeat=3):
            far[i][j] = min(far[i][j], far[i][via] + far[via][j])
        pairs = [(i, j) for i, j in product(range(n), repeat=2) if far[i][j] < math.inf and (nodes or i != j)]
        return Counter((graph.labels[i], far[i][j], graph.labels[j]) for i, j in pairs)

    return lambda a, b: dot(features(a), features(b))


# --- fingerprints ---


def tanimoto(a, b):
    a, b = ({f: 1 for f in item} if isinstance(item, (set, frozenset)) else item for item in (a, b))
    a, b = (item if isinstance(item, dict) else dict(enumerate(map(float, item))) for item in (a, b))
    every = set(a) | set(b)
    most = sum(max(a.get(f, 0), b.get(f, 0)) for f in every)
    return sum(min(a.get(f, 0), b.get(f, 0)) for f in every) / most if most else 1.0


# --- trees ---


def random_tree(rng, depth=3):
    label = str(rng.choice(list("ab")))
    if depth == 0 or rng.random() < 0.25:
        return label
    return (label, *(random_tree(rng, depth - 1) for _ in range(rng.integers(1, 3))))


def nodes_of(tree):
    label, children = (tree[0], tree[1:]) if isinstance(tree, (tuple, list)) else (tree, ())
    return [(label, *children), *(node for child in children for node in nodes_of(child))]


def canonical(tree):
    return (tree[0], *map(canonical, tree[1:])) if isinstance(tree, (tuple, list)) else (tree,)


def subtree(a, b):
    return dot(*(Counter(canonical(node) for node in nodes_of(tree)) for tree in (a, b)))


def fragments(node):
    """All fragments at a node as (fragment, number of its nodes that have children)."""
    if not isinstance(node, (tuple, list)) or len(node) == 1:
        return []
    label = lambda child: child[0] if isinstance(child, (tuple, list)) else child  # noqa: E731
    options = [[((label(child),), 0), *fragments(child)] for child in node[1:]]
    return [
        ((node[0], *(part for part, _ in chosen)), 1 + sum(rules for _, rules in chosen))
        for chosen in product(*options)
    ]


def subset_tree(decay):
    """Every fragment listed and counted; Collins and Duffy's recursion is nowhere used."""

    def similarity(a, b):
        a, b = (Counter(fragment for node in nodes_of(tree) for fragment in fragments(node)) for tree in (a, b))
        return sum(decay**rules * count * b[fragment, rules] for (fragment, rules), count in a.items())

    return similarity


# --- arrays of rows ---


def mean_map(bandwidth):
    def similarity(a, b):
        pairs = [np.exp(-0.5 * np.sum(((p - q) / bandwidth) ** 2)) for p in np.array(a) for q in np.array(b)]
        return float(np.mean(pairs)) if pairs else 0.0

    return similarity


def global_alignment(bandwidth, triangular=0):
    """Every alignment walked from its end, one by one."""

    def similarity(a, b):
        def local(i, j):
            weight = max(0.0, 1 - abs(i - j) / triangular) if triangular else 1.0
            phi = weight * np.exp(-0.5 * np.sum(((a[i] - b[j]) / bandwidth) ** 2))
            return phi / (2 - phi)

        def walks(i, j):
            if i < 0 or j < 0:
                return []
            before = [walk for at in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) for walk in walks(*at)]
            return [value * local(i, j) for value in (before or [1.0])]

        return float(sum(walks(len(a) - 1, len(b) - 1)))

    return similarity


def signature(depth, time=True, base_point=False, scale=1.0):
    """Each level as a sum over ordered choices of pieces; a piece that is chosen m times has the volume 1/m!."""

    def features(path):
        path = np.asarray(path) * scale
        if base_point:
            path = np.vstack([np.zeros(path.shape[1]), path])
        if time:
            path = np.column_stack([path, np.linspace(0, 1, len(path))])
        steps, levels = np.diff(path, axis=0), [np.ones(1)]
        for level in range(1, depth + 1):
            total = np.zeros(path.shape[1] ** level)
            for chosen in combinations_with_replacement(range(len(steps)), level):
                term = np.ones(1)
                for i in chosen:
                    term = np.kron(term, steps[i])
                total += term / math.prod(math.factorial(m) for m in Counter(chosen).values())
            levels.append(total)
        return np.concatenate(levels)

    return lambda a, b: float(features(a) @ features(b))


def random_arrays(rng, count, most=5, columns=2):
    return [rng.normal(size=(int(rng.integers(1, most)), columns)) for _ in range(count)]


def rounded(sequences):
    return [np.round(item).astype(int).reshape(-1).tolist() for item in sequences]


def shared(a, b):
    return len(set(a) & set(b))


GRAPHS = [k.Graph([], []), k.Graph([], "C"), k.Graph([], "NN"), *(random_graph(RNG) for _ in range(6))]
GRAPHS += [random_graph(RNG, directed=True) for _ in range(3)]
BITS = [RNG.integers(0, 2, 12) for _ in range(7)] + [np.zeros(12)]
COUNTS = [RNG.poisson(1.5, 12) for _ in range(7)]
TREES = [("S", ("NP", "D", "N"), ("VP", "V")), "leaf", *(random_tree(RNG) for _ in range(8))]
ARRAYS = random_arrays(RNG, 8)
SHORT = random_arrays(RNG, 6, most=5)


def case(make, similarity, objects):
    return Case(make, similarity, x=objects, z=objects[1:4])


CASES: dict[str, Case] = {
    **{
        f"WeisfeilerLehman {h}": case(
            lambda h=h: k.WeisfeilerLehman(h, 1.3),
            lambda x, z, h=h: 1.3 * normalised(weisfeiler_lehman(h))(x, z),
            GRAPHS,
        )
        for h in (0, 1, 3)
    },
    "ShortestPath": case(k.ShortestPath, normalised(shortest_path(True)), GRAPHS),
    "ShortestPath plain": case(
        lambda: k.ShortestPath(nodes=False, normalise=False), plain(shortest_path(False)), GRAPHS
    ),
    "Tanimoto bits": case(lambda: k.Tanimoto(1.3), lambda x, z: 1.3 * plain(tanimoto)(x, z), BITS),
    "Tanimoto distance": case(
        lambda: k.Tanimoto(lengthscale=0.6), lambda x, z: np.exp((plain(tanimoto)(x, z) - 1) / 0.36), COUNTS
    ),
    "Subtree": case(lambda: k.Subtree(1.3), lambda x, z: 1.3 * normalised(subtree)(x, z), TREES),
    "SubsetTree": case(lambda: k.SubsetTree(0.4), normalised(subset_tree(0.4)), TREES),
    "SubsetTree plain": case(lambda: k.SubsetTree(1.0, normalise=False), plain(subset_tree(1.0)), TREES),
    "MeanMap": case(lambda: k.MeanMap(0.7), normalised(mean_map(0.7)), ARRAYS),
    "MeanMap plain": case(
        lambda: k.MeanMap([0.7, 1.9], normalise=False), plain(mean_map(np.array([0.7, 1.9]))), ARRAYS
    ),
    "GlobalAlignment": case(lambda: k.GlobalAlignment(0.7), normalised(global_alignment(0.7)), SHORT),
    "GlobalAlignment plain": case(
        lambda: k.GlobalAlignment([0.7, 1.9], 2, normalise=False),
        plain(global_alignment(np.array([0.7, 1.9]), 2)),
        SHORT,
    ),
    "Signature": case(lambda: k.Signature(3), normalised(signature(3)), SHORT),
    "Signature plain": case(
        lambda: k.Signature(4, time=False, base_point=True, scale=0.8, normalise=False),
        plain(signature(4, False, True, 0.8)),
        SHORT,
    ),
    "Encoded": case(
        lambda: k.Encoded(k.PairFunction(shared, 1.3, lengthscale=0.6), rounded),
        lambda x, z: 1.3 * np.exp((normalised(shared)(rounded(x), rounded(z)) - 1) / 0.36),
        ARRAYS,
    ),
}
