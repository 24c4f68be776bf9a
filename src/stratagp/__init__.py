"""Gaussian-process models, shallow and deep, with uncertainty you can trust."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from stratagp import kernels as kernels
from stratagp import likelihoods as likelihoods
from stratagp import linalg as linalg
from stratagp import means as means
from stratagp import metrics as metrics
from stratagp import priors as priors
from stratagp.models import ExactGP as ExactGP
from stratagp.models import GPClassification as GPClassification
from stratagp.models import HeteroscedasticGP as HeteroscedasticGP
from stratagp.models import MulticlassLaplace as MulticlassLaplace
from stratagp.models import SparseGP as SparseGP
from stratagp.models import StudentTProcess as StudentTProcess
from stratagp.parameters import bounded as bounded
from stratagp.parameters import positive as positive

if TYPE_CHECKING:
    from stratagp.estimators import AutoGPClassifier as AutoGPClassifier
    from stratagp.estimators import AutoGPRegressor as AutoGPRegressor
    from stratagp.estimators import BayesianGPLVM as BayesianGPLVM
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
    from stratagp.estimators import StudentTProcessRegressor as StudentTProcessRegressor
    from stratagp.estimators import WishartProcessRegressor as WishartProcessRegressor

__version__ = version("stratagp")
_ESTIMATORS = (
    "AutoGPClassifier",
    "AutoGPRegressor",
    "BayesianGPLVM",
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
    "StudentTProcessRegressor",
    "WishartProcessRegressor",
)

if not TYPE_CHECKING:  # checkers of types read the imports above, and want no list that is put together
    __all__ = [
        "ExactGP",
        "GPClassification",
        "HeteroscedasticGP",
        "MulticlassLaplace",
        "SparseGP",
        "StudentTProcess",
        "bounded",
        "kernels",
        "likelihoods",
        "linalg",
        "means",
        "metrics",
        "positive",
        "priors",
        *_ESTIMATORS,
    ]


def __getattr__(name: str) -> Any:
    """Estimators load scikit-learn, which takes a second: only when they are asked for."""
    if name in _ESTIMATORS:
        return getattr(import_module("stratagp.estimators"), name)
    raise AttributeError(f"module 'stratagp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
