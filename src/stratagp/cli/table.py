"""Tables from files: how a file is written, what its rows and columns hold, and what is wrong with it."""

from __future__ import annotations

import contextlib
import csv
import difflib
import gzip
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

import stratagp
from stratagp.cli.output import Console, aligned
from stratagp.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
    from pandas import Series as Series
else:  # pandas takes a second to load, and files alone need it
    DataFrame = Series = Any

Declared = TypeVar("Declared", bound=Callable[..., Any])
KINDS = ("number", "category", "date", "text", "ignore")
WRITTEN = ("category", "text")  # kinds of columns whose values are texts, exactly as the file has them

TABLES = (".parquet", ".pq")
_MEMORY = Path("/proc/meminfo")
_EMPTY_LINES = re.compile(r"\A([ \t]*[\r\n])+")  # before the heading
_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'"}
_COMMA = r"[-+]?\d+,\d+"
_SIGNS = r"\s*[$€£%]\s*|,|(?<=\d)\s(?=\d{3}(?!\d))"  # around numbers, and between thousands
_FEW = 10  # different values, up to which numbers and words may be categories
_OPTIONS: dict[str, dict[str, Any]] = {
    "missing": {"multiple": True, "metavar": "TEXT",
                "help": "A text for a missing value, such as '?', besides empty cells, NA and NaN. Repeatable."},
    "decimal": {"default": ".", "help": "The decimal mark of a text file, such as ','."},
    "delimiter": {"help": "What separates the columns of a text file; a comma, or a tab in .tsv, if left out."},
    "encoding": {"default": "utf-8-sig", "help": "The encoding of a text file."},
}  # fmt: skip


