"""Tables from files: how a file is written, found out where it is not said, and read."""

from __future__ import annotations

import csv
import difflib
import io
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

import stratagp
from stratagp.cli.text_files import decoded, heading_of, is_workbook, no_csv, separator_of, unpacked, without_units
from stratagp.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
    from pandas import Series as Series
else:  # pandas takes a second to load, and files alone need it
    DataFrame = Series = Any

Declared = TypeVar("Declared", bound=Callable[..., Any])
TABLES = (".parquet", ".pq")
_PADDED = re.compile(r"(?:^|[;,|\s\"])0\d+(?:$|[;,|\s\"])", re.M)  # a code with a leading zero
_FEW = 10  # values that are looked at before all are
_OPTIONS: dict[str, dict[str, Any]] = {
    "missing": {"multiple": True, "metavar": "TEXT",
                "help": "A text for a missing value, such as '?', besides empty cells, NA and NaN. Repeatable."},
    "decimal": {"default": ".", "help": "The decimal mark of a text file, such as ','."},
    "delimiter": {"help": "What separates the columns of a text file; found out if left out."},
    "encoding": {"default": "utf-8-sig", "help": "The encoding of a text file."},
}  # fmt: skip


class Format(NamedTuple):
    """How a text file is written.

    Arguments:
        delimiter: between columns; None stands for what the first lines show.
        encoding: of the file; UTF-16 is recognised.
        decimal: the decimal mark; commas are recognised where they do not separate columns.
        missing: texts for missing values, besides an empty cell, ``NA``, ``NaN`` and the like.
    """

    delimiter: str | None = None
    encoding: str = "utf-8-sig"
    decimal: str = "."
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Format:
        """The format that the options of a command give."""
        return cls(**{name: options[name] for name in cls._fields if options.get(name) is not None})


def format_options(declared: Declared) -> Declared:
    """Add the options that describe a text file to a command."""
    for name, given in _OPTIONS.items():
        declared = click.option(f"--{name}", **given, show_default="default" in given)(declared)
    return declared


def pandas() -> Any:
    """The library of data frames, loaded when first needed."""
    import pandas

    return pandas


def shown_name(file: str) -> str:
    """What messages call a file."""
    return "standard input" if file == "-" else file


