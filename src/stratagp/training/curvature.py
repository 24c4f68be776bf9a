"""Uncertainties of hyperparameters from the curvature of their score at its maximum."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import biject_to, constraints
from torch.distributions.transforms import Transform

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.kernels.algebra.on_columns import OnColumns
from stratagp.parameterised import NamedParameter, Parameterised
from stratagp.parameters import Parameter
from stratagp.training.free import Objective, gather, is_triangular, scatter, value_and_gradient

_HALF = NormalDist().inv_cdf(0.975)
_NO_CURVATURE = 1e-8  # of the curvature matrix scaled to unit diagonal: less is hidden by rounding of differences
_NEGLIGIBLE = 1e-6  # largest squared share of an undetermined direction in a determined value


def hessian(objective: Objective, parameters: Iterable[nn.Parameter], step: float = 1e-4) -> Float[Tensor, "p p"]:
    """``∂² objective / ∂raw ∂rawᵀ`` at the current values, over the trainable ``parameters``.

    Central differences of the exact gradient with steps ``step · max(1, |raw|)``, symmetrised: ``2p`` gradients, and
    an error of order ``step²``. If the objective fails at a step, that row and column are NaN.

    >>> x = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    >>> hessian(lambda: -x[0] ** 2 * x[1], [x]).round(decimals=6)
    tensor([[-4., -2.],
            [-2., 0.]], dtype=torch.float64)
    """
    free = [p for p in parameters if p.requires_grad]
    if not free:
        raise InputError("parameters has no trainable entry: free at least one of them")
    start = gather(free)
    rows = np.empty((len(start), len(start)))
    try:
        for i, value in enumerate(start):
            shift = np.zeros_like(start)
            shift[i] = step * max(1.0, abs(value))
            difference = _gradient(objective, free, start + shift) - _gradient(objective, free, start - shift)
            rows[i] = difference / (2 * shift[i])
    finally:
        scatter(free, start)
    return torch.from_numpy((rows + rows.T) / 2)


def _gradient(objective: Objective, free: list[nn.Parameter], theta: np.ndarray) -> np.ndarray:
    try:
        return value_and_gradient(objective, free, theta)[1]
    except (NotPositiveDefiniteError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        return np.full_like(theta, np.nan)


@dataclass(frozen=True)
class Hyperparameter:
    """One number that a model has learnt or was given, with its standard deviation and central 95 % interval.

    ``std`` is infinite if the score does not curve downwards, and zero if the number is fixed.

    >>> Hyperparameter("noise", 0.1, std=0.0, lower=0.1, upper=0.1, trainable=False).note
    'fixed'
    """

    name: str
    value: float
    std: float
    lower: float
    upper: float
    trainable: bool

    @property
    def note(self) -> str:
        """``fixed``, ``not determined`` or empty."""
        return "not determined" if math.isinf(self.std) else "" if self.trainable else "fixed"


@dataclass(frozen=True, repr=False)
class HyperparameterTable:
    """Hyperparameters with their uncertainties; prints as text or HTML; index it by name.

    >>> table = HyperparameterTable((Hyperparameter("kernel.variance", 2.0, 0.1, 1.8, 2.2, True),))
    >>> table["variance"].value, len(table)
    (2.0, 1)
    """

    rows: tuple[Hyperparameter, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Hyperparameter]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Hyperparameter:
        """The row with this name, or the only one whose name ends in this part."""
        exact = [row for row in self.rows if row.name == name]
        found = exact or [row for row in self.rows if row.name.endswith(f".{name}")]
        if len(found) != 1:
            listing = ", ".join(row.name for row in self.rows)
            raise InputError(f"{name!r} matches {len(found)} hyperparameters; choose from: {listing}")
        return found[0]

    def __str__(self) -> str:
        cells = [_HEADER, *map(_cells, self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADER))]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:5], widths[1:5]), line[5]]).rstrip()
            for line in cells
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{cell}</th>" for cell in _HEADER)
        lines = ("".join(f"<td>{escape(cell)}</td>" for cell in _cells(row)) for row in self.rows)
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"

    def to_frame(self) -> Any:
        """A pandas frame with a row for each name and columns value, std, lower, upper, trainable."""
        columns = ["value", "std", "lower", "upper", "trainable"]
        values = [[row.value, row.std, row.lower, row.upper, row.trainable] for row in self.rows]
        names = [row.name for row in self.rows]
        return importlib.import_module("pandas").DataFrame(values, index=names, columns=columns)


_HEADER = ("name", "value", "std", "2.5 %", "97.5 %", "")


def _cells(row: Hyperparameter) -> tuple[str, ...]:
    known = row.trainable and math.isfinite(row.std)
    spread = [f"{number:.4g}" if known else "" for number in (row.std, row.lower, row.upper)]
    return (row.name, f"{row.value:.4g}", *spread, row.note)


def table(
    module: Parameterised,
    objective: Objective | None,
    columns: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> HyperparameterTable:
    """Every hyperparameter of ``module`` at a maximum of ``objective()``, with its uncertainty given the data.

    The free coordinates are taken as Gaussian with covariance ``(−H)⁻¹``, ``H`` the :func:`hessian`. ``std`` follows by
    the delta method, ``|dθ/d raw| · std(raw)``; the interval is that of the free coordinate, transformed, so that
    positive numbers stay positive. Directions in which ``−H`` is not positive (or hidden by rounding) are left out of
    the inverse, and every value that such a direction moves is *not determined*: infinite ``std``, the whole range as
    its interval. Weights of plain torch modules keep their values. ``columns`` names the input columns, for parameters
    with an entry for each; parameters named in ``without`` are left out and keep their values. Without an objective
    the table has values only.

    >>> from stratagp import means
    >>> mean, y = means.Constant(), torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    >>> _ = mean.set(value=3.0)
    >>> table(mean, lambda: -(y - mean(y[:, None])).square().sum() / 2)  # unit noise: std 1/√4
    name   value  std  2.5 %  97.5 %
    value      3  0.5   2.02    3.98
    """
    named = [item for item in module.named_values() if item.name.rpartition(".")[2] not in without]
    free = [raw for item in named for raw in item.parameter.parameters() if raw.requires_grad]
    covariance = None if objective is None or not free else _Covariance(hessian(objective, free))
    rows: list[Hyperparameter] = []
    start = 0
    for item in named:
        rows += _rows(item, _labels(module, item, columns), covariance, start)
        start += item.parameter.raw.numel() if item.parameter.trainable else 0
    return HyperparameterTable(tuple(rows))


class _Covariance:
    """``(−H)⁻¹`` on the determined directions, and the undetermined directions.

    ``−H`` is scaled to a unit diagonal first, so that the units of the coordinates do not matter.
    """

    def __init__(self, h: Float[Tensor, "p p"]) -> None:
        curvature = -torch.nan_to_num(h, nan=0.0)
        diagonal = curvature.diagonal().abs()
        self.scale = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
        values, vectors = torch.linalg.eigh(self.scale[:, None] * curvature * self.scale)
        known = values > _NO_CURVATURE
        self.known, self.unknown = vectors[:, known] / values[known].sqrt(), vectors[:, ~known]

    def std(self, slope: Float[Tensor, " r"], start: int) -> float:
        """The standard deviation of a number whose gradient by the coordinates from ``start`` on is ``slope``."""
        here = slice(start, start + len(slope))
        direction = slope * self.scale[here]
        open_share = (direction @ self.unknown[here]).square().sum()
        if open_share > _NEGLIGIBLE * direction.square().sum():
            return math.inf
        return float((direction @ self.known[here]).norm())


def _rows(
    item: NamedParameter, labels: list[str], covariance: _Covariance | None, start: int
) -> Iterator[Hyperparameter]:
    """A row for each entry of one parameter, whose free coordinates begin at ``start``."""
    parameter = item.parameter
    values, free = parameter.natural.detach().flatten(), _free_entries(parameter)
    for i, label in enumerate(labels):
        constraint = _constraint_of_entry(parameter, i)
        if constraint is None:
            continue
        name, value = item.name + label, values[i].item()
        if not parameter.trainable:
            yield Hyperparameter(name, value, 0.0, value, value, False)
            continue
        if covariance is None:
            yield Hyperparameter(name, value, math.nan, math.nan, math.nan, True)
            continue
        (slope,) = torch.autograd.grad(free[i], parameter.raw, retain_graph=True)
        spread = covariance.std(slope.flatten().double().cpu(), start)
        yield Hyperparameter(name, value, *_transformed(biject_to(constraint), free[i].detach(), spread), True)


def _transformed(transform: Transform, centre: Tensor, spread: float) -> tuple[float, float, float]:
    """Standard deviation by the delta method and 95 % interval of ``transform(N(centre, spread²))``."""
    centre = centre.clone().requires_grad_()
    (slope,) = torch.autograd.grad(transform(centre), centre)
    lower, upper = sorted(transform(centre.detach() + sign * _HALF * spread).item() for sign in (-1, 1))
    return math.inf if math.isinf(spread) else slope.abs().item() * spread, lower, upper


def _free_entries(parameter: Parameter) -> Tensor:
    """Each entry's own free coordinate, or its logit on a simplex."""
    simplex = isinstance(parameter.constraint, type(constraints.simplex))
    return (parameter.natural.logit() if simplex else parameter.free).flatten()


