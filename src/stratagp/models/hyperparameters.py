"""The values that a model has learnt: their score elsewhere, and a table of them in the units of the user."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_classes import ClassModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.training import Hyperparameter, HyperparameterTable, curvature
from stratagp.training.free import gather, learnt, scatter
from stratagp.training.start import variance_carriers


def moved_to(fitted: Fitted, theta: ArrayLike | None) -> Fitted:
    """A copy of a model with other free coordinates, or with its own; its posteriors are those of the model."""
    if not isinstance(fitted, (ProcessModel, ClassModel)) or fitted.learnt is None:
        raise InputError("theta and eval_gradient are for closed forms: this model knows its score by samples only")
    moved = copy.copy(fitted)
    moved.prior = copy.deepcopy(fitted.prior)
    if theta is not None:
        free, given = learnt(moved.module), np.asarray(theta, dtype=float)
        size = gather(free).size
        if given.shape != (size,):
            raise InputError(f"theta must have {size} numbers, one for each free value, got shape {given.shape}")
        scatter(free, given)
    return moved


def table_in_users_units(
    fitted: Fitted,
    kernels: list[Kernel],
    columns: list[str],
    scales: np.ndarray,
    function_scales: np.ndarray,
) -> HyperparameterTable:
    """The learnt values with their uncertainty; variances and noise in squared units of the targets and functions.

    ``kernels`` are those of the functions that the likelihood sees; variances of others have no units. Inducing points
    are left out. Where training was by steps there are values only.
    """
    module = fitted.module
    objective = None if fitted.learnt is None else fitted.learnt.objective(module, fitted.rough().score)
    carriers = {carrier for kernel in kernels for carrier, _ in variance_carriers(kernel)}
    names = [name for name, part in module.named_modules() if part in carriers]
    noises = {item.name for item in module.named_values() if item.parameter is module.noise_parameter}
    in_units = {f"{name}.variance" if name else "variance" for name in names} | noises
    rows = curvature.table(module, objective, columns or None, without=["z"]).rows
    units = [scales if _stem(row) in noises else function_scales for row in rows]
    shown = [_in_units(row, u) if _stem(row) in in_units else row for row, u in zip(rows, units, strict=True)]
    return HyperparameterTable(tuple(shown))


def _stem(row: Hyperparameter) -> str:
    return row.name.partition("[")[0]


def _in_units(row: Hyperparameter, scales: np.ndarray) -> Hyperparameter:
    """Squared units: its own of a value for each target or function, else of them all on average."""
    index = row.name.partition("[")[2].rstrip("]")
    own = index.isdigit() and int(index) < len(scales)
    return _scaled(row, float(scales[int(index)] ** 2 if own else np.mean(scales**2)))


def _scaled(row: Hyperparameter, factor: float) -> Hyperparameter:
    value, std, lower, upper = (part * factor for part in (row.value, row.std, row.lower, row.upper))
    return replace(row, value=value, std=std, lower=lower, upper=upper)
