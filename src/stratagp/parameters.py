"""Parameters with constraints, priors and names.

A parameter is stored as a free tensor ``raw`` and read as its constrained value, so any optimiser may move it.
Positive parameters are the exponential of a free number: L-BFGS gets further in fewer evaluations than with softplus.
A :class:`~stratagp.parameterised.Parameterised` module reads its parameters as plain tensors::

    self.variance = positive(1.0)      # stores the parameter
    self.variance * k                  # reads the value

**Function axis.** One kernel often serves ``q`` latent functions with their own values. Such a parameter has a
leading axis ``q`` and is padded with ones to ``q 1 1`` (a number) or ``q 1 d`` (a vector), so that a formula
written for ``n m`` matrices and ``n d`` points broadcasts to all functions unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import biject_to, constraints, transform_to
from torch.distributions.transforms import Transform

from stratagp.errors import InputError
from stratagp.priors import Prior

Value = float | Sequence[Any] | np.ndarray | Tensor


class Unset(float):
    """A start value that nobody chose: an estimator may start from the data instead.

    >>> from stratagp import kernels as k
    >>> k.RBF().parameter("lengthscale").unset, k.RBF(lengthscale=1.0).parameter("lengthscale").unset
    (True, False)
    """


UNSET = Unset(1.0)


class Parameter(nn.Module):
    """A constrained tensor: ``value = transform(raw · unit)``.

    Arguments:
        value: the initial value, in the user's units.
        constraint: a ``torch.distributions`` constraint; its bijection gives the free coordinate.
        prior: a density on the value, for MAP.
        trainable: whether gradients reach it.
        functions: size of the leading function axis of ``value``, or None if it has none.
        name: what errors call it.
        unit: the size of one step of the free coordinate, a number or one for each column; 1 by default.
        raw: the free coordinate itself, if you have it already; ``value`` is then ignored.

    ``per_column`` marks a vector with one entry for each input column (automatic relevance determination);
    ``awaits_columns`` marks one that becomes such a vector once the number of columns is known. ``unset`` means that
    nobody chose its value.

    >>> Parameter(0.5, constraints.positive).value.item()
    0.5
    """

    raw: Tensor
    unit: Tensor | None

    def __init__(
        self,
        value: Any = None,
        constraint: constraints.Constraint = constraints.real,
        prior: Any = None,
        trainable: bool = True,
        functions: int | None = None,
        name: str = "a parameter",
        unit: Any = None,
        raw: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        if prior is not None and not isinstance(prior, Prior):
            raise InputError(f"the prior of {name} must be one from stratagp.priors, got {prior!r}")
        self.name = name
        self.constraint = constraint
        self.prior = prior
        self.functions = functions
        self.per_column = False
        self.awaits_columns = False
        self.unset = isinstance(value, Unset)
        self.register_buffer("unit", None if unit is None else _as_tensor(unit, f"the unit of {name}"))
        self.raw = raw if raw is not None else nn.Parameter(self._free(_as_tensor(value, name)), trainable)

    def _free(self, value: Tensor) -> Tensor:
        inside = self.constraint.check(value)
        if isinstance(self.constraint, constraints.interval):  # on a bound the free number would be infinite
            inside = (value > self.constraint.lower_bound) & (value < self.constraint.upper_bound)
        if not (bool(value.isfinite().all()) and bool(inside.all())):
            raise InputError(f"{self.name} must be {_describe(self.constraint)}, got {format_value(value)}")
        free = _transform(self.constraint).inv(value)
        return free.clone() if self.unit is None else free / self.unit

    @property
    def natural(self) -> Tensor:
        """The constrained value with the axes the user gave it."""
        return _transform(self.constraint)(self.free)

    @property
    def free(self) -> Tensor:
        """The free coordinate that the constraint transforms: ``raw · unit``."""
        return self.raw if self.unit is None else self.raw * self.unit

    @property
    def value(self) -> Tensor:
        """The constrained value; after a function axis, padded to at least two axes so that it broadcasts."""
        value = self.natural
        if self.functions is None or value.dim() > 2:
            return value
        return value.reshape(len(value), 1, *(value.shape[1:] or (1,)))

    @property
    def trainable(self) -> bool:
        """Whether gradients reach this parameter."""
        return self.raw.requires_grad

    def assign(self, value: Any) -> None:
        """Set the value; a number fills the whole parameter, a vector may set the number of columns."""
        new = _as_tensor(value, self.name).to(self.raw)
        shape = self.natural.shape
        if new.dim() == 0:
            new = new.expand(shape)
        elif self.awaits_columns and new.dim() == 1:
            self.per_column, self.awaits_columns = True, False
        elif new.shape != shape:
            raise InputError(f"{self.name} has shape {tuple(shape)}, got a value of shape {tuple(new.shape)}")
        self.unset = False
        with torch.no_grad():
            self.raw.data = self._free(new)

    def replicate(self, functions: int) -> None:
        """Give each of ``functions`` latent functions its own copy, as a leading axis."""
        if self.functions is not None:
            raise InputError(f"this parameter already belongs to {self.functions} functions")
        with torch.no_grad():
            self.raw.data = self.raw.expand(functions, *self.raw.shape).clone()
        self.functions = functions

    def spread(self, size: int) -> None:
        """Turn a number into a vector of ``size`` equal numbers (one for each column)."""
        with torch.no_grad():
            self.raw.data = self.raw.unsqueeze(-1).expand(*self.raw.shape, size).clone()
        self.per_column, self.awaits_columns = True, False

    def log_prior(self) -> Tensor:
        """``Σ log p(value)``, zero without a prior."""
        if self.prior is None:
            return self.raw.new_zeros(())
        return self.prior.log_prob(self.natural).sum()

    def extra_repr(self) -> str:
        """The value as it is printed inside a kernel."""
        return format_value(self.natural)


def positive(
    value: Any,
    prior: Any = None,
    bounds: tuple[float, float] | None = None,
    trainable: bool = True,
    name: str = "a parameter",
) -> Any:
    """A parameter above zero, or inside ``bounds``; an existing parameter is returned as it is, which ties the two.

    >>> from stratagp import kernels as k
    >>> k.RBF(lengthscale=positive(0.5, trainable=False))
    RBF(lengthscale=0.5 (fixed), variance=1)
    """
    if isinstance(value, Parameter):
        return value
    if bounds is not None and bounds[0] < 0:
        raise InputError(f"the bounds of a positive parameter must not be negative, got {bounds}")
    constraint = constraints.positive if bounds is None else _interval(bounds)
    return Parameter(value, constraint, prior, trainable, name=name)


def per_column(value: Any, ard: bool | int = False, name: str = "a parameter") -> Any:
    """A positive parameter that is one number, or one for each input column.

    A vector, or ``ard`` as a number of columns, sets them at once; ``ard=True`` waits until the kernel
    learns its columns (``kernel.bind``).

    >>> per_column([1.0, 2.0]).per_column, per_column(1.0, ard=True).awaits_columns
    (True, True)
    """
    parameter = positive(value, name=name)
    if parameter.raw.dim() == 1 and parameter.functions is None:
        if not isinstance(ard, bool) and ard != len(parameter.raw):
            raise InputError(f"{name} has {len(parameter.raw)} values, but ard={ard}")
        parameter.per_column = True
    elif ard is True and not parameter.per_column:
        parameter.awaits_columns = True
    elif ard and not parameter.per_column:
        parameter.spread(int(ard))
    return parameter


def bounded(value: Value | Parameter, low: float, high: float, trainable: bool = True) -> Any:
    """A parameter strictly between ``low`` and ``high``.

    >>> bounded(0.5, 0.0, 1.0).value.item()
    0.5
    """
    return value if isinstance(value, Parameter) else Parameter(value, _interval((low, high)), trainable=trainable)


def real(
    value: Value | Parameter,
    prior: Prior | None = None,
    trainable: bool = True,
    name: str = "a parameter",
    unit: Any = None,
) -> Any:
    """An unconstrained parameter that moves in steps of ``unit``.

    >>> place = real([1000.0, 0.002], unit=[500.0, 0.001])
    >>> place.raw.tolist()
    [2.0, 2.0]
    """
    if isinstance(value, Parameter):
        return value
    return Parameter(value, prior=prior, trainable=trainable, name=name, unit=unit)


def simplex(value: Value | Parameter, trainable: bool = True) -> Any:
    """Positive numbers that sum to one along the last axis.

    >>> simplex([0.25, 0.75]).value.sum().item()
    1.0
    """
    return value if isinstance(value, Parameter) else Parameter(value, constraints.simplex, trainable=trainable)


def lower_cholesky(value: Value | Parameter, trainable: bool = True) -> Any:
    """A lower triangular matrix with a positive diagonal.

    >>> lower_cholesky([[2.0, 0.0], [1.0, 1.0]]).value.tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    return value if isinstance(value, Parameter) else Parameter(value, constraints.lower_cholesky, trainable=trainable)


