"""Predictions for more rows than fit in memory: from files to a file, a block at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from stratagp.data import Source, open_source
from stratagp.data.source import Block
from stratagp.errors import InputError
from stratagp.estimators.targets import check_level
from stratagp.training.checkpoint import appearing


def predict_file(estimator: Any, X: Any, out: Any, level: float = 0.95) -> int:
    """Predict all rows of ``X`` into a Parquet or CSV file ``out``; how many these are.

    Regression gives ``mean``, ``std``, ``lower`` and ``upper`` for each row (with the number of the target behind,
    where there are several), classification ``class`` and a column ``p(…)`` for each class. Rows are in the order of
    ``X``; its columns that were not learnt from are not read. The file appears when all is written.

    Arguments:
        X: a :class:`~stratagp.data.Source`, or a path that :func:`~stratagp.data.open_source` takes.
        out: a path that ends with ``.parquet`` or ``.csv``.
        level: the probability of the interval from ``lower`` to ``upper``.
    """
    check_is_fitted(estimator, "beliefs_")
    check_level(level)
    path = Path(out)
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"out must end with .parquet or .csv, got {str(out)!r}")
    if not path.parent.is_dir():
        raise InputError(f"out: the folder {path.parent} does not exist")
    names = getattr(estimator, "feature_names_in_", None)
    source = X if isinstance(X, Source) else open_source(X, columns=None if names is None else list(names))
    rows = 0
    with appearing(path) as beside, _writer(beside, path.suffix) as write:
        for block in _all(source):
            write(_predicted(estimator, block, level))
            rows += len(block)
    return rows


def _all(source: Source) -> Iterator[Block]:
    for part in range(len(source.parts)):
        yield from source.blocks(part)


def _predicted(estimator: Any, block: Block, level: float) -> dict[str, np.ndarray]:
    """The columns of predictions, by their names."""
    if is_classifier(estimator):
        p = estimator.predict_proba(block.X)
        found = {f"p({label})": p[:, i] for i, label in enumerate(estimator.classes_.tolist())}
        return {"class": estimator.classes_[p.argmax(1)], **found}
    mean, std = estimator.predict(block.X, return_std=True)
    lower, upper = estimator.predict_interval(block.X, level)
    columns = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    if mean.ndim == 1:
        return columns
    return {f"{name} {i}": values[:, i] for name, values in columns.items() for i in range(mean.shape[1])}


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Callable[[dict[str, np.ndarray]], None]]:
    """A function that writes tables, one after another, to one file."""
    name, kind = ("parquet", "ParquetWriter") if suffix == ".parquet" else ("csv", "CSVWriter")
    with ExitStack() as files:
        opened: list[Any] = []

        def write(columns: dict[str, np.ndarray]) -> None:
            table = importlib.import_module("pyarrow").table(columns)
            if not opened:
                writer = getattr(importlib.import_module(f"pyarrow.{name}"), kind)
                opened.append(files.enter_context(writer(str(path), table.schema)))
            opened[0].write_table(table)

        yield write
