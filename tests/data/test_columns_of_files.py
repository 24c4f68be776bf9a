"""Types of columns that change, within a file and between blocks, and how messages name files and rows."""

import numpy as np
import pandas as pd
import pytest

from stratagp.data import Rules, copies, open_source, survey
from stratagp.data.sampling import Sample, row_hashes
from stratagp.data.source import Block
from stratagp.errors import InputError


def test_equal_rows_have_equal_hashes_whatever_their_types():
    """Whole numbers beside a missing one are real numbers, and truth values are objects; −0 is 0."""
    plain = pd.DataFrame({"a": [1, 2, 0], "b": [True, False, True], "c": ["u", "v", "w"]})
    gap = pd.DataFrame({"a": [1.0, 2.0, -0.0, None], "b": [True, False, True, None], "c": ["u", "v", "w", "w"]})
    nullable = gap.astype({"a": "Int64", "b": "boolean"})
    as_categories = plain.astype({"a": "int8", "c": "category"})
    for other in (gap, nullable, as_categories):
        assert (row_hashes(other)[:3] == row_hashes(plain)).all()
    assert len(set(row_hashes(gap))) == 4
    assert (row_hashes(np.array([[0.0]])) == row_hashes(np.array([[-0.0]]))).all()


def test_a_split_does_not_depend_on_a_missing_value_elsewhere(tmp_path):
    """The same 200 rows in two files, one of which has a row more, without a value."""
    rows = pd.DataFrame({"a": np.arange(200), "y": np.arange(200.0)})
    rows.to_parquet(tmp_path / "0.parquet")
    pd.concat([rows, pd.DataFrame({"a": [None], "y": [0.0]})]).astype({"a": float}).to_parquet(tmp_path / "1.parquet")
    source = open_source(tmp_path, "y", missing="drop")
    rules = Rules(0.3, "drop", 1)
    sides = [rules.held(block)[:200] for part in range(2) for block in source.blocks(part)]
    assert (sides[0] == sides[1]).all()
    assert 30 < sides[0].sum() < 90


def test_csv_columns_become_wider_where_a_value_needs_it(tmp_path, monkeypatch):
    """Whole numbers, then a real one; nothing, then a number, or a text; whole numbers stay whole elsewhere."""
    monkeypatch.setattr(copies, "_BLOCK", 256)
    lines = ["a,b,c,y"] + [f"{i},,,{i}" for i in range(100)] + ["1.5,7,u,100", "2,8.5,v,101"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    source = open_source(tmp_path / "t.csv", "y")
    blocks = [block for part in range(len(source.parts)) for block in source.blocks(part)]
    X = pd.concat([block.X for block in blocks])
    assert source.rows == 102
    assert X["a"].tail(3).tolist() == [99.0, 1.5, 2.0]
    assert X["b"].tail(2).tolist() == [7.0, 8.5]
    assert X["c"].astype(str).tail(2).tolist() == ["u", "v"]
    assert blocks[0].y.dtype == np.int64


def test_rows_of_csv_files_are_named_by_the_file_that_was_given(tmp_path, monkeypatch):
    """Row 137 of the file, whatever parts its copy has."""
    monkeypatch.setattr(copies, "_GROUP_ROWS", 50)
    rows = pd.DataFrame({"a": np.arange(200.0), "y": np.arange(200.0)})
    rows.loc[137, "a"] = np.nan
    rows.to_csv(tmp_path / "t.csv", index=False)
    source = open_source(tmp_path / "t.csv", "y")
    assert len(source.parts) == 4
    with pytest.raises(InputError) as caught:
        survey(source, Rules(), of_classes=False)
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: row 137 has missing or infinite values")
    with pytest.raises(InputError, match=r"t.csv has no column 'z'") as caught:
        open_source(tmp_path / "t.csv", "z")
    assert ".parquet" not in str(caught.value)


def test_nested_columns_are_refused_unless_others_are_chosen(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "b": [[1, 2], [3]], "y": [0.0, 1.0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet: column 'b' has values of type list<.*columns="):
        open_source(tmp_path / "t.parquet", "y")
    assert open_source(tmp_path / "t.parquet", "y", columns=["a"]).rows == 2


def test_samples_of_processes_shrink_to_the_rows_that_all_of_them_keep():
    samples = []
    for rank in range(2):
        sample = Sample(10)
        keys = np.arange(rank, 60, 2 + rank, dtype=np.uint64)
        sample.add(keys, Block(keys[:, None].astype(float), None, "rows", 0))
        sample.settle()
        samples.append(sample)
    keys = [sample.own_keys() for sample in samples]
    for sample in samples:
        sample.drop_beyond(keys)
    assert sum(len(sample.own_keys()) for sample in samples) <= 11  # a key that both have stands for two rows
    whole = Sample(10)
    for sample in samples:
        whole.merge(sample)
    found = whole.settle()
    assert found is not None
    assert found.X[:, 0].tolist() == sorted(np.concatenate(keys))[:10]