def _transform(constraint: constraints.Constraint) -> Transform:
    """The map from free numbers to constrained ones; for triangular matrices torch offers only ``transform_to``."""
    triangular = isinstance(constraint, type(constraints.lower_cholesky))
    return (transform_to if triangular else biject_to)(constraint)


def _interval(bounds: tuple[float, float]) -> constraints.Constraint:
    low, high = bounds
    if not low < high:
        raise InputError(f"bounds must satisfy low < high, got ({low}, {high})")
    return constraints.interval(low, high)


def _as_tensor(value: Any, name: str) -> Tensor:
    """A tensor, always in double precision: ``kernel.float()`` moves a whole kernel to float32."""
    if value is None:
        raise InputError(f"{name} must be a number or an array of numbers, got None")
    if isinstance(value, Tensor):
        return value.detach().to(torch.float64)
    try:
        return torch.as_tensor(np.asarray(value, dtype=np.float64).copy())
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or an array of numbers, got {value!r}") from None


def _describe(constraint: constraints.Constraint) -> str:
    if isinstance(constraint, type(constraints.positive)):
        return "positive and finite"
    if isinstance(constraint, constraints.interval):
        return f"strictly between {constraint.lower_bound} and {constraint.upper_bound}"
    if isinstance(constraint, type(constraints.simplex)):
        return "positive numbers that sum to one"
    if isinstance(constraint, type(constraints.lower_cholesky)):
        return "a lower triangular matrix with a positive diagonal"
    return "finite"


def format_value(value: Tensor) -> str:
    """A value as short text: every number if there are at most twelve, else the range and the shape.

    >>> format_value(Parameter([0.5, 2.0]).value)
    '[0.5, 2]'
    """
    value = value.detach()
    if value.dim() == 0:
        return f"{value.item():.4g}"
    if value.numel() > 12:
        return f"[{value.min().item():.3g} … {value.max().item():.3g}, {'×'.join(map(str, value.shape))}]"
    return "[" + ", ".join(format_value(item) for item in value) + "]"
