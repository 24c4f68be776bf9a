"""The run-time checks of the test session: types by beartype, shapes by jaxtyping, both on every call.

jaxtyping's import hook puts its own decorator on each function, which binds the arguments and checks them twice. The
one here checks the arguments once before the call and the result once after it, at a fifth of the cost.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

# Whole numbers count as floats (PEP 484).
typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeError))
_THEIRS = jaxtyping.jaxtyped
_CONTEXT = _THEIRS("context")  # in which a letter of a shape means one size


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
    function.__annotations__ = {
        name: _resolved(annotation, function.__globals__) for name, annotation in function.__annotations__.items()
    }
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
