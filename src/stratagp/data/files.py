"""Tables in files: Parquet, CSV and numpy arrays, one or thousands of them, here or at any address of ``fsspec``.

Parquet files are read by row groups, of which only the footers are looked at when they are opened. CSV files are copied
into Parquet once, into a folder that goes with the source.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from stratagp.data.copies import copy_once
from stratagp.data.listing import list_files, one_kind
from stratagp.data.partitions import partition_columns
from stratagp.data.source import MEMORY, Arrays, Block, Part, Source, block_rows, split_frame, target_names
from stratagp.errors import InputError

_OPEN_FILES = 16  # each keeps some 0.4 MB; a process reads at most eight at once, one for each lane


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
            list of these, or a path of an array (``.npy``, for prediction). Folders such as ``year=2020`` make a
            column of their rows; names that start with ``_`` or ``.`` are left out. CSV files must be UTF-8.
        target: the name of the column to predict, or a list of them.
        columns: the inputs to read; all others but the target where it is left out.
        missing, memory: as in :class:`~stratagp.data.Arrays`.

    >>> import tempfile
    >>> import pandas as pd
    >>> folder = tempfile.mkdtemp()
    >>> pd.DataFrame({"area": [50.0, 80.0], "price": [1.0, 2.0]}).to_parquet(f"{folder}/houses.parquet")
    >>> source = open_source(f"{folder}/*.parquet", "price")
    >>> source.rows, source.targets
    (2, ['price'])
    """
    source = _opened(where, target, columns)
    source.settings(missing, memory)
    return source


def _opened(where: Any, target: Any, columns: Sequence[str] | None) -> Source:
    files, system = list_files(where)
    kind = one_kind(files)
    if kind == ".npy":
        if target is not None or columns is not None:
            raise InputError("arrays in .npy files have no names: give data.Arrays(X, y) with numpy.load(…, 'r')")
        return Arrays([np.load(file, mmap_mode="r") for file in files])
    return (ParquetFiles if kind == "table" else CsvFiles)(files, target, columns, system)


class _Group(NamedTuple):
    """A row group: which file, which of its groups, and the row of the file that it starts at."""

    file: int
    group: int
    start: int


class ParquetFiles(Source):
    """Row groups of Parquet files, which must all have the same columns; those of their folders are columns too.

    Arguments:
        copies: of files that are not Parquet; messages name the files and their rows.
    """

    def __init__(
        self,
        files: Sequence[str],
        target: Any = None,
        columns: Sequence[str] | None = None,
        system: Any = None,
        copies: Sequence[str] | None = None,
    ) -> None:
        self.files, self._of_folders = list(files), partition_columns(copies or files)
        self.parts, self._groups, names = [], list[_Group](), list[str]()
        self._file = lru_cache(_OPEN_FILES)(partial(_open, list(copies or files), system))
        nested = dict[str, str]()
        for number, path in enumerate(self.files):
            file = self._file(number)
            found = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
            self._of_folders[number] = {n: v for n, v in self._of_folders[number].items() if n not in found}
            found += self._of_folders[number]
            names = names or found
            _refuse_others(path, found, self.files[0], names)
            nested |= {name: f"{path}: column {name!r} has values of type {kind}" for name, kind in _nested(file)}
            self._add_groups(number, file)
        if not self.parts:
            raise InputError(f"{self.files[0]}{' and others have' if len(self.files) > 1 else ' has'} no rows")
        self.targets = target_names(target, names, self.files[0])
        chosen = names if columns is None else [*target_names(list(columns), names, self.files[0], "X"), *self.targets]
        self.columns = list(dict.fromkeys(chosen))
        for name in self.columns:
            if name in nested:
                raise InputError(f"{nested[name]}: make plain columns of it, or choose others in columns=[…]")

    def _add_groups(self, number: int, file: Any) -> None:
        """Note the row groups of a file that have rows."""
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows:
                self.parts.append(Part(self.files[number], rows))
                self._groups.append(_Group(number, group, start))
            start += rows

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in their order, from row ``first`` on, a block at a time."""
        pa = importlib.import_module("pyarrow")
        (number, group, start), where = self._groups[part], self.parts[part].where
        row, file, of_folders = 0, self._file(number), self._of_folders[number]
        own = [name for name in self.columns if name not in of_folders] or file.schema_arrow.names[:1]
        try:
            for batch in file.iter_batches(block_rows(8 * len(self.columns)), row_groups=[group], columns=own):
                if row + len(batch) > first:
                    some = _with_categories(batch.slice(max(0, first - row)), of_folders)
                    frame = some.to_pandas(ignore_metadata=True)[self.columns]
                    yield split_frame(frame, self.targets, where, start + max(first, row))
                row += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{where} cannot be read, from row {start + row} on: {_one_line(error)}") from error


class CsvFiles(ParquetFiles):
    """CSV files, copied into Parquet once; the copies go with the source."""

    def __init__(
        self, files: Sequence[str], target: Any = None, columns: Sequence[str] | None = None, system: Any = None
    ) -> None:
        copies, leave = copy_once(files, system)
        weakref.finalize(self, leave)
        super().__init__(files, target, columns, copies=copies)


def _open(files: Sequence[str], system: Any, number: int) -> Any:
    pa, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    path = files[number]
    try:
        return parquet.ParquetFile(path if system is None else system.open(path, "rb"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _refuse_others(path: str, found: Sequence[str], first: str, names: Sequence[str]) -> None:
    """Files must have the columns of the first one; say what is missing, and what is too much."""
    gone, more = ([name for name in a if name not in b] for a, b in ((names, found), (found, names)))
    said = [f"{what} {', '.join(map(repr, some[:10]))}" for what, some in (("lacks", gone), ("adds", more)) if some]
    if said:
        raise InputError(f"{path} has other columns than {first}: it {' and '.join(said)}: let all have the same")


def _nested(file: Any) -> list[tuple[str, Any]]:
    """Columns whose values are lists, structures or maps, with their types."""
    types = importlib.import_module("pyarrow.types")
    return [(field.name, field.type) for field in file.schema_arrow if types.is_nested(field.type)]


def _with_categories(batch: Any, of_folders: dict[str, Any]) -> Any:
    """Rows with the columns of their folder, and texts as categories: few are distinct, and are made objects once."""
    pa, types = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.types"))
    constants = [pa.repeat(pa.scalar(value), len(batch)) for value in of_folders.values()]
    columns = [
        column.dictionary_encode() if types.is_string(column.type) or types.is_large_string(column.type) else column
        for column in (*batch.columns, *constants)
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *of_folders])
