"""What the columns of a table hold: found once, told to the user, kept with the model, applied to new rows alike."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stratagp.cli.console import Console
from stratagp.cli.reading import pandas
from stratagp.errors import InputError

_IDENTIFIER = re.compile(
    r"(?i:(^|[_\-. ])(id|ids|uuid|guid|key|index|row|rownames?)$|^(id|unnamed)[_\-:. ])|(?<=[a-z0-9])I[dD]$"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
WRITTEN = ("category", "text")  # kinds of columns whose values are the letters in the file
_SAID = "as you say"
_FEW = 20  # rows, below which nothing is told from how many values differ
_DISTINCT, _LONG = (
    0.8,
    40,
)  # the share of different values, or the letters of most values, above which text is no category


@dataclass(frozen=True)
class Column:
    """An input: its name, what it holds ("number", "category", "date" or "text"), and a remark for people."""

    name: str
    kind: str
    distinct: int
    missing: int
    remark: str = ""

    @property
    def used(self) -> bool:
        """Whether the model sees it."""
        return self.kind != "ignore"


def examine(frame: Any, target: str, kinds: Mapping[str, str]) -> list[Column]:
    """All columns but the target; ``kinds`` has what the user says of some."""
    strange = sorted(set(kinds) - set(frame.columns))
    if strange:
        raise InputError(f"--as names the column {strange[0]!r}, which the table does not have")
    found = [_column(frame[name], str(name), kinds.get(name)) for name in frame.columns if name != target]
    if not any(column.used for column in found):
        raise InputError(f"there is no column to predict {target!r} from: {_ignored(found)}")
    return found


def _ignored(found: Sequence[Column]) -> str:
    return "; ".join(f"{each.name!r} is left out ({each.remark})" for each in found[:5]) or "the table has no other"


def _column(values: Any, name: str, said: str | None) -> Column:
    present = values.dropna()
    distinct, missing = int(present.nunique()), int(len(values) - len(present))
    if said is not None:
        return Column(name, said, distinct, missing, _SAID)
    if not distinct:
        return Column(name, "ignore", 0, missing, "all values are missing: left out")
    kind = _kind(present, distinct)
    if distinct == len(values) >= _FEW and _IDENTIFIER.search(name) and kind != "date" and not _is_float(present):
        return Column(
            name, "ignore", distinct, missing, f"an identifier by its name: left out; --as {name}={kind} keeps it"
        )
    return Column(name, kind, distinct, missing, _remark(present, kind, distinct))


def _remark(present: Any, kind: str, distinct: int) -> str:
    if distinct == 1:
        return "constant: it tells nothing"
    lengths = present.str.len().unique() if kind == "text" else []
    if len(lengths) == 1:
        return f"all of {lengths[0]} letters: where these stand is not compared; a column for each place does that"
    return ""


def _is_float(present: Any) -> bool:
    return bool(present.dtype.kind == "f" and (present % 1 != 0).any())


def is_date(present: Any) -> bool:
    """Whether values are dates, also those written as ``2024-12-31``."""
    kind = getattr(present.dtype, "kind", "O")
    if kind in "Miufb" or str(present.dtype) == "category":
        return bool(kind == "M")
    texts = present.astype(str)
    return bool(texts.str.fullmatch(_DATE).all()) and _dates(texts) is not None


def _kind(present: Any, distinct: int) -> str:
    kind = getattr(present.dtype, "kind", "O")
    if kind in "iuf":
        return "number"
    if is_date(present):
        return "date"
    if kind == "b" or str(present.dtype) == "category":
        return "category"
    texts = present.astype(str)
    long = texts.str.len().median() > _LONG and distinct > 0.5 * len(texts)
    return "text" if len(texts) >= _FEW and (long or distinct > _DISTINCT * len(texts)) else "category"


def _dates(texts: Any) -> Any:
    """Dates, in UTC where they have a zone; None where these are none."""
    pd = pandas()
    try:
        found = pd.to_datetime(texts, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        return None
    return found.dt.tz_localize(None)


def tell(columns: Sequence[Column], target: str, task: str, console: Console, of: str = "") -> list[str]:
    """Tell what was assumed, as a table and as sentences; ``of`` says which rows were counted, where not all were."""
    rows = [["column", "taken as", f"values{of}", f"missing{of}", ""]]
    for each in columns:
        rows.append(
            [each.name, each.kind if each.used else "–", str(each.distinct), str(each.missing or ""), each.remark]
        )
    console.table([*rows, [target, "target", "", "", task]])
    for each in columns:
        if not each.used and each.remark != _SAID and not console.talks:  # who watches has seen it in the table
            console.warn(f"column {each.name!r}: {each.remark}")
        elif each.used and each.distinct == 1:
            console.warn(f"column {each.name!r} is {each.remark}")
        elif each.used and each.remark and each.remark != _SAID and not console.talks:
            console.warn(f"column {each.name!r}: {each.remark}")
    return [f"{each.name}: {each.kind if each.used else 'left out'}" + (f" ({each.remark})" if each.remark else "")
            for each in columns]  # fmt: skip


def inputs(frame: Any, columns: Sequence[Column], name: str, console: Console, target: str | None = None) -> Any:
    """The inputs of a model from a table whose columns may be in another order, or more."""
    used = [each for each in columns if each.used]
    lacking = [each.name for each in used if each.name not in frame.columns]
    if lacking:
        near = difflib.get_close_matches(lacking[0].lower(), [str(each).lower() for each in frame.columns], 1, 0.75)
        meant = [str(each) for each in frame.columns if str(each).lower() in near]
        hint = f"; is {meant[0]!r} meant for {lacking[0]!r}?" if meant else ""
        raise InputError(f"{name} has no column {', '.join(map(repr, lacking))}, which the model was fitted with{hint}")
    more = [str(each) for each in frame.columns if each not in {c.name for c in columns} and each != target]
    if more:
        console.warn(f"columns that the model does not know are ignored: {', '.join(map(repr, more[:10]))}")
    return pandas().DataFrame({each.name: _as_kind(frame[each.name], each, name) for each in used}, index=frame.index)


def _as_kind(values: Any, column: Column, name: str) -> Any:
    if column.kind == "number":
        found = pandas().to_numeric(values, errors="coerce").astype(float)
        return _refuse(found, np.isinf(found) | (found.isna() & values.notna()), values, column, name, "number")
    if column.kind == "date":
        if getattr(values.dtype, "kind", "O") == "M":
            return values.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(values.dtype, "tz", None) else values
        found = pandas().to_datetime(
            values.astype(str).where(values.notna()), format="ISO8601", utc=True, errors="coerce"
        )
        found = found.dt.tz_localize(None)
        return _refuse(found, found.isna() & values.notna(), values, column, name, "date (as 2024-12-31)")
    if getattr(values.dtype, "kind", "O") == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")  # whole numbers, which a gap has made fractions in a table that is no text
    return values.astype(object).map(str, na_action="ignore").where(values.notna(), None)


def _refuse(found: Any, bad: Any, values: Any, column: Column, name: str, wanted: str) -> Any:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{name} has {values.iloc[first]!r} in column {column.name!r}, row {values.index[first]}, and "
            f"{int(bad.sum())} such in all: a {wanted} is meant"
        )
    return found


def as_dicts(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Columns as JSON holds them."""
    return [asdict(each) for each in columns]


def as_labels(values: Any) -> np.ndarray:
    """Classes: whole numbers as such, everything else as text."""
    if getattr(values.dtype, "kind", "O") in "iu":
        return values.to_numpy()
    if getattr(values.dtype, "kind", "O") == "f" and all(math.isfinite(v) and v == int(v) for v in values):
        return values.to_numpy().astype(int)
    return values.astype(str).to_numpy(dtype=str)
