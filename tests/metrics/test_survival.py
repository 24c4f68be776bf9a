"""Survival curves against closed forms, and the Brier score against the truth without censoring."""

import re

import numpy as np
import pytest
from scipy import stats

from stratagp.errors import InputError
from stratagp.metrics import kaplan_meier, mean_by_group, survival_brier


def test_without_censoring_it_is_the_share_that_is_left() -> None:
    times = np.random.default_rng(0).exponential(size=50)
    curve = kaplan_meier(np.c_[times, np.ones(50)], [0.0, 0.5, 1.0, 2.0])
    share = (times[:, None] > [0.0, 0.5, 1.0, 2.0]).mean(0)
    np.testing.assert_allclose(curve.share, share, atol=1e-12)
    spread = 1.959963984540054 * np.sqrt((1 - share[1:]) / (50 * share[1:])) / np.abs(np.log(share[1:]))
    np.testing.assert_allclose(curve.low[1:], share[1:] ** np.exp(spread), atol=1e-9)
    np.testing.assert_allclose(curve.high[1:], share[1:] ** np.exp(-spread), atol=1e-9)
    assert curve.low[0] == curve.high[0] == 1


def test_with_censoring_and_ties_it_is_the_product_by_hand() -> None:
    """Times 6, 6, 6+, 7, 10+, 13, 16, 16+, 22, 23, with + where the event has not happened."""
    times = [6, 6, 6, 7, 10, 13, 16, 16, 22, 23]
    happened = [1, 1, 0, 1, 0, 1, 1, 0, 1, 1]
    curve = kaplan_meier(np.c_[times, happened])
    np.testing.assert_allclose(curve.times, [6, 7, 10, 13, 16, 22, 23])
    steps = np.cumprod([8 / 10, 6 / 7, 1, 4 / 5, 3 / 4, 1 / 2, 0])
    np.testing.assert_allclose(curve.share, steps, atol=1e-12)
    assert (curve.low <= curve.share).all()
    assert (curve.share <= curve.high).all()
    greenwood = 2 / (10 * 8) + 1 / (7 * 6) + 1 / (5 * 4)
    assert curve.low[3] == pytest.approx(steps[3] ** np.exp(1.959964 * greenwood**0.5 / -np.log(steps[3])), abs=1e-6)


def test_the_interval_holds_as_often_as_it_says() -> None:
    rng, held, n = np.random.default_rng(0), [], 800
    for _ in range(n):
        event, end = rng.exponential(size=60), rng.exponential(2, size=60)
        curve = kaplan_meier(np.c_[np.minimum(event, end), event <= end], [0.7], level=0.8)
        held.append(curve.low[0] <= np.exp(-0.7) <= curve.high[0])
    assert abs(np.mean(held) - 0.8) < 4 * (0.16 / n) ** 0.5 + 0.01


def test_brier_of_censored_rows_is_that_of_all_rows_in_the_mean() -> None:
    """Weights undo censoring: with many rows the score is E[(1{T > t} − S)²] = S(1 − S) for the true S."""
    rng, n = np.random.default_rng(0), 20_000
    event, end, times = rng.exponential(size=n), rng.exponential(1.5, size=n), np.array([0.3, 0.8])
    y, truth = np.c_[np.minimum(event, end), event <= end], stats.expon.sf(times)
    found = survival_brier(y, np.tile(truth, (n, 1)), times)
    assert found == pytest.approx(float(np.mean(truth * (1 - truth))), abs=0.006)
    assert found == pytest.approx(survival_brier(y, np.tile(truth, (n, 1)), times, train=y), abs=1e-12)


def test_without_censoring_brier_is_the_mean_square() -> None:
    y, said = np.c_[[1.0, 2.0, 3.0], np.ones(3)], np.array([[0.2, 0.1], [0.9, 0.4], [0.7, 0.6]])
    there = y[:, :1] > [1.5, 2.5]
    assert survival_brier(y, said, [1.5, 2.5]) == pytest.approx(float(np.mean((there - said) ** 2)), abs=1e-12)


def test_groups_are_the_means_of_their_rows() -> None:
    values = np.random.default_rng(0).normal(size=(6, 2, 3))
    names, means = mean_by_group(values, [3, 1, 3, 2, 1, 3])
    assert names.tolist() == [1, 2, 3]
    np.testing.assert_allclose(means, [values[[1, 4]].mean(0), values[3], values[[0, 2, 5]].mean(0)], atol=1e-12)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], "y must have two columns"),
        ([[1.0, 2.0]], "0 or 1 in its second"),
        ([[-1.0, 1.0]], "times ≥ 0 in its first"),
        ([[np.nan, 1.0]], "y has NaN"),
    ],
)
def test_what_is_no_time_of_an_event_is_refused(y: list, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        kaplan_meier(y)


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match=re.escape("survival must have the shape (1, 2)")):
        survival_brier([[1.0, 1.0]], [[0.5]], [1.0, 2.0])
    with pytest.raises(InputError, match="groups must name the group of each row"):
        mean_by_group([1.0, 2.0], ["a"])
