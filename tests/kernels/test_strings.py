"""String kernels against dictionaries of features."""

from functools import partial
from itertools import product
from math import comb

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.strings import similar_pairs, subsequence
from stratagp.kernels.strings.spectrum import pair_weights
from stratagp.kernels.strings.symbols import encode
from tests.kernels import cases_strings as plain
from tests.kernels.cases_strings import NAMES, POSITIONAL, assert_equal, counted, matrix, texts


@pytest.mark.parametrize("alphabet", ["a", "ab", "abcde"])
@pytest.mark.parametrize("name", NAMES)
def test_equals_a_dictionary_of_features(name, alphabet):
    x, z = texts(alphabet), texts(alphabet, 8, seed=1)
    for kernel, features in counted(name, normalise=False):
        assert_equal(kernel, features, x)
        assert_equal(kernel, features, x, z)


@pytest.mark.parametrize("name", NAMES)
def test_normalised_kernels_are_covariances(name):
    x = texts("abcd", 16, 20)
    for kernel, features in counted(name):
        np.testing.assert_allclose(matrix(kernel, x), plain.normalised(features, x, x), atol=1e-12)
        found = kernel(x).detach()
        assert found.diagonal().tolist() == pytest.approx([1.0] * len(x), abs=1e-12)
        assert torch.linalg.eigvalsh(found).min() > -1e-10


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Mismatch"])
def test_unknown_symbols_are_not_read(name):
    x = texts("abXc", 14, 14)
    for kernel, features in counted(name, normalise=False, unknown="X"):
        assert_equal(kernel, partial(features, skip="X"), x)
    for kernel, features in counted(name, normalise=False, unknown={"X", "b"}):
        assert_equal(kernel, partial(features, skip="Xb"), x)


def test_mismatch_skips_words_outside_its_alphabet():
    x = texts("abXc", 14)
    features = partial(plain.mismatch, k=3, m=1, alphabet="abc")
    assert_equal(k.Mismatch(3, 1, "abc", normalise=False), features, x)
    assert_equal(k.Mismatch(3, 1, "abcX", unknown="X", normalise=False), features, x)
    assert_equal(k.Mismatch(3, 1, 3, unknown="X", normalise=False), features, x)
    with pytest.raises(InputError, match="there are 4 symbols, but alphabet=3"):
        k.Mismatch(3, 1, 3)(x)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(("length", "m"), [(1, 0), (2, 1), (3, 1), (3, 2), (4, 2)])
def test_weights_of_mismatch_pairs(length, m, size):
    """Inner products of balls of Hamming radius m, enumerated, for each pair of words."""
    weights = pair_weights(length, m, size)
    everything = list(product(range(size), repeat=length))
    distances = np.array([[sum(x != y for x, y in zip(u, v, strict=True)) for v in everything] for u in everything])
    balls = (distances <= m).astype(int)
    agreeing = [[comb(length - d, j - d) if d <= j else 0 for j in range(len(weights))] for d in range(length + 1)]
    by_distance = np.array([np.dot(row, weights) for row in agreeing])
    assert np.array_equal(balls @ balls, by_distance[distances])


@pytest.mark.parametrize("name", POSITIONAL)
@pytest.mark.parametrize("positions", [2, 5])
def test_positions_tell_features_apart(name, positions):
    for kernel, features in counted(name, normalise=False, positions=positions):
        assert_equal(kernel, partial(features, positions=positions), texts("ab"))
    kernel = k.Mismatch(3, 1, "ab", positions=positions, normalise=False)
    assert_equal(kernel, partial(plain.mismatch, k=3, m=1, alphabet="ab", positions=positions), texts("ab"))


def test_similar_pairs_of_unlike_symbols_are_pairs_of_words():
    x = texts("abcde")
    options = {"positions": 2, "unknown": "b", "normalise": False}
    found = matrix(k.SimilarPairs(torch.eye(5), "edcba", 5, **options), x)
    np.testing.assert_allclose(found, matrix(k.Double(1, 5, **options), x), rtol=1e-12)


def test_similar_pairs_of_many_sequences_are_read_in_blocks(monkeypatch):
    x, kernel = texts("abcde"), k.SimilarPairs(plain.ALIKE, "abcde", 3)
    whole = matrix(kernel, x)
    monkeypatch.setattr(similar_pairs, "_CELLS", 200)
    np.testing.assert_array_equal(matrix(kernel, x), whole)


