"""Parameters with constraints, priors and names.

A parameter is stored as a free tensor ``raw`` and read as its constrained value, so that any optimiser may move
it. Positive parameters are the exponential of a free number: L-BFGS gets further in fewer evaluations than with
softplus. A module that inherits from :class:`Parameterised` reads its parameters as plain tensors::

    self.variance = positive(1.0)      # stores the parameter
    self.variance * k                  # reads the value

**Function axis.** One kernel often serves ``q`` latent functions with their own values. Such a parameter has a
leading axis ``q``, and reads padded with ones to ``q 1 1`` (a number) or ``q 1 d`` (a vector), so that a formula
written for ``n m`` matrices and ``n d`` points broadcasts to all functions without a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import biject_to, constraints

from stratagp.errors import InputError
from stratagp.priors import Prior

Value = float | Sequence[float] | np.ndarray | Tensor


class Parameter(nn.Module):
    """A constrained tensor: ``value = transform(raw)``.

    Arguments:
        value: the initial value, in the user's units.
        constraint: a ``torch.distributions`` constraint; its bijection gives the free coordinate.
        prior: a density on the value, for MAP.
        trainable: whether gradients reach it.
        functions: size of the leading function axis of ``value``, or None where there is none.

    ``per_column`` marks a vector with one entry for each input column (automatic relevance determination);
    ``awaits_columns`` one that will become such a vector as soon as the number of columns is known.
    """

    raw: Tensor

    def __init__(
        self,
        value: Value,
        constraint: constraints.Constraint = constraints.real,
        prior: Prior | None = None,
        trainable: bool = True,
        functions: int | None = None,
    ) -> None:
        super().__init__()
        self.constraint = constraint
        self.prior = prior
        self.functions = functions
        self.per_column = False
        self.awaits_columns = False
        self.raw = nn.Parameter(self._free(_as_tensor(value)), requires_grad=trainable)

    def _free(self, value: Tensor) -> Tensor:
        if not (bool(value.isfinite().all()) and bool(self.constraint.check(value).all())):
            raise InputError(f"a parameter must be {_describe(self.constraint)}, got {_format(value)}")
        return biject_to(self.constraint).inv(value).clone()

    @property
    def natural(self) -> Tensor:
        """The constrained value with the axes the user gave it."""
        return biject_to(self.constraint)(self.raw)

    @property
    def value(self) -> Tensor:
        """The constrained value; behind a function axis padded to at least two axes, to broadcast."""
        value = self.natural
        if self.functions is None or value.dim() > 2:
            return value
        return value.reshape(len(value), 1, *(value.shape[1:] or (1,)))

    @property
    def trainable(self) -> bool:
        """Whether gradients reach this parameter."""
        return self.raw.requires_grad

    def assign(self, value: Value) -> None:
        """Set the value; a number fills the whole parameter, and a new vector may change its length."""
        new = _as_tensor(value).to(self.raw)
        old = self.natural
        if new.dim() == 0 and old.dim() > 0:
            new = new.expand(old.shape)
        if new.dim() != old.dim():
            raise InputError(f"expected a value with {old.dim()} axes like {tuple(old.shape)}, got {tuple(new.shape)}")
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
        return _format(self.natural)


def positive(
    value: Value | Parameter,
    prior: Prior | None = None,
    bounds: tuple[float, float] | None = None,
    trainable: bool = True,
) -> Any:
    """A parameter above zero, or inside ``bounds``; an existing parameter is passed on, which ties the two.

    >>> from stratagp import kernels as k
    >>> k.RBF(lengthscale=positive(0.5, trainable=False))
    RBF(lengthscale=0.5 (fixed), variance=1)
    """
    if isinstance(value, Parameter):
        return value
    return Parameter(value, constraints.positive if bounds is None else _interval(bounds), prior, trainable)


def per_column(value: Value | Parameter, ard: bool | int = False) -> Any:
    """A positive parameter that is one number, or one for each input column.

    A vector, or ``ard`` as a number of columns, gives one value each at once; ``ard=True`` waits until the kernel is
    told its columns (``kernel.bind``).
    """
    parameter = positive(value)
    if parameter.raw.dim() == 1 and parameter.functions is None:
        parameter.per_column = True
    elif ard is True and not parameter.per_column:
        parameter.awaits_columns = True
    elif ard and not parameter.per_column:
        parameter.spread(int(ard))
    return parameter


def bounded(value: Value | Parameter, low: float, high: float, trainable: bool = True) -> Any:
    """A parameter strictly between ``low`` and ``high``."""
    if isinstance(value, Parameter):
        return value
    return Parameter(value, _interval((low, high)), trainable=trainable)


def real(value: Value | Parameter, prior: Prior | None = None, trainable: bool = True) -> Any:
    """A parameter without constraint."""
    return value if isinstance(value, Parameter) else Parameter(value, prior=prior, trainable=trainable)


def simplex(value: Value | Parameter, trainable: bool = True) -> Any:
    """Positive numbers that sum to one along the last axis."""
    return value if isinstance(value, Parameter) else Parameter(value, constraints.simplex, trainable=trainable)


def lower_cholesky(value: Value | Parameter, trainable: bool = True) -> Any:
    """A lower triangular matrix with a positive diagonal."""
    if isinstance(value, Parameter):
        return value
    return Parameter(value, constraints.lower_cholesky, trainable=trainable)


@dataclass(frozen=True)
class NamedParameter:
    """A parameter and its address in a composed kernel, such as ``0.lengthscale``."""

    name: str
    parameter: Parameter


class Parameterised(nn.Module):
    """A module whose :class:`Parameter` attributes read as tensors and can be listed, set, fixed and tied."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return value.value if isinstance(value, Parameter) else value

    def __setattr__(self, name: str, value: Any) -> None:
        current = self.__dict__.get("_modules", {}).get(name)
        if isinstance(current, Parameter) and not isinstance(value, Parameter):
            current.assign(value)
        else:
            super().__setattr__(name, value)

    def parameter(self, name: str) -> Parameter:
        """The parameter itself, for sharing it with another kernel or reading its prior."""
        return self._find(name).parameter

    def named_values(self) -> Iterator[NamedParameter]:
        """Every parameter once, with its address."""
        for name, module in self.named_modules():
            if isinstance(module, Parameter):
                yield NamedParameter(name, module)

    def _find(self, name: str) -> NamedParameter:
        known = list(self.named_values())
        exact = [p for p in known if p.name == name]
        found = exact or [p for p in known if p.name.rsplit(".", 1)[-1] == name]
        if len(found) != 1:
            listing = ", ".join(p.name for p in (found or known)) or "none"
            problem = f"{name!r} names {len(found)} parameters" if found else f"there is no parameter {name!r}"
            raise InputError(f"{problem} of {type(self).__name__}; choose from: {listing}")
        return found[0]

    def set(self, **values: Value) -> Any:
        """Set parameters by name, as in ``kernel.set(lengthscale=0.5)``; returns the module.

        In a composed kernel the address decides: ``kernel.set(**{"0.lengthscale": 0.5})``.
        """
        for name, value in values.items():
            self._find(name).parameter.assign(value)
        return self

    def fix(self, *names: str) -> Any:
        """Keep the named parameters (all, if none is named) at their values; returns the module."""
        return self._set_trainable(names, False)

    def free(self, *names: str) -> Any:
        """Let the named parameters (all, if none is named) be learnt again; returns the module."""
        return self._set_trainable(names, True)

    def _set_trainable(self, names: tuple[str, ...], trainable: bool) -> Any:
        chosen = [self._find(name) for name in names] if names else list(self.named_values())
        for item in chosen:
            item.parameter.raw.requires_grad_(trainable)
        return self

    def tie(self, first: str, *others: str) -> Any:
        """Make the other parameters the same as the first: one value, learnt once; returns the module."""
        shared = self.parameter(first)
        for address in [self._find(name).name for name in others]:
            path, _, leaf = address.rpartition(".")
            self.get_submodule(path)._modules[leaf] = shared
        return self

    def log_prior(self) -> Tensor:
        """``Σ log p(θ)`` over all parameters with a prior."""
        terms = [item.parameter.log_prior() for item in self.named_values()]
        return torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)


