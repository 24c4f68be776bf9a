"""Sources give every row once, in any number of processes; bad files are reported by name and row."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stratagp.data import Arrays, Frame, Rules, Stream, copies, open_source, survey
from stratagp.data.sampling import Moments, Sample
from stratagp.data.source import PART_ROWS
from stratagp.errors import InputError
from stratagp.training.world import World

RNG = np.random.default_rng(0)


def frame(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.normal(size=n), "kind": rng.choice(["x", "y"], size=n), "row": np.arange(n) * 1.0 + 10_000 * seed}
    )


def numbers(block):
    return [torch.tensor(block.X["a"].to_numpy()[:, None]), torch.tensor(block.y.astype(float))]


class Pretended(World):
    """One of several processes, as far as the order of rows goes."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def from_first(self, value):
        return value


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        frame(300 + i, i).to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=70)
    return tmp_path


def stream_of(source, share=0.0, memory=1 << 20, encode=numbers, lanes=8):
    rules = Rules(share)
    return Stream(source, rules, survey(source, rules, of_classes=False), encode, memory, lanes)


def epoch(stream, size, world=None, epochs=1, seed=0):
    batches = stream.batches(size, torch.Generator().manual_seed(seed), torch.float64, world or World())
    for _ in range(epochs):
        found = [y.tolist() for _, y in batches.epoch(10**9)]
    return found


def test_an_epoch_has_every_row_once_but_for_those_left_over(folder):
    stream = stream_of(open_source(folder, "row"))
    batches = epoch(stream, 50)
    assert stream.rows == 903
    assert [len(batch) for batch in batches] == [50] * 18
    rows = [row for batch in batches for row in batch]
    assert len(set(rows)) == 900
    assert set(rows) <= {10_000 * i + j for i in range(3) for j in range(300 + i)}


def test_the_order_follows_from_the_seed_and_changes_with_the_epoch(folder):
    source = open_source(folder, "row")
    assert epoch(stream_of(source), 50) == epoch(stream_of(source), 50)
    assert epoch(stream_of(source), 50) != epoch(stream_of(source), 50, seed=1)
    assert epoch(stream_of(source), 50) != epoch(stream_of(source), 50, epochs=2)


@pytest.mark.parametrize("size", [2, 3, 11])
def test_batches_are_the_same_however_many_processes_share_them(folder, size):
    lanes = max(8, size)
    source = open_source(folder, "row")
    alone = epoch(stream_of(source, lanes=lanes), 50)
    shares = [epoch(stream_of(source, lanes=lanes), 50, Pretended(rank, size)) for rank in range(size)]
    for whole, *parts in zip(alone, *shares, strict=True):
        assert sorted(whole) == sorted(row for part in parts for row in part)


def test_fewer_rows_in_a_batch_than_processes(folder):
    source = open_source(folder, "row")
    shares = [epoch(stream_of(source, lanes=4), 3, Pretended(rank, 4)) for rank in range(4)]
    assert [len(share[0]) for share in shares] == [1, 1, 1, 0]


@pytest.mark.parametrize("memory", [1 << 12, 1 << 20])
def test_an_epoch_goes_on_from_anywhere(folder, memory):
    source = open_source(folder, "row")
    whole = epoch(stream_of(source, memory=memory), 20, epochs=2)
    for taken in (1, 7, 31, 44):
        first, later = (
            stream_of(source, memory=memory).batches(20, torch.Generator().manual_seed(seed), torch.float64, World())
            for seed in (0, 5)
        )
        for _ in first.epoch(10**9):
            pass
        for _ in zip(range(taken), first.epoch(10**9), strict=False):
            pass
        later.restore({**first.state(), "taken": taken})
        assert [y.tolist() for _, y in later.epoch(10**9)] == whole[taken:]


