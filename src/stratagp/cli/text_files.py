"""How a file of a table is written, found out from its content: packing, encoding, separators, a line of units."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re

from stratagp.errors import InputError

SHOWN = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','", " ": "' '"}
_EMPTY_LINES = re.compile(r"\A([ \t]*[\r\n])+")  # before the heading
_HEAD = 1 << 16  # characters in which the first lines end
_LINES = 20  # that separators are looked for in
_GZIP, _ZIP, _OLD_OFFICE = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_WORKBOOK = b"xl/workbook.xml"
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}
_MARKED = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # by the first bytes
_UNIT = re.compile(r"[\[(]?(?=.*[^\W\d_]|.*[%°€$])[\w%°µμΩ€$/^²³·. *-]{1,12}[\])]?")
_NO_UNIT = re.compile(r"(?i)n\.?/?a\.?|nan|null|none|missing|unknown|true|false|\W*")


def unpacked(content: bytes, name: str) -> bytes:
    """The content of a file, without gzip around it; other packings are refused with what to do."""
    try:
        content = gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError) as error:
        raise InputError(f"{name} is not a complete gzip file: {error}") from None
    packed = next((what for sign, what in _PACKED.items() if content.startswith(sign)), None)
    if packed is None and content.startswith(_ZIP) and not is_workbook(content):
        packed = "zip"
    if packed:
        raise InputError(f"{name} is packed by {packed}: unpack it first (gzip alone is read as it is)")
    if content.startswith(_OLD_OFFICE):
        raise InputError(f"{name} is a workbook of old Excel (.xls): save it as .xlsx, or as CSV")
    return content


def is_workbook(content: bytes) -> bool:
    """Whether a file is a workbook of Excel.

    >>> is_workbook(b"a,b")
    False
    """
    return content.startswith(_ZIP) and _WORKBOOK in content


def decoded(content: bytes, name: str, encoding: str) -> tuple[str, str]:
    """The text of a file, without empty lines at its ends, and its encoding: UTF-16 is recognised.

    >>> decoded("a,b".encode("utf-16"), "t.csv", "utf-8-sig")
    ('a,b', 'utf-16')
    """
    encoding = _utf16(content, encoding)
    try:
        text = _EMPTY_LINES.sub("", content.decode(encoding)).rstrip("\r\n")
    except LookupError:
        raise InputError(f"--encoding: there is no encoding {encoding!r}; try latin-1 or cp1252") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name} is not {encoding.removesuffix('-sig').upper()}: byte 0x{content[error.start]:02x} at position "
            f"{error.start}, in line {line}; try --encoding latin-1, or the encoding it was written in"
        ) from None
    if not text.strip():
        raise InputError(f"{name} is empty")
    if text.lstrip()[:1] in ("{", "<"):
        kind = "JSON" if text.lstrip()[0] == "{" else "a page or XML"
        raise InputError(f"{name} is {kind}, not a table of text: save it as CSV")
    return text, encoding


def _utf16(content: bytes, encoding: str) -> str:
    """UTF-16 where the first bytes show it, unless another encoding was asked for."""
    if not encoding.startswith("utf-8"):
        return encoding
    marked = next((found for sign, found in _MARKED.items() if content.startswith(sign)), None)
    zeros = [content[start:400:2].count(0) for start in (0, 1)]  # in the places of high and low bytes
    if marked is None and max(zeros) > 0.3 * len(content[:400:2]):
        marked = "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return marked or encoding


def separator_of(text: str, usual: str) -> str:
    """What separates the columns of a text: the usual sign, unless another one makes lines of equal length.

    >>> separator_of("a;b\\n1,5;2\\n2,5;3", ","), separator_of("a,b\\n1,2", ",")
    (';', ',')
    """
    whole = text[:_HEAD].splitlines()[: -1 if len(text) > _HEAD else None]
    lines = [line for line in whole[: _LINES + 1] if line.strip()]
    if not lines:
        return usual
    if _fields(lines[:1], usual)[0] > 1 and len(set(_fields(lines, usual))) == 1:
        return usual
    for sign in (";", "\t", "|", ",", " "):
        counts = _fields(lines, sign)
        if sign != usual and counts[0] > 1 and len(set(counts)) == 1 and len(lines) > (4 if sign == " " else 1):
            return sign
    return usual


def _fields(lines: list[str], sign: str) -> list[int]:
    """How many fields each line has."""
    try:
        return [len(row) for row in csv.reader(lines, delimiter=sign, skipinitialspace=True)] or [0]
    except csv.Error:
        return [0]


def heading_of(content: str, separator: str, name: str) -> list[str]:
    """The names of the columns, which must differ."""
    try:
        heading = next(csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:  # a quote that is never closed, for example
        raise no_csv(name, error) from None
    other = [sign for sign in SHOWN if sign not in (separator, " ") and sign in heading[0]]
    if len(heading) == 1 and other:
        raise InputError(
            f"{name} has a single column, {heading[0][:60]!r}: another sign seems to separate its columns; "
            f"try --delimiter {SHOWN[other[0]]}"
        )
    twice = sorted({column for column in heading if column and heading.count(column) > 1})
    if twice:
        raise InputError(f"{name} has several columns named {twice[0]!r}: rename or remove all but one")
    return heading


def no_csv(name: str, error: Exception) -> InputError:
    """The error for a text that is no table."""
    reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
    return InputError(f"{name} cannot be read as CSV: {reason}; --delimiter sets what separates columns")


def without_units(text: str, separator: str) -> tuple[str, dict[str, str]]:
    """A table without a line of units below its heading, and the units by column; none where there is no such line.

    >>> without_units("depth,day\\n[m],\\n1.5,2024-01-01\\n2.5,2024-01-02\\n3,2024-01-03", ",")[1]
    {'depth': '[m]'}
    """
    try:
        head = csv.reader(io.StringIO(text[:_HEAD]), delimiter=separator, skipinitialspace=True)
        rows = list(itertools.islice(head, 12))
    except csv.Error:
        return text, {}
    if len(rows) < 4 or len({len(row) for row in rows}) > 1 or "\n" in "".join([*rows[0], *rows[1]]):
        return text, {}
    heading, first, rest = rows[0], rows[1], list(zip(*rows[2:], strict=True))
    of_numbers = [all(_is_number(cell) for cell in column if cell) and any(column) for column in rest]
    bare = [cell.strip() for cell in first]
    units = {
        column: cell
        for column, cell, numbers in zip(heading, bare, of_numbers, strict=True)
        if cell and numbers and _UNIT.fullmatch(cell) and not _is_number(cell) and not _NO_UNIT.fullmatch(cell)
    }
    others = [
        cell in ("", "-") or cell[:1] in "[(" or (column in units) for column, cell in zip(heading, bare, strict=True)
    ]
    if not units or not all(others) or any(map(_is_number, bare)):
        return text, {}
    names, _, others_below = text.split("\n", 2)
    return f"{names}\n{others_below}", units


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"\s*[-+]?[\d.,' ]*\d[\d.,' ]*([eE][-+]?\d+)?\s*", cell) is not None
