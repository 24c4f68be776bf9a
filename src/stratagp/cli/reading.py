"""Tables from files, with messages that say what is wrong with one and what to do."""

from __future__ import annotations

import csv
import difflib
import gzip
import importlib
import io
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stratagp.errors import InputError

TABLES = (".parquet", ".pq")
_MEMORY = Path("/proc/meminfo")
_EMPTY_LINES = re.compile(r"\A([ \t]*[\r\n])+")  # before the heading
_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'"}


class Format(NamedTuple):
    """How a text file is written.

    Arguments:
        delimiter: between columns; a tab for ``.tsv`` and a comma otherwise, if None.
        encoding: of its letters.
        decimal: the sign between a number and its fraction.
        missing: texts that stand for missing values, beside an empty cell, ``NA``, ``NaN`` and the like.
    """

    delimiter: str | None = None
    encoding: str = "utf-8-sig"
    decimal: str = "."
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Format:
        """What the options of a command say."""
        return cls(**{name: options[name] for name in cls._fields if options.get(name) is not None})


def pandas() -> Any:
    """The library of data frames, which files need."""
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError:
        raise InputError("tables need pandas: pip install 'stratagp[data]'") from None


def is_many(file: str) -> bool:
    """Whether a name means several files: a folder, a pattern, an address; or one that memory would not hold."""
    if file == "-":
        return False
    path = Path(file)
    if "://" in file or path.is_dir() or (any(sign in file for sign in "*?[") and not path.exists()):
        return True
    return path.is_file() and _in_memory(path) > _memory() / 2


def refuse_format(file: str, form: Format) -> None:
    """Refuse options of text files where rows are read in batches, which know nothing of them."""
    if form != Format():
        raise InputError(
            f"{file} is read in batches, as UTF-8 with commas (tabs in .tsv) and decimal points: --delimiter, "
            "--encoding, --decimal and --missing are for a single file that fits in memory"
        )


def _in_memory(path: Path) -> float:
    """Bytes that a table takes in memory, roughly; Parquet is packed."""
    return path.stat().st_size * (8.0 if path.suffix in (*TABLES, ".gz") else 2.0)


def _memory() -> float:
    """Bytes that can be had, with those that only keep files at hand."""
    try:
        told = re.search(r"^MemAvailable:\s*(\d+) kB", _MEMORY.read_text("ascii"), re.M)
        return float(told[1]) * 1024 if told else _free()
    except (OSError, ValueError):  # a system without such a file
        return _free()


def _free() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # a system that does not tell
        return 2.0**33


class Opened:
    """A table that can be read again with other columns as texts, also from standard input.

    Arguments:
        file: a CSV, TSV or Parquet file, packed by gzip or not; ``-`` is standard input.
        form: of a text file.
    """

    def __init__(self, file: str, form: Format) -> None:
        check_file(file)
        self.name = "standard input" if file == "-" else file
        self.file, self.form = file, form
        self.content = None if Path(file).suffix in TABLES else _content(file, self.name, form)

    def read(self, texts: Sequence[str] = ()) -> Any:
        """A data frame with at least one row, whose index counts from 1; ``texts`` are read as they are written."""
        frame = _parquet(self.file) if self.content is None else self._parsed(dtype=dict.fromkeys(texts, str))
        if not len(frame):
            raise InputError(f"{self.name} has a heading and no rows")
        return frame

    def as_written(self, frame: Any, names: Sequence[str]) -> Any:
        """Some rows of the table as read before, with columns as they are written in place of what they seem to be."""
        kind = pandas().api.types.infer_dtype
        names = [name for name in names if kind(frame[name], skipna=True) not in ("string", "empty")]
        if self.content is None or not names:
            return frame
        written = self._parsed(usecols=lambda column: str(column) in names, dtype=str)
        return frame.assign(**{name: written[name].loc[frame.index] for name in names})

    def _parsed(self, **options: Any) -> Any:
        separator = _separator(self.file, self.form)
        return _parsed(self.content or "", separator, self.name, self.form, options)


def read_table(file: str, form: Format, texts: Sequence[str] = ()) -> Any:
    """The table in a file, or on standard input, with the columns ``texts`` as texts whatever they look like."""
    return Opened(file, form).read(texts)


def check_file(file: str) -> None:
    """Refuse a name that is no file, with the name that may be meant."""
    path = Path(file)
    if file == "-" or path.is_file():
        return
    if path.is_dir():
        raise InputError(f"{file} is a folder: give a file, CSV, TSV or Parquet")
    there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, there, 1, 0.75)
    raise InputError(f"{file} does not exist" + (f"; is it {path.parent / near[0]}?" if near else ""))


