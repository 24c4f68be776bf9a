import csv
import gzip
import importlib.util

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.graphs import molecules
from tests.kernels.cases_structures import assert_well_behaved, plain, tanimoto

RNG = np.random.default_rng(5)
BITS = [RNG.integers(0, 2, 30) for _ in range(20)]
COUNTS = [RNG.poisson(1.0, 30) for _ in range(20)]
WEIGHTS = [RNG.gamma(0.5, size=30) * RNG.integers(0, 2, 30) for _ in range(20)]
LARGE = [RNG.poisson(100.0, 30) for _ in range(20)]
DICTS = [{int(i): int(item[i]) for i in np.flatnonzero(item)} for item in COUNTS]
SETS = [{f"f{i}" for i in np.flatnonzero(item)} for item in BITS]

needs_rdkit = pytest.mark.skipif(
    importlib.util.find_spec("rdkit") is None, reason="RDKit is not installed: pip install 'stratagp[molecules]'"
)


@pytest.mark.parametrize(
    "objects",
    [BITS, COUNTS, WEIGHTS, LARGE, DICTS, SETS],
    ids=["bits", "counts", "weights", "large", "mappings", "sets"],
)
def test_every_kind_of_fingerprint(objects, monkeypatch):
    truth = plain(tanimoto)(objects, objects)
    np.testing.assert_allclose(k.Tanimoto()(objects).detach(), truth, rtol=0, atol=1e-14)
    np.testing.assert_allclose(k.Tanimoto()(objects[:7], objects[4:]).detach(), truth[:7, 4:], rtol=0, atol=1e-14)
    monkeypatch.setattr(molecules, "_CELLS", 300)
    np.testing.assert_allclose(k.Tanimoto()(objects).detach(), truth, rtol=0, atol=1e-14)
    assert_well_behaved(k.Tanimoto(), objects)


def test_all_kinds_agree():
    expected = k.Tanimoto()(COUNTS)
    for objects in (DICTS, [item.tolist() for item in COUNTS], [torch.from_numpy(item) for item in COUNTS]):
        torch.testing.assert_close(k.Tanimoto()(objects), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(k.Tanimoto()(SETS).detach(), k.Tanimoto()(BITS).detach(), rtol=0, atol=1e-14)


def test_fingerprints_without_features_are_alike_to_one_another_alone():
    assert k.Tanimoto()([set(), {"a"}, {}, {"a": 0}]).tolist() == [
        [1, 0, 1, 1],
        [0, 1, 0, 0],
        [1, 0, 1, 1],
        [1, 0, 1, 1],
    ]


def test_parse_is_applied_to_each_object():
    assert k.Tanimoto(parse=set)(["gauss"], ["gas"]).item() == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([{"a"}, [1, 0]], "be all arrays, or all sets and mappings"),
        ([[1, 0], [1, 0, 1]], "all have one length, got 2 and 3"),
        ([[1, -1]], "finite counts ≥ 0"),
        ([[1, np.nan]], "finite counts ≥ 0"),
        ([{"a": -1.0}], "finite counts ≥ 0"),
        ([{"a": "b"}], "must give a number for each feature"),
        (["CCO"], "parse=fingerprint for SMILES"),
        ([[[1, 0]]], "one row of numbers"),
        ([object()], "arrays of numbers, sets of features"),
    ],
)
def test_what_is_refused(objects, message):
    with pytest.raises(InputError, match=message):
        k.Tanimoto()(objects)


def test_smiles_by_hand():
    aspirin = k.read_smiles("CC(=O)Oc1ccccc1C(=O)O")
    assert "".join(aspirin.labels) == "CCOOccccccCOO"
    assert sorted(aspirin.edges) == [
        (0, 1, "-"),
        (1, 2, "="),
        (1, 3, "-"),
        (3, 4, "-"),
        (4, 5, ":"),
        (4, 9, ":"),
        (5, 6, ":"),
        (6, 7, ":"),
        (7, 8, ":"),
        (8, 9, ":"),
        (9, 10, "-"),
        (10, 11, "="),
        (10, 12, "-"),
    ]


@pytest.mark.parametrize(
    ("smiles", "labels", "bonds"),
    [
        ("", [], []),
        ("[NH4+].[Cl-]", ["N+", "Cl-"], []),
        ("[Cu++]", ["Cu+2"], []),
        ("[13CH3:1]Br", ["C", "Br"], ["-"]),
        ("C%10CC%10", ["C", "C", "C"], ["-", "-", "-"]),
        ("C=1CC1", ["C", "C", "C"], ["-", "-", "="]),
        (r"F/C=C\Cl", ["F", "C", "C", "Cl"], ["-", "=", "-"]),
        ("N[C@@H](C)C#N", ["N", "C", "C", "C", "N"], ["-", "-", "-", "#"]),
        ("[H]O[H]", ["O"], []),
        ("[H][H]", ["H", "H"], ["-"]),
        ("c1cc[nH]c1", ["c", "c", "c", "n", "c"], [":"] * 5),
        ("c1ccccc1c1ccccc1", ["c"] * 12, [*[":"] * 6, "-", *[":"] * 6]),
        ("c1ccc2c(c1)Cc1ccccc1-2", [*["c"] * 6, "C", *["c"] * 6], None),
    ],
)
def test_smiles_texts(smiles, labels, bonds):
    graph = k.read_smiles(smiles)
    assert list(graph.labels) == labels
    if bonds is not None:
        assert sorted(bond for *_, bond in graph.edges) == sorted(bonds)


