"""Files are read in bounded memory, and those that cannot be read are named."""

import gzip

import numpy as np
import pandas as pd
import pytest

from stratagp.data import Frame, Rules, copies, open_source, survey
from stratagp.data.rules import Divided, _gaps
from stratagp.errors import InputError, RowError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def test_a_large_row_group_is_not_held_as_a_whole(tmp_path):
    """Four readers of 32 MB in one row group: each has a page and a buffer of each column, and not all rows."""
    path, n = tmp_path / "t.parquet", 2_000_000
    numbers = np.random.default_rng(0).normal(size=(2, n))
    table = pa.table({"a": numbers[0], "y": numbers[1]})
    parquet.write_table(table, path, row_group_size=n, use_dictionary=False, compression="none")
    assert path.stat().st_size > 16 * n
    source, pool = open_source(path, "y"), pa.default_memory_pool()
    assert [part.rows for part in source.parts] == [n]
    before = pool.bytes_allocated()
    readers = [source.blocks(0, row) for row in (0, 50_000, 100_000, 150_000)]
    for reader, values in zip(readers, numbers[1][:200_000].reshape(4, -1), strict=True):
        assert next(reader).y[:10].tolist() == values[:10].tolist()
    assert pool.bytes_allocated() - before < 0.75 * path.stat().st_size


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"], ids=["empty", "text", "cut off"])
def test_arrays_that_cannot_be_read_are_named(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"x.npy cannot be read as an array of numbers: "):
        open_source(tmp_path / "x.npy")


