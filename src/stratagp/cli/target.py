"""The column to predict: whether it holds numbers or classes, and whether it can be learnt."""

from __future__ import annotations

import math

import numpy as np

import stratagp
from stratagp.cli.output import Console
from stratagp.cli.settings import Settings
from stratagp.cli.table import Series
from stratagp.errors import InputError

TASKS = ("regression", "classification")
_CODES = 12  # up to so many whole numbers in a row may be codes of classes
_FEW = 4  # up to so many are, in whatever order the frequencies are
_VALLEY, _NOISE, _PEAK = 0.75, 2.0, 3.0  # a rarer value between frequent ones; standard deviations that speak
_LEAST_COUNTS = 5  # different counts
_FALLING, _RARE = 0.7, 0.1  # steps to a rarer count; the rarest beside the most frequent
_SKEWED = 1.0  # the skewness of positive numbers above which Gaussian intervals go far below zero


def find_task(values: Series, asked: str) -> tuple[str, str]:
    """Regression or classification, and why; ``asked`` is what the user wants, or "auto".

    >>> import pandas as pd
    >>> find_task(pd.Series([0, 1, 2, 0, 1, 2, 1]), "auto")[0], find_task(pd.Series([0.5, 1.5, 2.0]), "auto")[0]
    ('classification', 'regression')
    """
    present = values.dropna()
    kind = present.dtype.kind
    if asked == "regression" and kind not in "iufb":
        raise InputError(f"--task regression needs numbers, but the target {values.name!r} has {present.iloc[0]!r}")
    if asked != "auto":
        return asked, "as asked for"
    if stratagp.data.examine(present.to_frame("target"), {})[0].kind == "date":
        raise InputError(
            f"the target {values.name!r} holds dates such as {str(present.iloc[0])!r}, which cannot be predicted: "
            "turn them into numbers, such as days since the first; or --task classification takes them as classes"
        )
    distinct = np.unique(present.to_numpy()) if kind in "iuf" else None
    if distinct is None:
        return "classification", f"the target has {present.nunique()} different texts"
    if _are_counts(present):
        why = "the target holds counts: the larger, the rarer; --task classification takes them as classes"
        return "regression", why
    named = stratagp.data.identifiers.is_class(str(values.name))
    without_gaps = np.array_equal(distinct, distinct[0] + np.arange(len(distinct)))
    codes = _are_codes(present) and (without_gaps or named) and distinct[0] in (0, 1)
    if codes and not named and len(distinct) > _FEW and _has_one_peak(present):
        why = f"the {len(distinct)} values of the target become rarer to the ends, as grades do and codes do not"
        return "regression", f"{why}; --task classification takes them as classes"
    if len(distinct) == 2 or codes:
        return "classification", f"the target has only {len(distinct)} values; --task regression takes them as numbers"
    return "regression", "the target is a number"


def _are_codes(present: Series) -> bool:
    """Whether few whole numbers occur often, which may be codes of classes."""
    distinct = np.unique(present.to_numpy())
    whole = np.array_equal(distinct, np.round(distinct))
    return whole and len(distinct) <= _CODES and len(present) > 2 * len(distinct)


def _are_counts(present: Series) -> bool:
    """Whether whole numbers start at 0 and become rarer and rarer, as counts of events do and codes do not."""
    values, counts = np.unique(present.to_numpy(), return_counts=True)
    if len(values) < _LEAST_COUNTS or values[0] != 0 or not np.array_equal(values, np.round(values)):
        return False
    after = counts[int(counts.argmax()) :]
    falls = np.mean(np.diff(after) <= 0) if len(after) > 1 else 0.0
    return bool(counts.argmax() <= 1 and falls >= _FALLING and counts[-1] <= _RARE * counts.max())


def _has_one_peak(present: Series) -> bool:
    """Whether values become rarer from the most frequent one to the ends, as far as chance lets one tell."""
    counts = np.unique(present.to_numpy(), return_counts=True)[1].astype(float)
    sides = (np.maximum.accumulate(counts), np.maximum.accumulate(counts[::-1])[::-1])
    lower = np.minimum(*sides)  # the highest value to the left or to the right, whichever is lower
    valleys = (counts < _VALLEY * lower) & (lower - counts > _NOISE * np.sqrt(lower + counts))
    most, end = counts.max(), min(counts[0], counts[-1])
    return bool(not valleys.any() and most - end > _PEAK * np.sqrt(most + end))