def test_all_rows_are_seen_in_a_few_epochs():
    """1,999 rows in batches of 1,000 leave 999 over, others in each epoch; a second stage goes on with other rows."""
    source = Frame(frame(1999), "row")
    batches = stream_of(source).batches(1000, torch.Generator().manual_seed(0), torch.float64, World())
    seen = {row for _ in range(12) for _, y in batches.epoch(10**9) for row in y.tolist()}
    assert len(seen) == 1999
    generator, stream = torch.Generator().manual_seed(0), stream_of(source)
    first, second = (
        next(stream.batches(100, generator, torch.float64, World()).epoch(1))[1].tolist() for _ in range(2)
    )
    assert len(set(first) & set(second)) < 50


def test_windows_bound_the_memory(folder):
    batches = stream_of(open_source(folder, "row"), memory=1 << 20).batches(
        8, torch.Generator(), torch.float64, World()
    )
    assert batches.window * 8 * 16 <= 1 << 20  # lanes, and bytes of two numbers
    small = stream_of(open_source(folder, "row"), memory=1).batches(8, torch.Generator(), torch.float64, World())
    assert small.window == 4


def test_an_index_of_pandas_is_no_column(tmp_path):
    table = frame(100)
    table[table["a"] > 0].to_parquet(tmp_path / "some.parquet")
    table.set_index("kind").to_parquet(tmp_path / "named.parquet")
    block = next(open_source(tmp_path / "some.parquet", "row").blocks(0))
    assert list(block.X.columns) == ["a", "kind"]
    assert block.y.tolist() == table["row"][table["a"] > 0].tolist()
    assert sorted(next(open_source(tmp_path / "named.parquet", "row").blocks(0)).X.columns) == ["a", "kind"]


def test_blanks_of_texts_in_csv_are_missing(tmp_path):
    (tmp_path / "t.csv").write_text("city,row\nOslo,1\n,2\nRome,3\n")
    with pytest.raises(InputError, match="row 1 has missing"):
        survey(open_source(tmp_path / "t.csv", "row"), Rules(), of_classes=False)


def test_columns_without_names(tmp_path):
    table = pd.DataFrame({0: [1.0, 2.0], 1: ["a", "b"], "row": [1.0, 2.0]})
    assert survey(Frame(table, "row"), Rules(), of_classes=False).categories == {1: {"a", "b"}}


def test_held_out_rows_are_never_seen_and_equal_rows_stay_together(folder):
    source = open_source(folder, "row")
    rules = Rules(0.2, seed=3)
    found = survey(source, rules, of_classes=False)
    held = found.held.settle().y
    assert 0.14 < len(held) / 903 < 0.26
    assert found.rows == 903 - len(held)
    seen = [row for batch in epoch(Stream(source, rules, found, numbers), 10) for row in batch]
    assert not set(seen) & set(held)
    twice = Frame(pd.concat([frame(200)] * 2), "row")
    held = survey(twice, Rules(0.3), of_classes=False).held.settle().y
    assert all(count == 2 for count in np.unique(held, return_counts=True)[1])


def test_a_survey_is_the_same_in_any_number_of_processes(folder):
    source = open_source(folder, "row")

    class Rank(Pretended):
        def all_have(self, value):
            return [value]

    whole = survey(source, Rules(0.1), of_classes=False)
    parts = [survey(source, Rules(0.1), False, Rank(rank, 3)) for rank in range(3)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.rows == whole.rows
    np.testing.assert_allclose(merged.moments.mean, whole.moments.mean)
    np.testing.assert_allclose(merged.moments.spread, whole.moments.spread)
    assert merged.sample.settle().y.tolist() == whole.sample.settle().y.tolist()
    assert merged.categories == whole.categories == {"kind": {"x", "y"}}


def test_moments_equal_those_of_all_rows():
    values = RNG.normal(size=(1000, 2)) * [1.0, 1e-3] + [0.0, 1e6]
    found = Moments.of(values[:1])
    for i in range(1, 1000, 37):
        found = found.merged(Moments.of(values[i : i + 37]))
    np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.spread, values.std(0), rtol=1e-7)


