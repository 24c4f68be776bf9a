"""Likelihoods by the names that estimators know them by."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.likelihoods import Likelihood


def _each(value: float, outputs: int) -> Any:
    return value if outputs == 1 else [value] * outputs


_SCALED: dict[str, Callable[[int, float], Likelihood]] = {  # by the number of targets and the noise they start from
    "gaussian": lambda p, noise: lik.GaussianNoise(_each(noise, p)),
    "student-t": lambda p, noise: lik.StudentT(scale=_each(math.sqrt(noise), p)),
    "laplace": lambda p, noise: lik.LaplaceNoise(_each(math.sqrt(noise), p)),
    "heteroscedastic": lambda p, noise: lik.Heteroscedastic(),
    "gprn": lambda p, noise: lik.GPRN(noise=[noise] * p),
}
_OTHERS: dict[str, Callable[[], Likelihood]] = {
    "poisson": lik.Poisson,
    "negative-binomial": lik.NegativeBinomial,
    "zero-inflated-poisson": lambda: lik.ZeroInflated(lik.Poisson()),
    "zero-inflated-negative-binomial": lambda: lik.ZeroInflated(lik.NegativeBinomial()),
    "hurdle-poisson": lambda: lik.Hurdle(lik.Poisson()),
    "hurdle-negative-binomial": lambda: lik.Hurdle(lik.NegativeBinomial()),
    "gamma": lik.Gamma,
    "exponential": lik.Exponential,
    "beta": lik.Beta,
    "weibull": lik.Weibull,
    "log-normal": lik.LogNormal,
}
NUMBERS = (*_SCALED, *_OTHERS)  # names of likelihoods of numbers
_CLASSES: dict[str, type[Likelihood]] = {
    "softmax": lik.Softmax,
    "bernoulli": lik.Bernoulli,
    "robust-max": lik.RobustMax,
}
_UNNAMED: tuple[type[Likelihood], ...] = (lik.Ordinal,)  # of classes, which are given as objects only


def likelihood_of_numbers(given: object, outputs: int, noise: float) -> Likelihood:
    """The likelihood of a name, or a copy of one; ``noise`` is the variance that those of scaled targets start from."""
    if isinstance(given, Likelihood):
        return copy.deepcopy(given)
    name = "gaussian" if given == "auto" else given
    if not isinstance(name, str) or name not in NUMBERS:
        raise InputError(f"likelihood must be one of {', '.join(NUMBERS)}, or a Likelihood, got {given!r}")
    return _SCALED[name](outputs, noise) if name in _SCALED else _OTHERS[name]()


def likelihood_of_classes(given: object, n_classes: int, smooth_only: bool = False) -> Likelihood:
    """The likelihood of a name, or a copy of one, for that many classes.

    ``smooth_only`` refuses the robust max, whose density is a step.
    """
    kinds = [kind for kind in (*_CLASSES.values(), *_UNNAMED) if kind.smooth or not smooth_only]
    names = [name for name, kind in _CLASSES.items() if kind in kinds]
    if smooth_only and (given == "robust-max" or (isinstance(given, Likelihood) and not given.smooth)):
        raise InputError(
            "likelihood must have a density that changes smoothly, for a network to learn from, but that of the robust "
            "max is a step: take 'softmax'"
        )
    if isinstance(given, Likelihood):
        if not given.of_classes:
            listed = ", ".join(kind.__name__ for kind in kinds)
            raise InputError(f"likelihood must be one of classes ({listed}), got {type(given).__name__}")
        return copy.deepcopy(given)
    name = ("bernoulli" if n_classes == 2 else "softmax") if given == "auto" else given
    if not isinstance(name, str) or name not in names:
        raise InputError(f"likelihood must be one of auto, {', '.join(names)}, or a Likelihood, got {name!r}")
    if name == "bernoulli" and n_classes > 2:
        raise InputError(f"likelihood='bernoulli' is for two classes, got {n_classes}: take 'softmax'")
    return _CLASSES[name]()
