import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.objects import sets
from tests.kernels.cases_structures import assert_well_behaved, mean_map, normalised, random_arrays

MANY = random_arrays(np.random.default_rng(3), 20, most=9, columns=3)


def test_many_random_sets(monkeypatch):
    truth = normalised(mean_map(1.1))(MANY, MANY)
    np.testing.assert_allclose(k.MeanMap(1.1)(MANY).detach(), truth, rtol=0, atol=1e-12)
    monkeypatch.setattr(sets, "_ROWS", 7)
    np.testing.assert_allclose(k.MeanMap(1.1)(MANY).detach(), truth, rtol=0, atol=1e-12)
    np.testing.assert_allclose(k.MeanMap(1.1)(MANY[:6], MANY[3:]).detach(), truth[:6, 3:], rtol=0, atol=1e-12)
    assert_well_behaved(k.MeanMap(1.1), MANY)


def test_two_points_by_hand():
    kernel = k.MeanMap(2.0, normalise=False)
    assert kernel([[[0.0]]], [[[2.0]], [[0.0], [4.0]]]).tolist() == [
        pytest.approx([np.exp(-0.5), 0.5 + 0.5 * np.exp(-2.0)])
    ]


def test_the_order_and_the_repetition_of_rows_do_not_matter():
    one = MANY[5]
    assert k.MeanMap(0.8)([one], [one[::-1].copy(), np.vstack([one, one])]).tolist()[0] == pytest.approx([1.0, 1.0])


def test_empty_sets_are_alike_to_one_another_alone():
    nothing = np.zeros((0, 3))
    gram = k.MeanMap(1.0)([nothing, MANY[0], nothing]).detach()
    np.testing.assert_allclose(gram, [[1, 0, 1], [0, 1, 0], [1, 0, 1]], rtol=0, atol=1e-14)


def test_tensors_and_lists_are_arrays_too():
    as_lists = [item.tolist() for item in MANY[:4]]
    as_tensors = [torch.from_numpy(item) for item in MANY[:4]]
    expected = k.MeanMap(1.0)(MANY[:4])
    assert torch.equal(k.MeanMap(1.0)(as_lists), expected)
    assert torch.equal(k.MeanMap(1.0)(as_tensors), expected)


def test_the_median_distance_of_rows():
    rows = np.vstack(MANY)
    apart = [np.linalg.norm(rows[i] - rows[j]) for i in range(len(rows)) for j in range(i)]
    assert k.median_bandwidth(MANY) == pytest.approx(np.median(apart), rel=1e-12)
    many = [np.arange(5000.0)[:, None]]  # a thousand of them, evenly spaced: differences are 1 − √½ of the range
    assert k.median_bandwidth(many) == pytest.approx(4999 * (1 - 0.5**0.5), rel=2e-3)
    with pytest.raises(InputError, match="two different rows"):
        k.median_bandwidth([[[1.0]], [[1.0]]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.MeanMap(0.0), "bandwidth must be a positive number"),
        (lambda: k.MeanMap("median"), "bandwidth must be a positive number"),
        (lambda: k.MeanMap([1.0, np.nan]), "bandwidth must be a positive number"),
        (lambda: k.MeanMap([1.0, 2.0])(MANY), "a bandwidth for each of 2 columns, but its objects have 3"),
        (lambda: k.MeanMap(1.0)(MANY, [np.zeros((2, 4))]), "equally many columns, got 3 and 4"),
        (lambda: k.MeanMap(1.0)([np.zeros(3)]), r"arrays of rows, got shape \(3,\); a single column is"),
        (lambda: k.MeanMap(1.0)([[[np.nan, 1.0]]]), "must be finite"),
        (lambda: k.MeanMap(1.0)(["text"]), "must be arrays of numbers, got str"),
        (lambda: k.MeanMap(1.0)([[[1.0], [1.0, 2.0]]]), "must be arrays of numbers, got list"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_settings_are_shown():
    assert repr(k.MeanMap(0.5, normalise=False)) == "MeanMap(bandwidth=0.5, normalise=False, variance=1)"
    assert repr(k.MeanMap([0.5, 2.0])) == "MeanMap(bandwidth=[0.5, 2], variance=1)"
