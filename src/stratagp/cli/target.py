"""What is said about a target before anything is learnt: what cannot be meant is refused, what may not be is told."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.cli.console import Console
from stratagp.errors import InputError

_SKEWED = 1.0  # the skewness of positive numbers above which Gaussian intervals go far below zero


def check_target(values: Any, task: str, said: str, log: bool, console: Console) -> None:
    """Refuse a target that cannot be learnt as is asked for, and tell what may not be meant.

    Arguments:
        values: without gaps.
        said: the task that was asked for, or "auto".
        log: whether the logarithm is to be learnt.
    """
    if task == "classification":
        _check_classes(values, said, log, console)
        return
    numbers = values.to_numpy(dtype=float)
    if log and not (numbers > 0).all():
        first = int((~(numbers > 0)).argmax())
        raise InputError(
            f"--log: the target {values.name!r} is {numbers[first]:g} in row {values.index[first]}: only positive "
            "numbers have a logarithm"
        )
    if len(np.unique(numbers)) == 1:
        console.warn(f"the target {values.name!r} is constant: there is nothing to learn")
    elif not log and is_skewed(numbers):
        console.warn(
            f"the target {values.name!r} is positive and skewed, so that intervals may reach below zero: --log learns "
            "its logarithm, and gives intervals above zero"
        )


def _check_classes(values: Any, said: str, log: bool, console: Console) -> None:
    counts, is_number = values.value_counts(), getattr(values.dtype, "kind", "O") in "iuf"
    if log:
        raise InputError(f"--log is of numbers, but the target {values.name!r} is taken as classes: --task regression")
    if counts.iloc[0] == 1:
        raise InputError(
            f"the target {values.name!r} has as many values as rows, {len(values):,}: nothing can be learnt of classes "
            "with one row each; give another target" + (", or --task regression" if is_number else "")
        )
    if said == "auto" and is_number and set(counts.index) != {0, 1}:
        console.warn(
            f"the target {values.name!r} has {len(counts)} values alone, which are taken as classes: --task regression "
            "takes them as numbers, --task classification says that classes are meant"
        )


def is_skewed(numbers: np.ndarray) -> bool:
    """Whether numbers are positive with a skewness above 1, and their logarithms are less skewed.

    >>> is_skewed(np.exp(np.linspace(-2, 2, 50))), is_skewed(np.linspace(1, 2, 50)), is_skewed(np.linspace(-1, 9, 50))
    (True, False, False)
    """
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        return False
    own = _skewness(numbers)
    return own > _SKEWED and abs(_skewness(np.log(numbers))) < own


def _skewness(numbers: np.ndarray) -> float:
    """``mean(z³)`` of standardised numbers; that of constant ones is 0."""
    z = (numbers - numbers.mean()) / (numbers.std() or 1.0)
    return float(np.mean(z**3))
