"""Columns of numbers with something else in them, which would pass for texts or categories: refused with a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratagp.cli.reading import Format, pandas
from stratagp.errors import InputError

_COMMA = r"[-+]?\d+,\d+"
_SIGNS = r"\s*[$€£%]\s*|,|(?<=\d)\s(?=\d{3}(?!\d))"  # around numbers, and between thousands
_FEW = 10  # different values, up to which numbers and words may be categories


def refuse_mixed(frame: Any, target: str, kinds: Mapping[str, str], task: str, form: Format, name: str) -> None:
    """Refuse columns of which most values are numbers and some are not, unless the user has said what they hold."""
    for column in frame.columns:
        said = task != "auto" if column == target else column in kinds
        if not said and getattr(frame[column].dtype, "kind", "O") == "O" and str(frame[column].dtype) != "category":
            _check(frame[column].dropna(), column == target, form, name)


def _check(values: Any, is_target: bool, form: Format, name: str) -> None:
    texts = values.astype(str).str.strip()
    distinct = pandas().Series(texts.unique(), dtype=object)
    numbers = _are_numbers(distinct)
    commas = distinct.str.fullmatch(_COMMA)
    where = f"{name}: the {'target' if is_target else 'column'} {values.name!r} holds numbers"
    if form.decimal != "," and commas.any() and (numbers | commas).all():
        first = distinct[commas].iloc[0]
        raise InputError(
            f"{where} with a comma, {first!r} in row {_row(texts, first)}: --decimal ',' takes it as the sign before "
            "the fraction; one between thousands has to be removed"
        )
    keep = "--task classification takes all as classes" if is_target else f"--as {values.name}=category keeps them"
    signed = ~numbers & _are_numbers(distinct.str.replace(_SIGNS, "", regex=True))
    if signed.any() and (numbers | signed).all():
        first = distinct[signed].iloc[0]
        raise InputError(
            f"{where} with signs, {first[:40]!r} in row {_row(texts, first)}: remove what is no part of a number, such "
            f"as $, % and commas between thousands; {keep}"
        )
    numbers = numbers | signed
    if len(distinct) > _FEW and numbers.mean() > 0.5 and not numbers.all():
        first = distinct[~numbers].iloc[0]
        others = int(texts.isin(distinct[~numbers]).sum())
        raise InputError(
            f"{where}, but {first[:40]!r} in row {_row(texts, first)}, one of {others} such entries: mend them, "
            f"--missing {first[:40]!r} takes it as missing, {keep}"
        )


def _are_numbers(texts: Any) -> Any:
    return pandas().to_numeric(texts, errors="coerce").notna()


def _row(texts: Any, wanted: str) -> Any:
    return texts.index[texts == wanted][0]
