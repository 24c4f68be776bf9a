"""What values are made of: an object of its class, the arguments of its constructor and its further attributes."""

from __future__ import annotations

import inspect
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn

from stratagp.data.tables import is_frame
from stratagp.errors import InputError
from stratagp.parameterised import Parameterised, held_by, signature_of
from stratagp.persistence.registry import name_of

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList)  # whose parts have any name
LONGEST = 10**6  # numbers of a range
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parts(list[Any]):
    """Values that a node refers to, in contrast to its own texts and numbers."""


class Attributes(dict[str, Any]):
    """The same, by name."""


def outline(value: Any, where: str) -> dict[str, Any]:
    """The node of anything that holds other values, with these still in their places: ``Parts``, or by name."""
    kind = type(value)
    if kind in (list, tuple, torch.Size):
        return {"list" if kind is list else "tuple": Parts(value)}
    if kind in (set, frozenset):
        return {kind.__name__: Parts(sorted(value, key=lambda own: (type(own).__name__, repr(own))))}
    if kind is dict:
        return {"keys": Parts(value), "values": Parts(value.values())}
    if kind is range:
        if value and (value[-1] - value[0]) // value.step >= LONGEST:
            raise InputError(f"save: {where} is {value}, of more than {LONGEST} numbers: give a slice")
        return {"range": Parts((value.start, value.stop, value.step))}
    if kind is np.ndarray:
        return {"objects": Parts(value.ravel().tolist()), "shape": list(value.shape)}
    if isinstance(value, tuple):
        return {"named": name_of(kind, where), "values": Parts(value)}
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return {"function": name_of(value, where)}
    if isinstance(value, MethodType):
        return {"method": value.__name__, "of": Parts([value.__self__])}
    if isinstance(value, partial):
        return {"partial": Parts((value.func, value.args, dict(value.keywords)))}
    if isinstance(value, np.random.RandomState):
        return {"random_state": Parts(value.get_state())}
    if is_frame(value):
        return {
            "frame": Parts(value.columns),
            "columns": Parts(_column(value.iloc[:, i]) for i in range(value.shape[1])),
        }
    return _object(value, where)


def _column(column: Any) -> np.ndarray:
    """The values of a column of a frame; an encoder of tables reads them as it would read those of pandas' types."""
    if getattr(column.dtype, "tz", None) is not None:
        return np.asarray(column.dt.tz_convert("UTC").dt.tz_localize(None))
    return np.asarray(column.astype(object) if hasattr(column.dtype, "categories") else column)


def _object(value: Any, where: str) -> dict[str, Any]:
    cls = type(value)
    if isinstance(value, type) or cls.__module__ == "builtins" or "__dict__" not in dir(cls):
        raise InputError(f"save: {where} is of {cls.__module__}.{cls.__qualname__}, which a model file cannot hold")
    held, extra = vars(value), {}
    if isinstance(value, nn.Module):
        if any(hooks for name, hooks in held.items() if name.endswith("_hooks")):
            raise InputError(f"save: {where} has hooks, which a model file cannot hold: remove them")
        held, extra = held_by(value), {} if value.training else {"training": False}
    arguments = {} if isinstance(value, CONTAINERS) else _arguments(value, held, where)
    rest = {name: part for name, part in held.items() if name not in arguments or arguments[name] is not part}
    state = {name: part for name, part in rest.items() if not isinstance(_static(cls, name), cached_property)}
    for name in (name for name in state if is_estimator(cls) and not is_learnt(cls, name)):
        who = where or "the model"
        raise InputError(f"save: {who} has an attribute {name!r} that {cls.__name__} does not set: delete it")
    return {"class": name_of(cls, where), **extra, "arguments": Attributes(arguments), "state": Attributes(state)}


def _arguments(value: Any, held: dict[str, Any], where: str) -> dict[str, Any]:
    """The arguments of the constructor: as they were given, or as the attributes of their names are now."""
    captured = value._arguments if isinstance(value, Parameterised) else {}
    of_torch = isinstance(value, nn.Module) and not isinstance(value, Parameterised)
    kind: Any = type(value)
    found: dict[str, Any] = {}
    for name, parameter in signature_of(kind).parameters.items():
        if name in captured:
            found[name] = captured[name]
        elif name in held:
            found[name] = held[name] is not None if of_torch and name == "bias" else held[name]
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in _VARIADIC:
            kept = f"the argument {name!r} of {kind.__name__}"
            raise InputError(f"save: {where} does not keep {kept}: let it set self.{name}")
    return found


def is_estimator(cls: type) -> bool:
    """Whether it is a class of scikit-learn's kind: its constructor stores options, and ``fit`` adds what it learns."""
    return callable(_static(cls, "get_params"))


def is_learnt(cls: type, name: str) -> bool:
    """Whether an estimator may have such an attribute beside its options: what ``fit`` has learnt, or a setting of the
    class that was changed; none that hides a method."""
    own = _static(cls, name)
    if own is None:
        return (name.endswith("_") or name.startswith("_")) and not name.startswith("__")
    return isinstance(own, (bool, int, float, str))


def _static(cls: type, name: str) -> Any:
    return inspect.getattr_static(cls, name, None)
