"""Columns that exist only in the names of folders: ``year=2020/part.parquet``, as Hive, Spark and Dask write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")  # numbers that print as they were written, unlike 007


def partition_columns(folders: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The columns that folders add to the rows of each file: whole numbers if all values are, otherwise text.

    Arguments:
        folders: for each file, the names of the folders that contain it, outermost first.

    >>> partition_columns([["year=2020", "zip=00501"], ["more", "year=2021", "zip=10001"]])
    [{'year': 2020, 'zip': '00501'}, {'year': 2021, 'zip': '10001'}]
    """
    found = [dict(_named(own)) for own in folders]
    texts = {name for own in found for name, text in own.items() if text is not None and not _WHOLE.fullmatch(text)}
    return [{name: text if text is None or name in texts else int(text) for name, text in own.items()} for own in found]


def _named(folders: Sequence[str]) -> list[tuple[str, str | None]]:
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return [(unquote(name), None if text == _MISSING else unquote(text)) for name, _, text in pairs if name]
