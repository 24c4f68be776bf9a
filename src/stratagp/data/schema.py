"""What the columns of a table hold: decided here for estimators, files, the command line and reports alike.

:func:`kind_of` goes by how values are stored. :func:`examine` also guesses what undeclared text and whole numbers mean:
dates, free text, identifiers. A :class:`Schema` converts new rows to the form of those that it was learnt from.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stratagp.data import dates, identifiers
from stratagp.data.columns import TRUTHS, TYPES, Kind, is_missing, no_number, objects, present
from stratagp.data.notation import numbers_of
from stratagp.data.tables import Column, Table, read_table
from stratagp.errors import InputError

SAID = "as you say"
_BY_DTYPE: dict[str, Kind] = {
    **dict.fromkeys("biuf", "number"),
    "M": "date",
    "m": "duration",
}
_FEW = 20  # rows, below which the number of distinct values decides nothing
_DISTINCT = 0.5  # share of distinct values above which text is not categories
_SCALARS = (str, int, float, np.generic)


@dataclass(frozen=True)
class Field:
    """A column: its name, what it holds, and a remark for the user.

    ``kind`` is how it is stored ("number", "date", "duration", "category") or what it means: also "text", "object" if
    entries are neither text nor numbers, and "ignore". ``written`` is how its texts are written, where that must be
    known: the format of a date (several, with " or " between them, if the texts do not tell), or the notation of
    numbers (:mod:`stratagp.data.notation`).

    >>> Field("id", "ignore", distinct=30, missing=0).used
    False
    """

    name: str
    kind: str
    distinct: int
    missing: int
    remark: str = ""
    written: str = ""

    @property
    def used(self) -> bool:
        """Whether a model uses it."""
        return self.kind != "ignore"


class Refused(NamedTuple):
    """Rows that a model cannot predict, and what is wrong with the first of them.

    >>> Refused(np.array([True, False, False]), "no value in column 'size', row 1").how_many
    '1 of 3 rows'
    """

    rows: np.ndarray
    why: str

    @property
    def how_many(self) -> str:
        """The number of refused rows and of all rows."""
        return f"{int(self.rows.sum()):,} of {len(self.rows):,} rows"


@dataclass(frozen=True)
class Schema:
    """The columns of a table, and the categories that each may hold, by name.

    >>> schema = Schema([Field("town", "category", 1, 0)], {"town": ["Bonn"]})
    >>> schema.categories["town"]
    ['Bonn']
    """

    fields: Sequence[Field]
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def conform(self, frame: Any, where: str) -> Any:
        """The columns of a data frame that a model uses, each converted to its kind.

        Arguments:
            frame: a pandas frame; columns may be in another order, and extra ones are ignored.
            where: what messages call the frame.

        >>> import pandas as pd
        >>> schema = Schema([Field("size", "number", 2, 0), Field("town", "category", 2, 0)])
        >>> schema.conform(pd.DataFrame({"town": [1, 2], "size": ["1.5", None]}), "new.csv").to_dict("list")
        {'size': [1.5, nan], 'town': ['1', '2']}
        """
        used = [each for each in self.fields if each.used]
        lacking = [each.name for each in used if each.name not in frame.columns]
        if lacking:
            names = [str(each) for each in frame.columns]
            near = difflib.get_close_matches(lacking[0].lower(), [name.lower() for name in names], 1, 0.75)
            meant = [name for name in names if name.lower() in near]
            hint = f"; did you mean {meant[0]!r} for {lacking[0]!r}?" if meant else ""
            gone = ", ".join(map(repr, lacking))
            raise InputError(f"{where} has no column {gone}, which the model was fitted with{hint}")
        return type(frame)({each.name: _as_kind(frame[each.name], each, where) for each in used}, index=frame.index)

    def refused(self, frame: Any, fills: bool) -> Refused:
        """The rows that a model cannot predict: those with gaps, unless it ``fills`` them.

        >>> import pandas as pd
        >>> rows = pd.DataFrame({"town": ["Bonn", None]}, index=[1, 2])
        >>> Schema([], {"town": ["Bonn"]}).refused(rows, False).why
        "no value in column 'town', row 2, which the model has not learnt to fill"
        """
        gaps = frame.isna().to_numpy()
        rows = gaps.any(1) & (not fills)
        if not rows.any():
            return Refused(rows, "")
        first = int(rows.argmax())
        name = frame.columns[gaps[first].argmax()]
        return Refused(
            rows, f"no value in column {name!r}, row {frame.index[first]}, which the model has not learnt to fill"
        )


def kind_of(column: Column, auto: bool) -> Kind:
    """What a column holds; ``auto`` makes text, booleans and categoricals categories; otherwise text is refused.

    Objects are judged by their values: a column of objects that are all numbers holds numbers.

    >>> kind_of(Column("0", np.array(["2020-01-01"], "datetime64[D]")), auto=True)
    'date'
    """
    kind = column.values.dtype.kind
    if kind == "c":
        raise InputError(f"X: Complex data not supported, but column {column.label} is complex: split it in two")
    if auto and (column.declared is not None or kind == "b"):
        return "category"
    if kind in _BY_DTYPE:
        return _BY_DTYPE[kind]
    values = present(column).tolist()
    if not values:
        return "number"
    for found, types in TYPES.items():
        if all(isinstance(value, types) and not (auto and isinstance(value, TRUTHS)) for value in values):
            return found
    if auto:
        return "category"
    places = enumerate(objects(column))
    row, value = next((i, v) for i, v in places if not is_missing(v) and not isinstance(v, TYPES["number"]))
    raise no_number(value, row, column)


def is_text(column: Column) -> bool:
    """Whether a column holds texts most of which differ, and neither categories nor dates.

    >>> is_text(Column("0", np.array([f"sample {i}" for i in range(60)])))
    True
    """
    values = present(column).tolist() if column.declared is None else []
    all_texts = bool(values) and all(isinstance(value, str) for value in values)
    plain = all_texts and dates.formats_of(values) is None
    return plain and _kind_of_texts(values, len(set(values))) == "text"


def field_of(name: str, column: Column) -> Field:
    """A column as it is stored; objects that are neither text nor numbers have the kind "object".

    >>> field_of("shape", Column("'shape'", np.array([(1, 2), None], dtype=object)))
    Field(name='shape', kind='object', distinct=1, missing=1, remark='', written='')
    """
    values = present(column)
    kind: str = kind_of(column, auto=True)
    if kind == "category" and not all(isinstance(value, _SCALARS) for value in values[:100].tolist()):
        kind = "object"
    distinct = len(
        {str(value) for value in values.tolist()} if kind in ("category", "object") else set(values.tolist())
    )
    return Field(name, kind, distinct, len(column.values) - len(values))


def as_stored(X: Any) -> list[Field]:
    """The columns of a table as they are stored.

    >>> as_stored([[1.5, "a"], [2.5, None]])[1]
    Field(name='x1', kind='category', distinct=1, missing=1, remark='', written='')
    """
    table = X if isinstance(X, Table) else read_table(X)
    names = table.names or [f"x{place}" for place in range(len(table.columns))]
    return [field_of(name, column) for name, column in zip(names, table.columns, strict=True)]


def examine(X: Any, said: Mapping[str, str], undo: str = "", date_formats: Sequence[str] = ()) -> list[Field]:
    """What the columns of a table are meant to hold.

    Arguments:
        said: the known kinds, by column.
        undo: advice on how to take a column for something else, with placeholders ``{name}`` and ``{kind}``.
        date_formats: formats of dates, as in :func:`time.strptime`, that win over those that are tried otherwise.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"day": ["31.12.2024", "01.01.2025"], "town": ["Bonn", "Oslo"]})
    >>> [(each.name, each.kind, each.written) for each in examine(frame, {})]
    [('day', 'date', '%d.%m.%Y'), ('town', 'category', '')]
    """
    table = read_table(X)
    names = table.names or [f"x{place}" for place in range(len(table.columns))]
    columns = zip(names, table.columns, strict=True)
    return [_meant(name, column, said.get(name), undo, date_formats) for name, column in columns]


def _meant(name: str, column: Column, said: str | None, undo: str, date_formats: Sequence[str]) -> Field:
    stored, values = field_of(name, column), present(column)
    found, kind, advice = (stored.distinct, stored.missing), stored.kind, f"; {undo}" if undo else ""
    plain = column.declared is None and column.values.dtype.kind != "b"
    texts = [str(value) for value in values.tolist()] if plain and kind == "category" else []
    if said not in (None, "date"):
        return Field(name, str(said), *found, SAID)
    if not stored.distinct:
        return Field(name, "ignore", *found, "all values are missing: left out")
    if (form := _date_format(values, texts, date_formats)) is not None:
        return Field(name, "date", *found, SAID if said else "", form)
    if said is not None:
        return Field(name, said, *found, SAID)
    kind = _kind_of_texts(texts, stored.distinct) if texts else kind
    only = _only_tells_rows_apart(name, values, texts, stored)
    if only is not None:
        return Field(name, "ignore", *found, f"{only}: left out{advice.format(name=name, kind=kind)}")
    if kind == "number" and stored.distinct > 2 and 2 * stored.distinct <= len(values) and _are_whole(values):
        what = "codes" if identifiers.is_code(name) else "groups" if identifiers.is_group(name) else ""
        if what:
            remark = f"{what} by the name: categories{advice.format(name=name, kind='number')}"
            return Field(name, "category", *found, remark)
    return Field(name, kind, *found, _remark(kind, texts, stored.distinct))


def _date_format(values: np.ndarray, texts: list[str], given: Sequence[str]) -> str | None:
    """The format of dates in texts or whole numbers; None if they are none."""
    if texts:
        found = dates.formats_of(texts, given)
        return None if found is None else dates.OR.join(found)
    return dates.COMPACT if dates.are_compact(values) else None


def _only_tells_rows_apart(name: str, values: np.ndarray, texts: list[str], stored: Field) -> str | None:
    if texts:
        return identifiers.of_texts(name, texts, stored.distinct)
    whole = stored.kind == "number" and not stored.missing and _are_whole(values)
    return identifiers.of_numbers(name, values, stored.distinct) if whole else None


def _are_whole(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf" and not (values % 1 != 0).any()


def _remark(kind: str, texts: list[str], distinct: int) -> str:
    lengths = {len(text) for text in texts}
    if distinct == 1:
        return "constant: carries no information"
    if kind == "text" and len(lengths) == 1:
        return f"all have {lengths.pop()} letters: positions are not compared; to compare them, give each a column"
    if kind == "category" and any(text[:1] == "0" and text[1:].isdigit() for text in texts):
        return "codes with leading zeros"
    return ""


def _kind_of_texts(texts: list[str], distinct: int) -> str:
    if all(text.isdigit() for text in texts):  # codes with leading zeros
        return "category"
    return "text" if len(texts) >= _FEW and distinct > _DISTINCT * len(texts) else "category"


def _as_kind(values: Any, column: Field, where: str) -> Any:
    """A column of a data frame as numbers, dates or text."""
    import pandas as pd

    stored = getattr(values.dtype, "kind", "O")
    if column.kind == "number":
        found, wanted = numbers_of(values, column.written), "number"
    elif column.kind != "date":
        texts = _as_written(values, stored).astype(object).map(str, na_action="ignore")
        return texts.where(values.notna(), "" if column.kind == "text" else None)
    elif stored == "M":
        return values.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(values.dtype, "tz", None) else values
    else:
        texts = _as_written(values, stored).astype(str).str.strip().where(values.notna())
        found = dates.parsed(texts, column.written)
        wanted = f"date (such as {pd.Timestamp(2024, 12, 31).strftime(column.written or '%Y-%m-%d')})"
    bad = found.isna() & values.notna() if column.kind == "date" else np.isinf(found) | (found.isna() & values.notna())
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        shown = values.iloc[[first]].tolist()[0]
        raise InputError(
            f"{where} has {shown!r} in column {column.name!r}, row {values.index[first]}: expected a {wanted} "
            f"(bad in {int(bad.sum())} of {len(bad)} rows)"
        )
    return found


def _as_written(values: Any, stored: str) -> Any:
    """Whole numbers that a gap turned into floats are whole again."""
    return values.astype("Int64") if stored == "f" and (values.dropna() % 1 == 0).all() else values