def _parquet(file: str) -> Any:
    try:
        return _numbered(pandas().read_parquet(file))
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'stratagp[data]'") from None
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise InputError(f"{file} is not a whole Parquet file: {str(error).splitlines()[0]}") from None


def _numbered(frame: Any) -> Any:
    """A table with names that are texts and rows that count from 1."""
    frame.columns = [str(column) for column in frame.columns]
    frame.index = pandas().RangeIndex(1, len(frame) + 1)
    return frame


def _content(file: str, name: str, form: Format) -> str:
    content = _decoded(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes(), name, form.encoding)
    content = _EMPTY_LINES.sub("", content).rstrip("\r\n")
    if not content.strip():
        raise InputError(f"{name} is empty")
    return content


def _parsed(content: str, separator: str, name: str, form: Format, options: dict[str, Any]) -> Any:
    heading = _check_heading(content, separator, name)
    pd = pandas()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            warnings.filterwarnings("error", "Length of header", pd.errors.ParserWarning)
            found = pd.read_csv(
                io.StringIO(content),
                sep=separator,
                decimal=form.decimal,
                na_values=list(form.missing),
                skipinitialspace=True,
                skip_blank_lines=len(heading) > 1,  # of a single column, an empty line is a row without a value
                low_memory=False,
                index_col=False,
                **options,
            )
    except pd.errors.ParserWarning:  # of fields that would be lost
        raise InputError(
            f"{name}: rows have more fields than the heading, which has {len(heading)}: give the first column a name "
            "where it has none, as R leaves it out, or quote what holds the delimiter"
        ) from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise _no_csv(name, error) from None
    return _numbered(found)


def _no_csv(name: str, error: Exception) -> InputError:
    reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
    return InputError(f"{name} cannot be read as CSV: {reason}; --delimiter says what separates columns")


def _separator(file: str, form: Format) -> str:
    usual = "\t" if ".tsv" in Path(file).suffixes else ","
    separator = form.delimiter.replace("\\t", "\t") if form.delimiter else usual
    for option, sign in (("--delimiter", separator), ("--decimal", form.decimal)):
        if len(sign) != 1:
            raise InputError(f"{option} must be one character, got {sign!r}")
    if separator == form.decimal:
        raise InputError(f"--decimal {separator!r} also separates columns: --delimiter says what does, ';' perhaps")
    return separator


def _decoded(content: bytes, name: str, encoding: str) -> str:
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        return content.decode(encoding)
    except LookupError:
        raise InputError(f"--encoding: Python knows no encoding {encoding!r}; try latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name} is not {encoding.removesuffix('-sig').upper()}: byte 0x{content[error.start]:02x} at position "
            f"{error.start}, in line {line}; --encoding latin-1, or the one it was written in, may help"
        ) from None
    except (OSError, EOFError) as error:
        raise InputError(f"{name} is not a whole gzip file: {error}") from None


def _check_heading(content: str, separator: str, name: str) -> list[str]:
    """The names of the columns, which must differ, and be more than one."""
    try:
        heading = next(csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:  # of a quote that is never closed, say
        raise _no_csv(name, error) from None
    other = [sign for sign in (*_SEPARATORS, ",") if sign != separator and sign in heading[0]]
    if len(heading) == 1 and other:
        shown = _SEPARATORS.get(other[0], "','")
        raise InputError(
            f"{name} has a single column, {heading[0][:60]!r}: its columns seem to be separated by something else; "
            f"try --delimiter {shown}"
        )
    twice = sorted({column for column in heading if column and heading.count(column) > 1})
    if twice:
        raise InputError(f"{name} has several columns named {twice[0]!r}: their names must differ")
    return heading


def pick(frame: Any, column: str, name: str) -> Any:
    """A column of a table by its name, with names that may be meant if it is not there."""
    if column in frame.columns:
        return frame[column]
    near = difflib.get_close_matches(column, list(frame.columns), 3, 0.5)
    same = [each for each in frame.columns if each.lower().strip() == column.lower().strip()]
    meant = list(dict.fromkeys([*same, *near]))
    listed = ", ".join(map(repr, list(frame.columns)[:12])) + (", …" if len(frame.columns) > 12 else "")
    hint = f"is it {' or '.join(map(repr, meant))}?" if meant else f"it has {listed}"
    raise InputError(f"{name} has no column {column!r}; {hint}")