@pytest.mark.parametrize(
    "smiles",
    ["C(", "C)", "C1CC", "C=", "=C", "C==C", "1C", "(C)", "C11", "C-1CC=1", "CX", "[C", "C(=)C", "[q]", "C.=C"],
)
def test_broken_smiles_are_refused(smiles):
    with pytest.raises(InputError, match="cannot be read"):
        k.read_smiles(smiles)


def rings(graph):
    n = len(graph.labels)
    i, j = np.array([edge[:2] for edge in graph.edges], int).reshape(-1, 2).T
    parts, _ = connected_components(sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n)), directed=False)
    return len(i) - n + parts


def delaney(data_path):
    with gzip.open(data_path("molecules/delaney-processed.csv.gz"), "rt") as file:
        return list(csv.DictReader(file))


def test_rings_of_a_thousand_molecules(data_path):
    rows = delaney(data_path)
    graphs = [k.read_smiles(row["smiles"]) for row in rows]
    more = [int(row["Number of Rings"]) - rings(graph) for row, graph in zip(rows, graphs, strict=True)]
    assert len(more) == 1128
    assert [i for i, extra in enumerate(more) if extra] == [213, 429, 976, 988]  # cages: a ring more than independent
    assert set(more) == {0, 1}


def test_kernels_on_smiles_through_the_reader():
    texts = ["CCO", "COC", "c1ccccc1", "Cc1ccccc1"]
    for kernel in (k.WeisfeilerLehman(2, parse=k.read_smiles), k.ShortestPath(parse=k.read_smiles)):
        assert_well_behaved(kernel, texts)
    # labels: c⁶ and C c⁶; after one step: 6 rings of (c; c c), against 5 of them
    found = k.WeisfeilerLehman(1, normalise=False, parse=k.read_smiles)(["c1ccccc1"], ["Cc1ccccc1"])
    assert found.item() == 6 * 6 + 6 * 5


@pytest.mark.skipif(importlib.util.find_spec("rdkit") is not None, reason="RDKit is installed")
def test_without_rdkit_the_error_says_what_to_install():
    for make in (k.fingerprint, k.molecule_graph):
        with pytest.raises(InputError, match=r"pip install 'stratagp\[molecules\]'"):
            make("CCO")


@needs_rdkit
def test_rdkit_and_the_reader_find_the_same_graphs(data_path):
    chem = importlib.import_module("rdkit.Chem")

    def sorted_graph(graph):
        return graph.labels, sorted((min(i, j), max(i, j), bond) for i, j, bond in graph.edges)

    for row in delaney(data_path):
        standard = chem.MolToSmiles(chem.MolFromSmiles(row["smiles"]))
        assert sorted_graph(k.read_smiles(standard)) == sorted_graph(k.molecule_graph(standard)), standard


@needs_rdkit
def test_fingerprints_through_rdkit():
    chem, structures = (importlib.import_module(f"rdkit.{name}") for name in ("Chem", "DataStructs"))
    generators = importlib.import_module("rdkit.Chem.rdFingerprintGenerator")
    texts = ["CCO", "COC", "c1ccccc1", "Cc1ccccc1", "CC(=O)Oc1ccccc1C(=O)O"]
    make = generators.GetMorganGenerator(radius=2, fpSize=512)
    theirs = [make.GetFingerprint(chem.MolFromSmiles(text)) for text in texts]
    expected = np.array([structures.BulkTanimotoSimilarity(one, theirs) for one in theirs])
    ours = [k.fingerprint(text, size=512, counts=False) for text in texts]
    np.testing.assert_allclose(k.Tanimoto()(ours).detach(), expected, rtol=0, atol=1e-14)
    sparse_counts = [make.GetSparseCountFingerprint(chem.MolFromSmiles(text)) for text in texts]
    expected = np.array([structures.BulkTanimotoSimilarity(one, sparse_counts) for one in sparse_counts])
    np.testing.assert_allclose(k.Tanimoto(parse=k.fingerprint)(texts).detach(), expected, rtol=0, atol=1e-14)
    with pytest.raises(InputError, match="RDKit can read"):
        k.fingerprint("C1CC")