def test_a_sample_is_the_rows_with_the_smallest_keys():
    keys = RNG.permutation(5000).astype(np.uint64)
    sample, source = Sample(50), Frame(pd.DataFrame({"a": keys.astype(float), "row": keys.astype(float)}), "row")
    for block in source.blocks(0):
        for start in range(0, len(block), 100):
            rows = np.arange(start, min(start + 100, len(block)))
            sample.add(keys[rows], block.take(rows))
    assert sample.settle().y.tolist() == list(range(50))


def test_csv_tsv_and_memory_maps_give_the_same_rows(tmp_path):
    table = frame(500)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    table.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "x.npy", table[["a"]].to_numpy())
    expected = [table["row"].tolist(), table["a"].tolist()]
    for name in ("t.csv", "t.tsv", "t.parquet"):
        blocks = list(open_source(tmp_path / name, "row", columns=["a"]).blocks(0))
        assert [
            np.concatenate([b.y for b in blocks]).tolist(),
            pd.concat([b.X for b in blocks])["a"].tolist(),
        ] == expected
    mapped = Arrays(np.load(tmp_path / "x.npy", mmap_mode="r"), table["row"].to_numpy())
    assert next(mapped.blocks(0)).X[:, 0].tolist() == expected[1]
    assert open_source(tmp_path / "x.npy").rows == 500


def test_addresses_of_fsspec_folders_and_patterns(tmp_path, folder):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for i in range(3):
        with system.open(f"/tables/part-{i}.parquet", "wb") as file:
            file.write((folder / f"part-{i}.parquet").read_bytes())
    for where in ("memory://tables", "memory://tables/*.parquet", folder, str(folder / "*.parquet")):
        assert open_source(where, "row").rows == 903
    files = sorted(str(path) for path in folder.iterdir())
    assert open_source(files[:2], "row").rows == 601


def test_arrays_are_parts_of_bounded_size():
    source = Arrays([np.zeros((PART_ROWS + 5, 1)), np.ones((3, 1))], [np.zeros(PART_ROWS + 5), np.ones(3)])
    assert [part.rows for part in source.parts] == [PART_ROWS, 5, 3]
    assert sum(len(block) for block in source.blocks(0)) == PART_ROWS
    assert sum(len(block) for block in source.blocks(0, first=PART_ROWS - 2)) == 2


def test_missing_values_are_refused_by_file_and_row_or_dropped(tmp_path):
    bad = frame(200)
    bad.loc[137, "a"] = np.nan
    bad.loc[150, "row"] = np.inf
    bad.loc[160, "kind"] = None
    bad.to_parquet(tmp_path / "bad.parquet", row_group_size=100)
    with pytest.raises(InputError, match=r"bad.parquet: row 137 has missing or infinite values in column 'a'"):
        survey(open_source(tmp_path / "bad.parquet", "row"), Rules(), of_classes=False)
    source = open_source(tmp_path / "bad.parquet", "row", missing="drop")
    found = survey(source, Rules(missing="drop"), of_classes=False)
    assert (found.dropped, found.rows) == (3, 197)


