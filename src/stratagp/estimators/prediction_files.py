"""Predictions for more rows than fit in memory: from files to a file, a block at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from stratagp.data import Rules, Source, open_source
from stratagp.data.files import ParquetFiles
from stratagp.data.listing import would_read
from stratagp.data.source import Block, target_names
from stratagp.data.tables import is_frame
from stratagp.errors import InputError, RowError
from stratagp.estimators.inputs.base import Inputs, RowsLike
from stratagp.estimators.targets import check_level
from stratagp.training.progress import log
from stratagp.whole_files import appearing


def predict_file(
    estimator: BaseEstimator, X: Source | str | PathLike[str], out: str | PathLike[str], level: float = 0.95
) -> int:
    """Predict all rows of ``X`` into a Parquet or CSV file ``out``; how many these are.

    Regression gives ``mean``, ``std``, ``lower`` and ``upper`` for each row (with the number of the target behind,
    where there are several), classification ``class`` and a column ``p(…)`` for each class. Rows are in the order of
    ``X``: files of a folder or pattern by their names, rows as they are in each. Columns that were not learnt from are
    not looked at. The file appears when all is written.

    Arguments:
        X: a :class:`~stratagp.data.Source`, or a path that :func:`~stratagp.data.open_source` takes. A row with a
            missing value is refused; of a source with ``missing="drop"`` its predictions are empty, so that rows stay
            where they are, and a warning says how many there are.
        out: a path that ends with ``.parquet`` or ``.csv``, and is none that ``X`` is read from.
        level: the probability of the interval from ``lower`` to ``upper``.

    >>> predict_file(model, "flights/*.parquet", "delays.parquet")  # doctest: +SKIP
    5929413
    """
    check_is_fitted(estimator)
    check_level(level)
    path = _checked_out(out, X)
    names = getattr(estimator, "feature_names_in_", None)
    source = X if isinstance(X, Source) else open_source(X, columns=None if names is None else list(names))
    if isinstance(source, ParquetFiles):
        source = source.with_texts(_texts(estimator))
    rows = empty = 0
    with appearing(path) as beside, _writer(beside, path.suffix) as write:
        for block in _all(source, names):
            complete = Rules(missing=source.missing).complete(block)
            write(_predicted(estimator, block, complete, level))
            rows, empty = rows + len(block), empty + int((~complete).sum())
    if empty:
        log.warning("predictions in %s are empty for rows with missing values: %d of %d", path, empty, rows)
    return rows


def _texts(estimator: BaseEstimator) -> list[str]:
    """The columns that were learnt as categories which are texts."""
    inputs = vars(estimator).get("inputs_")
    known = inputs.encoder.categories if isinstance(inputs, Inputs) and inputs.encoder is not None else {}
    return [name for name, values in known.items() if any(isinstance(value, str) for value in values)]


def _checked_out(out: str | PathLike[str], X: Source | str | PathLike[str]) -> Path:
    """Where predictions go, which must not be where rows come from."""
    path = Path(out)
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"out must end with .parquet or .csv, got {str(out)!r}")
    if not path.parent.is_dir():
        raise InputError(f"out: the folder {path.parent} does not exist")
    files = X.files if isinstance(X, Source) else X
    if would_read(files, path):
        raise InputError(f"out: {path} is among the files that X is read from: give another folder or name")
    return path


def _all(source: Source, names: Sequence[str] | None) -> Iterator[Block]:
    """All rows without targets, and of frames the columns that were learnt from."""
    for block in source.all_blocks():
        named = names is not None and is_frame(block.X)
        X = block.X[target_names(names, list(block.X.columns), block.where, "X")] if named else block.X
        yield replace(block, X=X, y=None)


def _predicted(estimator: BaseEstimator, block: Block, complete: np.ndarray, level: float) -> dict[str, Any]:
    """The columns of predictions for a block, empty where a row is not complete."""
    kept = np.flatnonzero(complete)
    X = block.take(kept).X if len(kept) else estimator._example  # which says what the columns are
    try:
        found = predicted_columns(estimator, X, level)
    except RowError as error:
        raise error.at(block.row(int(kept[error.row])), f"{block.where}: ") from error
    except InputError as error:
        raise InputError(f"{block.where}: {error}") from error
    places = np.maximum(np.cumsum(complete) - 1, 0)
    array = importlib.import_module("pyarrow").array
    return {name: array(values[places], mask=~complete) for name, values in found.items()}


def predicted_columns(estimator: BaseEstimator, X: RowsLike, level: float) -> dict[str, np.ndarray]:
    """The columns of predictions, by their names, as :func:`predict_file` writes them.

    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> list(predicted_columns(GPRegressor(max_iterations=0).fit(X, np.sin(X[:, 0])), X, 0.95))
    ['mean', 'std', 'lower', 'upper']
    """
    if is_classifier(estimator):
        p = estimator.predict_proba(X)
        found = {f"p({label})": p[:, i] for i, label in enumerate(estimator.classes_.tolist())}
        return {"class": estimator.classes_[p.argmax(1)], **found}
    found = estimator.mean_std_interval(X, level)
    columns = dict(zip(("mean", "std", "lower", "upper"), found, strict=True))
    if columns["mean"].ndim == 1:
        return columns
    return {f"{name} {i}": values[:, i] for name, values in columns.items() for i in range(values.shape[1])}


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes tables, one after another, to one file."""
    with ExitStack() as files:
        opened: list[Any] = []

        def write(columns: dict[str, Any]) -> None:
            table = importlib.import_module("pyarrow").table(columns)
            if not opened:
                if suffix == ".parquet":
                    writer = importlib.import_module("pyarrow.parquet").ParquetWriter
                else:
                    writer = importlib.import_module("pyarrow.csv").CSVWriter
                opened.append(files.enter_context(writer(str(path), table.schema)))
            opened[0].write_table(table)

        yield write
