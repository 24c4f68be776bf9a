"""Standard units of targets against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stratagp.data import TargetScale
from stratagp.errors import InputError


@pytest.mark.parametrize("unit", [1e-200, 1e-6, 1.0, 1e6, 1e200])
@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_standard_units_at_any_scale(unit, shape):
    plain = np.random.default_rng(0).normal(3.0, 2.0, shape)
    scale = TargetScale.of(unit * plain)
    standard = scale.to_standard(unit * plain)
    assert standard.shape == shape
    np.testing.assert_allclose(standard, (plain - plain.mean(0)) / plain.std(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale.back(standard), unit * plain, rtol=1e-12)


def test_moments_return_to_the_units_of_the_data():
    rng = np.random.default_rng(1)
    scale = TargetScale(np.array([5.0]), np.array([4.0]))
    draws = rng.normal(0.5, 0.3, 200_000)
    np.testing.assert_allclose(scale.back(0.5), scale.back(draws).mean(), rtol=1e-3)
    np.testing.assert_allclose(scale.back_std(0.3), scale.back(draws).std(), rtol=1e-2)
    np.testing.assert_allclose(scale.back_var(0.09), scale.back(draws).var(), rtol=1e-2)
    np.testing.assert_array_equal(scale.back_var(np.eye(2)), 16 * np.eye(2))
    two = TargetScale(np.array([5.0, 1.0]), np.array([4.0, 2.0]))
    np.testing.assert_array_equal(two.back_var(np.ones((7, 3, 2)))[0, 0], [16, 4])


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1e-300])
def test_a_constant_target_has_scale_one(value):
    scale = TargetScale.of(np.full(77, value))
    assert scale.scale.tolist() == [1.0]
    np.testing.assert_allclose(scale.to_standard(np.full(77, value)), 0, atol=1e-9)
    assert TargetScale.of(np.array([value])).scale.tolist() == [1.0]


def test_weights_count_as_repetitions():
    y, weights = np.array([[1.0, 2.0], [4.0, 8.0], [6.0, 1.0], [99.0, 99.0]]), np.array([1, 3, 2, 0])
    repeated, weighted = TargetScale.of(np.repeat(y, weights, axis=0)), TargetScale.of(y, weights)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-14)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-14)
    assert TargetScale.of(np.array([2.0, 2.0, 5.0]), [1, 1, 0]).scale.tolist() == [1.0]


def test_what_was_not_observed_does_not_count():
    y = np.array([[1.0, np.nan], [3.0, 4.0], [8.0, 6.0]])
    scale = TargetScale.of(y)
    np.testing.assert_allclose(scale.mean, np.nanmean(y, 0))
    np.testing.assert_allclose(scale.scale, np.nanstd(y, 0))
    assert np.isnan(scale.to_standard(y)[0, 1])


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e8, 1e8)))
def test_there_and_back(y):
    scale = TargetScale.of(y)
    assert scale.scale.item() > 0
    np.testing.assert_allclose(scale.back(scale.to_standard(y)), y, rtol=1e-12, atol=1e-12 * np.abs(y).max())


@pytest.mark.parametrize(
    ("y", "weights", "word"),
    [
        (np.ones((2, 2, 2)), None, "shape"),
        (np.ones(0), None, "at least one row"),
        (np.array([1.0, np.inf]), None, "row 1"),
        (np.array([[1.0, np.nan]]), None, "without any observed value"),
        (np.ones(2), [1.0], "weights"),
        (np.ones(2), [1.0, -1.0], "weights"),
        (np.ones(2), [0.0, 0.0], "positive weight"),
    ],
)
def test_bad_targets(y, weights, word):
    with pytest.raises(InputError, match=word):
        TargetScale.of(y, weights)


def test_values_of_another_number_of_targets():
    with pytest.raises(InputError, match="2 targets"):
        TargetScale.of(np.eye(2)).back(np.ones((2, 3)))