def test_bad_files_are_reported_by_name(tmp_path, folder):
    whole = (folder / "part-0.parquet").read_bytes()
    (folder / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"part-1.parquet is not a complete Parquet file"):
        open_source(folder, "row")
    (folder / "part-1.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"part-1.parquet is not a complete Parquet file"):
        open_source(folder, "row")
    frame(10).rename(columns={"a": "b"}).to_parquet(folder / "part-1.parquet")
    with pytest.raises(
        InputError, match=r"part-1.parquet must have the columns of .*part-0.parquet, but lacks 'a' and adds 'b'"
    ):
        open_source(folder, "row")
    frame(10).assign(a="text").to_parquet(folder / "part-1.parquet")
    with pytest.raises(
        InputError,
        match=r"part-1.parquet: column 'a' holds values of kind 'category' \('text' in row 0\), but of kind 'num",
    ):
        survey(open_source(folder, "row"), Rules(), of_classes=False)
    with pytest.raises(InputError, match=r"^y: .* no column 'price'; its columns are 'a', 'kind', 'row'"):
        open_source(folder / "part-0.parquet", "price")
    with pytest.raises(InputError, match=r"nothing.parquet does not exist"):
        open_source(tmp_path / "nothing.parquet", "row")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no table files"):
        open_source(tmp_path / "empty")
    frame(0).to_parquet(tmp_path / "empty" / "none.parquet")
    with pytest.raises(InputError, match=r"none.parquet has no rows"):
        open_source(tmp_path / "empty", "row")


def test_a_damaged_row_group_is_reported_where_it_is_read(tmp_path):
    path = tmp_path / "t.parquet"
    frame(5000).to_parquet(path, row_group_size=1000)
    content = bytearray(path.read_bytes())
    content[4:3000] = b"\xff" * 2996
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"t.parquet cannot be read from row 0 on: ") as caught:
        survey(open_source(path, "row"), Rules(), of_classes=False)
    assert "\n" not in str(caught.value)


def test_csv_whose_types_change_half_way(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "_BLOCK", 256)
    lines = ["a,row"] + [f"{i},{i}" for i in range(1_000)] + ["oh no,5"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"t.csv cannot be read as CSV: .*oh no"):
        open_source(tmp_path / "t.csv", "row")
    (tmp_path / "none.csv").write_text("")
    with pytest.raises(InputError, match=r"none.csv cannot be read as CSV"):
        open_source(tmp_path / "none.csv", "row")


def test_files_that_shrink_while_they_are_read(folder):
    source = open_source(folder, "row")
    stream = stream_of(source)
    frame(10).to_parquet(folder / "part-1.parquet")
    source._file.cache_clear()
    with pytest.raises(InputError, match=r"part-1.parquet"):
        epoch(stream, 50)


