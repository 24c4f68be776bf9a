"""Tables in files: Parquet, CSV and numpy arrays, one file or thousands, local or at any ``fsspec`` address.

Parquet files are read by row groups; opening them reads only their footers. CSV files are copied to Parquet once, into
a folder that lives as long as the source.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Container, Iterator, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from stratagp.data.copies import copy_once
from stratagp.data.listing import Listing, list_files, one_kind
from stratagp.data.partitions import partition_columns
from stratagp.data.source import MEMORY, Arrays, Block, Part, Source, block_rows, split_frame, target_names
from stratagp.errors import InputError, RowError

_BUFFER = 1 << 20  # bytes read at once from each column
_OPEN_FILES = 16  # each takes about 0.4 MB; a process reads at most eight at once, one for each lane


def open_source(
    where: Any,
    target: Any = None,
    columns: Sequence[str] | None = None,
    missing: str = "raise",
    memory: int = MEMORY,
) -> Source:
    """Open the files of a table as a source of rows.

    Arguments:
        where: a path or address of a Parquet or CSV file or of a folder of them, a pattern (``"flights/*.parquet"``), a
            list of these, or the path of an array (``.npy``, for prediction). Folders such as ``year=2020`` below the
            given folder (for a pattern or a list, below what all files have in common) become a column; those above it
            do so only if ``columns`` names them. Names that start with ``_`` or ``.`` are skipped. CSV files must be
            UTF-8.
        target: the name of the column to predict, or a list of names.
        columns: the inputs to read; by default every column except the target.
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
    listing = list_files(where)
    kind = one_kind(listing.files)
    if kind == ".npy":
        if target is not None or columns is not None:
            raise InputError(".npy files have no column names: use data.Arrays(X, y) with numpy.load(…, 'r')")
        if listing.system is not None:
            raise InputError(f"{listing.files[0]} is remote, but .npy files must be local: copy the file first")
        return Arrays([_mapped(file) for file in listing.files])
    return (ParquetFiles if kind == "table" else CsvFiles)(listing, target, columns)


