"""Dates in texts, what repeats in them, and new categories: against plain numpy."""

import numpy as np
import pandas as pd
import pytest

from stratagp import AutoGPRegressor, GPRegressor
from stratagp import kernels as k
from stratagp.data import TableEncoder
from stratagp.data.dates import formats_of, parsed, parts_of


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("%d.%m.%Y", ""),
        ("%m/%d/%Y", ""),
        ("%Y/%m/%d %H:%M", ""),
        ("%d %B %Y", ""),
        ("%B %d, %Y", ""),
        ("%d-%b-%y", ""),
        ("%m/%d/%Y %I:%M %p", ""),
        ("%b %Y", "MS"),
        ("%Y-%m", "MS"),
    ],
)
def test_a_format_is_found_by_what_it_writes(form, written):
    days = pd.date_range("2023-03-01", periods=30, freq=written or "13D")
    texts = days.strftime(form)
    assert formats_of(texts.tolist()) == [form]
    assert parsed(pd.Series(texts), form).tolist() == days.tolist()


def test_iso_dates_of_several_zones_are_those_of_utc():
    texts = pd.Series(["2024-03-14T00:30:00+01:00", "2024-03-14T00:30:00Z"])
    assert formats_of(texts.tolist()) == [""]
    assert parsed(texts, "").tolist() == [pd.Timestamp("2024-03-13 23:30"), pd.Timestamp("2024-03-14 00:30")]


@pytest.mark.parametrize("texts", [["1.5", "2.5"], ["12", "13"], ["10-20", "20-30"], ["red", "blue"], ["3/4", "1/2"]])
def test_other_texts_are_no_dates(texts):
    assert formats_of(texts) is None


def test_dates_give_what_they_hold():
    hours = np.arange(0, 800, 7.3)
    monthly = pd.date_range("2020-01-01", periods=40, freq="MS").to_numpy("datetime64[D]").astype(float)
    assert parts_of(hours / 24) == ["week", "day"]
    assert parts_of(hours) == ["year", "week", "day"]
    assert parts_of(monthly) == ["year"]
    assert parts_of(np.array([5.0, 5.0, np.nan])) == []


def test_waves_stand_beside_the_days():
    days = pd.date_range("2023-01-01", periods=400, freq="31h")
    found = TableEncoder(dates="parts").fit_transform(pd.DataFrame({"when": days}))
    x = (days.to_numpy() - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    angles = [2 * np.pi * x / period for period in (365.2425, 7, 1)]
    expected = np.stack([x, *(wave(angle) for angle in angles for wave in (np.sin, np.cos))], 1)
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


def test_a_day_of_the_week_is_learnt_from_dates_alone():
    days = pd.date_range("2024-01-01", periods=90)
    y = np.where(days.day_of_week >= 5, 4.0, 0.0) + np.random.default_rng(0).normal(0, 0.1, 90)
    model = GPRegressor(random_state=0).fit(pd.DataFrame({"day": days[:70]}), y[:70])
    error = np.sqrt(np.mean((model.predict(pd.DataFrame({"day": days[70:]})) - y[70:]) ** 2))
    assert error < 0.5  # of the mean, 1.8


def test_a_kernel_that_is_given_sees_days_alone():
    days = pd.date_range("2024-01-01", periods=30)
    model = GPRegressor(k.RBF(), n_restarts=0).fit(pd.DataFrame({"day": days}), np.sin(np.arange(30.0)))
    assert model.inputs_.columns == ["day"]


@pytest.mark.parametrize("known", [1, 2, 3, 12])
def test_a_new_category_is_as_far_from_each_as_these_are_from_one_another(known):
    names = [f"c{i:02}" for i in range(known)]
    encoder = TableEncoder(unknown="new").fit(pd.DataFrame({"town": names}))
    with pytest.warns(UserWarning, match="'Rome' in column 'town'"):
        (new,) = encoder.transform(pd.DataFrame({"town": ["Rome"]})).values
    squares = ((new - encoder.transform(pd.DataFrame({"town": names})).values) ** 2).sum(1)
    np.testing.assert_allclose(squares, 2.0, atol=1e-12)


def test_a_new_category_widens_the_error_bars_to_the_prior_of_one():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 40), "town": np.repeat(["a", "b", "c", "d"], 10)})
    y = np.repeat([0.0, 5.0, -4.0, 2.0], 10) + 0.1 * rng.standard_normal(40)
    model = GPRegressor(random_state=0).fit(frame, y)
    _, known = model.predict(pd.DataFrame({"x": [0.5], "town": ["a"]}), return_std=True)
    with pytest.warns(UserWarning, match="less certain"):
        _, new = model.predict(pd.DataFrame({"x": [0.5], "town": ["e"]}), return_std=True)
    assert known[0] < 0.2
    assert new[0] > 2  # the towns' own spread is 3.3


def test_mini_batches_average_over_what_missing_inputs_may_be():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + X[:, 1]
    X[::9, 0] = np.nan
    model = AutoGPRegressor(n_inducing=10, max_epochs=20, missing="impute", random_state=0).fit(X, y)
    new = np.array([[np.nan, 0.5], [0.2, 0.5]])
    mean, std = model.predict(new, return_std=True)
    draws = model.inputs_.draws(model.inputs_.points(model, new))
    each = [model.predict(row[None].numpy(), return_std=True) for row in draws[:, 0]]
    means, stds = (np.array([answer[k][0] for answer in each]) for k in (0, 1))
    np.testing.assert_allclose(mean[0], means.mean(), rtol=1e-6)
    np.testing.assert_allclose(std[0] ** 2, (stds**2).mean() + means.var(), rtol=1e-6)
