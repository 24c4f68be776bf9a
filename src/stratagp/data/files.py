"""Tables in files: Parquet, CSV and numpy arrays, one or thousands of them, here or at any address of ``fsspec``.

Parquet files are read by row groups, of which only the footers are looked at when they are opened. CSV files have no
parts that could be found without reading them: they are copied into Parquet once, into a folder that goes with the
source.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from stratagp.data.source import MEMORY, Arrays, Block, Part, Source, block_rows, split_frame, target_names
from stratagp.errors import InputError
from stratagp.training.progress import log

_TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_TABLES = (".parquet", ".pq")
_OPEN_FILES = 64
_CSV_BLOCK = 8 << 20  # bytes that are read at once
_GROUP_ROWS = 1 << 16  # of copies of CSV files


def open_source(
    where: Any,
    target: Any = None,
    columns: Sequence[str] | None = None,
    missing: str = "raise",
    memory: int = MEMORY,
) -> Source:
    """Open files of a table.

    Arguments:
        where: a path or address of a Parquet or CSV file or of a folder of them, a pattern (``"flights/*.parquet"``), a
            list of these, or a path of an array (``.npy``, for prediction).
        target: the name of the column to predict, or a list of them.
        columns: the inputs to read; all others but the target where it is left out.
        missing, memory: as in :class:`~stratagp.data.Arrays`.
    """
    source = _opened(where, target, columns)
    source.settings(missing, memory)
    return source


def _opened(where: Any, target: Any, columns: Sequence[str] | None) -> Source:
    files, system = _files(where)
    kinds = {_kind(file) for file in files}
    if kinds == {".npy"}:
        if target is not None or columns is not None:
            raise InputError("arrays in .npy files have no names: give data.Arrays(X, y) with numpy.load(…, 'r')")
        return Arrays([np.load(file, mmap_mode="r") for file in files])
    if kinds == {"table"}:
        return ParquetFiles(files, target, columns, system)
    if kinds == {"text"}:
        return CsvFiles(files, target, columns, system)
    raise InputError(f"{where!r} must be files of one kind: .parquet, .csv (.tsv, .txt, also with .gz) or .npy")


class ParquetFiles(Source):
    """Row groups of Parquet files, which must all have the same columns."""

    def __init__(
        self, files: Sequence[str], target: Any = None, columns: Sequence[str] | None = None, system: Any = None
    ) -> None:
        self.files = list(files)
        self.parts, self._groups, names = [], list[tuple[int, int]](), list[str]()
        self._file = lru_cache(_OPEN_FILES)(partial(_open, self.files, system))
        for number, path in enumerate(self.files):
            file = self._file(number)
            found = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
            if not number:
                names = found
            elif set(found) != set(names):
                other = sorted(set(found) ^ set(names))
                raise InputError(f"{path} has other columns than {self.files[0]}: {', '.join(map(repr, other[:10]))}")
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if rows:
                    self.parts.append(Part(f"{path}, row group {group}", rows))
                    self._groups.append((number, group))
        if not self.parts:
            raise InputError(f"{self.files[0]}{' and others have' if len(self.files) > 1 else ' has'} no rows")
        self.targets = target_names(target, names, self.files[0])
        chosen = names if columns is None else [*target_names(list(columns), names, self.files[0]), *self.targets]
        self.columns = list(dict.fromkeys(chosen))

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in their order, from row ``first`` on, a block at a time."""
        pa = importlib.import_module("pyarrow")
        (number, group), where = self._groups[part], self.parts[part].where
        row = 0
        try:
            for batch in self._file(number).iter_batches(
                block_rows(8 * len(self.columns)), row_groups=[group], columns=self.columns
            ):
                if row + len(batch) > first:
                    some = batch.slice(max(0, first - row))
                    frame = _with_categories(some).to_pandas(ignore_metadata=True)[self.columns]
                    yield split_frame(frame, self.targets, where, max(first, row))
                row += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{where} cannot be read, from row {row} on: {error}") from error


class CsvFiles(ParquetFiles):
    """CSV files, copied into Parquet once; the copies go with the source."""

    def __init__(
        self, files: Sequence[str], target: Any = None, columns: Sequence[str] | None = None, system: Any = None
    ) -> None:
        folder = tempfile.mkdtemp(prefix="stratagp-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        log.info("%d CSV files are copied into Parquet, in %s", len(files), folder)
        copies = []
        for number, path in enumerate(files):
            copies.append(os.path.join(folder, f"{number:06d}-{Path(path).name}.parquet"))
            _copy_csv(path, copies[-1], system)
        super().__init__(copies, target, columns)


def _open(files: Sequence[str], system: Any, number: int) -> Any:
    pa, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    path = files[number]
    try:
        return parquet.ParquetFile(path if system is None else system.open(path, "rb"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {error}") from error


def _with_categories(batch: Any) -> Any:
    """Columns of text as categories: few of their values are distinct, as a rule, and are then made objects once."""
    pa, types = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.types"))
    columns = [
        column.dictionary_encode() if types.is_string(column.type) or types.is_large_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _copy_csv(path: str, copy: str, system: Any) -> None:
    names = ("pyarrow", "pyarrow.csv", "pyarrow.parquet")
    pa, csv, parquet = (importlib.import_module(name) for name in names)
    delimiter = "\t" if path.removesuffix(".gz").endswith(".tsv") else ","
    options = (
        csv.ReadOptions(block_size=_CSV_BLOCK),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        csv.ConvertOptions(strings_can_be_null=True),  # so that blanks and "NA" are missing in texts as in numbers
    )
    try:
        stream = path if system is None else system.open(path, "rb", compression="infer")
        with csv.open_csv(stream, *options) as reader, parquet.ParquetWriter(copy, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read as CSV: {first}") from error


def _files(where: Any) -> tuple[list[str], Any]:
    """The files of one or more paths, folders or patterns, in order, and the system they are in (None if here)."""
    if isinstance(where, (list, tuple)):
        found = [_files(each) for each in where]
        systems = [system for _, system in found]
        if len({type(system) for system in systems}) > 1:
            raise InputError("give files of one system: all here, or all at addresses of one kind")
        files = [file for each, _ in found for file in each]
        return _some(files, where), systems[0] if systems else None
    address = os.fspath(where)
    if "://" not in address:
        return _some(_listed(address, Path(address)), where), None
    system, path = importlib.import_module("fsspec").core.url_to_fs(address)
    if any(sign in path for sign in "*?["):
        files = sorted(system.glob(path))
    else:
        files = sorted(f for f in system.find(path) if _kind(f) is not None) if system.isdir(path) else [path]
    return _some(files, where), system


def _listed(address: str, path: Path) -> list[str]:
    if any(sign in address for sign in "*?[") and not path.exists():
        base = Path(path.anchor or ".")
        return sorted(str(each) for each in base.glob(str(path.relative_to(path.anchor) if path.anchor else path)))
    if path.is_dir():
        return sorted(str(each) for each in path.rglob("*") if each.is_file() and _kind(each.name) is not None)
    if not path.exists():
        raise InputError(f"{address} does not exist")
    return [address]


def _some(files: list[str], where: Any) -> list[str]:
    if not files:
        raise InputError(f"{where!r} has no files of a table: .parquet, .csv, .tsv or .npy")
    return files


def _kind(file: str) -> str | None:
    name = file.lower()
    if name.endswith(_TABLES):
        return "table"
    if name.endswith(_TEXTS):
        return "text"
    return ".npy" if name.endswith(".npy") else None
