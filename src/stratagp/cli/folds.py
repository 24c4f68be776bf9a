"""Rows in folds, each of which is held out once, and rows that come together again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stratagp.cli.output import Console
from stratagp.cli.split import Parts, settled
from stratagp.cli.table import DataFrame, pandas
from stratagp.errors import InputError


def in_folds(parts: Parts, count: int, seed: int, console: Console) -> list[Parts]:
    """All rows as training and test rows, once for each fold; classes have their shares in every fold if they can."""
    from sklearn.model_selection import KFold, StratifiedKFold

    X, y, n = parts.X, parts.y, len(parts.y)
    if count > n:
        raise InputError(f"--folds {count} is more than the {n} rows: take at most {n}")
    enough = parts.of_classes and np.unique(y, return_counts=True)[1].min() >= count
    folds: Any = (StratifiedKFold if enough else KFold)(count, shuffle=True, random_state=seed)
    found = []
    for train, test in folds.split(np.zeros(n), y):
        each = replace(parts, X=X.iloc[train], y=y[train], X_test=X.iloc[test], y_test=y[test])
        found.append(settled(each, seed, console))
    return found


def whole(parts: Parts) -> tuple[DataFrame, np.ndarray]:
    """Training and test rows together, in the order of the file."""
    X = pandas().concat([parts.X, parts.X_test])
    order = X.index.argsort(kind="stable")
    return X.iloc[order], np.concatenate([parts.y, parts.y_test])[order]
