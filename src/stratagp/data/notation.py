"""Numbers as people write them: with marks between thousands, a decimal comma, a currency, a unit.

A notation is a text: how 1234.5 is written, such as ``1,234.5`` or ``1.234,5``, and after a space the unit that all
numbers have, if there is one. The empty one is Python's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_FORMS = {  # marks between thousands, and before decimals
    "1234.5": ("", "."),
    "1,234.5": (",", "."),
    "1234,5": ("", ","),
    "1.234,5": (".", ","),
    "1 234.5": (" ", "."),
    "1 234,5": (" ", ","),
    "1'234.5": ("'", "."),
}
_CURRENCIES = r"(?:[$€£¥]|EUR|USD|GBP|CHF|US\$)"
_SPACES = re.compile("[\u00a0\u2009\u202f]")
_UNIT = re.compile(r"(?<=\d)\s?([A-Za-zµμ°Ωº²³/%‰][\w°²³/^·.-]{0,7}|%|‰)$")


def notations_of(texts: Sequence[str]) -> list[str]:
    """The notations in which different texts are all numbers, the likelier ones first; none if there is none.

    >>> notations_of(["$1,234,000", "$5"]), notations_of(["1.234,50", "2,5"]), notations_of(["12 kg", "3.5 kg"])[0]
    (['1,234.5'], ['1.234,5'], '1234.5 kg')
    >>> notations_of(["1,234", "5"])[:2], notations_of(["red", "5"])
    (['1,234.5', '1234,5'], [])
    """
    cleaned = [_cleaned(text) for text in texts]
    units = {own[1] if (own := _UNIT.search(text)) else "" for text in cleaned}
    unit = units.pop() if len(units) == 1 else ""
    bare = [text[: len(text) - len(unit)].strip() for text in cleaned] if unit else cleaned
    found = [form for form, marks in _FORMS.items() if all(_number(*marks).fullmatch(text) for text in bare)]
    return [f"{form} {unit}".strip() for form in found]


def numbers_of(values: Any, notation: str = "") -> Any:
    """A series of texts or numbers as floats; NaN where a text is no number.

    >>> import pandas as pd
    >>> numbers_of(pd.Series(["1.234,50 kg", None, "2"]), "1.234,5 kg").tolist()
    [1234.5, nan, 2.0]
    """
    import pandas as pd

    if notation and values.dtype.kind not in "iufb":
        form, unit = _parts(notation)
        thousands, decimal = _FORMS[form]
        shape = _number(thousands, decimal)

        def plain(value: Any) -> str:
            text = _cleaned(str(value)).removesuffix(unit).strip()
            return text.replace(thousands, "").replace(decimal, ".") if shape.fullmatch(text) else text

        values = values.astype(object).map(plain, na_action="ignore")
    return pd.to_numeric(values, errors="coerce").astype(float)


def decimal_of(notation: str) -> str:
    """The decimal mark of a notation.

    >>> decimal_of("1.234,5 kg")
    ','
    """
    return _FORMS[_parts(notation)[0]][1]


def _parts(notation: str) -> tuple[str, str]:
    """The form and the unit of a notation."""
    form = max((form for form in _FORMS if f"{notation} ".startswith(f"{form} ")), key=len)
    return form, notation[len(form) :].strip()


def _cleaned(text: str) -> str:
    """A number without the currency before or after it."""
    text = _SPACES.sub(" ", text.strip()).replace("\u2212", "-").replace("\u2019", "'")
    return re.sub(rf"^([-+]?)\s*{_CURRENCIES}\s*|\s*{_CURRENCIES}$", r"\1", text).strip()


def _number(thousands: str, decimal: str) -> re.Pattern[str]:
    group, point = re.escape(thousands), re.escape(decimal)
    whole = rf"(\d+|\d{{1,3}}({group}\d{{3}})+)" if thousands else r"\d+"
    return re.compile(rf"[-+]?({whole}({point}\d*)?|{point}\d+)([eE][-+]?\d+)?")
