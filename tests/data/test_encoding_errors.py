"""What is refused, and in which words: argument, place and remedy; where scikit-learn has a wording, it is in there."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse

from stratagp.data import TableEncoder
from stratagp.errors import InputError, RowError

pd = pytest.importorskip("pandas")


def refused(call, *words):
    with pytest.raises(InputError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([[1.0], [np.nan]]), ["X", "NaN", "row 1, column 0", "1 of 2 rows", "missing='impute'"]),
        (pd.DataFrame({"age": [1.0, 2.0, None]}), ["NaN", "row 2, column 'age'"]),
        (pd.DataFrame({"age": [1.0], "city": [None]}), ["NaN", "row 0, column 'city'"]),
        (np.array([[1.0], [np.inf]]), ["X", "infinite", "row 1, column 0"]),
        (np.array([[1.0], [10**400]], dtype=object), ["infinite", "row 1, column 0"]),
        ([[1.0, "red"]], ["could not convert string to float: 'red'", "row 0, column 1", "categorical=[1]"]),
        (np.array([["1.5"]]), ["could not convert string", "categorical=[0]"]),
        (np.array([[{}]], dtype=object), ["could not convert dict", "row 0, column 0"]),
        (np.array([[1j]]), ["Complex data not supported", "column 0"]),
        (pd.DataFrame({"z": [1j]}), ["Complex data not supported", "column 'z'"]),
        (sparse.csr_array(np.eye(2)), ["sparse", "X.toarray()"]),
        (sparse.csr_matrix(np.eye(2)), ["sparse"]),
        (torch.eye(2).to_sparse(), ["sparse"]),
        ([1.0, 2.0], ["Expected 2D array, got 1D array instead", "Reshape your data"]),
        (pd.Series([1.0, 2.0]), ["Expected 2D array, got 1D array instead", "Reshape your data"]),
        (3.0, ["Expected 2D array, got scalar array instead"]),
        (np.ones((2, 3, 4)), ["Found array with dim 3", "reshape(2, -1)"]),
        (np.ones((0, 3)), ["0 sample(s) (shape=(0, 3)) while a minimum of 1 is required."]),
        (np.ones((3, 0)), ["0 feature(s) (shape=(3, 0)) while a minimum of 1 is required."]),
        (pd.DataFrame({"a": []}), ["0 sample(s)"]),
        (pd.DataFrame(index=range(3)), ["0 feature(s) (shape=(3, 0))"]),
        ([[1.0], [1.0, 2.0]], ["X", "same length"]),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), ["more than one column named 'a'", "rename"]),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", 0]), ["(0)", "astype(str)"]),
        (pd.DataFrame({"tags": [["a"]]}), ["['a'] in row 0, column 'tags'", "strings or numbers"]),
        (pd.DataFrame({"c": pd.Series(["1", 1], dtype=object)}), ["'c=1'", "rename"]),
    ],
)
def test_data_that_cannot_be_used(given, words):
    refused(lambda: TableEncoder().fit_transform(given), *words)


def test_imputation_is_advised_only_where_it_can_be_asked_for():
    encoder = TableEncoder(imputes=False)
    with pytest.raises(InputError, match=r"1 of 2 rows: remove or fill those rows$"):
        encoder.fit_transform(pd.DataFrame({"a": ["u", None]}))


@pytest.mark.parametrize("missing", ["raise", "impute"])
def test_infinity_is_refused_and_empty_categories_too(missing):
    encoder = TableEncoder(missing=missing, categorical=["c"])
    refused(lambda: encoder.fit_transform(pd.DataFrame({"a": [np.inf], "c": ["u"]})), "infinite", "column 'a'")
    refused(lambda: encoder.fit_transform(pd.DataFrame({"a": [1.0], "c": [None]})), "column 'c'", "all its values")


def test_text_outside_the_columns_that_the_user_named():
    frame = pd.DataFrame({"a": ["u", "v"], "b": ["s", "t"]})
    refused(lambda: TableEncoder(categorical=["a"]).fit(frame), "'s'", "row 0, column 'b'", "categorical=['b']")


@pytest.mark.parametrize(("encoding", "remedy"), [("one-hot", "unknown='ignore'"), ("codes", "encoding='one-hot'")])
def test_an_unknown_category(encoding, remedy):
    encoder = TableEncoder(encoding=encoding).fit(pd.DataFrame({"city": ["Rome", "Paris"]}))
    given = pd.DataFrame({"city": ["Rome", "Oslo"]})
    refused(lambda: encoder.transform(given), "'Oslo'", "row 1, column 'city'", "known: 'Paris', 'Rome'", remedy)


def test_codes_have_no_value_for_the_unknown():
    encoder = TableEncoder(encoding="codes", unknown="ignore").fit(pd.DataFrame({"city": ["Rome"]}))
    refused(lambda: encoder.transform(pd.DataFrame({"city": ["Oslo"]})), "'Oslo'")


def test_a_long_list_of_categories_is_cut():
    encoder = TableEncoder(categorical=[0]).fit(np.arange(50)[:, None])
    refused(lambda: encoder.transform([[77]]), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (50 in all)")


def test_other_columns_than_in_fit():
    encoder = TableEncoder(name="GPRegressor").fit(np.ones((2, 4)))
    sentence = "X has 3 features, but GPRegressor is expecting 4 features as input."
    refused(lambda: encoder.transform(np.ones((2, 3))), sentence)
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    general = "The feature names should match those that were passed during fit.\n"
    extra, fewer = pd.DataFrame({"a": [1.0], "b": [2.0], "z": [3.0]}), pd.DataFrame({"a": [1.0]})
    refused(lambda: encoder.transform(extra), f"{general}Feature names unseen at fit time:\n- z\n")
    refused(lambda: encoder.transform(fewer), f"{general}Feature names seen at fit time, yet now missing:\n- b\n")
    refused(lambda: encoder.transform(fewer.rename(columns={"a": "z"})), "- z\n", "- a\n- b\n")


def test_another_kind_of_column_than_in_fit():
    encoder = TableEncoder().fit(pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}))
    refused(lambda: encoder.transform(pd.DataFrame({"when": [1.0]})), "1.0 in row 0, column 'when'", "fit saw dates")
    soon = pd.DataFrame({"when": ["2020-01-01", "soon"]})
    refused(lambda: encoder.transform(soon), "'soon' in row 1, column 'when'", "or texts such as '2024-12-31'")
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0]}))
    refused(lambda: encoder.transform(pd.DataFrame({"a": ["x"]})), "could not convert string to float: 'x'")
    refused(lambda: encoder.transform(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])})), "datetime to float")


def test_names_in_one_of_fit_and_transform_only_warn_as_scikit_learn_does():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    with pytest.warns(UserWarning, match="X does not have valid feature names, but GP was fitted with feature names"):
        values = TableEncoder(name="GP").fit(frame).transform(frame.to_numpy()).values
    np.testing.assert_array_equal(values, frame)
    with pytest.warns(UserWarning, match="X has feature names, but GP was fitted without feature names"):
        TableEncoder(name="GP").fit(frame.to_numpy()).transform(frame)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"encoding": "target"}, ["encoding", "'one-hot', 'codes'", "'target'"]),
        ({"missing": "drop"}, ["missing", "'impute'"]),
        ({"unknown": "zero"}, ["unknown", "'ignore'"]),
        ({"categorical": "city"}, ["categorical", "['city']"]),
        ({"categorical": 3}, ["categorical", "[3]"]),
    ],
)
def test_arguments(arguments, words):
    refused(lambda: TableEncoder(**arguments), *words)


def test_categorical_columns_that_are_not_there():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    refused(lambda: TableEncoder(categorical=["c"]).fit(frame), "'c'", "not a column of X", "'a', 'b'")
    refused(lambda: TableEncoder(categorical=[2]).fit(frame), "2")
    refused(lambda: TableEncoder(categorical=["a"]).fit(frame.to_numpy()), "have no names")
    refused(lambda: TableEncoder(categorical=[True, False]).fit(frame), "True", "names or positions")


def test_transform_before_fit():
    refused(lambda: TableEncoder().transform([[1.0]]), "call fit(X) first")


def test_errors_about_a_row_know_it_and_travel_between_processes():
    """Also where a value looks like the number of a row."""
    encoder = TableEncoder().fit(pd.DataFrame({"city": ["Rome"]}))
    with pytest.raises(RowError) as caught:
        encoder.transform(pd.DataFrame({"city": ["Rome", "in row 1, column 5"]}))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), error.row, str(error)) == (RowError, 1, str(caught.value))
    moved = error.at(701, "b.parquet: ")
    assert str(moved).startswith("b.parquet: X has the category 'in row 1, column 5' in row 701, column 'city', which")
