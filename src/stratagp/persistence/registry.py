"""Which classes and functions a model file may name, and which attributes the objects of a class may have.

A file names the library's own classes by package and name, ``stratagp.kernels.RBF``, wherever their module is, and
the torch layers that networks are made of. Nothing is imported by a name that was found in a file, unless the user
trusts it.
"""

from __future__ import annotations

import dataclasses
import dis
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.nodes import Node

_PACKAGES = ("kernels", "likelihoods", "posteriors", "layers", "models", "recipes", "estimators", "estimators.inputs")
_MODULES = (
    "means",
    "priors",
    "parameters",
    "networks",
    "types",
    "data.encoding",
    "data.missing",
    "data.scaling",
    "linalg.interpolation",
    "objectives.collapsed",
    "objectives.expected",
    "objectives.heteroscedastic",
    "objectives.sites",
    "objectives.softmax_laplace",
    "training.curvature",
    "training.lbfgs",
    "training.run",
)
_NOT = ("estimators.intake", "estimators.prediction_files")  # which open files
_LAYERS = "AdaptiveAvgPool2d BatchNorm1d BatchNorm2d Conv2d Dropout ELU Embedding Flatten GELU Identity LayerNorm"
_LAYERS += " LeakyReLU Linear MaxPool2d ModuleDict ModuleList ParameterList ReLU Sequential SiLU Sigmoid Softplus Tanh"
_FUNCTIONS = ("kernels.fingerprint", "kernels.molecule_graph", "kernels.read_smiles")
_TORCH_FUNCTIONS = "abs asinh atan cos cosh erf exp expm1 log log1p log2 log10 relu sigmoid sin sinh sqrt square tanh"
ADDED: dict[tuple[str, str], Any] = {}  # what attributes are in files from before they were: by class and name
_OF_ESTIMATORS = {"n_features_in_", "feature_names_in_"}  # which validation sets


@cache
def classes() -> dict[str, type]:
    """The classes that files may name, by their names there."""
    found: dict[str, type] = {f"torch.nn.{name}": getattr(nn, name) for name in _LAYERS.split()}
    for module in _modules():
        for cls in vars(importlib.import_module(f"stratagp.{module}")).values():
            if inspect.isclass(cls) and cls.__module__ == f"stratagp.{module}":
                package = (
                    module
                    if cls.__qualname__.startswith("_") or module.startswith("estimators.inputs")
                    else module.split(".")[0]
                )
                name = f"stratagp.{package}.{cls.__qualname__}"
                assert name not in found, f"two classes are called {name}"
                found[name] = cls
    return found


@cache
def functions() -> dict[str, Any]:
    """The functions that files may name."""
    own = {f"stratagp.{name}": name.rpartition(".") for name in _FUNCTIONS}
    found = {key: getattr(importlib.import_module(f"stratagp.{at}"), name) for key, (at, _, name) in own.items()}
    return {**found, **{f"torch.{name}": getattr(torch, name) for name in _TORCH_FUNCTIONS.split()}}


def _modules() -> Iterator[str]:
    for package in _PACKAGES:
        path = importlib.import_module(f"stratagp.{package}").__path__
        names = (info.name.removeprefix("stratagp.") for info in pkgutil.walk_packages(path, f"stratagp.{package}."))
        yield from (name for name in names if name not in _NOT)
    yield from _MODULES


@cache
def _names() -> dict[Any, str]:
    return {thing: name for table in (classes(), functions()) for name, thing in table.items()}


def name_of(thing: Any, where: str) -> str:
    """What a file calls a class or a function; ``where`` it was found is for the message.

    >>> from stratagp import kernels
    >>> name_of(kernels.RBF, "kernel")
    'stratagp.kernels.RBF'
    """
    known = _names().get(thing)
    if known is not None:
        return known
    module, qualname = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    what = "a class" if isinstance(thing, type) else "a function"
    if not module or "<" in qualname or not qualname:
        raise InputError(
            f"save: {where} is {what} without a name to import it by ({qualname or thing!r}): define it at the top of "
            "a module, where load can find it, or leave it out"
        )
    try:
        found = _imported(f"{module}.{qualname}", module)
    except (ImportError, AttributeError):
        found = None
    if found is not thing or module.split(".")[0] == "stratagp":
        raise InputError(f"save: {where} is {module}.{qualname}, which a model file cannot hold: leave it out")
    return f"{module}.{qualname}"


