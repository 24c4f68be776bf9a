"""Columns that are in the names of folders alone: ``year=2020/part.parquet``, as Hive, Spark and Dask write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?\d{1,18}")


def partition_columns(files: Sequence[str]) -> list[dict[str, Any]]:
    """The columns that folders give the rows of each file: whole numbers where all values are, texts else.

    >>> partition_columns(["sales/year=2020/town=Rome/0.parquet", "sales/year=2021/town=Oslo/0.parquet"])
    [{'year': 2020, 'town': 'Rome'}, {'year': 2021, 'town': 'Oslo'}]
    """
    found = [dict(_named(file)) for file in files]
    texts = {name for own in found for name, text in own.items() if text is not None and not _WHOLE.fullmatch(text)}
    return [{name: text if text is None or name in texts else int(text) for name, text in own.items()} for own in found]


def _named(file: str) -> list[tuple[str, str | None]]:
    folders = PurePosixPath(str(file).replace("\\", "/")).parts[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return [(unquote(name), None if text == _MISSING else unquote(text)) for name, _, text in pairs if name]
