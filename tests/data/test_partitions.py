"""Columns in the names of folders: which folders count, and which types they have."""

import os

import numpy as np
import pandas as pd
import pytest

from stratagp.data import open_source
from stratagp.errors import InputError


@pytest.fixture(params=["parquet", "csv"])
def zones(tmp_path, request):
    """Zones 1, 2 and A below a folder that is itself below one with a name and a value."""
    root = tmp_path / "lr=0.1" / "zone=9" / "data"
    for i, zone in enumerate(("1", "2", "A")):
        (root / f"zone={zone}").mkdir(parents=True)
        table, path = pd.DataFrame({"x": [1.0, 2.0], "y": [float(i), 5.0]}), root / f"zone={zone}" / "0"
        if request.param == "csv":
            table.to_csv(f"{path}.csv", index=False)
        else:
            table.to_parquet(f"{path}.parquet")
    return root


def columns(where, **options):
    block = next(open_source(where, "y", **options).blocks(0))
    return {name: block.X[name].tolist()[0] for name in block.X.columns}


def test_folders_above_what_is_opened_are_no_columns(zones, monkeypatch):
    ending = next(zones.rglob("0.*")).suffix
    assert columns(zones) == columns(str(zones / "*" / f"0{ending}")) == {"x": 1.0, "zone": "1"}
    monkeypatch.chdir(zones)
    for where in (".", f"zone=*/0{ending}", f"**/*{ending}", os.path.join("..", "data")):
        assert columns(where) == {"x": 1.0, "zone": "1"}
    for where in ("zone=1", f"zone=1/*{ending}", f"zone=1/0{ending}", [f"zone=1/0{ending}"]):
        assert columns(where) == {"x": 1.0}


def test_folders_of_a_list_are_columns_below_what_all_share(zones):
    files = sorted(map(str, zones.rglob("0.*")))
    assert columns(files) == columns([zones / "zone=1", zones / "zone=A"]) == {"x": 1.0, "zone": "1"}
    assert columns(files[:2]) == {"x": 1.0, "zone": 1}


def test_folders_above_are_columns_where_they_are_named(zones):
    assert columns(zones, columns=["x", "zone", "lr"]) == {"x": 1.0, "zone": "1", "lr": "0.1"}
    assert columns(zones / "zone=2", columns=["zone", "x"]) == {"zone": 2, "x": 1.0}  # not 9, which is further up
    with pytest.raises(InputError, match=r"^X: \S* has no column 'rate'; its columns are 'x', 'y', 'zone'$"):
        open_source(zones, "y", columns=["rate"])


def test_addresses_have_folders_below_and_above():
    system = pytest.importorskip("fsspec").filesystem("memory")
    text = pd.DataFrame({"x": [1.0], "y": [2.0]}).to_csv(index=False).encode()
    for zone in "12":
        system.pipe(f"/lr=5/zones/zone={zone}/0.csv", text)
    for where in ("memory://lr=5/zones", "memory://lr=5/zones/*/0.csv"):
        assert columns(where) == {"x": 1.0, "zone": 1}
        assert columns(where, columns=["lr"]) == {"lr": 5}


def test_some_of_the_files_have_the_types_of_all(zones):
    source = open_source(zones, "y")
    some = source.only(source.files[:2])
    assert [part.where for part in some.parts] == source.files[:2]
    assert pd.concat([block.X for block in some.all_blocks()])["zone"].tolist() == ["1", "1", "2", "2"]
    del source  # whose copies are still there
    assert next(some.blocks(1)).y.tolist() == [1.0, 5.0]
    pd.DataFrame({"x": [], "y": []}).to_parquet(zones.parent / "0.parquet")
    pd.DataFrame({"x": [1.0], "y": [1.0]}).to_parquet(zones.parent / "1.parquet")
    whole = open_source([zones.parent / "0.parquet", zones.parent / "1.parquet"], "y")
    with pytest.raises(InputError, match=r"0.parquet has no rows"):
        whole.only([whole.files[0]])


@pytest.mark.parametrize(
    ("folders", "values"),
    [
        (["00501", "10001"], ["00501", "10001"]),
        (["0", "-3"], [0, -3]),
        (["-0", "1"], ["-0", "1"]),
        (["9" * 18, "1"], [10**18 - 1, 1]),
        (["9" * 19, "1"], ["9" * 19, "1"]),
    ],
)
def test_whole_numbers_are_those_that_are_written_as_such(tmp_path, folders, values):
    for folder in folders:
        (tmp_path / f"v={folder}").mkdir()
        pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / f"v={folder}" / "0.parquet")
    source = open_source(tmp_path)
    found = {
        part.where.split("v=")[1].split("/")[0]: next(source.blocks(i)).X["v"][0] for i, part in enumerate(source.parts)
    }
    assert found == dict(zip(folders, values, strict=True))
    texts = source.with_texts(["v"])
    assert sorted(next(texts.blocks(i)).X["v"][0] for i in range(2)) == sorted(folders)
    assert isinstance(next(source.blocks(0)).X["v"][0], type(values[0]) if isinstance(values[0], str) else np.integer)
