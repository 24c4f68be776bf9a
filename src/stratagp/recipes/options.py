"""Options as data: what values they may have stands in their types, and is checked before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood


@dataclass(frozen=True)
class AtLeast:
    """A whole number that is not below ``least``."""

    least: int

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value."""
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return None if whole and value >= self.least else f"must be a whole number of at least {self.least}"


@dataclass(frozen=True)
class Above:
    """A number above zero; ``or_zero`` lets it be zero."""

    or_zero: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value."""
        fine = isinstance(value, Real) and (0 if self.or_zero else math.ulp(0)) <= float(value) < math.inf
        return None if fine else "must be a number that is not negative" if self.or_zero else "must be positive"


@dataclass(frozen=True)
class Part:
    """A share: from 0 to below 1, or to 1."""

    with_one: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value."""
        number = isinstance(value, Real) and (0 <= float(value) < 1 or (self.with_one and float(value) == 1))
        words = (
            "must be a share of the training, from 0 to 1" if self.with_one else "must be a share, from 0 to below 1"
        )
        return None if number else words


@dataclass(frozen=True, eq=False)
class OneOf:
    """The word "auto", or a name in a table that may grow."""

    table: Mapping[str, Any]

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value."""
        names = ("auto", *self.table)
        fits = isinstance(value, str) and value in names
        return None if fits else f"must be one of {', '.join(map(repr, names))}; got"


Whole = Annotated[int, AtLeast(1)]
WholeOrZero = Annotated[int, AtLeast(0)]
Positive = Annotated[float, Above()]
NotNegative = Annotated[float, Above(or_zero=True)]
Share = Annotated[float, Part()]
ShareOfAll = Annotated[float, Part(with_one=True)]


@dataclass(eq=False, repr=False, kw_only=True)
class BatchOptions:
    """Options of training by mini-batches, as the estimators explain them.

    Arguments:
        max_epochs: how often to go over the rows, exactly. Left out, as often as suits the model, and ``min_steps``
            steps at least.
    """

    reads_files: ClassVar[bool] = True
    start_noise: ClassVar[float] = 0.1  # the share of the variance of targets that training starts from
    usual_epochs: ClassVar[int] = 100  # where ``max_epochs`` is left out and rows are many
    smooth_only: ClassVar[bool] = False  # whether only likelihoods serve whose density is no step

    likelihood: Likelihood | str = "auto"
    max_epochs: Whole | None = None
    min_steps: Whole = 500
    batch_size: Whole = 1000
    rate: Positive = 0.02
    validation: Share = 0.0
    patience: Whole | None = None

    def epochs_for(self, rows: int, usual: int | None = None) -> int:
        """How often training goes over so many rows; ``usual`` stands for another number than everything has."""
        if self.max_epochs is not None:
            return self.max_epochs
        return max(usual or self.usual_epochs, -(-self.min_steps // (rows // min(self.batch_size, rows))))

    def _check(self) -> None:
        """Refuse options that do not go together."""
        if self.patience is not None and not self.validation:
            raise InputError("patience waits for a better score of held-out rows: give validation=0.1, or so")


def check_options(options: Any) -> None:
    """Refuse values that the types of a dataclass do not allow; types that are no choice and no range let all pass."""
    kind: Any = type(options)
    for name, hint in _hints(kind).items():
        value = vars(options)[name]
        problem = _problem(hint, value)
        if problem is not None:
            raise InputError(
                f"{name} {problem}, got {value!r}" if ";" not in problem else f"{name} {problem} {value!r}"
            )


@cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {own.name: hints[own.name] for own in fields(cls) if own.init}


def _problem(hint: Any, value: Any) -> str | None:
    """What is wrong with a value of an option; None where nothing is, or nothing is known."""
    choices, ranges, others = _parts(hint)
    if not choices and not ranges:
        if hint is bool and not isinstance(value, (bool, np.bool_)):
            return "must be True or False"
        if others == {Kernel, type(None)} and value is not None and not isinstance(value, Kernel):
            return "must be a kernel such as kernels.RBF(), or None"
        return None
    fits = any(type(value) is type(choice) and value == choice for choice in choices)
    if fits or (value is None and type(None) in others):
        return None
    if others - {type(None), int, float}:
        return None  # objects as well as names: the recipe knows which
    problems = [each.problem(value) for each in ranges]
    if not ranges:
        return f"must be one of {', '.join(map(repr, choices))}; got"
    return problems[0] if all(problems) else None


def _parts(hint: Any) -> tuple[list[Any], list[Any], set[Any]]:
    """The choices, the ranges and all other types that a hint allows."""
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        found = [_parts(each) for each in get_args(hint)]
        choices, ranges = ([own for each in found for own in each[i]] for i in range(2))
        return choices, ranges, set().union(*(each[2] for each in found))
    if kind is Literal:
        return list(get_args(hint)), [], set()
    if kind is Annotated:
        return [], list(get_args(hint)[1:]), set()
    return [], [], {hint}
