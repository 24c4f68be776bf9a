"""Which classes and functions a model file may name.

A file names the library's own classes by package and name, ``stratagp.kernels.RBF``, wherever their module is, and
the torch layers that networks are made of. Nothing is imported by a name that was found in a file, unless the user
trusts it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import nn
from torch.distributions import constraints

from stratagp.errors import InputError, ModelFileError

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList)  # whose parts have any name
_PACKAGES = ("kernels", "likelihoods", "posteriors", "layers", "models", "recipes", "estimators")
_MODULES = "means priors parameters networks types data.encoding data.missing data.ngrams data.scaling"
_MODULES += " linalg.interpolation objectives.collapsed objectives.expected objectives.heteroscedastic objectives.sites"
_MODULES += (
    " objectives.softmax_laplace objectives.vecchia objectives.row_sites training.curvature training.lbfgs training.run"
)
_NOT = ("estimators.intake", "estimators.prediction_files")  # which open files
_LAYERS = "AdaptiveAvgPool2d BatchNorm1d BatchNorm2d Conv2d Dropout ELU Embedding Flatten GELU Identity LayerNorm"
_LAYERS += " LeakyReLU Linear MaxPool2d ModuleDict ModuleList ParameterList ReLU Sequential SiLU Sigmoid Softplus Tanh"
_CONSTRAINTS = "greater_than interval less_than lower_cholesky real simplex"
_OTHERS = "Anchors Codebook GaussianImputer ImageInputs ObjectInputs ObjectReader TableEncoder"
_OTHERS += " TableInputs ViewInputs"
_FUNCTIONS = ("fingerprint", "molecule_graph", "read_smiles")  # of kernels
_TORCH_FUNCTIONS = "abs asinh atan cos cosh erf exp expm1 log log1p log2 log10 relu sigmoid sin sinh sqrt square tanh"


@cache
def classes() -> dict[str, type]:
    """The classes that files may name, by their names there."""
    found: dict[str, type] = {f"torch.nn.{name}": vars(nn)[name] for name in _LAYERS.split()}
    for name in _CONSTRAINTS.split():
        known = vars(constraints)[name]
        found[f"torch.distributions.{name}"] = known if isinstance(known, type) else type(known)
    modules = [f"stratagp.{name}" for name in _MODULES.split()]
    for package in (importlib.import_module(f"stratagp.{name}") for name in _PACKAGES):
        modules += [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for module in (module for module in modules if module.removeprefix("stratagp.") not in _NOT):
        for cls in vars(importlib.import_module(module)).values():
            if inspect.isclass(cls) and cls.__module__ == module and _is_held(cls):
                private = cls.__qualname__.startswith("_")
                name = f"{module if private else '.'.join(module.split('.')[:2])}.{cls.__qualname__}"
                assert name not in found, f"two classes are called {name}"
                found[name] = cls
    return found


def _is_held(cls: type) -> bool:
    """Whether models hold objects of a class: modules, records of values, estimators, and few others."""
    of_values = dataclasses.is_dataclass(cls) or issubclass(cls, (nn.Module, tuple, BaseEstimator))
    return of_values or cls.__name__ in _OTHERS.split()


def is_learnt(cls: type, name: str) -> bool:
    """Whether an attribute is what the ``fit`` of an estimator learns; none that hides a method of its class is."""
    learnt = (name.endswith("_") or name.startswith("_")) and not name.startswith("__")
    return learnt and issubclass(cls, BaseEstimator) and inspect.getattr_static(cls, name, None) is None


@cache
def functions() -> dict[str, Any]:
    """The functions that files may name."""
    kernels = vars(importlib.import_module("stratagp.kernels"))
    found = {f"stratagp.kernels.{name}": kernels[name] for name in _FUNCTIONS}
    return found | {f"torch.{name}": vars(torch)[name] for name in _TORCH_FUNCTIONS.split()}


@cache
def _names() -> dict[Any, str]:
    return {thing: name for name, thing in (classes() | functions()).items()}


def name_of(thing: type | FunctionType | BuiltinFunctionType, where: str) -> str:
    """What a file calls a class or a function; ``where`` it was found is for the message."""
    if thing in _names():
        return _names()[thing]
    name = f"{thing.__module__}.{thing.__qualname__}"
    if not thing.__module__ or "<" in name:
        what = "a class" if isinstance(thing, type) else "a function"
        raise InputError(
            f"save: {where} is {what} without a name to import it by ({thing.__qualname__}): define it at the top of "
            "a module, where load can find it, or leave it out"
        )
    if name.startswith("stratagp.") or _imported(name) is not thing:
        raise InputError(f"save: {where} is {name}, which a model file cannot hold: leave it out")
    return name


def _imported(name: str) -> Any:
    """What a name with dots means; None where there is no such thing."""
    with suppress(ImportError, AttributeError, ValueError):
        return pkgutil.resolve_name(name)


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
        found = _imported(name)
        right = isinstance(found, kind)
        if not right or name_of(found, name) != name:
            raise ModelFileError(f"it needs {name}, which was trusted, but cannot be imported by that name")
        return found

    def refuse_unknown(self, table: object) -> None:
        """Name all classes and functions that are neither the library's nor trusted."""
        entries = [entry for entry in table if isinstance(entry, dict)] if isinstance(table, list) else []
        named = (entry.get(key) for entry in entries for key in ("class", "named", "function"))
        found = {name for name in named if isinstance(name, str)} - classes().keys() - functions().keys()
        strange = sorted(name for name in found if not self.covers(name))[:10]
        if strange:
            raise ModelFileError(
                f"it needs {', '.join(strange)}, which is not part of StrataGP and would run code of its own: if you "
                f"know who wrote the file, load(path, trust={strange!r})"
            )