class Format(NamedTuple):
    """How a text file is written.

    Arguments:
        delimiter: between columns; None stands for a tab in ``.tsv`` and a comma otherwise.
        encoding: of the file.
        decimal: the decimal mark.
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
    try:
        import pandas
    except ModuleNotFoundError:
        raise InputError("tables need pandas: pip install 'stratagp[data]'") from None
    return pandas


def shown_name(file: str) -> str:
    """What messages call a file."""
    return "standard input" if file == "-" else file


def is_many(file: str) -> bool:
    """Whether rows are read in batches: from a folder, a pattern, an address, or a file too large for memory."""
    if file == "-":
        return False
    path = Path(file)
    if "://" in file or path.is_dir() or (any(sign in file for sign in "*?[") and not path.exists()):
        return True
    packed = path.suffix in (*TABLES, ".gz")  # which grow more in memory than other files
    return path.is_file() and path.stat().st_size * (8 if packed else 2) > _memory() / 2


def refuse_format(file: str, form: Format) -> None:
    """Refuse options of text files where rows are read in batches, which cannot follow them."""
    if form != Format():
        raise InputError(
            f"{file} is read in batches, as UTF-8 with commas (tabs in .tsv) and decimal points: --delimiter, "
            "--encoding, --decimal and --missing work for a single file that fits in memory"
        )


def _memory() -> float:
    """Bytes of memory that are free, or only cache files."""
    with contextlib.suppress(OSError, ValueError):  # on a system without such a file
        if found := re.search(r"^MemAvailable:\s*(\d+) kB", _MEMORY.read_text("ascii"), re.M):
            return float(found[1]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):  # on a system that does not know
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    return 2.0**33


class TableFile:
    """A table in a file or on standard input, which can be read again with other columns as texts.

    Arguments:
        file: a CSV, TSV or Parquet file, compressed by gzip or not; ``-`` is standard input.
        form: how a text file is written.
    """

    def __init__(self, file: str, form: Format) -> None:
        check_file(file)
        self.name, self.file, self.form = shown_name(file), file, form
        self.content: str | None = None  # of a text file
        if Path(file).suffix not in TABLES:
            self.separator = _separator(file, form)
            self.content = _decoded(
                sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes(), self.name, form.encoding
            )

    def read(self, texts: Sequence[str] = ()) -> DataFrame:
        """A data frame with at least one row, whose index counts from 1; the columns ``texts`` stay as written."""
        frame = self._parquet() if self.content is None else self._parsed(dtype=dict.fromkeys(texts, str))
        if not len(frame):
            raise InputError(f"{self.name} has column names but no rows")
        return frame

    def as_written(self, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """Rows read before, with some columns as the file writes them and not as what they look like (01, not 1)."""
        kind = pandas().api.types.infer_dtype
        names = [name for name in names if kind(frame[name], skipna=True) not in ("string", "empty")]
        if self.content is None or not names:
            return frame
        written = self._parsed(usecols=lambda column: str(column) in names, dtype=str)
        return frame.assign(**{name: written[name].loc[frame.index] for name in names})

    def _parquet(self) -> DataFrame:
        try:
            frame = pandas().read_parquet(self.file)
        except ImportError:
            raise InputError("Parquet files need pyarrow: pip install 'stratagp[data]'") from None
        except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
            raise InputError(f"{self.file} is not a complete Parquet file: {str(error).splitlines()[0]}") from None
        return frame.set_axis([str(column) for column in frame.columns], axis=1).set_axis(range(1, len(frame) + 1))

    def _parsed(self, **options: Any) -> DataFrame:
        content = self.content or ""
        heading, pd = _heading(content, self.separator, self.name), pandas()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pd.errors.ParserWarning)
                warnings.filterwarnings("error", "Length of header", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    io.StringIO(content),
                    sep=self.separator,
                    decimal=self.form.decimal,
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
            raise _no_csv(self.name, error) from None
        return frame.set_axis([str(column) for column in frame.columns], axis=1).set_axis(range(1, len(frame) + 1))


def check_file(file: str) -> None:
    """Refuse a name that is no file, and suggest one that is."""
    path = Path(file)
    if file == "-" or path.is_file():
        return
    if path.is_dir():
        raise InputError(f"{file} is a folder: give a CSV, TSV or Parquet file")
    there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, there, 1, 0.75)
    raise InputError(f"{file} does not exist" + (f"; did you mean {path.parent / near[0]}?" if near else ""))


def _no_csv(name: str, error: Exception) -> InputError:
    reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
    return InputError(f"{name} cannot be read as CSV: {reason}; --delimiter sets what separates columns")


def _separator(file: str, form: Format) -> str:
    usual = "\t" if ".tsv" in Path(file).suffixes else ","
    separator = form.delimiter.replace("\\t", "\t") if form.delimiter else usual
    for option, sign in (("--delimiter", separator), ("--decimal", form.decimal)):
        if len(sign) != 1:
            raise InputError(f"{option} must be one character, got {sign!r}")
    if separator == form.decimal:
        raise InputError(f"--decimal {separator!r} also separates columns: set another --delimiter, such as ';'")
    return separator


def _decoded(content: bytes, name: str, encoding: str) -> str:
    """The text of a file, compressed by gzip or not, without empty lines at its ends."""
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        text = _EMPTY_LINES.sub("", content.decode(encoding)).rstrip("\r\n")
    except LookupError:
        raise InputError(f"--encoding: there is no encoding {encoding!r}; try latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name} is not {encoding.removesuffix('-sig').upper()}: byte 0x{content[error.start]:02x} at position "
            f"{error.start}, in line {line}; try --encoding latin-1, or the encoding it was written in"
        ) from None
    except (OSError, EOFError) as error:
        raise InputError(f"{name} is not a complete gzip file: {error}") from None
    if not text.strip():
        raise InputError(f"{name} is empty")
    return text


def _heading(content: str, separator: str, name: str) -> list[str]:
    """The names of the columns, which must differ."""
    try:
        heading = next(csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:  # a quote that is never closed, for example
        raise _no_csv(name, error) from None
    other = [sign for sign in (*_SEPARATORS, ",") if sign != separator and sign in heading[0]]
    if len(heading) == 1 and other:
        shown = _SEPARATORS.get(other[0], "','")
        raise InputError(
            f"{name} has a single column, {heading[0][:60]!r}: another sign seems to separate its columns; "
            f"try --delimiter {shown}"
        )
    twice = sorted({column for column in heading if column and heading.count(column) > 1})
    if twice:
        raise InputError(f"{name} has several columns named {twice[0]!r}: rename or remove all but one")
    return heading


def pick(frame: DataFrame, column: str, name: str) -> Series:
    """A column of a table; if there is none of that name, the error suggests others."""
    if column in frame.columns:
        return frame[column]
    near = difflib.get_close_matches(column, list(frame.columns), 3, 0.5)
    same = [each for each in frame.columns if each.lower().strip() == column.lower().strip()]
    meant = list(dict.fromkeys([*same, *near]))
    listed = ", ".join(map(repr, list(frame.columns)[:12])) + (", …" if len(frame.columns) > 12 else "")
    hint = f"did you mean {' or '.join(map(repr, meant))}?" if meant else f"it has {listed}"
    raise InputError(f"{name} has no column {column!r}; {hint}")


def examine(frame: DataFrame, target: str, kinds: Mapping[str, str]) -> list[stratagp.data.Field]:
    """What all columns but the target hold; ``kinds`` are those that the user gives."""
    unknown = sorted(set(kinds) - set(frame.columns))
    if unknown:
        raise InputError(f"--as {unknown[0]}={kinds[unknown[0]]}: the table has no column {unknown[0]!r}")
    found = stratagp.data.examine(frame, {**kinds, target: "ignore"}, "--as {name}={kind} keeps it")
    found = [field for field in found if field.name != target]
    if not any(field.used for field in found):
        ignored = "; ".join(f"{each.name!r} is left out ({each.remark})" for each in found[:5])
        raise InputError(f"no column is left to predict {target!r} from: {ignored or 'the table has no other column'}")
    return found


def tell(
    fields: Sequence[stratagp.data.Field], target: str, task: str, why: str, console: Console, of: str = ""
) -> list[str]:
    """Show what is assumed about columns, as a table; return the same in sentences.

    Arguments:
        why: the target is taken for such a task.
        of: which rows were counted, if not all.
    """
    rows, sentences = [["column", "taken as", f"values{of}", f"missing{of}", ""]], []
    for each in fields:
        kind = each.kind if each.used else "–"
        rows.append([each.name, kind, str(each.distinct), str(each.missing or ""), each.remark])
        remark = f" ({each.remark})" if each.remark else ""
        sentences.append(f"{each.name}: {each.kind if each.used else 'left out'}{remark}")
    console.note(aligned([*rows, [target, "target", "", "", f"{task}: {why}"]]))
    for each in fields:
        if each.used and each.distinct == 1:
            console.warn(f"column {each.name!r} is {each.remark}")
        elif each.remark and each.remark != stratagp.data.schema.SAID and not console.talks:  # else the table shows it
            console.warn(f"column {each.name!r}: {each.remark}")
    return [*sentences, f"{target}: {task} ({why})"]


def inputs(frame: DataFrame, schema: stratagp.data.Schema, name: str, console: Console, target: str) -> DataFrame:
    """The inputs of a model, from a table that may have its columns in another order, and more of them."""
    found = schema.conform(frame, name)
    known = {target, *(each.name for each in schema.fields)}
    more = [str(each) for each in frame.columns if each not in known]
    if more:
        console.warn(f"the model does not use these columns: {', '.join(map(repr, more[:10]))}")
    return found


def refuse_mixed(frame: DataFrame, target: str, kinds: Mapping[str, str], task: str, form: Format, name: str) -> None:
    """Refuse columns that hold mostly numbers and some other texts, unless the user says what they hold."""
    for column in frame.columns:
        given, dtype = task != "auto" if column == target else column in kinds, frame[column].dtype
        if not given and dtype.kind == "O" and str(dtype) != "category":
            _refuse_mixed(frame[column].dropna(), column == target, form, name)


def _refuse_mixed(values: Series, is_target: bool, form: Format, name: str) -> None:
    texts = values.astype(str).str.strip()
    distinct = texts.drop_duplicates().astype(object)  # each with the first row that has it
    numbers = _are_numbers(distinct)
    commas = distinct.str.fullmatch(_COMMA)
    where = f"{name}: the {'target' if is_target else 'column'} {values.name!r} holds numbers"
    if form.decimal != "," and commas.any() and (numbers | commas).all():
        row, first = next(distinct[commas].items())
        raise InputError(
            f"{where} with a comma, {first!r} in row {row}: if it is a decimal mark, use --decimal ','; if it groups "
            "thousands, remove it"
        )
    keep = "--task classification makes all of them classes" if is_target else f"--as {values.name}=category keeps them"
    signed = ~numbers & _are_numbers(distinct.str.replace(_SIGNS, "", regex=True))
    if signed.any() and (numbers | signed).all():
        row, first = next(distinct[signed].items())
        raise InputError(
            f"{where} with signs, {first[:40]!r} in row {row}: remove signs such as $ and %, and commas between "
            f"thousands; or {keep}"
        )
    numbers = numbers | signed
    if len(distinct) > _FEW and numbers.mean() > 0.5 and not numbers.all():
        row, first = next(distinct[~numbers].items())
        others = int(texts.isin(distinct[~numbers]).sum())
        raise InputError(
            f"{where}, but {first[:40]!r} in row {row} is none ({others} such entries): correct them; or "
            f"--missing {first[:40]!r} counts it as missing; or {keep}"
        )


def _are_numbers(texts: Series) -> Series:
    return pandas().to_numeric(texts, errors="coerce").notna()
