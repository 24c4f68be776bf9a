"""Columns that are in the names of folders alone: ``year=2020/part.parquet``, as Hive, Spark and Dask write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")  # which the number says again as it was written, unlike 007


def partition_columns(folders: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The columns that folders give the rows of each file: whole numbers where all values are, texts else.

    Arguments:
        folders: the names of those that each file is in, the outermost first.

    >>> partition_columns([["year=2020", "zip=00501"], ["more", "year=2021", "zip=10001"]])
    [{'year': 2020, 'zip': '00501'}, {'year': 2021, 'zip': '10001'}]
    """
    found = [dict(_named(own)) for own in folders]
    texts = {name for own in found for name, text in own.items() if text is not None and not _WHOLE.fullmatch(text)}
    return [{name: text if text is None or name in texts else int(text) for name, text in own.items()} for own in found]


def _named(folders: Sequence[str]) -> list[tuple[str, str | None]]:
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return [(unquote(name), None if text == _MISSING else unquote(text)) for name, _, text in pairs if name]
