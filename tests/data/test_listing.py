"""Which files are read, and which path would be one of them."""

from pathlib import Path

import pandas as pd
import pytest

from stratagp.data import open_source
from stratagp.data.listing import list_files, would_read
from stratagp.errors import InputError


@pytest.fixture
def folder(tmp_path):
    """Two Parquet files, with what Spark and others leave beside them."""
    for name in ("a.parquet", "b.parquet", "_old.parquet", ".c.parquet", "_temporary/d.parquet", "more/e.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pd.DataFrame({"x": [1.0], "y": [2.0]}).to_parquet(tmp_path / name)
    for name in ("_SUCCESS", ".a.parquet.crc", "_notes.csv"):
        (tmp_path / name).write_text("")
    return tmp_path


def names(where):
    return [Path(file).name for file in list_files(where)[0]]


def test_names_that_start_with_a_mark_are_left_out_unless_they_are_asked_for(folder):
    assert names(folder) == ["a.parquet", "b.parquet", "e.parquet"]
    assert names(str(folder / "*")) == names(str(folder / "*.parquet")) == ["a.parquet", "b.parquet"]
    assert names(str(folder / "_*.parquet")) == ["_old.parquet"]
    assert names([folder / "_old.parquet", folder / "more"]) == ["_old.parquet", "e.parquet"]
    assert open_source(folder, "y").rows == 3


def test_marks_are_left_out_at_addresses_too():
    system = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("a.parquet", "_b.parquet", "_tmp/c.parquet", "d.parquet"):
        system.pipe(f"/marked/{name}", b"")
    assert names("memory://marked") == names("memory://marked/*.parquet") == ["a.parquet", "d.parquet"]


def test_files_of_several_kinds_are_named(folder):
    (folder / "README.txt").write_text("x,y\n1,2\n")
    with pytest.raises(InputError) as caught:
        open_source(folder, "y")
    expected = f"files must be of one kind, got {folder}/a.parquet and {folder}/README.txt: give a pattern such as "
    assert str(caught.value).startswith(expected)
    with pytest.raises(InputError, match=r"_SUCCESS must end with .parquet, .csv"):
        open_source(folder / "_SUCCESS", "y")
    with pytest.raises(InputError, match=r"^/\S+ has no table files"):
        open_source(folder / "*.npy")


def test_what_is_no_path_is_refused():
    with pytest.raises(
        InputError, match=r"X must be a path or a Source, got DataFrame: for rows in memory use data.Frame\(frame"
    ):
        open_source(pd.DataFrame({"x": [1.0]}))


def test_columns_that_are_not_there_are_inputs_or_targets(folder):
    with pytest.raises(InputError, match=r"^X: .*a.parquet has no column 'z'; its columns are 'x', 'y'"):
        open_source(folder, "y", columns=["z"])
    with pytest.raises(InputError, match=r"^y: .*a.parquet has no column 'z'"):
        open_source(folder, "z")


@pytest.mark.parametrize(
    "of", [lambda f: f, lambda f: str(f / "*.parquet"), lambda f: [f / "b.parquet", f / "a.parquet"]]
)
def test_a_path_among_the_files_is_seen_whatever_it_is_called(folder, of, monkeypatch):
    (folder / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    for path in (folder / "a.parquet", Path("a.parquet"), folder / "more" / ".." / "a.parquet", Path("link/a.parquet")):
        assert would_read(of(folder), path)
    assert not would_read(of(folder), folder.parent / "a.parquet")
    assert not would_read("memory://tables", folder / "a.parquet")
    assert would_read(f"file://{folder}", folder / "a.parquet")


def test_a_path_that_is_not_there_yet_but_would_be_read_next_time(folder):
    assert would_read(folder, folder / "out.parquet")
    assert would_read("*.csv", Path("out.csv"))
    assert not would_read(folder / "a.parquet", folder / "out.parquet")
    assert not would_read(str(folder / "a*.parquet"), folder / "out.parquet")


def test_patterns_leave_out_folders_that_are_marks(folder):
    """As folders do; those before the first sign of a pattern are given by name."""
    (folder / "more" / ".hidden").mkdir()
    pd.DataFrame({"x": [1.0], "y": [2.0]}).to_parquet(folder / "more" / ".hidden" / "f.parquet")
    assert names(str(folder / "**" / "*.parquet")) == names(folder) == ["a.parquet", "b.parquet", "e.parquet"]
    assert names(str(folder / "_*" / "*.parquet")) == ["d.parquet"]
    assert names(str(folder / "_temporary" / "*.parquet")) == ["d.parquet"]
    assert names(str(folder / "*" / ".hidden" / "*.parquet")) == ["f.parquet"]


def test_patterns_leave_out_folders_that_are_marks_at_addresses():
    system = pytest.importorskip("fsspec").filesystem("memory")
    for name in ("_kept/a.parquet", "_kept/_tmp/c.parquet", "_kept/more/d.parquet"):
        system.pipe(f"/patterns/{name}", b"")
    assert names("memory://patterns/_kept/**/*.parquet") == ["a.parquet", "d.parquet"]
