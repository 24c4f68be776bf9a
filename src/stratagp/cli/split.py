"""Rows to train on and rows held out; every class of a test row has a training row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stratagp.cli.held_out import Split, held_rows
from stratagp.cli.output import Console
from stratagp.cli.table import DataFrame, pandas
from stratagp.errors import InputError


@dataclass(frozen=True)
class Parts:
    """Rows to train on and rows held out: frames and targets.

    Arguments:
        rank: the order in which training rows are drawn, where not all are.
        of_classes: whether a test row may have no target that training rows lack.
    """

    X: DataFrame
    y: np.ndarray
    X_test: DataFrame
    y_test: np.ndarray
    rank: np.ndarray
    of_classes: bool

    def some(self, rows: int | None) -> Parts:
        """At most so many rows to train on, in their order, and the test rows that these can answer."""
        if rows is None or rows >= len(self.y):
            return self
        kept = np.sort(np.argsort(self.rank)[:rows])
        fewer = replace(self, X=self.X.iloc[kept], y=self.y[kept], rank=self.rank[kept])
        unseen = _unseen(fewer)
        return replace(fewer, X_test=fewer.X_test[~unseen], y_test=fewer.y_test[~unseen])

    def tested_by(self, rows: int, seed: int) -> Parts:
        """With at most so many of the test rows, drawn at random, in their order."""
        n = len(self.y_test)
        if rows >= n:
            return self
        kept = np.sort(np.random.default_rng(seed).choice(n, rows, replace=False))
        return replace(self, X_test=self.X_test.iloc[kept], y_test=self.y_test[kept])


def hold_out(
    X: DataFrame,
    y: np.ndarray,
    task: str,
    test: float,
    seed: int,
    console: Console,
    split: Split | None = None,
    frame: DataFrame | None = None,
) -> Parts:
    """Draw the test rows: at random, with the shares of classes that all rows have, where possible; or by a split.

    A test row whose class no training row has becomes a training row, with a warning.

    Arguments:
        frame: the table, which has the column that the split goes by.
    """
    of_classes = task == "classification"
    if not test:
        parts = Parts(X, y, X.iloc[:0], y[:0], np.arange(len(y)), of_classes)
        return replace(parts, rank=_rank(parts, seed))
    if split is not None and frame is not None and split.way != "random":
        values = (X if split.way == "time" else frame.loc[X.index])[split.column]
        held = held_rows(split, values, test, seed)
        parts = Parts(X[~held], y[~held], X[held], y[held], np.arange(len(y)), of_classes)
        parts = _moved(parts, console)
        return replace(parts, rank=_rank(parts, seed))
    from sklearn.model_selection import train_test_split

    labels = _strata(y, test, console) if of_classes else None
    try:
        X, X_test, y, y_test = train_test_split(X, y, test_size=test, random_state=seed, stratify=labels)
    except ValueError as error:
        raise InputError(f"--test {test} cannot hold out a part of {len(y)} rows: {error}") from None
    return settled(Parts(X, y, X_test, y_test, np.arange(len(y)), of_classes), seed, console)


def settled(parts: Parts, seed: int, console: Console) -> Parts:
    """Parts whose test rows the training rows can answer, with an order in which training rows are drawn."""
    parts = _moved(parts, console)
    return replace(parts, rank=_rank(parts, seed))


def _strata(y: np.ndarray, test: float, console: Console) -> np.ndarray | None:
    counts = np.unique(y, return_counts=True)[1]
    held = max(1, round(test * len(y)))
    if counts.min() > 1 and held >= len(counts) and len(y) - held >= len(counts):
        return y
    console.warn("some classes have very few rows: test rows are drawn without regard to classes")
    return None


def _unseen(parts: Parts) -> np.ndarray:
    """Which test rows have a class that no training row has."""
    return ~np.isin(parts.y_test, parts.y) if parts.of_classes else np.zeros(len(parts.y_test), dtype=bool)


def _moved(parts: Parts, console: Console) -> Parts:
    unseen = _unseen(parts)
    if not unseen.any():
        return parts
    console.warn(
        f"{int(unseen.sum())} of {len(unseen)} test rows have a class that no training row has: they become training "
        "rows"
    )
    X = pandas().concat([parts.X, parts.X_test[unseen]])
    y = np.concatenate([parts.y, parts.y_test[unseen]])
    return replace(parts, X=X, y=y, X_test=parts.X_test[~unseen], y_test=parts.y_test[~unseen])


def _rank(parts: Parts, seed: int) -> np.ndarray:
    """The order in which rows are drawn: at random, but a row of each class first."""
    order = np.random.default_rng(seed).permutation(len(parts.y))
    first = np.zeros(len(order), dtype=bool)
    if parts.of_classes:
        first[np.unique(parts.y[order], return_index=True)[1]] = True
    rank = np.empty(len(order), dtype=int)
    rank[order[np.argsort(~first, kind="stable")]] = np.arange(len(order))
    return rank
