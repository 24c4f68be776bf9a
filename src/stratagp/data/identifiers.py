"""Columns that only tell rows apart: keys, names, addresses, file names, running numbers; and codes of classes."""

from __future__ import annotations

import re

import numpy as np

RUNNING = "running numbers"
SEVERAL = "identifiers that occur several times"
ROWS = 20  # below which the number of distinct values decides nothing
_NAMED = re.compile(
    r"(?i:(^|[_\-. ])(id|ids|uuid|guid|key|index|row|rownames?|nr|serial|isbn|iban|ssn|sku|phone)\.?$"
    r"|^(id|unnamed)[_\-:. ])|(?<=[a-z0-9])I[dD]$"
)
_PERSON = re.compile(
    r"(?i)^((customer|patient|client|person|employee|student|player|author|owner|contact|driver|passenger)[ _-]?)?"
    r"((first|last|sur|fore|given|family|full|user)[ _-]?)?names?$"
)
_CODE = re.compile(r"(?i)(^|[_\- ])(zip|zip[_\- ]?codes?|post(al)?[_\- ]?codes?|plz|postleitzahl|fips|naics|codes?)$")
_CLASS = re.compile(
    r"(?i)(^|[_\- ])(class|classes|label|labels|type|category|kind|species|group|cluster|code|diagnosis|digit|month|"
    r"weekday|target)$"
)
_QUANTITY = re.compile(
    r"(?i)(^|[_\- ])(t|x|z|time|day|days|hour|hours|minute|seconds?|week|weeks|month|months|year|years|age|date|step|"
    r"steps|epoch|iteration|trial|distance|depth|position|order|dose|rank|size|length|level|temperature)$"
)
_SHAPES = {
    "e-mail addresses": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "addresses of pages": re.compile(r"(https?|ftp|s3)://\S+|www\.\S+"),
    "file names": re.compile(r"(\S.*)?[^\s./\\]\.[A-Za-z][A-Za-z0-9]{1,4}|([A-Za-z]:)?([\w .-]*[/\\]){2,}[\w .-]*"),
    "unique keys": re.compile(r"\{?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}?"),
    "hashes": re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{16,}|(?=.*\d)(?=.*[A-F])[0-9A-F]{16,}"),
    "keys": re.compile(r"(?=[^\s]*\d)[A-Za-z]{0,12}[-_./# ]?([A-Za-z]{0,4}[-_./#]?)\d+([-_./]\w{1,8}){0,3}"),
}
_NAME = re.compile(r"[^\W\d_][\w'’.-]*,?( [^\W\d_][\w'’.()\"-]*,?){0,7}")
_MOST = 0.95  # the share of values that must look alike
_KEYS = 0.9  # the share of distinct values above which keys are no categories
_GROUPS = 50  # up to which numbered groups are categories
_NAMES = 0.5  # the same for names of persons, some of which occur twice


def of_texts(name: str, texts: list[str], distinct: int) -> str | None:
    """What texts are that only tell rows apart; None where they may say more.

    Arguments:
        texts: those of all rows that have one.
        distinct: how many different ones there are.

    >>> of_texts("file", [f"img_{i:03}.png" for i in range(30)], 30)
    'file names'
    >>> of_texts("sample_id", [f"S{i % 32}" for i in range(60)], 32)
    'identifiers that occur several times'
    >>> of_texts("word", ["red", "blue"] * 15, 2) is None
    True
    """
    if len(texts) < ROWS:
        return None
    several = SEVERAL if _are_several(name, len(texts), distinct) else None
    if distinct < _NAMES * len(texts):
        return several
    different = set(texts)
    for what, shape in _SHAPES.items():
        often = distinct < _KEYS * len(texts) and what in ("keys", "file names")
        if not often and sum(shape.fullmatch(text) is not None for text in different) >= _MOST * len(different):
            return what
    named = sum(text[:1].isupper() and _NAME.fullmatch(text) is not None for text in different)
    if _PERSON.search(name) and named >= 0.8 * len(different):
        return "names"
    if _NAMED.search(name) and distinct >= _KEYS * len(texts) and max(map(len, different)) <= 64:
        return "an identifier by its name"
    return several


def of_numbers(name: str, values: np.ndarray, distinct: int) -> str | None:
    """What whole numbers are that only tell rows apart; None where they may say more.

    >>> of_numbers("row", np.arange(30), 30), of_numbers("t", np.arange(30), 30)
    ('an identifier by its name', None)
    >>> of_numbers("patient", np.arange(30), 30), of_numbers("customer_id", np.arange(60) % 40, 40)
    ('running numbers', 'identifiers that occur several times')
    """
    if len(values) < ROWS:
        return None
    if distinct == len(values) and _NAMED.search(name):
        return "an identifier by its name"
    steps = values[0] in (0, 1) and bool((np.diff(values) == 1).all())
    if steps and not _QUANTITY.search(name):
        return RUNNING
    return SEVERAL if _are_several(name, len(values), distinct) else None


def _are_several(name: str, rows: int, distinct: int) -> bool:
    """Whether a column that is named as a group has too many different values for categories."""
    return is_group(name) and distinct > max(ROWS, min(rows / 10, _GROUPS))


def is_code(name: str) -> bool:
    """Whether whole numbers are codes by the name of their column.

    >>> is_code("zip"), is_code("area_code"), is_code("size")
    (True, True, False)
    """
    return _CODE.search(name) is not None


def is_group(name: str) -> bool:
    """Whether whole numbers that repeat name groups of rows.

    >>> is_group("store_id"), is_group("rooms")
    (True, False)
    """
    return _NAMED.search(name) is not None and re.search(r"(?i)(nr|index|row)\.?$", name) is None


def is_class(name: str) -> bool:
    """Whether whole numbers are codes of classes by the name of their column.

    >>> is_class("Type"), is_class("visits")
    (True, False)
    """
    return _CLASS.search(name) is not None
