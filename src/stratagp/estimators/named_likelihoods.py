"""Likelihoods by the names that estimators know them by."""

from __future__ import annotations

import copy
import math
from typing import Any

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.likelihoods import Likelihood


def _each(value: float, outputs: int) -> Any:
    return value if outputs == 1 else [value] * outputs


# Likelihoods that do not mind where zero is, or how long a unit: targets are scaled.
LOCATION_SCALE: dict[str, Any] = {
    "gaussian": lambda p, noise: lik.GaussianNoise(_each(noise, p)),
    "student-t": lambda p, noise: lik.StudentT(scale=_each(math.sqrt(noise), p)),
    "laplace": lambda p, noise: lik.LaplaceNoise(_each(math.sqrt(noise), p)),
    "heteroscedastic": lambda p, noise: lik.Heteroscedastic(),
    "gprn": lambda p, noise: lik.GPRN(noise=[noise] * p),
}
OTHERS: dict[str, Any] = {
    "poisson": lik.Poisson,
    "negative-binomial": lik.NegativeBinomial,
    "gamma": lik.Gamma,
    "exponential": lik.Exponential,
    "beta": lik.Beta,
    "weibull": lik.Weibull,
    "log-normal": lik.LogNormal,
}
SURVIVAL = (lik.Weibull, lik.LogNormal)
DIRECT = (lik.GaussianNoise, lik.StudentT, lik.LaplaceNoise)  # a function for each target, in its unit
_SCALABLE = (lik.GaussianNoise, lik.StudentT, lik.LaplaceNoise, lik.Heteroscedastic, lik.GPRN)
_OF_CLASSES = (lik.Softmax, lik.Bernoulli, lik.RobustMax, lik.Ordinal)
_CLASSES: dict[str, Any] = {"softmax": lik.Softmax, "bernoulli": lik.Bernoulli, "robust-max": lik.RobustMax}


def of_numbers(given: Any, outputs: int, noise: float) -> tuple[Likelihood, bool]:
    """The likelihood of a name, or a copy of one, and whether its targets may be scaled.

    ``noise`` is the variance that those of scaled targets start from.
    """
    if isinstance(given, Likelihood):
        return copy.deepcopy(given), isinstance(given, _SCALABLE)
    name = "gaussian" if given == "auto" else given
    if not isinstance(name, str) or name not in (*LOCATION_SCALE, *OTHERS):
        names = ", ".join((*LOCATION_SCALE, *OTHERS))
        raise InputError(f"likelihood must be one of {names}, or a Likelihood, got {given!r}")
    if name in LOCATION_SCALE:
        return LOCATION_SCALE[name](outputs, noise), True
    return OTHERS[name](), False


def of_classes(given: Any, n_classes: int, smooth_alone: bool = False) -> Likelihood:
    """The likelihood of a name, or a copy of one, for that many classes.

    ``smooth_alone`` refuses the robust max, whose density is a step.
    """
    kinds = [kind for kind in _OF_CLASSES if not (smooth_alone and kind is lik.RobustMax)]
    names = [name for name, kind in _CLASSES.items() if kind in kinds]
    if smooth_alone and (given == "robust-max" or isinstance(given, lik.RobustMax)):
        raise InputError(
            "likelihood must have a density that changes smoothly, for a network to learn from, but that of the robust "
            "max is a step: take 'softmax'"
        )
    if isinstance(given, Likelihood):
        if not isinstance(given, tuple(kinds)):
            listed = ", ".join(kind.__name__ for kind in kinds)
            raise InputError(f"likelihood must be one of classes ({listed}), got {type(given).__name__}")
        return copy.deepcopy(given)
    name = ("bernoulli" if n_classes == 2 else "softmax") if given == "auto" else given
    if not isinstance(name, str) or name not in names:
        raise InputError(f"likelihood must be one of auto, {', '.join(names)}, or a Likelihood, got {name!r}")
    if name == "bernoulli" and n_classes > 2:
        raise InputError(f"likelihood='bernoulli' is for two classes, got {n_classes}: take 'softmax'")
    made: Likelihood = _CLASSES[name]()
    return made
