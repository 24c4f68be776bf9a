"""Tables to numbers against hand-written values, scikit-learn's encoder, and round trips."""

import datetime

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from stratagp.data import TableEncoder, needs_encoding

pd = pytest.importorskip("pandas")


def houses() -> "pd.DataFrame":
    return pd.DataFrame(
        {"age": [3, 1, 2], "city": ["Rome", "Paris", "Rome"], "new": [True, False, False], "size": [1.5, 2.5, 3.5]}
    )


def test_a_mixed_frame_one_hot():
    encoder = TableEncoder()
    encoded = encoder.fit_transform(houses())
    expected = [[3, 0, 1, 0, 1, 1.5], [1, 1, 0, 1, 0, 2.5], [2, 0, 1, 1, 0, 3.5]]
    np.testing.assert_array_equal(encoded.values, expected)
    assert encoded.missing is None
    assert encoder.columns == ["age", "city=Paris", "city=Rome", "new=False", "new=True", "size"]
    assert encoder.source == [0, 1, 1, 2, 2, 3]
    assert encoder.categories == {"city": ["Paris", "Rome"], "new": [False, True]}
    assert encoder.is_categorical == [False, True, True, False]
    assert encoder.names_in == ["age", "city", "new", "size"]


def test_a_mixed_frame_as_codes():
    encoder = TableEncoder(encoding="codes")
    encoded = encoder.fit_transform(houses())
    np.testing.assert_array_equal(encoded.values, [[3, 1, 1, 1.5], [1, 0, 0, 2.5], [2, 1, 0, 3.5]])
    assert encoder.columns == encoder.names_in
    assert encoder.source == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        np.array([[1, 2], [3, 4]]),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
        [[1, 2.0], [3, 4]],
        np.array([[1, 2], [3.0, 4]], dtype=object),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16, requires_grad=True),
        torch.tensor([[1, 2], [3, 4]]),
        pd.DataFrame([[1, 2], [3, 4]]),
        pd.DataFrame([[1, 2], [3.0, 4]], dtype=object),
        pd.DataFrame([[1, 2], [3, 4]], dtype="Int64"),
        pd.DataFrame([[1, 2], [3, 4]], dtype="Float64"),
        pd.DataFrame([[1, 2], [3, 4]], dtype="float32"),
    ],
    ids=lambda given: f"{type(given).__name__}",
)
def test_plain_numbers_of_any_container_are_copied(given):
    values, missing = TableEncoder().fit_transform(given)
    np.testing.assert_array_equal(values, [[1, 2], [3, 4]])
    assert values.dtype == np.float64
    assert values.flags.c_contiguous
    assert values.flags.writeable
    assert missing is None
    if isinstance(given, np.ndarray):
        assert not np.shares_memory(values, given)


@pytest.mark.parametrize("dtype", ["object", "string", "str", "category", "string[pyarrow]"])
def test_every_kind_of_text_column(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"c": pd.Series(["b", None, "a", "b"], dtype=dtype)})
    assert needs_encoding(frame)
    encoder = TableEncoder(missing="impute")
    values, missing = encoder.fit_transform(frame)
    np.testing.assert_array_equal(values, [[0, 1], [np.nan, np.nan], [1, 0], [0, 1]])
    np.testing.assert_array_equal(missing, np.isnan(values))
    assert encoder.categories == {"c": ["a", "b"]}


@pytest.mark.parametrize("dtype", ["boolean", "object", "bool[pyarrow]"])
def test_booleans_with_missing_entries(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"b": pd.Series([True, None, False], dtype=dtype)})
    values, _ = TableEncoder(missing="impute", encoding="codes").fit_transform(frame)
    np.testing.assert_array_equal(values, [[1], [np.nan], [0]])


