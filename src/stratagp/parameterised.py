"""Modules that remember how they were made, and whose parameters can be listed, set, fixed and tied by name."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.parameters import Parameter, Value, format_value


@dataclass(frozen=True)
class NamedParameter:
    """A parameter and its address in a composed kernel, such as ``0.lengthscale``.

    >>> from stratagp import kernels as k
    >>> [item.name for item in (k.RBF() + k.Linear()).named_values()]
    ['0.lengthscale', '0.variance', '1.variance']
    """

    name: str
    parameter: Parameter


@cache
def signature_of(cls: Any) -> inspect.Signature:
    """What the constructor of a class takes."""
    own = cls.__init__ not in (object.__init__, nn.Module.__init__)  # those of classes without a constructor
    return inspect.Signature(list(inspect.signature(cls.__init__).parameters.values())[1:] if own else [])


def held_by(module: nn.Module) -> dict[str, Any]:
    """What a module holds by name: tensors, parts and plain attributes.

    >>> sorted(held_by(nn.Linear(2, 1)))
    ['bias', 'in_features', 'out_features', 'weight']
    """
    plain = {name: value for name, value in vars(module).items() if name not in _FIELDS}
    return {**plain, **module._parameters, **module._buffers, **module._modules}


_FIELDS = frozenset({*vars(nn.Module()), "_arguments"})


class Captured(ABCMeta):
    """Keeps, as ``_arguments``, what a constructor was given, unless an attribute of the same name holds it.

    >>> from stratagp import kernels as k
    >>> k.RBF(lengthscale=0.5, ard=2)._arguments  # the others are parameters now
    {'ard': 2}
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object."""
        made = super().__call__(*args, **kwargs)
        bound = signature_of(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        held = held_by(made)
        made.__dict__["_arguments"] = {
            name: value
            for name, value in bound.arguments.items()
            if name not in held or not (held[name] is value or isinstance(held[name], (nn.Module, nn.Parameter)))
        }
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the constructor takes, for ``inspect`` and ``help``."""
        return signature_of(cls)


class Parameterised(nn.Module, metaclass=Captured):
    """A module whose :class:`Parameter` attributes read as tensors and can be listed, set, fixed and tied.

    >>> from stratagp import kernels as k
    >>> kernel = k.RBF().set(lengthscale=0.5).fix("variance")
    >>> kernel
    RBF(lengthscale=0.5, variance=1 (fixed))
    """

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
        everywhere = self.named_modules(remove_duplicate=False)  # a tied parameter answers to all its addresses
        exact = [NamedParameter(at, p) for at, p in everywhere if at == name and isinstance(p, Parameter)]
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
        chosen = [self._find(name) for name in others]
        for item in chosen:
            other = item.parameter
            if other.natural.shape != shared.natural.shape or type(other.constraint) is not type(shared.constraint):
                raise InputError(
                    f"{item.name} cannot be tied to {first}: their values {format_value(other.natural)} and "
                    f"{format_value(shared.natural)} must be of the same shape and kind"
                )
        for item in chosen:
            path, _, leaf = item.name.rpartition(".")
            self.get_submodule(path)._modules[leaf] = shared
        return self

    def _repr_html_(self) -> str:
        """For notebooks: a table of the values."""
        cells = [(at.name, format_value(at.parameter.natural), at.parameter.trainable) for at in self.named_values()]
        lines = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td><td>{'' if free else 'fixed'}</td></tr>"
            for name, value, free in cells
        )
        head = "<tr><th>name</th><th>value</th><th></th></tr>"
        return f"<div><code>{escape(repr(self))}</code><table>{head}{lines}</table></div>"

    @property
    def noise_parameter(self) -> Parameter | None:
        """The noise variance of the targets, where the module has one."""
        own = self._modules.get("noise")
        return own if isinstance(own, Parameter) else None

    @property
    def has_priors(self) -> bool:
        """Whether any parameter has a prior."""
        return any(item.parameter.prior is not None for item in self.named_values())

    def log_prior(self) -> Tensor:
        """``Σ log p(θ)`` over all parameters with a prior."""
        terms = [item.parameter.log_prior() for item in self.named_values()]
        return torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)


def describe_parameters(module: Parameterised) -> str:
    """The parameters of one module as ``name=value`` pairs, for its repr.

    >>> from stratagp import kernels as k
    >>> describe_parameters(k.RBF(lengthscale=0.5))
    'lengthscale=0.5, variance=1'
    """
    own = ((name, child) for name, child in module._modules.items() if isinstance(child, Parameter))
    return ", ".join(f"{name}={format_value(p.natural)}{'' if p.trainable else ' (fixed)'}" for name, p in own)