def test_bad_arguments():
    with pytest.raises(InputError, match="missing must be 'raise' or 'drop'"):
        Arrays(np.zeros((3, 1)), missing="ignore")
    with pytest.raises(InputError, match="memory must be at least 1 MiB, in bytes"):
        Frame(frame(5), "row", memory=5)
    with pytest.raises(InputError, match="as many rows as X: array 0 has 2"):
        Arrays(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(InputError, match="has no rows"):
        Frame(frame(0), "row")
    with pytest.raises(
        InputError, match="X must be an array or a list of arrays, got str: open tables with open_source"
    ):
        Arrays("X.npy", "y.npy")
    with pytest.raises(
        InputError, match="y must be an array or a list of arrays, got PosixPath: open tables with open_source"
    ):
        Arrays(np.zeros((3, 1)), Path("y.npy"))
    with pytest.raises(InputError, match="those of array 1 have shape"):
        Arrays([np.zeros((3, 1)), np.zeros((3, 2))])


def test_copies_of_csv_files_are_said(tmp_path, caplog):
    frame(5).to_csv(tmp_path / "t.csv", index=False)
    with caplog.at_level(logging.INFO, logger="stratagp"):
        open_source(tmp_path / "t.csv", "row")
    assert "copying CSV files to Parquet" in caplog.text


def test_folders_that_name_a_partition_are_columns(tmp_path):
    """As pyarrow.dataset reads them, in Parquet and in copies of CSV files."""
    for year, town in ((2020, "Rome"), (2021, "S%C3%A3o Paulo"), (2021, "Rome")):
        place = tmp_path / f"year={year}" / f"town={town}"
        place.mkdir(parents=True)
        frame(20, year - 2020).to_parquet(place / "part.parquet")
    dataset = pytest.importorskip("pyarrow.dataset")
    theirs = dataset.dataset(tmp_path, partitioning="hive").to_table().to_pandas()
    source = open_source(tmp_path, "row")
    ours = pd.concat([next(source.blocks(part)).X for part in range(3)])
    assert list(ours.columns) == ["a", "kind", "year", "town"]
    assert ours["year"].tolist() == theirs["year"].tolist()
    assert ours["town"].tolist() == theirs["town"].tolist() == ["Rome"] * 40 + ["São Paulo"] * 20
    found = survey(source, Rules(), of_classes=False)
    assert {name: kind for name, (kind, _) in found.kinds.items()} == {
        "a": "number",
        "kind": "category",
        "year": "number",
        "town": "category",
    }
    assert found.categories["town"] == {"Rome", "São Paulo"}
    (block,) = open_source(tmp_path, "row", columns=["town"]).blocks(2)
    assert (block.X["town"].tolist(), block.y.tolist()[:2]) == (["São Paulo"] * 20, [10_000.0, 10_001.0])
    assert next(open_source(tmp_path, "year", columns=["a"]).blocks(2)).y.tolist() == [2021] * 20
    assert next(open_source(tmp_path, columns=["year"]).blocks(0)).X["year"].tolist() == [2020] * 20
    for path in tmp_path.rglob("*.parquet"):
        pd.read_parquet(path, partitioning=None).to_csv(path.with_suffix(".csv"), index=False)
        path.unlink()
    copied = open_source(tmp_path, "row")
    assert pd.concat([next(copied.blocks(part)).X for part in range(3)])["town"].tolist() == ours["town"].tolist()


def test_folders_of_partitions_that_do_not_agree(tmp_path):
    for name in ("year=2020", "year=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / name).mkdir()
        frame(5).to_parquet(tmp_path / name / "part.parquet")
    with pytest.raises(InputError, match=r"year=__HIVE_.*: row 0 has missing"):
        survey(open_source(tmp_path, "row"), Rules(), of_classes=False)
    found = survey(open_source(tmp_path, "row", missing="drop"), Rules(missing="drop"), of_classes=False)
    assert (found.rows, found.dropped) == (5, 5)
    frame(5).to_parquet(tmp_path / "part.parquet")
    with pytest.raises(
        InputError, match=r"year=2020/part.parquet must have the columns of .*part.parquet, but adds 'year'"
    ):
        open_source(tmp_path, "row")


def test_targets_that_are_no_numbers_are_reported_by_file_and_row():
    bad = np.arange(500).astype(object)
    bad[321] = "many"
    source = Arrays([np.zeros((9, 1)), np.zeros((500, 1))], [np.arange(9), bad])
    with pytest.raises(InputError, match=r"array 1: row 321: y must hold numbers, got 'many'"):
        survey(source, Rules(), of_classes=False)


@pytest.mark.parametrize(
    "days", [pd.date_range("2020-01-01", periods=5), list(pd.date_range("2020-01-01", periods=5).date)]
)
def test_dates_are_no_targets(tmp_path, days):
    pd.DataFrame({"a": np.arange(5.0), "day": days}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet: row 0: y must hold numbers, got 2020-01-01.*: convert times"):
        survey(open_source(tmp_path, "day"), Rules(), of_classes=False)


def test_rows_of_a_frame_are_counted_from_its_start_whatever_its_index():
    table = frame(PART_ROWS + 10).set_index(pd.Index(range(PART_ROWS + 10, 0, -1)))
    table.iloc[PART_ROWS + 3, 0] = np.nan
    with pytest.raises(
        InputError, match=f"the frame: row {PART_ROWS + 3} has missing or infinite values in column 'a'"
    ):
        survey(Frame(table, "row"), Rules(), of_classes=False)
    values = table[["a"]].to_numpy()
    with pytest.raises(InputError, match=f"array 0: row {PART_ROWS + 3} has missing or infinite values: fill"):
        survey(Arrays(values, np.zeros(len(values))), Rules(), of_classes=False)
