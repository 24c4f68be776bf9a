import pickle
from collections import Counter

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.objects import alignment
from stratagp.kernels.objects import signature as signature_module
from tests.kernels.cases_structures import (
    assert_well_behaved,
    dot,
    global_alignment,
    normalised,
    random_arrays,
    rounded,
    shared,
    signature,
)

RNG = np.random.default_rng(7)
SHORT = random_arrays(RNG, 8, most=5)
WALKS = [np.cumsum(RNG.normal(size=(int(RNG.integers(12, 30)), 2)), 0) for _ in range(9)]

# --- global alignment ---


@pytest.mark.parametrize("triangular", [0, 3])
def test_sums_over_all_alignments(triangular):
    truth = normalised(global_alignment(1.1, triangular))(SHORT, SHORT)
    kernel = k.GlobalAlignment(1.1, triangular)
    np.testing.assert_allclose(kernel(SHORT).detach(), truth, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel(SHORT[:4], SHORT[2:]).detach(), truth[:4, 2:], rtol=0, atol=1e-12)
    assert_well_behaved(kernel, SHORT)


def test_blocks_of_pairs(monkeypatch):
    whole = k.GlobalAlignment(5.0)(WALKS).detach()
    monkeypatch.setattr(alignment, "_CELLS", 2000)
    np.testing.assert_allclose(k.GlobalAlignment(5.0)(WALKS).detach(), whole, rtol=0, atol=1e-13)
    assert_well_behaved(k.GlobalAlignment(5.0, 40), WALKS)


def test_frames_that_are_all_alike_count_paths():
    """With κ = 1 everywhere the sum is the number of alignments: Delannoy's 1, 3, 13, 63, 321."""
    kernel = k.GlobalAlignment(1.0, normalise=False)
    still = [np.zeros((n, 1)) for n in range(1, 6)]
    assert kernel.diag(still).tolist() == pytest.approx([1, 3, 13, 63, 321], rel=1e-12)
    assert kernel([still[1]], [still[2]]).item() == pytest.approx(5.0, rel=1e-12)


def test_the_weight_of_distant_frames():
    """Two frames and one, all alike: φ = ω(0) then ω(1) = ½, and κ = ½/(2 − ½)."""
    found = k.GlobalAlignment(1.0, 2, normalise=False)([np.zeros((2, 1))], [np.zeros((1, 1))])
    assert found.item() == pytest.approx(1 / 3, rel=1e-12)
    assert k.GlobalAlignment(1.0, 2)([np.zeros((3, 1))], [np.zeros((1, 1))]).item() == 0.0


def test_long_sequences_stay_in_range():
    """The plain sum of 500 frames is near 10³⁸⁰; its logarithm is that of Delannoy's central number."""
    still, moved = np.zeros((500, 1)), np.full((500, 1), 1e-3)
    kernel = k.GlobalAlignment(1.0)
    assert kernel([still], [still]).item() == 1.0
    # κ = φ/(2 − φ) with φ = exp(−r²/2): log κ ≈ −r², along 1 + 499 (1 + √½) steps on average
    assert -np.log(kernel([still], [moved]).item()) == pytest.approx(1e-6 * (1 + 499 * (1 + 0.5**0.5)), rel=1e-3)
    with pytest.raises(InputError, match="normalise must be True"):
        k.GlobalAlignment(1.0, normalise=False)([still])


def test_far_sequences_are_unlike_without_errors():
    far = [np.zeros((30, 1)), np.full((40, 1), 1e6)]
    assert k.GlobalAlignment(1.0)(far).tolist() == [[1.0, 0.0], [0.0, 1.0]]


# --- signatures ---


@pytest.mark.parametrize("options", [{}, {"time": False}, {"base_point": True}, {"time": False, "scale": 0.5}], ids=str)
def test_levels_as_sums_over_pieces(options):
    truth = normalised(signature(3, **options))(SHORT, SHORT)
    kernel = k.Signature(3, **options)
    np.testing.assert_allclose(kernel(SHORT).detach(), truth, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel(SHORT[:4], SHORT[2:]).detach(), truth[:4, 2:], rtol=0, atol=1e-12)
    assert_well_behaved(kernel, SHORT)