def _constraint_of_entry(parameter: Parameter, i: int) -> constraints.Constraint | None:
    """The constraint of a single entry; None above the diagonal of a triangular matrix."""
    if is_triangular(parameter):
        size = parameter.raw.shape[-1]
        row, column = divmod(i % size**2, size)
        return constraints.real if row > column else constraints.positive if row == column else None
    simplex = isinstance(parameter.constraint, type(constraints.simplex))
    return constraints.unit_interval if simplex else parameter.constraint


def _labels(module: Parameterised, item: NamedParameter, columns: Sequence[str] | None) -> list[str]:
    """The suffix of the name for each entry: empty, ``[2]``, ``[0, 1]`` or ``[age]``."""
    shape = item.parameter.natural.shape
    last = [str(i) for i in range(shape[-1])] if shape else []
    if columns is not None and item.parameter.per_column:
        seen = _columns_at(module, item.name, list(columns))
        last = seen if len(seen) == len(last) else last
    axes = [[str(i) for i in range(size)] for size in shape[:-1]] + ([last] if shape else [])
    labels = [""]
    for axis in axes:
        labels = [f"{label}, {name}" if label else name for label in labels for name in axis]
    return [f"[{label}]" if label else "" for label in labels]


def _columns_at(module: Parameterised, name: str, columns: list[str]) -> list[str]:
    """The columns that the part with this name uses."""
    parts = name.split(".")
    for depth in range(len(parts)):
        part = module.get_submodule(".".join(parts[:depth]))
        if isinstance(part, OnColumns) and part.index is not None:
            columns = columns[part.index] if isinstance(part.index, slice) else [columns[i] for i in part.index]
    return columns
