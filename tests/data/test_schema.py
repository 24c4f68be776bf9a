"""What columns hold: as they are stored, as they are meant, and new rows made alike."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from stratagp.data import Frame, Rules, Schema, TableEncoder, as_stored, examine, survey
from stratagp.errors import InputError

COLUMNS = {
    "number": [1.5, np.nan, 3.0, 4.0],
    "whole": [1, 2, 3, 4],
    "decimal": [Decimal("1.5"), None, Decimal("2"), Decimal("3")],
    "truth": [True, False, True, True],
    "text": ["a", "b", None, "a"],
    "day": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"]),
    "date": [datetime.date(2024, 1, 1)] * 4,
    "time": pd.to_timedelta([1, 2, 3, 4], unit="D"),
}
KINDS = {
    **dict.fromkeys(("number", "whole", "decimal"), "number"),
    **dict.fromkeys(("truth", "text"), "category"),
    **dict.fromkeys(("day", "date"), "date"),
    "time": "duration",
}


def test_estimators_and_files_and_reports_see_the_same_kinds():
    frame = pd.DataFrame(COLUMNS)
    fields = as_stored(frame)
    assert {each.name: each.kind for each in fields} == KINDS
    assert {each.name: each.missing for each in fields if each.missing} == dict.fromkeys(
        ("number", "decimal", "text", "day"), 1
    )
    encoder = TableEncoder(missing="impute").fit(frame)
    assert [KINDS[name] == "category" for name in frame.columns] == encoder.is_categorical
    found = survey(Frame(frame.assign(y=0.5).dropna(), "y"), Rules(), of_classes=False)
    assert {name: kind for name, (kind, _) in found.kinds.items()} == KINDS


def test_objects_are_neither_texts_nor_numbers():
    (found,) = as_stored(pd.DataFrame({"shape": [(1, 2), (3, 4), None]}))
    assert (found.kind, found.distinct, found.missing) == ("object", 2, 1)


def test_what_is_meant_goes_beyond_how_it_is_stored():
    n = 30
    frame = pd.DataFrame(
        {
            "row_id": np.arange(n),
            "when": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%dT%H:%M"),
            "note": [f"note {i}" for i in range(n)],
            "zip": [f"{i % 3:05d}" for i in range(n)],
            "same": 1.0,
            "empty": None,
        }
    )
    found = {each.name: each for each in examine(frame, {"zip": "number"}, "say {name}={kind}")}
    kinds = {name: each.kind for name, each in found.items()}
    assert kinds == {
        "row_id": "ignore", "when": "date", "note": "text", "zip": "number", "same": "number", "empty": "ignore"
    }  # fmt: skip
    assert found["row_id"].remark == "an identifier by its name: left out; say row_id=number"
    assert found["zip"].remark == "as you say"
    assert found["same"].remark == "constant: carries no information"


def test_new_rows_are_made_like_those_that_were_examined():
    frame = pd.DataFrame({"size": [1.5, 2.5], "day": ["2024-01-01", "2024-01-02"], "code": [7, 8]})
    schema = Schema(examine(frame, {"code": "category"}))
    new = pd.DataFrame({"code": [8.0, np.nan], "day": ["2024-01-01T12:00Z", None], "size": ["3", None]}, index=[1, 2])
    found = schema.conform(new, "new.csv")
    assert found["size"].tolist()[0] == 3.0
    assert found["code"].tolist()[0] == "8"
    assert found["day"].iloc[0] == pd.Timestamp("2024-01-01 12:00")
    assert found.isna().iloc[1].all()
    with pytest.raises(
        InputError, match=r"new\.csv has 'big' in column 'size', row 0: expected a number \(bad in 1 of 2 rows"
    ):
        schema.conform(frame.assign(size=["big", 1]), "new.csv")
    with pytest.raises(
        InputError, match="has no column 'size', which the model was fitted with; did you mean 'Size' for 'size'"
    ):
        schema.conform(frame.rename(columns={"size": "Size"}), "new.csv")