def check_target(values: Series, task: str, settings: Settings, console: Console) -> None:
    """Refuse a target that cannot be learnt, and warn of a task that may be wrong.

    Arguments:
        values: without gaps.
        task: what it was found to be.
        settings: what the user wants.
    """
    log = settings.log
    if task == "classification":
        _check_classes(values, settings.task, log, console)
        return
    if settings.likelihood is not None:
        _check_likelihood(values, settings.likelihood)
    numbers = values.to_numpy(dtype=float)
    if log and not (numbers > 0).all():
        first = int((~(numbers > 0)).argmax())
        raise InputError(
            f"--log: the target {values.name!r} is {numbers[first]:g} in row {values.index[first]}: only positive "
            "numbers have a logarithm"
        )
    settled = log or settings.likelihood or settings.task != "auto"
    if not settled and _are_codes(values) and not _are_counts(values):
        shown = ", ".join(f"{number:g}" for number in np.unique(numbers))
        console.warn(
            f"the target {values.name!r} has only the values {shown}, which are taken as numbers: --task "
            "classification takes them as classes, --task regression confirms the numbers"
        )
    if len(np.unique(numbers)) == 1:
        console.warn(f"the target {values.name!r} is constant: there is nothing to learn")


def warn_of_skew(values: Series, settings: Settings, console: Console) -> None:
    """Recommend logarithms for a target whose intervals may reach below zero; a stack tries them itself."""
    if not (settings.log or settings.likelihood) and is_skewed(values.to_numpy(dtype=float)):
        console.warn(
            f"the target {values.name!r} is positive and skewed, so intervals may reach below zero: --log learns its "
            "logarithm and keeps intervals above zero"
        )


def _check_likelihood(values: Series, name: str) -> None:
    """Refuse a name that is none, and a target that a likelihood cannot have."""
    try:
        check = stratagp.AutoGPRegressor(likelihood=name)._target_check()
        if check is not None:
            check(values.to_numpy(dtype=float))
    except InputError as error:
        raise InputError(f"--likelihood {name} does not suit the target {values.name!r}: {error}") from None


def _check_classes(values: Series, asked: str, log: bool, console: Console) -> None:
    counts, is_number = values.value_counts(), values.dtype.kind in "iuf"
    if log:
        raise InputError(
            f"--log needs numbers, but the target {values.name!r} is taken as classes: add --task regression"
        )
    if counts.iloc[0] == 1:
        raise InputError(
            f"the target {values.name!r} has a different value in each of its {len(values):,} rows: classes with one "
            "row each cannot be learnt; choose another target" + (", or --task regression" if is_number else "")
        )
    if asked == "auto" and is_number and set(counts.index) != {0, 1}:
        console.warn(
            f"the target {values.name!r} has only {len(counts)} values, which are taken as classes: --task regression "
            "takes them as numbers, --task classification confirms the classes"
        )


def is_skewed(numbers: np.ndarray) -> bool:
    """Whether numbers are positive with a skewness above 1, and their logarithms less skewed.

    >>> is_skewed(np.exp(np.linspace(-2, 2, 50))), is_skewed(np.linspace(1, 2, 50)), is_skewed(np.linspace(-1, 9, 50))
    (True, False, False)
    """
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        return False
    both = np.stack([numbers, np.log(numbers)])
    spread = both.std(1, keepdims=True)
    z = (both - both.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    own, of_logarithms = np.mean(z**3, axis=1)  # skewness
    return bool(own > _SKEWED and abs(of_logarithms) < own)


def targets(values: Series, task: str) -> np.ndarray:
    """Targets without gaps as a model learns them: numbers; as classes, whole numbers stay and all else is text."""
    kind = values.dtype.kind
    if task == "classification":
        if kind in "iu":
            return values.to_numpy()
        if kind == "f" and all(math.isfinite(v) and v == int(v) for v in values):
            return values.to_numpy().astype(int)
        return values.astype(str).to_numpy(dtype=str)
    numbers = values.to_numpy(dtype=float)
    if not np.isfinite(numbers).all():
        raise InputError(f"the target {values.name!r} is infinite in row {values.index[~np.isfinite(numbers)][0]}")
    return numbers