def _mapped(file: str) -> np.ndarray:
    """A memory map of the array in a file."""
    try:
        found: np.ndarray = np.load(file, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{file} cannot be read as an array of numbers: {_one_line(error)}") from error
    if not isinstance(found, np.ndarray) or not found.ndim:
        raise InputError(f"{file} holds no rows: save an array of numbers with one row for each example")
    return found


class _Group(NamedTuple):
    """A row group: its file, its number there, and the row of the file at which it starts."""

    file: int
    group: int
    start: int


class ParquetFiles(Source):
    """Row groups of Parquet files with the same columns; folder names such as ``year=2020`` add columns.

    ``above`` are the columns of folders above the given one, available on request.

    Arguments:
        listing: which files, and where.
        copies: local Parquet copies of files in another format; messages name the original files and rows.

    >>> open_source("flights/*.parquet").files  # doctest: +SKIP
    ['flights/2007.parquet', 'flights/2008.parquet']
    """

    _origin: ParquetFiles | None = None  # keeps the copies of its files alive

    def __init__(
        self,
        listing: Listing,
        target: Any = None,
        columns: Sequence[str] | None = None,
        copies: Sequence[str] | None = None,
    ) -> None:
        self.files, self.above = list(listing.files), partition_columns([listing.root.parts])[0]
        self.parts, self._groups, self._of_folders = [], list[_Group](), list[dict[str, Any]]()
        opener = partial(_open, self.files, listing.system) if copies is None else partial(_open, list(copies), None)
        self._file = lru_cache(_OPEN_FILES)(opener)
        below = partition_columns([listing.below(path) for path in self.files])
        nested, names = dict[str, str](), list[str]()
        for number, path in enumerate(self.files):
            file = self._file(number)
            own = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
            of_folders = self.above | below[number]
            self._of_folders.append({name: value for name, value in of_folders.items() if name not in own})
            found = list(dict.fromkeys([*own, *below[number]]))
            names = names or found
            _refuse_others(path, found, self.files[0], names)
            nested |= {name: f"{path}: column {name!r} has values of type {kind}" for name, kind in _nested(file)}
            self._add_groups(number, file)
        if not self.parts:
            raise InputError(f"{self.files[0]}{' and others have' if len(self.files) > 1 else ' has'} no rows")
        self.targets = target_names(target, names, self.files[0])
        known = names if columns is None else [*names, *(name for name in self.above if name in columns)]
        chosen = names if columns is None else [*target_names(list(columns), known, self.files[0], "X"), *self.targets]
        self.columns = list(dict.fromkeys(chosen))
        for name in self.columns:
            if name in nested:
                raise InputError(f"{nested[name]}: split it into plain columns, or choose others in columns=[…]")

    def _add_groups(self, number: int, file: Any) -> None:
        """Record the non-empty row groups of a file."""
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows:
                self.parts.append(Part(self.files[number], rows))
                self._groups.append(_Group(number, group, start))
            start += rows

    def only(self, files: Container[str]) -> ParquetFiles:
        """The rows of some of the files, with columns of the same types."""
        kept = [place for place, part in enumerate(self.parts) if part.where in files]
        if not kept:
            raise InputError(f"{next(file for file in self.files if file in files)} has no rows")
        found = self._like()
        found.parts, found._groups = [self.parts[i] for i in kept], [self._groups[i] for i in kept]
        return found

    def with_texts(self, names: Container[str]) -> ParquetFiles:
        """The same rows, with the folder columns of these names as the text in the folders' names."""
        found = self._like()
        found._of_folders = [
            {name: str(value) if name in names and value is not None else value for name, value in own.items()}
            for own in self._of_folders
        ]
        return found

    def _like(self) -> ParquetFiles:
        found = copy(self)
        found._origin = self
        return found

    def blocks(self, part: int, first: int = 0) -> Iterator[Block]:
        """The rows of a part in order, from row ``first`` on, one block at a time."""
        pa = importlib.import_module("pyarrow")
        (number, group, start), where = self._groups[part], self.parts[part].where
        row, file, of_folders = 0, self._file(number), self._of_folders[number]
        of_folders = {name: value for name, value in of_folders.items() if name in self.columns}
        own = [name for name in self.columns if name not in of_folders] or file.schema_arrow.names[:1]
        try:
            for batch in file.iter_batches(block_rows(8 * len(self.columns)), row_groups=[group], columns=own):
                if row + len(batch) > first:
                    some = _with_categories(batch.slice(max(0, first - row)), of_folders)
                    frame = some.to_pandas(ignore_metadata=True)[self.columns]
                    yield split_frame(frame, self.targets, where, start + max(first, row))
                row += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise RowError(f"{where} cannot be read from row ", start + row, f" on: {_one_line(error)}") from error


class CsvFiles(ParquetFiles):
    """CSV files, copied to Parquet once; the copies live as long as the source."""

    def __init__(self, listing: Listing, target: Any = None, columns: Sequence[str] | None = None) -> None:
        copies, leave = copy_once(listing.files, listing.system, [target] if isinstance(target, str) else target or [])
        weakref.finalize(self, leave)
        super().__init__(listing, target, columns, copies)


def _open(files: Sequence[str], system: Any, number: int) -> Any:
    pa, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    path = files[number]
    try:
        file = path if system is None else system.open(path, "rb")
        return parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)  # else it reads whole row groups
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a complete Parquet file: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _refuse_others(path: str, found: Sequence[str], first: str, names: Sequence[str]) -> None:
    """Refuse a file whose columns differ from those of the first, naming missing and extra ones."""
    gone, more = ([name for name in a if name not in b] for a, b in ((names, found), (found, names)))
    said = [f"{what} {', '.join(map(repr, some[:10]))}" for what, some in (("lacks", gone), ("adds", more)) if some]
    if said:
        raise InputError(f"{path} must have the columns of {first}, but {' and '.join(said)}: make all files alike")


def _nested(file: Any) -> list[tuple[str, Any]]:
    """The columns whose values are lists, structs or maps, with their types."""
    types = importlib.import_module("pyarrow.types")
    return [(field.name, field.type) for field in file.schema_arrow if types.is_nested(field.type)]


def _with_categories(batch: Any, of_folders: dict[str, Any]) -> Any:
    """Rows with the columns of their folder, and text as categories, since few texts are distinct."""
    pa, types = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.types"))
    constants = [pa.repeat(pa.scalar(value), len(batch)) for value in of_folders.values()]
    columns = [
        column.dictionary_encode() if types.is_string(column.type) or types.is_large_string(column.type) else column
        for column in (*batch.columns, *constants)
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *of_folders])
