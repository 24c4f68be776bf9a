"""Options as data: their types say which values they may have, which is checked before any work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
class Range:
    """The values that an option may have, and what a message says that they must be."""

    fits: Callable[[Any], bool]
    must: str


def at_least(least: int) -> Range:
    """A whole number that is not below ``least``."""

    def fits(value: Any) -> bool:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)

    return Range(fits, f"be a whole number of at least {least}")


@dataclass(frozen=True, eq=False)
class OneOf:
    """The word "auto", or a name in a table that may grow."""

    table: Mapping[str, Any]

    def fits(self, value: Any) -> bool:
        """Whether a value is one of the names."""
        return isinstance(value, str) and value in ("auto", *self.table)

    @property
    def must(self) -> str:
        """What a value must be."""
        return f"be one of {', '.join(map(repr, ('auto', *self.table)))}"


Missing = Literal["raise", "impute"]


def _is_number(value: Any, low: float, below: float) -> bool:
    return isinstance(value, Real) and low <= float(value) < below


Whole = Annotated[int, at_least(1)]
WholeOrZero = Annotated[int, at_least(0)]
Positive = Annotated[float, Range(lambda value: _is_number(value, math.ulp(0), math.inf), "be positive")]
NotNegative = Annotated[float, Range(lambda value: _is_number(value, 0, math.inf), "be a number that is not negative")]
Share = Annotated[float, Range(lambda value: _is_number(value, 0, 1), "be a share, from 0 to below 1")]
ShareOfAll = Annotated[
    float, Range(lambda value: _is_number(value, 0, math.nextafter(1, 2)), "be a share of the training, from 0 to 1")
]


@dataclass(eq=False, repr=False, kw_only=True)
class BatchOptions:
    """Options of training by mini-batches, as the estimators explain them.

    Arguments:
        max_epochs: how often to go over the rows, exactly. Left out, as often as suits the model, and ``min_steps``
            steps at least.
        missing: inputs that are NaN: "raise", or "impute": filled with their expectation in training, and averaged over
            in prediction.
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
    missing: Missing = "raise"

    def epochs_for(self, rows: int, usual: int | None = None) -> int:
        """How many times training goes over that many rows; ``usual`` replaces the family's usual number."""
        if self.max_epochs is not None:
            return self.max_epochs
        return max(usual or self.usual_epochs, -(-self.min_steps // (rows // min(self.batch_size, rows))))

    def _check(self) -> None:
        """Refuse options that do not go together."""
        if self.patience is not None and not self.validation:
            raise InputError("patience waits for a better score of held-out rows: also give validation, such as 0.1")


def check_options(options: Any) -> None:
    """Refuse values that the types of a dataclass do not allow; types that are no choice and no range let all pass."""
    kind: Any = type(options)
    for name, (ranges, optional) in _ranges(kind).items():
        value = vars(options)[name]
        if ranges and not (optional and value is None) and not any(own.fits(value) for own in ranges):
            raise InputError(f"{name} must {ranges[-1].must}, got {value!r}")


@cache
def _ranges(cls: Any) -> dict[str, tuple[list[Any], bool]]:
    """What each option of a class may be: one of some ranges, and None if it may be left out."""
    marks = {"KW_ONLY": object}  # no type, which Python 3.10 refuses
    hints = get_type_hints(cls, localns=marks, include_extras=True)
    return {own.name: _allowed(hints[own.name]) for own in fields(cls) if own.init}


def _allowed(hint: Any) -> tuple[list[Any], bool]:
    parts = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    optional = type(None) in parts
    choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    ranges = [own for part in parts if get_origin(part) is Annotated for own in get_args(part)[1:]]
    others = {part for part in parts if get_origin(part) not in (Literal, Annotated)} - {type(None)}
    if hint is bool:
        return [Range(lambda value: isinstance(value, (bool, np.bool_)), "be True or False")], False
    if others == {Kernel} and not choices:
        return [Range(lambda value: isinstance(value, Kernel), "be a kernel such as kernels.RBF(), or None")], True
    if others:
        return [], optional  # objects as well as names: the recipe knows which
    if choices:
        kinds = [(type(choice), choice) for choice in choices]  # True is no 1
        chosen = Range(lambda value: (type(value), value) in kinds, f"be one of {', '.join(map(repr, choices))}")
        ranges = [chosen, *ranges]
    return ranges, optional