def test_blosum62_is_a_similarity():
    """Entries of the published matrix: of W with itself 11, of I and V 3, of A and R −1, in half bits."""
    letters, alike = k.blosum62()
    at = {letter: i for i, letter in enumerate(letters)}
    ratio = alike[at["I"], at["V"]] * 2 ** ((4 + 4) / 4)
    assert ratio.item() == pytest.approx(2 ** (3 / 2), rel=1e-12)
    assert alike[at["A"], at["R"]].item() == pytest.approx(2 ** (-1 / 2 - (4 + 5) / 4), rel=1e-12)
    assert alike.diagonal().tolist() == pytest.approx([1.0] * 20, rel=1e-12)
    assert torch.linalg.eigvalsh(alike)[0] > 0.1
    found = matrix(k.SimilarPairs(d=1), ["IL", "WW"], ["LI", "IL"])
    assert found[0, 0] == pytest.approx(0.25, rel=1e-12)


def test_early_and_late_words_differ():
    x, z = ["ab" + "x" * 8], ["y" * 8 + "ab"]
    assert matrix(k.Spectrum(2, normalise=False), x, z).item() == 1.0
    assert matrix(k.Spectrum(2, positions=2, normalise=False), x, z).item() == 0.0


@pytest.mark.parametrize("cells", [2**20, 200])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_subsequences_by_features_and_by_pairs(length, cells, monkeypatch):
    monkeypatch.setattr(subsequence, "_PAIR_CELLS", cells)
    monkeypatch.setattr(subsequence, "_CELLS", 50 * cells)
    monkeypatch.setattr(subsequence, "_STEP", 3)
    x = texts("abX", 14, 15)
    text = encode(x, {"X"})
    expected = plain.inner_products(partial(plain.subsequence, length=length, decay=0.6, skip="X"), x, x)
    for way in (subsequence.by_features, subsequence.by_pairs):
        for n, start in ((len(x), 0), (5, 5), (0, 0)):
            cross, own = way(text, length, 0.6, n, start)
            np.testing.assert_allclose(cross.numpy(), expected[:n, start:], rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(own.numpy(), expected.diagonal(), rtol=1e-12, atol=1e-14)


def test_large_alphabets_are_compared_by_pairs(monkeypatch):
    monkeypatch.delattr(subsequence, "by_features")
    x = [np.random.default_rng(i).integers(0, 500, 12) for i in range(4)]
    x.append(x[0][::-1])
    features = partial(plain.subsequence, length=3, decay=0.7)
    assert_equal(k.Subsequence(3, 0.7, normalise=False), lambda a: features(a.tolist()), x)


def test_sums_products_caches_and_anchors():
    x = texts("abcd")
    double, words = k.Double(1, 3), k.Spectrum(2, lengthscale=0.8)
    kernel = double * words + 0.5 * k.Mismatch(3, 1, "abcd") ** 2
    expected = matrix(double, x) * matrix(words, x) + 0.5 * matrix(k.Mismatch(3, 1, "abcd"), x) ** 2
    np.testing.assert_allclose(matrix(kernel, x), expected, atol=1e-14)
    anchors = k.Anchors(kernel, x[4:9])
    np.testing.assert_allclose(
        anchors.kernel(anchors.encode(x), anchors.rows()).detach().numpy(), expected[:, 4:9], atol=1e-14
    )
    for one in (words, k.Subsequence(2)):
        rows = torch.arange(float(len(x)))[:, None]
        np.testing.assert_allclose(matrix(one.cached(x), rows), matrix(one, x), atol=1e-14)


def test_equal_kernels_by_other_names():
    x = texts("abcde", 20)
    np.testing.assert_array_equal(matrix(k.GappyPair(2, 4), x), matrix(k.Double(2, 5), x))
    np.testing.assert_array_equal(matrix(k.Mismatch(3, 0, 9), x), matrix(k.Spectrum(3), x))
    np.testing.assert_array_equal(matrix(k.Wildcard(3, 0), x), matrix(k.Spectrum(3), x))
    np.testing.assert_array_equal(matrix(k.Gapped(3, 3), x), matrix(k.Spectrum(3), x))


def test_number_of_features():
    """Double(1, 5) has 5 s² features of a total count Σ (n − o), Triple(1, 3) has 9 s³."""
    text = "".join(np.random.default_rng(0).choice(list("abcd"), 5000))
    double, triple = k.Double(1, 5).counts([text]), k.Triple(1, 3).counts([text])
    assert (double.nnz, double.sum()) == (5 * 4**2, sum(5000 - o for o in range(1, 6)))
    assert (triple.nnz, triple.sum()) == (9 * 4**3, sum(5000 - a - b for a in (1, 2, 3) for b in (1, 2, 3)))
