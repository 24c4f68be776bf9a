"""What string kernels make of all forms of sequences: mixed, empty, long, of many symbols."""

from functools import partial

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.strings import patterns as string_patterns
from stratagp.kernels.strings import subsequence
from stratagp.kernels.strings.patterns import Pattern, count_patterns
from stratagp.kernels.strings.symbols import encode, renumber
from tests.kernels import cases_strings as plain
from tests.kernels.cases_strings import NAMES, assert_equal, counted, matrix, texts


@pytest.mark.parametrize("name", [name for name in NAMES if name != "SimilarPairs"])  # which knows its symbols only
def test_all_forms_of_a_sequence_agree(name):
    x = texts("abcde", 10, 14)
    numbers = [[ord(c) for c in text] for text in x]
    forms = [
        [text.encode() for text in x],
        numbers,
        [tuple(item) for item in numbers],
        [np.array(item, dtype=np.uint8) for item in numbers],
        [np.array(item) for item in numbers],
        [torch.tensor(item, dtype=torch.int32) for item in numbers],
        [list(text) for text in x],
        [[(c, "token") for c in text] for text in x],
        [np.array(list(text), dtype=object) for text in x],
    ]
    for kernel, _ in counted(name)[:2]:
        if name == "Mismatch":
            kernel = k.Mismatch(3, 1, 5)
        expected = matrix(kernel, x)
        for form in forms:
            np.testing.assert_allclose(matrix(kernel, form), expected, rtol=0, atol=1e-14)


def test_forms_may_be_mixed():
    """A text is a list of characters; bytes are numbers, and alike to no text."""
    x = ["abca", ["a", "b", "c", "a"], b"abca", [97, 98, 99, 97], np.array([97, 98, 99, 97], dtype=np.int8)]
    expected = np.zeros((5, 5))
    expected[:2, :2] = expected[2:, 2:] = 1
    np.testing.assert_allclose(matrix(k.Spectrum(2), x), expected, atol=1e-15)
    found = encode([[True, 2.5, 1], np.array([1, 2])])
    assert found.codes.tolist() == [found.codes[0], found.codes[1], found.codes[0], found.codes[0], found.codes[4]]
    assert found.size == 3


