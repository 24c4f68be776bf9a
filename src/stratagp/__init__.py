"""Gaussian-process models, shallow and deep, with uncertainty you can trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratagp import baselines as baselines
    from stratagp import data as data
    from stratagp import estimators as estimators
    from stratagp import kernels as kernels
    from stratagp import likelihoods as likelihoods
    from stratagp import linalg as linalg
    from stratagp import means as means
    from stratagp import metrics as metrics
    from stratagp import priors as priors
    from stratagp import recipes as recipes
    from stratagp import report as report
    from stratagp import training as training
    from stratagp.errors import ModelFileError as ModelFileError
    from stratagp.estimators import AutoGPClassifier as AutoGPClassifier
    from stratagp.estimators import AutoGPRegressor as AutoGPRegressor
    from stratagp.estimators import BayesianGPLVM as BayesianGPLVM
    from stratagp.estimators import ConformalClassifier as ConformalClassifier
    from stratagp.estimators import ConformalRegressor as ConformalRegressor
    from stratagp.estimators import DFGPClassifier as DFGPClassifier
    from stratagp.estimators import DFGPRegressor as DFGPRegressor
    from stratagp.estimators import DKLClassifier as DKLClassifier
    from stratagp.estimators import DKLRegressor as DKLRegressor
    from stratagp.estimators import DRFClassifier as DRFClassifier
    from stratagp.estimators import DRFRegressor as DRFRegressor
    from stratagp.estimators import GPClassifier as GPClassifier
    from stratagp.estimators import GPDRFClassifier as GPDRFClassifier
    from stratagp.estimators import GPDRFRegressor as GPDRFRegressor
    from stratagp.estimators import GPRegressor as GPRegressor
    from stratagp.estimators import NoisyInputRegressor as NoisyInputRegressor
    from stratagp.estimators import RecalibratedClassifier as RecalibratedClassifier
    from stratagp.estimators import RecalibratedRegressor as RecalibratedRegressor
    from stratagp.estimators import StrataClassifier as StrataClassifier
    from stratagp.estimators import StrataRegressor as StrataRegressor
    from stratagp.estimators import StudentTProcessRegressor as StudentTProcessRegressor
    from stratagp.estimators import WishartProcessRegressor as WishartProcessRegressor
    from stratagp.estimators import calibrate as calibrate
    from stratagp.models import ExactGP as ExactGP
    from stratagp.models import GPClassification as GPClassification
    from stratagp.models import HeteroscedasticGP as HeteroscedasticGP
    from stratagp.models import MulticlassLaplace as MulticlassLaplace
    from stratagp.models import SparseGP as SparseGP
    from stratagp.models import StudentTProcess as StudentTProcess
    from stratagp.models import VecchiaGP as VecchiaGP
    from stratagp.parameters import bounded as bounded
    from stratagp.parameters import positive as positive
    from stratagp.persistence.model_file import load as load

    __version__: str

_MODULES = ("kernels", "likelihoods", "linalg", "means", "metrics", "priors")
_PARTS = ("baselines", "data", "estimators", "recipes", "report", "training")  # not brought in by a star import
_ESTIMATORS = (
    "AutoGPClassifier",
    "AutoGPRegressor",
    "BayesianGPLVM",
    "ConformalClassifier",
    "ConformalRegressor",
    "DFGPClassifier",
    "DFGPRegressor",
    "DKLClassifier",
    "DKLRegressor",
    "DRFClassifier",
    "DRFRegressor",
    "GPClassifier",
    "GPDRFClassifier",
    "GPDRFRegressor",
    "GPRegressor",
    "NoisyInputRegressor",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
    "StrataClassifier",
    "StrataRegressor",
    "StudentTProcessRegressor",
    "WishartProcessRegressor",
    "calibrate",
)
_HOMES = {  # each name and the module that defines it
    **dict.fromkeys(("ExactGP", "GPClassification", "HeteroscedasticGP", "MulticlassLaplace"), "models"),
    **dict.fromkeys(("SparseGP", "StudentTProcess", "VecchiaGP"), "models"),
    **dict.fromkeys(("bounded", "positive"), "parameters"),
    "ModelFileError": "errors",
    "load": "persistence.model_file",
    **dict.fromkeys(_ESTIMATORS, "estimators"),
}

if not TYPE_CHECKING:  # type checkers read the imports above and need a literal list
    __all__ = sorted([*_MODULES, *_HOMES])


def __getattr__(name: str) -> Any:
    """Import a name on first use: torch takes a second or two to load, scikit-learn one more."""
    if name in (*_MODULES, *_PARTS):
        return import_module(f"stratagp.{name}")
    if name in _HOMES:
        return getattr(import_module(f"stratagp.{_HOMES[name]}"), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("stratagp")
    raise AttributeError(f"module 'stratagp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PARTS, *_HOMES, "__version__"})