def describe_parameters(module: Parameterised) -> str:
    """The parameters of one module as ``name=value`` pairs, for its repr."""
    own = ((name, child) for name, child in module._modules.items() if isinstance(child, Parameter))
    return ", ".join(f"{name}={_format(p.natural)}{'' if p.trainable else ' (fixed)'}" for name, p in own)


def _interval(bounds: tuple[float, float]) -> constraints.Constraint:
    low, high = bounds
    if not low < high:
        raise InputError(f"bounds must satisfy low < high, got ({low}, {high})")
    return constraints.interval(low, high)


def _as_tensor(value: Value) -> Tensor:
    """Double precision always: a kernel is moved to float32 as a whole, by ``kernel.float()``."""
    if isinstance(value, Tensor):
        return value.detach().to(torch.float64)
    try:
        return torch.as_tensor(np.asarray(value, dtype=np.float64).copy())
    except (TypeError, ValueError):
        raise InputError(f"a parameter must be a number or an array of numbers, got {value!r}") from None


def _describe(constraint: constraints.Constraint) -> str:
    if constraint is constraints.positive:
        return "positive and finite"
    if isinstance(constraint, constraints.interval):
        return f"between {constraint.lower_bound} and {constraint.upper_bound}"
    if constraint is constraints.simplex:
        return "positive numbers that sum to one"
    if constraint is constraints.lower_cholesky:
        return "a lower triangular matrix with a positive diagonal"
    return "finite"


def _format(value: Tensor) -> str:
    value = value.detach()
    if value.dim() == 0:
        return f"{value.item():.4g}"
    if value.numel() > 12:
        return f"[{value.min().item():.3g} … {value.max().item():.3g}, {'×'.join(map(str, value.shape))}]"
    return "[" + ", ".join(_format(item) for item in value) + "]"
