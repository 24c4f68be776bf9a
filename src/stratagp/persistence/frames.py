"""Data frames of pandas as columns that a model file can hold, and back."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from stratagp.errors import ModelFileError


def frame_columns(frame: Any) -> list[tuple[Any, Any]]:
    """The name and the content of each column: an array, or the categories and codes of a categorical.

    Dates of a time zone become those of UTC, and values of pandas' own types objects; neither changes how an encoder
    of tables reads them.
    """
    found: list[tuple[Any, Any]] = []
    for i, name in enumerate(frame.columns):
        column = frame.iloc[:, i]
        if hasattr(column.dtype, "categories"):
            known = column.dtype.categories
            content: Any = {"categories": list(known.astype(object)), "codes": column.cat.codes.to_numpy()}
        elif getattr(column.dtype, "tz", None) is not None:
            content = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        else:
            content = column.to_numpy()
        found.append((str(name) if isinstance(name, str) else int(name), content))
    return found


def made_frame(columns: list[tuple[Any, Any]]) -> Any:
    """The frame of such columns; pandas is imported for it."""
    pandas = importlib.import_module("pandas")
    frame: dict[Any, Any] = {}
    for name, content in columns:
        if type(name) not in (str, int):
            raise ModelFileError("a frame has a column whose name is neither a text nor a number")
        if _is_categorical(content):
            frame[name] = pandas.Series(pandas.Categorical.from_codes(content["codes"], content["categories"]))
        elif isinstance(content, np.ndarray) and content.ndim == 1:
            frame[name] = pandas.Series(content)
        else:
            raise ModelFileError(f"the column {name!r} of a frame is no column")
    if len({len(column) for column in frame.values()}) > 1:
        raise ModelFileError("a frame has columns of different lengths")
    return pandas.DataFrame(frame)


def _is_categorical(content: Any) -> bool:
    if not isinstance(content, dict) or content.keys() != {"categories", "codes"}:
        return False
    codes = content["codes"]
    return isinstance(content["categories"], list) and isinstance(codes, np.ndarray) and codes.ndim == 1