def test_characters_of_all_planes():
    x = ["añ\U0001f600", "\U0001f600ñ", "\ud800a\x00", "\x00a"]
    assert matrix(k.Spectrum(1, normalise=False), x).tolist() == [
        [3, 2, 1, 1],
        [2, 2, 0, 0],
        [1, 0, 3, 2],
        [1, 0, 2, 2],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sequences_without_features(name):
    kernel, _ = counted(name)[1]
    found = matrix(kernel, ["", "abcabcabc" * 4, ""], ["", "a" * 40])
    assert found[[0, 2]].tolist() == [[1.0, 0.0]] * 2
    assert found[1, 0] == 0.0
    assert matrix(kernel, ["", ""]).tolist() == [[1.0, 1.0]] * 2
    assert matrix(kernel, [], ["ab"]).shape == (0, 1)
    assert kernel.diag(["", "ab"]).tolist() == [1.0, 1.0]


def test_similar_pairs_skip_single_strangers_but_not_all():
    """What is empty, or consists of symbols that were called unknown, is like nothing; a stranger is one gap."""
    assert matrix(k.SimilarPairs(), ["", ""]).tolist() == [[1.0, 1.0]] * 2
    assert matrix(k.SimilarPairs(unknown="X"), ["", "XX"]).tolist() == [[1.0, 1.0]] * 2
    kernel = k.SimilarPairs(np.eye(2), "ab", 1, normalise=False)
    assert matrix(kernel, ["abxab", "xx"]).tolist() == [[4.0, 0.0], [0.0, 0.0]]


def test_symbols_never_seen_before_are_features_like_any_other():
    anchors = k.Anchors(k.Double(1, 2), ["abc", "bca"])
    rows = anchors.encode(["xyz", "abx"])
    found = anchors.kernel(rows, anchors.rows()).detach().numpy()
    np.testing.assert_allclose(found, [[0, 0], [1 / 3, 0]], atol=1e-15)
    np.testing.assert_allclose(matrix(k.Double(1, 2), ["xyz"], ["xyz", "abc"]), [[1, 0]], atol=1e-15)


def test_long_sequences():
    """abab… of 100,000 symbols: every count is known."""
    n = 100_000
    x = ["ab" * (n // 2), "ab"]
    options = {"normalise": False}
    pairs, ab, ba = n - 1, n // 2, n // 2 - 1
    assert pairs == ab + ba
    assert matrix(k.Spectrum(2, **options), x).tolist() == [[ab**2 + ba**2, ab], [ab, 1]]
    assert matrix(k.Spectrum(1000, **options), x)[0, 0] == (ab - 499) ** 2 + (ab - 500) ** 2
    assert matrix(k.Double(1, 2, **options), x)[0, 0] == ab**2 + ba**2 + 2 * ba**2
    assert matrix(k.Mismatch(2, 1, "ab", **options), x)[0].tolist() == [2 * pairs**2 + ab**2 + ba**2, 2 * pairs + ab]
    assert matrix(k.Gapped(3, 2, **options), x)[0, 0] == 2 * (n - 2) ** 2 + 2 * (n // 2 - 1) ** 2


def weight_of_pairs(n, decay):
    """Σ_{i<j} decay^(j − i + 1) over n places."""
    return (n - 1) * decay**2 / (1 - decay) - decay**3 / (1 - decay) ** 2 * (1 - decay ** (n - 1))


def test_subsequences_of_long_sequences():
    """One symbol over and over, against a short sequence, in both ways."""
    text = encode(["a" * 100_000, "aaa"])
    long, short = weight_of_pairs(100_000, 0.5), weight_of_pairs(3, 0.5)
    assert short == 2 * 0.5**2 + 0.5**3
    cross, own = subsequence.by_features(text, 2, 0.5, 1, 1)
    assert own.tolist() == pytest.approx([long**2, short**2], rel=1e-10)
    assert cross.item() == pytest.approx(long * short, rel=1e-10)
    text = encode(["a" * 10_000, "aaa"])
    found = subsequence._compare(text, subsequence.Pairs(np.array([0]), np.array([1])), 2, 0.5)
    assert found.item() == pytest.approx(weight_of_pairs(10_000, 0.5) * short, rel=1e-10)


def test_words_too_long_for_whole_numbers(monkeypatch):
    """With little room for digits, prefixes are numbered afresh, over several blocks; nothing collides."""
    monkeypatch.setattr(string_patterns, "_LARGEST", 2**19)
    monkeypatch.setattr(string_patterns, "_BLOCK", 100)
    x = texts("abcde", 14, 40)
    for kernel, features in [
        (k.Spectrum(12, normalise=False), partial(plain.spectrum, k=12)),
        (k.Gapped(5, 4, normalise=False), partial(plain.gapped, g=5, k=4)),
        (k.Gapped(5, 4, 0.5, normalise=False), partial(plain.gapped, g=5, k=4, decay=0.5)),
        (k.Triple(2, 2, normalise=False), partial(plain.spatial, t=3, k=2, d=2)),
    ]:
        with_repeats = [text + text[:13] for text in x]
        assert_equal(kernel, features, with_repeats)
    with pytest.raises(InputError, match="too many at once"):
        k.Spectrum(2)(["ab" * 10**5] * 2)


def test_tokens_of_a_large_vocabulary_do_not_collide():
    """Six symbols out of 2¹⁶ need 96 bits."""
    random = np.random.default_rng(0)
    x = [random.integers(0, 2**16, 50) for _ in range(3)]
    x += [np.concatenate([x[0][:20], x[1][:20]]), np.arange(2**16)]
    found = matrix(k.Spectrum(6, normalise=False), x)
    assert found[3].tolist() == [15.0, 15.0, 0.0, 35.0, 0.0]
    assert found[4, 4] == 2**16 - 5


def test_counting_goes_on_from_block_to_block(monkeypatch):
    x = texts("abc", 20, 40)
    expected = matrix(k.Wildcard(3, 1, 0.5), x)
    monkeypatch.setattr(string_patterns, "_BLOCK", 7)
    np.testing.assert_allclose(matrix(k.Wildcard(3, 1, 0.5), x), expected, atol=1e-14)
    phi = count_patterns(encode(["abcab"]), [Pattern((0,), 1), Pattern((1,), 2, 0.5)])
    assert phi.toarray().tolist() == [[2 + 0.5, 2 + 0.5 * 2, 1 + 0.5]]


def test_renumber():
    for values in (np.array([5, -3, 5, 7]), np.array([2**60, -(2**60), 2**60]), np.array([255, 0], dtype=np.uint8)):
        distinct, places = renumber(values)
        expected, expected_places = np.unique(values, return_inverse=True)
        assert distinct.tolist() == expected.tolist()
        assert places.tolist() == expected_places.tolist()


def test_as_many_words_with_gaps_as_there_are_are_allowed():
    """C(16, 8), Σ_{s ≤ 4} C(20, s) and 100² patterns."""
    stars = 1 + 20 + 190 + 1140 + 4845
    for kernel, count in [(k.Gapped(16, 8), 12_870), (k.Wildcard(20, 4), stars), (k.Triple(1, 100), 100**2)]:
        assert len(kernel.patterns()) == count


def test_printing():
    kernel = k.Mismatch(4, 1, "acgt", unknown="n", positions=2, normalise=False)
    assert repr(kernel) == "Mismatch(k=4, m=1, alphabet='acgt', unknown='n', positions=2, normalise=False, variance=1)"
    assert repr(k.Gapped(5, 3, 0.5)) == "Gapped(g=5, k=3, decay=0.5, variance=1)"
    assert repr(k.Subsequence(2, unknown="n")) == "Subsequence(length=2, decay=0.5, unknown='n', variance=1)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Spectrum(0), "k must be a whole number ≥ 1, got 0"),
        (lambda: k.Spectrum(2, positions=0), "positions must be a whole number"),
        (lambda: k.Double(1, 0), "d must be a whole number"),
        (lambda: k.Wildcard(2, 2), "m must be less than k=2"),
        (lambda: k.Wildcard(2, 1, 1.5), "decay must be a number above 0"),
        (lambda: k.Mismatch(2, 2, "ab"), "m must be less than k=2"),
        (lambda: k.Mismatch(2, 1), "needs an alphabet"),
        (lambda: k.SimilarPairs("pam250"), "similarity must be 'blosum62'"),
        (lambda: k.SimilarPairs("blosum62", "AC"), "with symbols='AC'"),
        (lambda: k.SimilarPairs(torch.eye(2)), "there are 0 symbols"),
        (lambda: k.SimilarPairs(torch.eye(2), "aa"), "there are 1 symbols"),
        (lambda: k.SimilarPairs([[1, 2], [2, 1]], "ab"), "positive semi-definite"),
        (lambda: k.SimilarPairs()(["mkv", "arnd"]), "none of the symbols, such as 'm', is one of ARND.*: upper-case"),
        (lambda: k.SimilarPairs()(["", "12"]), "none of the symbols, such as '1', is one of ARND[A-Z]*$"),
        (lambda: k.SimilarPairs()([np.array([65, 82])]), "such as 65, is one of"),
        (lambda: k.SimilarPairs(unknown="X")(["XX", "xX"]), "such as 'x', is one of"),
        (lambda: k.Mismatch(2, 1, "X", unknown="X"), "size of the alphabet"),
        (lambda: k.Gapped(2, 3), "k must be at most g=2"),
        (lambda: k.Gapped(60, 30), "more than 20000 words with gaps are too many: lower g or k"),
        (lambda: k.Gapped(16, 1).patterns() and k.Gapped(18, 9), "words with gaps are too many"),
        (lambda: k.Wildcard(60, 30), "more than 10000 words with gaps are too many: lower k or m"),
        (lambda: k.Mismatch(60, 5, "ab"), "words with gaps are too many: lower k or m"),
        (lambda: k.Triple(1, 101), "words with gaps are too many: lower k, or how long gaps may be"),
        (lambda: k.GappyPair(1000, 1000), "more than 500 words with gaps"),
        (lambda: k.Subsequence(2, 0.0), "decay must be a number above 0"),
        (lambda: k.Spectrum(2)("abc"), "must be a list of objects"),
        (lambda: k.Spectrum(2)(["abc", 3]), "a sequence is 3, of type int"),
        (lambda: k.Spectrum(2)([np.zeros(3)]), "a sequence is an array of float64"),
        (lambda: k.Spectrum(2)([np.zeros((3, 2), dtype=int)]), "shape \\(3, 2\\)"),
        (lambda: k.Spectrum(2)([[["a"], ["b"]]]), "must be hashable"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