@pytest.mark.parametrize("dtype", ["float64", "Float64", "Int64", "float64[pyarrow]", "int64[pyarrow]", "object"])
def test_numbers_with_missing_entries(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": pd.Series([1, None, 3], dtype=dtype)})
    values, missing = TableEncoder(missing="impute").fit_transform(frame)
    np.testing.assert_array_equal(values, [[1], [np.nan], [3]])
    np.testing.assert_array_equal(missing, [[False], [True], [False]])


def test_arrow_tables_come_by_way_of_pandas():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": [1.0, 2.0], "c": ["u", "v"]})
    assert needs_encoding(table)
    np.testing.assert_array_equal(TableEncoder().fit_transform(table).values, [[1, 1, 0], [2, 0, 1]])


def test_declared_categories_keep_their_order_and_the_unobserved():
    sizes = pd.Categorical(["small", "large"], categories=["small", "medium", "large"], ordered=True)
    encoder = TableEncoder().fit(pd.DataFrame({"size": sizes}))
    assert encoder.columns == ["size=small", "size=medium", "size=large"]
    later = encoder.transform(pd.DataFrame({"size": ["medium"]}))
    np.testing.assert_array_equal(later.values, [[0, 1, 0]])


def test_the_user_names_the_categorical_columns():
    frame = pd.DataFrame({"a": [1.0, 2.0], "grade": [7, 5]})
    for chosen in (["grade"], [1], [-1], np.array([1]), {"grade"}):
        encoder = TableEncoder(categorical=chosen).fit(frame)
        assert encoder.columns == ["a", "grade=5.0", "grade=7.0"]
    encoder = TableEncoder(categorical=[1]).fit(np.array([[1.0, 7], [2.0, 5]]))
    assert encoder.columns == ["x0", "x1=5.0", "x1=7.0"]
    assert encoder.names_in is None
    assert TableEncoder(categorical=[]).fit_transform(houses()[["new"]]).values.tolist() == [[1], [0], [0]]


def test_one_hot_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    table = np.array([["red", "x"], ["blue", "y"], ["green", "z"]], dtype=object)[rng.integers(3, size=(40, 2)), [0, 1]]
    truth = OneHotEncoder(sparse_output=False).fit(table)
    encoder = TableEncoder(categorical=[0, 1])
    np.testing.assert_array_equal(encoder.fit_transform(table).values, truth.transform(table))
    assert list(encoder.categories.values()) == [list(c) for c in truth.categories_]


MOMENTS = [datetime.datetime(1970, 1, 2), datetime.datetime(2000, 1, 1, 6)]
HOUR = datetime.timedelta(hours=1)


def arrow_moments():
    pytest.importorskip("pyarrow")
    return pd.Series(MOMENTS, dtype="timestamp[us][pyarrow]")


@pytest.mark.parametrize(
    "dates",
    [
        lambda: pd.Series(MOMENTS),
        lambda: pd.Series(MOMENTS).astype("datetime64[ns]"),
        lambda: (pd.Series(MOMENTS) + HOUR).dt.tz_localize("Europe/Berlin"),
        lambda: pd.Series(MOMENTS, dtype=object),
        arrow_moments,
        lambda: pd.PeriodIndex(MOMENTS, freq="h"),
    ],
    ids=["plain", "ns", "zone", "object", "arrow", "period"],
)
def test_dates_are_days_since_1970(dates):
    encoder = TableEncoder()
    values = encoder.fit_transform(pd.DataFrame({"when": dates()})).values
    np.testing.assert_allclose(values[:, 0], [1.0, 10957.25], rtol=0, atol=1e-9)  # 30 · 365 + 7 leap days
    assert encoder.is_categorical == [False]


def test_calendar_days_and_durations():
    frame = pd.DataFrame({"day": [datetime.date(1970, 1, 3), None], "took": pd.to_timedelta(["36h", None])})
    values, missing = TableEncoder(missing="impute").fit_transform(frame)
    np.testing.assert_array_equal(values, [[2.0, 1.5], [np.nan, np.nan]])
    assert missing is not None
    assert missing[1].all()
    days = np.array([["1970-01-03"]], dtype="datetime64[D]")
    assert needs_encoding(days)
    assert TableEncoder().fit_transform(days).values.item() == 2.0
    durations = pd.DataFrame({"took": pd.Series([datetime.timedelta(hours=12)], dtype=object)})
    assert TableEncoder().fit_transform(durations).values.item() == 0.5


def test_iso_texts_where_fit_saw_dates():
    encoder = TableEncoder().fit(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))
    texts = ["1970-01-03", "1970-01-02 12:00", "1970-01-02T00:00:00Z", "1970-01-02T01:00+01:00"]
    assert encoder.transform(pd.DataFrame({"day": texts})).values.flatten().tolist() == [2.0, 1.5, 1.0, 1.0]


def test_dates_as_categories_do_not_depend_on_their_unit():
    seconds = np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[s]")
    encoder = TableEncoder(categorical=[0], encoding="codes").fit(seconds)
    assert encoder.transform(seconds.astype("datetime64[ns]")).values.tolist() == [[0], [1]]


def test_frames_are_matched_by_name_in_any_order():
    encoder = TableEncoder().fit(houses())
    mixed = houses()[["size", "new", "city", "age"]]
    np.testing.assert_array_equal(encoder.transform(mixed).values, encoder.transform(houses()).values)


