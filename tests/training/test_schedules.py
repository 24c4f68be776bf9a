"""Schedules at points where their values are known."""

from functools import partial

import pytest

from stratagp.training import schedules as s

EVERY = [s.constant, s.cosine, s.warm_up, s.exponential, s.staircase]


@pytest.mark.parametrize(
    ("schedule", "points"),
    [
        (s.constant, {0: 1, 0.7: 1, 1: 1}),
        (s.cosine, {0: 1, 1 / 3: 0.02 + 0.98 * 0.75, 0.5: 0.51, 1: 0.02, 2: 0.02}),
        (s.exponential, {0: 1, 0.5: 0.02**0.5, 1: 0.02, 2: 0.02}),
        (partial(s.exponential, last=1e-4), {0.25: 0.1, 0.75: 1e-3}),
        (s.staircase, {0: 1, 0.33: 1, 0.34: 0.1, 0.66: 0.1, 0.67: 0.01, 1: 0.01, 2: 0.01}),
        (partial(s.staircase, drops=1, factor=0.5), {0.49: 1, 0.5: 0.5, 1: 0.5}),
        (partial(s.warm_up, share=0.2, first=0.0), {0: 0, 0.05: 0.25, 0.1: 0.5, 0.2: 1, 0.6: 0.51, 1: 0.02}),
        (partial(s.warm_up, share=0.5, first=0.2, then=s.constant), {0: 0.2, 0.25: 0.6, 0.5: 1, 1: 1}),
        (partial(s.warm_up, share=0.0), {0: 1, 1: 0.02}),
        (partial(s.warm_up, share=1.0, first=0.0), {0.5: 0.5, 1: 1}),
    ],
)
def test_known_points(schedule, points):
    assert [schedule(done) for done in points] == pytest.approx(list(points.values()), abs=1e-12)


@pytest.mark.parametrize("schedule", EVERY)
def test_factors_are_above_zero_and_at_most_one(schedule):
    factors = [schedule(done / 100) for done in range(101)]
    assert min(factors) > 0
    assert max(factors) == 1


@pytest.mark.parametrize("schedule", [s.cosine, s.exponential, s.staircase])
def test_factors_never_rise(schedule):
    factors = [schedule(done / 100) for done in range(101)]
    assert factors == sorted(factors, reverse=True)