def _imported(name: str, module: str) -> Any:
    found = importlib.import_module(module)
    for part in name[len(module) + 1 :].split("."):
        found = getattr(found, part)
    return found


class Trust:
    """Names outside of the library that the user lets a file use: whole names, or the beginnings of some.

    >>> Trust(["mypackage"]).covers("mypackage.kernels.Mine"), Trust(["mypackage"]).covers("mypackages.Mine")
    (True, False)
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        if isinstance(names, str) or not all(isinstance(name, str) and name.strip(".") for name in names):
            raise InputError(f"trust must be a list of names such as ['mypackage.kernels.Mine'], got {names!r}")
        self.names = tuple(names)

    def covers(self, name: str) -> bool:
        """Whether it is one of the names, or inside of one."""
        return any(name == own or name.startswith(f"{own}.") for own in self.names)

    def find(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """The class or function of a name that is covered; no other is imported."""
        if not self.covers(name):
            raise ModelFileError(f"it needs {name[:80]}, which is not part of StrataGP and was not trusted")
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            try:
                found = _imported(name, ".".join(parts[:cut]))
            except (ImportError, AttributeError):
                continue
            if isinstance(found, kind) and name_of(found, name) == name:
                return found
        raise ModelFileError(f"it needs {name}, which was trusted, but cannot be imported by that name")


def refuse_strangers(nodes: Node, trust: Trust) -> None:
    """Name all classes and functions that are neither the library's nor trusted."""
    found, rest = set(), [nodes]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            names = [node.get(key) for key in ("class", "named", "function")]
            found |= {name for name in names if isinstance(name, str)}
            for part in node.values():  # those of an object are attributes by name, and a name may be "function"
                rest += part.values() if "class" in node and isinstance(part, dict) else [part]
        elif isinstance(node, list):
            rest += [part for part in node if isinstance(part, (dict, list))]
    own = classes().keys() | functions().keys()
    strange = sorted(name for name in found - own if not trust.covers(name))
    if strange:
        raise ModelFileError(
            f"it needs {', '.join(strange[:10])}, which is not part of StrataGP and would run code of its own: if you "
            f"know who wrote the file, load(path, trust={strange[:10]!r})"
        )


@cache
def attributes_of(cls: type) -> frozenset[str]:
    """The names that objects of a class may have as attributes: what its own methods set, its fields and its
    settings, such as ``least_steps``.

    >>> from stratagp.priors import Gamma
    >>> sorted(attributes_of(Gamma))
    ['rate', 'shape']
    """
    names: set[str] = set(_OF_ESTIMATORS if hasattr(cls, "get_params") else ())
    for base in cls.__mro__:
        if base in (object, nn.Module) or base.__module__.startswith(("abc", "typing", "sklearn")):
            continue
        names |= set(inspect.get_annotations(base))
        for name, value in vars(base).items():
            names |= {name} if type(value) in (bool, int, float, str) and not name.startswith("_") else set()
            names |= {value.attrname} if isinstance(value, cached_property) and value.attrname else set()
            function = getattr(value, "fget", getattr(value, "func", value))
            function = inspect.unwrap(function) if callable(function) else None
            if isinstance(function, FunctionType):
                names |= set(_set_by(function.__code__))
    if dataclasses.is_dataclass(cls):
        names |= {field.name for field in dataclasses.fields(cls)}
    return frozenset(name for name in names if not _is_fixed(cls, name))


def _set_by(code: CodeType) -> Iterator[str]:
    """Names of attributes and buffers that a function sets."""
    for step in dis.get_instructions(code):
        if step.opname == "STORE_ATTR":
            yield step.argval
        elif step.opname == "LOAD_CONST" and isinstance(step.argval, CodeType):
            yield from _set_by(step.argval)
        elif step.opname == "LOAD_CONST" and isinstance(step.argval, str) and "register_buffer" in code.co_names:
            yield step.argval


def _is_fixed(cls: type, name: str) -> bool:
    """Whether the class defines the name as a method or property, which an attribute must not hide."""
    own = inspect.getattr_static(cls, name, None)
    is_code = callable(own) or isinstance(own, (property, classmethod, staticmethod))
    return name.startswith("__") or (is_code and not isinstance(own, cached_property))