def test_blocks_of_signatures(monkeypatch):
    whole = k.Signature(3, scale=0.1)(WALKS).detach()
    monkeypatch.setattr(signature_module, "_CELLS", 100)
    np.testing.assert_allclose(k.Signature(3, scale=0.1)(WALKS).detach(), whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(k.Signature(3, scale=0.1)(WALKS[:5], WALKS).detach(), whole[:5], rtol=0, atol=1e-13)


def test_what_signatures_do_not_see():
    walk = WALKS[0] / 10
    plain = k.Signature(3, time=False)
    slow = np.repeat(walk, 2, axis=0)  # the same path, standing still at each point
    middle = np.insert(walk, 1, walk[:2].mean(0), axis=0)
    assert plain([walk], [slow, middle, walk + 5]).tolist()[0] == pytest.approx([1.0] * 3, abs=1e-12)
    assert k.Signature(3)([walk], [slow]).item() < 1 - 1e-6
    assert k.Signature(3, time=False, base_point=True)([walk], [walk + 5]).item() < 0.99


def test_a_straight_line_is_an_exponential():
    """⟨S(a), S(b)⟩ of straight paths with increments α and β is Σ_l (α·β)^l/(l!)²."""
    a, b = np.array([[0.0, 0], [1, 2]]), np.array([[0.0, 0], [0.5, -1]])
    inner = -1.5
    found = k.Signature(4, time=False, normalise=False)([a], [b]).item()
    assert found == pytest.approx(1 + inner + inner**2 / 4 + inner**3 / 36 + inner**4 / 576, rel=1e-12)
    assert k.Signature(2)([[[3.0]]], [[[8.0]]]).item() == 1.0  # single points: no path at all


# --- codebooks ---


def test_symbols_are_the_nearest_centres():
    book = k.Codebook(6, random_state=1).fit(WALKS)
    frames = np.vstack(WALKS)
    mean, scale = frames.mean(0), frames.std(0)
    symbols = book.encode(WALKS)
    for walk, found in zip(WALKS, symbols, strict=True):
        apart = (((walk - mean) / scale)[:, None] - book.centres.numpy()) ** 2
        assert found.tolist() == apart.sum(-1).argmin(1).tolist()
    assert set(np.concatenate(symbols)) == set(range(6))
    again = k.Codebook(6, random_state=1).fit(WALKS).encode(WALKS[:2])
    assert all(np.array_equal(one, other) for one, other in zip(again, symbols, strict=False))


def test_clusters_far_apart_are_found_whatever_their_units():
    centres = np.array([[0.0, 0.0], [0.0, 1e-3], [1e3, 0.0]])
    which = RNG.integers(0, 3, 300)
    frames = centres[which] + RNG.normal(size=(300, 2)) * [1.0, 1e-6]
    (symbols,) = k.Codebook(3).fit([frames]).encode([frames])
    pairs = set(zip(which.tolist(), symbols.tolist(), strict=True))
    assert len(pairs) == 3


def test_a_constant_column_is_kept_as_it_is():
    frames = np.column_stack([RNG.normal(size=50), np.ones(50)])
    (symbols,) = k.Codebook(4).fit([frames]).encode([frames])
    assert len(set(symbols)) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Codebook(0), "size must be a whole number"),
        (lambda: k.Codebook(500).fit(SHORT), "500 symbols needs at least as many frames"),
        (lambda: k.Codebook(4).encode(SHORT), "must be fitted"),
        (lambda: k.Codebook(4).fit(SHORT).encode([np.zeros((3, 5))]), "frames of 2 columns, got 5"),
        (lambda: k.Codebook(4).fit([np.zeros((3, 2)), np.zeros((3, 5))]), "equally many columns"),
        (lambda: k.GlobalAlignment(-1.0), "bandwidth must be a positive number"),
        (lambda: k.GlobalAlignment(1.0, -1), "triangular must be a whole number"),
        (lambda: k.GlobalAlignment(1.0)([np.zeros((0, 2))]), "has no rows"),
        (lambda: k.GlobalAlignment(1.0)(SHORT, [np.zeros((3, 5))]), "equally many columns, got 2 and 5"),
        (lambda: k.GlobalAlignment(1.0)([np.full((3, 2), np.nan)]), "must be finite"),
        (lambda: k.Signature(0), "depth must be a whole number"),
        (lambda: k.Signature(scale=0.0), "scale must be a positive number"),
        (lambda: k.Signature(6)([np.zeros((3, 20))]), "lower depth, or leave out columns"),
        (lambda: k.Signature(3)([np.zeros(3)]), "arrays of rows"),
        (lambda: k.Signature(3)(["text"]), "arrays of numbers"),
        (lambda: k.Signature(4, scale=1e200)([WALKS[0]]), "standardise the columns"),
        (lambda: k.Encoded(k.RBF(), rounded), "takes one kernel on objects, got RBF"),
        (lambda: k.Encoded(k.PairFunction(shared), lambda x: x[:1])(["a", "b"]), "made 1 objects of 2"),
        (lambda: k.Encoded(k.PairFunction(shared), str)(["a", "b"]), "made 1 objects of 2"),
        (lambda: k.Encoded(k.PairFunction(shared), len)(["a", "b"]), r"list of 2 objects, TypeError: .* write lambda"),
        (lambda: k.Encoded(k.PairFunction(shared), lambda x: x.split())(["a"]), "AttributeError: 'list' object has no"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# --- encoded ---


def test_kernels_of_symbols_are_kernels_of_sequences():
    book = k.Codebook(5).fit(WALKS)
    kernel = k.Encoded(k.PairFunction(shared), book.encode)
    expected = k.PairFunction(shared)([symbols.tolist() for symbols in book.encode(WALKS)])
    torch.testing.assert_close(kernel(WALKS), expected, rtol=0, atol=1e-14)
    assert_well_behaved(kernel, WALKS)
    assert torch.equal(pickle.loads(pickle.dumps(kernel))(WALKS[:3]), kernel(WALKS[:3]))


def pairs_at_distances(a, b):
    """How often each ordered pair of symbols stands 1, 2, … or 5 places apart, multiplied and summed."""
    counts = [Counter((d, s[i], s[i + d]) for d in range(1, 6) for i in range(len(s) - d)) for s in (a, b)]
    return dot(*counts)


def test_a_string_kernel_on_real_valued_sequences():
    book = k.Codebook(5).fit(WALKS)
    kernel = k.Encoded(k.Double(1, 5), book.encode)
    symbols = [item.tolist() for item in book.encode(WALKS)]
    truth = normalised(pairs_at_distances)(symbols, symbols)
    np.testing.assert_allclose(kernel(WALKS).detach(), truth, rtol=0, atol=1e-12)
    assert_well_behaved(kernel, WALKS)


def test_hyperparameters_are_those_of_the_kernel_inside():
    base = k.PairFunction(shared, lengthscale=0.7)
    kernel = k.Encoded(base, rounded)
    assert [item.name for item in kernel.named_values()] == ["base.variance", "base.lengthscale"]
    kernel.set(variance=2.5)
    kernel.lengthscale = 0.4
    assert (base.variance.item(), base.lengthscale.item()) == pytest.approx((2.5, 0.4))
    assert (kernel.variance.item(), kernel.lengthscale.item()) == pytest.approx((2.5, 0.4))
    assert kernel.diag(WALKS[:2]).tolist() == pytest.approx([2.5, 2.5])
    unscaled = k.Encoded(k.PairFunction(shared, normalise=False), rounded)
    assert unscaled.diag(WALKS[:2]).tolist() == [shared(item, item) for item in rounded(WALKS[:2])]
    assert repr(unscaled) == "Encoded(PairFunction(normalise=False, variance=1), rounded)"
