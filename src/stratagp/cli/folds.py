"""Rows in folds, each of which is held out once, and rows that come together again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stratagp.cli.output import Console
from stratagp.cli.split import Parts, settled
from stratagp.cli.table import DataFrame, Series, pandas
from stratagp.errors import InputError


def in_folds(parts: Parts, count: int, seed: int, console: Console, groups: Series | None = None) -> list[Parts]:
    """All rows as training and test rows, once for each fold.

    Rows of a group stay together. Without groups, classes have their shares in every fold if they can.
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    X, y, n = parts.X, parts.y, len(parts.y)
    if count > n:
        raise InputError(f"--folds {count} is more than the {n} rows: take at most {n}")
    codes = None if groups is None else pandas().factorize(groups.loc[X.index], use_na_sentinel=False)[0]
    if codes is not None and count > codes.max() + 1:
        raise InputError(f"--folds {count} is more than the {codes.max() + 1} groups: take at most that many")
    enough = parts.of_classes and np.unique(y, return_counts=True)[1].min() >= count
    kind: Any = GroupKFold if codes is not None else StratifiedKFold if enough else KFold
    found = []
    for train, test in kind(count, shuffle=True, random_state=seed).split(np.zeros(n), y, codes):
        each = replace(parts, X=X.iloc[train], y=y[train], X_test=X.iloc[test], y_test=y[test])
        found.append(settled(each, seed, console))
    return found


def whole(parts: Parts) -> tuple[DataFrame, np.ndarray]:
    """Training and test rows together, in the order of the file."""
    X = pandas().concat([parts.X, parts.X_test])
    order = X.index.argsort(kind="stable")
    return X.iloc[order], np.concatenate([parts.y, parts.y_test])[order]
