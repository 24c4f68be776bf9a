"""Tables: what their rows and columns hold, and what is wrong with them."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import stratagp
from stratagp.cli.output import Console, aligned
from stratagp.cli.table_file import TABLES
from stratagp.cli.table_file import DataFrame as DataFrame
from stratagp.cli.table_file import Format as Format
from stratagp.cli.table_file import Series as Series
from stratagp.cli.table_file import TableFile as TableFile
from stratagp.cli.table_file import check_file as check_file
from stratagp.cli.table_file import format_options as format_options
from stratagp.cli.table_file import pandas as pandas
from stratagp.cli.table_file import shown_name as shown_name
from stratagp.errors import InputError

KINDS = ("number", "category", "date", "text", "ignore")
WRITTEN = ("category", "text")  # kinds of columns whose values are texts, exactly as the file has them

_MEMORY = Path("/proc/meminfo")
_UNDO = "--as {name}={kind} takes it as a {kind}"
_COMMA = r"[-+]?\d+,\d+"
_SIGNS = r"\s*[$€£%]\s*|,|(?<=\d)\s(?=\d{3}(?!\d))"  # around numbers, and between thousands
_UNIT = re.compile(r"\s*(\[[^\]]*\]|\([^)]*\))$")  # after the name of a column
_FEW = 10  # different values, up to which numbers and words may be categories
_TRIED = 200  # different texts of which most must be dates for all to be meant so


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


def meant(frame: DataFrame, column: str) -> str:
    """The column that a name means, which may leave out the unit of the heading; the name itself if there is none.

    >>> meant(pandas().DataFrame(columns=["size [m²]", "price"]), "size")
    'size [m²]'
    """
    found = [each for each in frame.columns if _UNIT.sub("", str(each)) == column]
    return found[0] if column not in frame.columns and len(found) == 1 else column


def pick(frame: DataFrame, column: str, name: str) -> Series:
    """A column of a table; if there is none of that name, the error suggests others."""
    column = meant(frame, column)
    if column in frame.columns:
        return frame[column]
    near = difflib.get_close_matches(column, list(frame.columns), 3, 0.5)
    same = [each for each in frame.columns if each.lower().strip() == column.lower().strip()]
    similar = list(dict.fromkeys([*same, *near]))
    listed = ", ".join(map(repr, list(frame.columns)[:12])) + (", …" if len(frame.columns) > 12 else "")
    hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else f"it has {listed}"
    raise InputError(f"{name} has no column {column!r}; {hint}")


def examine(
    frame: DataFrame,
    target: str,
    kinds: Mapping[str, str],
    formats: Sequence[str] = (),
    written: Mapping[str, str] | None = None,
) -> list[stratagp.data.Field]:
    """What all columns but the target hold.

    Arguments:
        kinds: those that the user gives.
        formats: of dates.
        written: the notation of columns of numbers, where it is not Python's.
    """
    unknown = sorted(set(kinds) - set(frame.columns))
    if unknown:
        raise InputError(f"--as {unknown[0]}={kinds[unknown[0]]}: the table has no column {unknown[0]!r}")
    found = stratagp.data.examine(frame, {**kinds, target: "ignore"}, _UNDO, formats)
    found = [
        replace(each, written=(written or {}).get(each.name, each.written)) if each.kind == "number" else each
        for each in found
        if each.name != target
    ]
    for each in found:
        _refuse_dates(frame[each.name], each)
    if not any(field.used for field in found):  # the place in a series may be all there is
        running = stratagp.data.identifiers.RUNNING
        found = [replace(each, kind="number", remark="") if each.remark.startswith(running) else each for each in found]
    if not any(field.used for field in found):
        ignored = "; ".join(f"{each.name!r} is left out ({each.remark})" for each in found[:5])
        raise InputError(f"no column is left to predict {target!r} from: {ignored or 'the table has no other column'}")
    return found


def _refuse_dates(values: Series, column: stratagp.data.Field) -> None:
    """Refuse dates that can be read in several ways, and a column of which only a part are dates."""
    where, dates = f"the column {column.name!r} holds dates", stratagp.data.dates
    if dates.OR in column.written:
        first = str(values.dropna().iloc[0])
        raise InputError(
            f"{where} such as {first!r}, which may be read by {column.written}: say which, such as --date-format "
            f"{column.written.split(dates.OR)[0]!r}; or --as {column.name}=ignore"
        )
    if column.kind not in (*WRITTEN, "ignore") or column.remark == stratagp.data.schema.SAID or column.distinct <= _FEW:
        return
    texts = values.dropna().drop_duplicates().astype(str)
    most = dates.formats_of(texts.head(_TRIED).tolist(), (), 0.5)
    if most is not None:
        strange = texts[dates.parsed(texts.str.strip(), most[0]).isna()]
        if strange.empty:
            return
        row, value = next(strange.items())
        raise InputError(
            f"{where} such as {texts[~texts.index.isin(strange.index)].iloc[0]!r}, but {value[:40]!r} in row {row} is "
            f"none that {most[0] or 'ISO 8601'} reads ({len(strange)} such values): correct them; or --missing "
            f"{value[:40]!r} counts it as missing; or --as {column.name}=category keeps them"
        )


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
        form = f"written as {each.written}" if each.written else ""
        said = "; ".join(part for part in (each.remark, form) if part)
        rows.append([each.name, kind, str(each.distinct), str(each.missing or ""), said])
        remark = f" ({said})" if said else ""
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
    digits = distinct.str.contains(r"\d")
    if stratagp.data.notation.notations_of(distinct[digits].tolist()):
        numbers = numbers | digits
    if len(distinct) > _FEW and numbers.mean() > 0.5 and not numbers.all():
        row, first = next(distinct[~numbers].items())
        others = int(texts.isin(distinct[~numbers]).sum())
        raise InputError(
            f"{where}, but {first[:40]!r} in row {row} is none ({others} such entries): correct them; or "
            f"--missing {first[:40]!r} counts it as missing; or {keep}"
        )


def _are_numbers(texts: Series) -> Series:
    return pandas().to_numeric(texts, errors="coerce").notna()