def test_arrays_of_something_else_are_named(tmp_path):
    np.save(tmp_path / "whole.npy", np.ones((4000, 2)))
    (tmp_path / "part.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-8])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    for name in ("part", "objects"):
        with pytest.raises(InputError, match=rf"{name}.npy cannot be read as an array of numbers: "):
            open_source(tmp_path / f"{name}.npy")
    np.save(tmp_path / "one.npy", np.float64(1.0))
    with pytest.raises(InputError, match=r"one.npy holds no rows"):
        open_source(tmp_path / "one.npy")


def test_arrays_at_addresses_are_refused():
    pytest.importorskip("fsspec").filesystem("memory").pipe("/arrays/x.npy", b"")
    with pytest.raises(InputError, match=r"/arrays/x.npy is remote, but .npy files must be local: copy the file"):
        open_source("memory://arrays/x.npy")


def test_a_table_of_targets_alone_is_refused(tmp_path):
    pd.DataFrame({"y": [1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"^X: \S*t.parquet has no columns besides the target: add input"):
        survey(open_source(tmp_path, "y"), Rules(), of_classes=False)


def test_endings_in_capitals_are_read(tmp_path):
    table = pd.DataFrame({"city": ["Oslo", "Rome"], "y": [1.0, 2.0]})
    (tmp_path / "A.TSV").write_text(table.to_csv(index=False, sep="\t"))
    (tmp_path / "b.CSV.GZ").write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    (tmp_path / "c.Tsv.gz").write_bytes(gzip.compress(table.to_csv(index=False, sep="\t").encode()))
    for path in sorted(tmp_path.iterdir()):
        block = next(open_source(path, "y").blocks(0))
        assert (block.X["city"].tolist(), block.y.tolist()) == (["Oslo", "Rome"], [1.0, 2.0])
    (tmp_path / "b.CSV.GZ").write_bytes(gzip.compress("city,y\nä,1\n".encode("latin-1")))
    with pytest.raises(InputError, match=r"b.CSV.GZ is not UTF-8 .line 2 cannot be decoded"):
        open_source(tmp_path / "b.CSV.GZ", "y")


def written(path, columns, rows=100):
    """Whole numbers, or nothing, and then a row of other values."""
    names, first, last = zip(*columns, strict=True)
    lines = [names, *([first] * rows), last]
    path.write_text("\n".join(",".join(line) for line in lines) + "\n")


@pytest.mark.parametrize(("last", "passes"), [("2.5", 3), ("oh", 13)])
def test_a_file_is_not_read_again_for_each_column_that_becomes_wider(tmp_path, monkeypatch, last, passes):
    """Numbers widen together; texts do not, as a column of numbers beside them is to stay one."""
    reads, write = [], copies._write_copy
    monkeypatch.setattr(copies, "_BLOCK", 256)
    monkeypatch.setattr(copies, "_write_copy", lambda *args: (reads.append(1), write(*args)))
    first = "1" if last == "2.5" else ""
    written(tmp_path / "t.csv", [(f"x{i}", first, last) for i in range(12)] + [("id", "7", "8"), ("y", "0", "1")])
    source = open_source(tmp_path / "t.csv", "y")
    assert len(reads) == passes
    blocks = list(source.all_blocks())
    assert blocks[0].y.dtype == np.int64
    X = pd.concat([block.X for block in blocks]).astype(object)
    assert X.iloc[-1, :12].tolist() == [float(last) if last == "2.5" else last] * 12
    assert X["id"].tolist()[-2:] == [7, 8]


def test_gaps_of_objects_are_found_whatever_they_are():
    labels = np.array(["a", "b"] * 50, dtype=object)
    assert not _gaps(labels).any()
    for gap in (None, float("nan"), pd.NA, pd.NaT):
        labels[7] = gap
        assert np.flatnonzero(_gaps(labels)).tolist() == [7]
    lists = np.empty(3, dtype=object)
    lists[:] = [[1], None, [2]]  # which have no hash
    assert _gaps(lists).tolist() == [False, True, False]
    assert _gaps(np.array([["a", 1], ["b", None]], dtype=object)).tolist() == [False, True]


def test_classes_of_other_types_in_another_file_are_refused(tmp_path):
    for i, labels in enumerate(([1, 2], ["up", None, "up"])):
        pd.DataFrame({"the target": 1.0, "y": labels}).to_parquet(tmp_path / f"{i}.parquet")
    with pytest.raises(InputError) as caught:
        survey(open_source(tmp_path, "y"), Rules(missing="drop"), of_classes=True)
    assert str(caught.value) == (
        f"{tmp_path}/1.parquet: the target holds values of kind 'text' ('up' in row 0), but of kind 'number' in "
        f"{tmp_path}/0.parquet: give all files the same types"
    )
    table = pd.DataFrame({"a": np.arange(5.0), "y": ["u", None, "v", True, "u"]})
    with pytest.raises(InputError, match=r"the frame: the target holds .*\((True in row 3|'[uv]' in row [02])\), but"):
        survey(Frame(table, "y"), Rules(missing="drop"), of_classes=True)
    whole = Frame(table.assign(y=[1, 1.0, 2, 2.0, 2]), "y")
    assert sorted(survey(whole, Rules(), of_classes=True).classes) == [1, 2]


def test_surveys_of_processes_compare_classes_too(tmp_path):
    pd.DataFrame({"a": [1.0], "y": [True]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"a": [1.0], "y": ["no"]}).to_parquet(tmp_path / "1.parquet")
    one, other = (survey(open_source(tmp_path / f"{i}.parquet", "y"), Rules(), True) for i in range(2))
    with pytest.raises(InputError, match=r"1.parquet: the target holds values of kind 'text', but of kind 'truth val"):
        one.merge(other)


def test_rows_of_a_side_are_counted_in_their_file(tmp_path):
    """A gap is named by its row of the file, also where half of the rows before it are on the other side."""
    table = pd.DataFrame({"a": np.arange(500.0), "y": np.arange(500.0)})
    source = open_source(_stored(table, tmp_path), "y")
    held = Divided(source, 0.5, 0, held=True)
    rows = np.concatenate([block.y for block in held.blocks(0)]).astype(int)
    table.loc[rows[-1], "y"] = np.nan
    source = open_source(_stored(table, tmp_path), "y")
    assert len(rows) < 300
    with pytest.raises(RowError, match=rf"t.parquet: row {rows[-1]} has missing or infinite values in the target"):
        survey(Divided(source, 0.5, 0, held=True), Rules(), of_classes=False)


def _stored(table, folder):
    table.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"
