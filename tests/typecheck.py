"""The run-time checks of the test session: types by beartype, shapes by jaxtyping, both on every call.

jaxtyping's import hook puts its own decorator on each function, which binds the arguments and checks them twice. Ours
checks the arguments once before the call and the result once after it, at a fifth of the cost.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.door import is_bearable

_CONF = BeartypeConf(is_pep484_tower=True, violation_type=TypeError)  # whole numbers count as floats (PEP 484)
typechecker = beartype(conf=_CONF)
_THEIRS = jaxtyping.jaxtyped
_CONTEXT = _THEIRS("context")  # in which a letter of a shape means one size
_HINTS: dict[tuple[str, CodeType], tuple[inspect.Signature, dict[str, Any]]] = {}  # of functions inside others


def install(modules: list[str]) -> None:
    """From here on an import of one of these modules brings the checks of the annotations in it."""
    jaxtyping.jaxtyped = checked
    jaxtyping.install_import_hook(modules, "tests.typecheck.typechecker")


def checked(decorated: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """The function with its checks, or the class with those of the constructor that ``dataclass`` wrote."""
    if decorated is None:
        return functools.partial(checked, typechecker=typechecker)
    if not inspect.isclass(decorated):
        return _checked_function(decorated, typechecker)
    written = vars(decorated).get("__init__")
    if dataclasses.is_dataclass(decorated) and written is not None and not hasattr(written, "is_checked"):
        decorated.__init__ = _checked_function(written, typechecker)
    return decorated


def _checked_function(function: Any, typechecker: Callable[[Any], Any]) -> Any:
    if "<locals>" in function.__qualname__:
        return _checked_inside(function)
    function.__annotations__ = _meaning(function)
    has_shapes = any(map(_has_shape, function.__annotations__.values()))
    if has_shapes and inspect.isgeneratorfunction(function):  # its arguments are checked when it has left our context
        return _THEIRS(function, typechecker=typechecker)
    inner = typechecker(function)
    inner.is_checked = True
    if not has_shapes:
        return inner

    @functools.wraps(inner)
    def in_context(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        with _CONTEXT:
            return inner(*args, **options)

    return in_context


def _checked_inside(function: Any) -> Any:
    """A function inside another, which is made anew with each call of that: beartype would compile it each time."""
    key = function.__module__, function.__code__  # which is equal to one of the same text in another file
    if key not in _HINTS:
        _HINTS[key] = inspect.signature(function), _meaning(function)
    signature, hints = _HINTS[key]

    def insist(name: str, value: Any) -> None:
        if name in hints and not is_bearable(value, hints[name], conf=_CONF):
            raise TypeError(f"{function.__qualname__}: {name}={value!r} violates type hint {hints[name]}")

    @functools.wraps(function)
    def in_context(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        given = signature.bind(*args, **options).arguments
        with _CONTEXT:
            for name, value in given.items():
                kind = signature.parameters[name].kind
                many = {inspect.Parameter.VAR_POSITIONAL: tuple, inspect.Parameter.VAR_KEYWORD: dict.values}
                for each in many[kind](value) if kind in many else (value,):
                    insist(name, each)
            result = function(*args, **options)
            insist("return", result)
        return result

    return in_context if hints else function


def _meaning(function: Any) -> dict[str, Any]:
    return {name: _resolved(each, function.__globals__) for name, each in function.__annotations__.items()}


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation means; one that cannot be known at run time is anything."""

    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": annotation}
    try:
        return get_type_hints(function, names, include_extras=True)["value"]
    except Exception:
        return Any


def _has_shape(annotation: Any) -> bool:
    is_shape = inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray)
    return is_shape or any(map(_has_shape, get_args(annotation)))