def test_the_unknown_can_be_zeros():
    encoder = TableEncoder(unknown="ignore").fit(houses()[["city"]])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"city": ["Oslo", "Rome"]})).values, [[0, 0], [0, 1]])


def test_categories_of_mixed_types_have_one_order():
    table = np.array([["b"], [2], ["a"], [1]], dtype=object)
    for order in (range(4), [3, 1, 0, 2]):
        assert TableEncoder(categorical=[0]).fit(table[list(order)]).categories == {"x0": [1, 2, "a", "b"]}


def test_needs_encoding_tells_plain_numbers_from_the_rest():
    numbers = houses()[["age", "size"]]
    assert not any(map(needs_encoding, ([[1.0]], np.ones((2, 2)), np.ones((2, 2), dtype=object), torch.ones(2, 2))))
    assert not needs_encoding(numbers)
    assert not needs_encoding(sparse.csr_array(np.eye(2)))
    assert not needs_encoding(np.array([[{}]], dtype=object))
    assert needs_encoding(numbers, categorical=["age"])
    assert needs_encoding([[1.0, "a"]])
    assert needs_encoding(np.array([["a"]]))
    assert needs_encoding(houses()[["new"]])
    assert not needs_encoding(numbers, categorical=[])


WORDS = st.sampled_from(["a", "b", "ü", "", "a b"])


@st.composite
def frames(draw: st.DrawFn) -> "pd.DataFrame":
    n = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy) -> list:
        return draw(st.lists(values, min_size=n, max_size=n))

    number = st.floats(-1e9, 1e9)
    return pd.DataFrame({"x": column(number), "c": column(WORDS), "b": column(st.booleans()), "i": column(number)})


@settings(deadline=None, max_examples=40)
@given(frames(), st.randoms(use_true_random=False), st.sampled_from(["one-hot", "codes"]))
def test_properties_of_the_encoding(frame, random, encoding):
    encoder = TableEncoder(encoding=encoding)
    values = encoder.fit_transform(frame).values
    for j, name in enumerate(encoder.names_in):  # a round trip
        block = values[:, [i for i, s in enumerate(encoder.source) if s == j]]
        if name in encoder.categories:
            codes = block.argmax(1) if encoding == "one-hot" else block[:, 0].astype(int)
            assert [encoder.categories[name][c] for c in codes] == frame[name].tolist()
            assert encoding == "codes" or (block.sum(1) == 1).all()
        else:
            assert block[:, 0].tolist() == frame[name].tolist()
    rows, names = random.sample(range(len(frame)), len(frame)), random.sample(list(frame), 4)
    shuffled = frame.iloc[rows][names]  # rows in another order encode to rows in that order, columns do not matter
    np.testing.assert_array_equal(encoder.transform(shuffled).values, values[rows])
    assert TableEncoder(encoding=encoding).fit(shuffled).categories == encoder.categories


def test_many_gaps_among_categories_are_a_category():
    garage = pd.DataFrame(
        {"garage": ["in", "out", None, None, "in", None, None, None], "size": [1.0, 2, 3, 4, 5, 6, 7, 8]}
    )
    encoder = TableEncoder(missing="impute", unknown="new")
    values, missing = encoder.fit_transform(garage)
    assert (encoder.columns, encoder.gaps, missing) == (
        ["garage=in", "garage=out", "garage=(missing)", "size"],
        ["garage"],
        None,
    )
    gap = garage.garage.isna().to_numpy()
    np.testing.assert_array_equal(values[:, :3], np.stack([garage.garage == "in", garage.garage == "out", gap], 1))
    with pytest.warns(UserWarning, match="category 'beside'"):
        new = encoder.transform(pd.DataFrame({"garage": ["beside", None], "size": [1.0, 2.0]})).values
    squares = ((values[[0, 1, 2], :3] - new[0, :3]) ** 2).sum(1)
    np.testing.assert_allclose(squares, 2.0, atol=1e-12)  # as far from each as these are from one another
    np.testing.assert_array_equal(new[1, :3], [0, 0, 1])


def test_few_gaps_among_categories_are_left_to_the_imputer():
    encoder = TableEncoder(missing="impute")
    values, missing = encoder.fit_transform(pd.DataFrame({"garage": ["in", "out", None, None, "in", None, None]}))
    assert encoder.gaps == []
    assert missing is not None
    assert np.isnan(values[2]).all()
