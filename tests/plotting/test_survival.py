"""Predicted survival beside what happened."""

import numpy as np
import pytest
from scipy import stats

from stratagp import plotting
from stratagp.errors import InputError
from stratagp.metrics import kaplan_meier
from tests.plotting.drawn import lines


class Exponential:
    """Times with the mean that the only column gives."""

    def predict_survival(self, X, times):
        return stats.expon.sf(np.asarray(times), scale=X)

    def predict_quantiles(self, X, levels):
        return stats.expon.ppf(np.asarray(levels), scale=X)


X = np.random.default_rng(0).uniform(1, 4, (40, 1))
Y = np.c_[X[:, 0], np.arange(40) % 3 > 0].astype(float)


def test_parts_of_the_rows_have_their_curves():
    ax = plotting.survival(Exponential(), X, Y, parts=2)
    drawn = lines(ax)
    late = np.sort(X[:, 0])[20:]
    chosen = np.isin(X[:, 0], late)
    times, share = drawn[2]
    assert times[-1] == X.max()
    assert share == pytest.approx(kaplan_meier(Y[chosen], times).share)
    assert drawn[3][1] == pytest.approx(stats.expon.sf(times, scale=X[chosen]).mean(0))


def test_what_it_cannot_draw_is_refused():
    with pytest.raises(InputError, match="needs a model with predict_survival"):
        plotting.survival(object(), X, Y)
    with pytest.raises(InputError, match="a time and an event each"):
        plotting.survival(Exponential(), X, Y[:, 0])
    with pytest.raises(InputError, match="at most the 40 rows"):
        plotting.survival(Exponential(), X, Y, parts=41)