class TableFile:
    """A table in a file or on standard input, which can be read again with other columns as texts.

    ``notes`` tells in sentences what was recognised, and ``written`` how the numbers of columns are.

    Arguments:
        file: a CSV, TSV, Excel or Parquet file, compressed by gzip or not; ``-`` is standard input.
        form: how a text file is written.
    """

    def __init__(self, file: str, form: Format) -> None:
        check_file(file)
        self.name, self.file, self.form = shown_name(file), file, form
        self.notes: list[str] = []
        self.written: dict[str, str] = {}
        self.separator, self.decimal = ",", "."
        self.content: str | None = None  # of a text file
        self.sheet: bytes | None = None  # of a workbook
        if Path(file).suffix in TABLES:
            return
        content = unpacked(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes(), self.name)
        if is_workbook(content):
            self.sheet = content
            return
        self._understand(*decoded(content, self.name, form.encoding))

    def _understand(self, text: str, encoding: str) -> None:
        """Find out what separates columns, and leave out a line of units."""
        if encoding != self.form.encoding:
            self.notes.append(f"{self.name} is {encoding.upper()}")
        usual = _separator(self.file, self.form)
        self.separator = usual if self.form.delimiter else separator_of(text, usual)
        self.decimal = self.form.decimal
        if self.separator != usual:
            self.notes.append(f"columns are separated by {self.separator!r}")
        if self.separator == self.decimal:
            raise InputError(f"--decimal {self.decimal!r} also separates columns: set another --delimiter, such as ';'")
        self.content, units = without_units(text, self.separator)
        if units:
            shown = ", ".join(f"{name} {unit}" for name, unit in list(units.items())[:5])
            self.notes.append(f"the line below the names holds units and is left out: {shown}")

    def read(self, texts: Sequence[str] = ()) -> DataFrame:
        """A data frame with at least one row, whose index counts from 1; the columns ``texts`` stay as written."""
        frame = self._stored() if self.content is None else self._parsed(dtype=dict.fromkeys(texts, str))
        if not len(frame):
            raise InputError(f"{self.name} has column names but no rows")
        if self.file.endswith(TABLES):
            return frame
        if self.content is None:
            return self._with_numbers(frame, texts)
        frame = self._with_numbers(self._with_decimals(frame, texts), texts)
        return self._with_zeros(frame, [*texts, *self.written])

    def _with_decimals(self, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """The table with decimal commas, where a column can only have these."""
        if self.separator == "," or self.decimal != ".":
            return frame
        sure = [
            name
            for name in _of_texts(frame, texts)
            if {stratagp.data.notation.decimal_of(form) for form in _notations(frame[name])} == {","}
        ]
        if not sure:
            return frame
        self.decimal = ","
        self.notes.append(f"numbers have decimal commas, as in the column {sure[0]!r}")
        return self._parsed(dtype=dict.fromkeys(texts, str))

    def _with_zeros(self, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """The table with columns of codes as the file has them, if some begin with a zero."""
        whole = [name for name in frame.columns if name not in texts and _is_whole(frame[name])]
        if not whole or not _PADDED.search(self.content or ""):
            return frame
        written = self.as_written(frame, whole)
        padded = [name for name in whole if written[name].str.fullmatch(r"0\d+", na=False).any()]
        return frame.assign(**{name: written[name] for name in padded})

    def _with_numbers(self, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """The table with numbers where texts are numbers with marks, a currency or a unit."""
        if self.decimal == ",":
            self.written |= {name: "1234,5" for name in frame.columns if frame[name].dtype.kind == "f"}
        found, notation = dict[str, Series](), stratagp.data.notation
        for name in _of_texts(frame, texts):
            forms = _notations(frame[name])
            either = {"1,234.5", "1234,5"} <= {form.split()[0] for form in forms} and self.decimal == "."
            if not forms or (either and self.separator != ","):  # the user decides
                continue
            self.written[name] = next((form for form in forms if notation.decimal_of(form) == self.decimal), forms[0])
            found[name] = notation.numbers_of(frame[name], self.written[name])
            first = frame[name].dropna().iloc[0]
            self.notes.append(f"column {name!r} holds numbers, written like {str(first)!r}")
        return frame.assign(**found) if found else frame

    def as_written(self, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """Rows read before, with some columns as the file writes them and not as what they look like (01, not 1)."""
        kind = pandas().api.types.infer_dtype
        names = [name for name in names if kind(frame[name], skipna=True) not in ("string", "empty")]
        if self.content is None or not names:
            return frame
        written = self._parsed(usecols=lambda column: str(column) in names, dtype=str)
        return frame.assign(**{name: written[name].loc[frame.index] for name in names})

    def _stored(self) -> DataFrame:
        """The table in a file that is no text."""
        if self.sheet is not None:
            return self._workbook()
        try:
            frame = pandas().read_parquet(self.file)
        except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
            raise InputError(f"{self.file} is not a complete Parquet file: {str(error).splitlines()[0]}") from None
        return frame.set_axis([str(column) for column in frame.columns], axis=1).set_axis(range(1, len(frame) + 1))

    def _workbook(self) -> DataFrame:
        """The first sheet of a workbook."""
        try:
            sheets = pandas().read_excel(io.BytesIO(self.sheet or b""), sheet_name=None, engine="openpyxl")
        except ImportError:
            raise InputError("Excel files need openpyxl: pip install 'stratagp[excel]', or save it as CSV") from None
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{self.name} is not a complete workbook: {str(error).splitlines()[0]}") from None
        name, frame = next(iter(sheets.items()))
        more = f", the first of {len(sheets)}" if len(sheets) > 1 else ""
        self.notes.append(f"the table is the sheet {name!r}{more}")
        frame = frame.dropna(how="all").dropna(how="all", axis=1).infer_objects()
        return frame.set_axis([str(column) for column in frame.columns], axis=1).set_axis(range(1, len(frame) + 1))

    def _parsed(self, **options: Any) -> DataFrame:
        content = self.content or ""
        heading, pd = heading_of(content, self.separator, self.name), pandas()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pd.errors.ParserWarning)
                warnings.filterwarnings("error", "Length of header", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    io.StringIO(content),
                    sep=self.separator,
                    decimal=self.decimal,
                    na_values=list(self.form.missing),
                    skipinitialspace=True,
                    skip_blank_lines=len(heading) > 1,  # in a single column, an empty line is a row without a value
                    low_memory=False,
                    index_col=False,
                    **options,
                )
        except pd.errors.ParserWarning:  # fields would be lost
            raise InputError(
                f"{self.name}: rows have more fields than the {len(heading)} column names: name the first column if it "
                "has no name (R leaves it out), or quote fields that contain the delimiter"
            ) from None
        except (pd.errors.ParserError, csv.Error) as error:
            raise no_csv(self.name, error) from None
        return frame.set_axis([str(column) for column in frame.columns], axis=1).set_axis(range(1, len(frame) + 1))


def check_file(file: str) -> None:
    """Refuse a name that is no file, and suggest one that is."""
    path = Path(file)
    if file == "-" or path.is_file():
        return
    if path.is_dir():
        raise InputError(f"{file} is a folder: give a CSV, TSV, Excel or Parquet file")
    there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, there, 1, 0.75)
    raise InputError(f"{file} does not exist" + (f"; did you mean {path.parent / near[0]}?" if near else ""))


def _separator(file: str, form: Format) -> str:
    usual = "\t" if ".tsv" in Path(file).suffixes else ","
    separator = form.delimiter.replace("\\t", "\t") if form.delimiter else usual
    for option, sign in (("--delimiter", separator), ("--decimal", form.decimal)):
        if len(sign) != 1:
            raise InputError(f"{option} must be one character, got {sign!r}")
    return separator


def _of_texts(frame: DataFrame, texts: Sequence[str]) -> list[str]:
    """The columns whose values are texts, besides those that are to stay so."""
    kind = pandas().api.types.infer_dtype
    return [name for name in frame.columns if name not in texts and kind(frame[name], skipna=True) == "string"]


def _notations(values: Series) -> list[str]:
    """The notations in which all texts of a column are numbers."""
    known, notations_of = values.dropna(), stratagp.data.notation.notations_of
    return notations_of(known.unique().tolist()) if notations_of(known.head(_FEW).tolist()) else []


def _is_whole(values: Series) -> bool:
    """Whether a column holds whole numbers, which a gap may have turned into floats."""
    return values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values.dropna() % 1 == 0).all()))
