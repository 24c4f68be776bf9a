"""What a fitted regressor is asked as a surrogate of an expensive function, in the units and names of its columns.

The mathematics is in :mod:`stratagp.models.surrogate` and :mod:`stratagp.models.sobol`. Draws of the hyperparameters
(``hyperparameters="bayes"``) are averaged over by the law of total variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.data.dates import waves
from stratagp.data.tables import is_frame
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.regression import Regressor
from stratagp.estimators.targets import as_array, check_of
from stratagp.models import sobol, surrogate
from stratagp.models.cokriging import CoKrigingModel
from stratagp.models.exact import ExactPosterior
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.models.target_posterior import TargetPosterior
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian

Column = str | int


@dataclass(frozen=True)
class InputEffects:
    """Shares of the variance of the expected function under the distributions of its inputs.

    ``effects`` has the share of each set of columns, ``first`` that of each column alone and ``total`` that of each
    column with all its interactions, in the order of ``names``. ``variance`` is what they are shares of, and
    ``unresolved`` the average posterior variance of the function, both in squared units of the target.
    """

    names: list[str]
    effects: dict[tuple[str, ...], float]
    first: Float[np.ndarray, " d"]
    total: Float[np.ndarray, " d"]
    variance: float
    unresolved: float

    def __str__(self) -> str:
        width = max(len("input"), *map(len, self.names))
        rows = zip(self.names, self.first, self.total, strict=True)
        lines = [f"{name:{width}}  {first:5.3f}  {total:5.3f}" for name, first, total in rows]
        return "\n".join([f"{'input':{width}}  first  total", *lines])


def partial_dependence(
    gp: Regressor, columns: Column | list[Column] | tuple[Column, ...], grid: Iterable[Any], max_rows: int = 200
) -> tuple[Float[np.ndarray, " g *q"], Float[np.ndarray, " g *q"]]:
    """Mean and standard deviation of the function of some columns, the others averaged over the training rows.

        g(v) = 1/n Σᵢ f(xᵢ with xᵢ[columns] = v)

    Arguments:
        gp: a fitted regressor.
        columns: the name or number of a column, or a list of them; a category is one column.
        grid: the values ``v``, one for each point of the grid; rows with a value for each column if there are several.
        max_rows: of more training rows, so many are used, the same for each call.

    >>> from stratagp import GPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(40, 2))
    >>> gp = GPRegressor(noise=1e-4).fit(X, 3 * X[:, 0] + X[:, 1])
    >>> mean, std = partial_dependence(gp, 0, [0.2, 0.8])
    >>> round(float(mean[1] - mean[0]), 2)  # 3 · 0.6
    1.8
    """
    _check_columns_known(gp, "partial_dependence")
    if isinstance(gp.fitted_, CoKrigingModel):
        raise InputError("partial_dependence is for independent outputs: refit with outputs='independent'")
    several = isinstance(columns, (list, tuple))
    chosen = [_position(gp, column) for column in (columns if isinstance(columns, (list, tuple)) else [columns])]
    rows = [list(row) if several else [row] for row in grid]
    if not chosen or not rows or any(len(row) != len(chosen) for row in rows):
        raise InputError(f"grid must have a value for each of {len(chosen)} columns at each of its points")
    parts = [_encoded(gp, column, [row[i] for row in rows]) for i, column in enumerate(chosen)]
    index, values = [j for at, _ in parts for j in at], torch.cat([values for _, values in parts], 1)
    x = gp.fitted_.points
    return _averaged(gp, lambda target: surrogate.partial_dependence(target.process, index, values, x, max_rows))


def predict_uncertain(
    gp: Regressor,
    X: RowsLike,
    std: Mapping[str, ArrayLike] | ArrayLike,
    of: str = "y",
    method: str = "auto",
    n_samples: int = 1024,
) -> tuple[Float[np.ndarray, " n *q"], Float[np.ndarray, " n *q"]]:
    """Mean and standard deviation of the target where the inputs are normal: ``x ~ N(X, diag std²)``, row by row.

    Arguments:
        gp: a fitted regressor with exact inference.
        X: expected inputs in rows, as for ``predict``.
        std: their standard deviations: a mapping from names of columns (those left out are known), ``d`` numbers for
            all rows, or ``n d``. Zero is an input that is known; categories must be.
        of: "y" for an observation, noise included; "f" for the function.
        method, n_samples: as in :func:`stratagp.models.surrogate.predict_uncertain`.

    >>> from stratagp import GPRegressor
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> gp = GPRegressor(noise=1e-4).fit(X, 10 * np.sin(X[:, 0]))
    >>> mean, std = predict_uncertain(gp, [[0.0]], [0.2], of="f")
    >>> round(float(std[0]), 2)  # 10 √((1 − exp(−0.08))/2) = 1.96
    1.96
    """
    _check_columns_known(gp, "predict_uncertain")
    noisy = check_of(of)
    _check_exact(gp, "predict_uncertain")
    points = gp.inputs_.points(gp, X)
    if points.incomplete is not None:
        raise InputError("X has missing values, which predict_uncertain does not fill: give an expected value and std")
    spread = input_spreads(gp, std, len(points))
    q = Gaussian(points.values, spread.square())

    def belief_of(target: TargetPosterior) -> Gaussian:
        found = surrogate.predict_uncertain(target.process, q, method, n_samples)
        return Gaussian(found.mean, found.var + target.noise_at(q.mean)[:, None]) if noisy else found

    return _averaged(gp, belief_of)


def sobol_indices(gp: Regressor, order: int | None = None) -> InputEffects:
    """First-order, total and interaction indices of the expected function of a regressor with an ANOVA kernel.

    Arguments:
        gp: fitted with ``GPRegressor(k.anova_kernel(measures))`` to one target. With ``standardise="both"`` the
            measures are those of standardised inputs.
        order: the largest sets of columns that ``effects`` lists, all of the kernel if None; ``total`` counts all.

    >>> from stratagp import GPRegressor, kernels as k
    >>> X = np.random.default_rng(0).uniform(size=(30, 2))
    >>> gp = GPRegressor(k.anova_kernel([k.Measure.uniform(0, 1)] * 2), noise=1e-2).fit(X, 20 * X[:, 0] + 10 * X[:, 1])
    >>> print(sobol_indices(gp))  # nearly 4/5 and 1/5 of 500/12
    input  first  total
    x0     0.799  0.799
    x1     0.201  0.201
    """
    _check_columns_known(gp, "sobol_indices")
    draws = _check_exact(gp, "sobol_indices").draws
    if len(draws[0]) > 1:
        raise InputError(
            f"sobol_indices is about one target, but this model has {len(draws[0])}: fit one model for each"
        )
    found = [sobol.sobol_indices(targets[0].process, order) for targets in draws]
    power = np.array([each.variance for each in found])
    weights, unit, names = power / power.sum(), float(gp.scale_.scale[0] ** 2), gp.inputs_.columns
    effects = {
        tuple(names[i] for i in key): float(weights @ [each.effects[key] for each in found]) for key in found[0].effects
    }
    first, total = (
        weights @ np.stack([each.first for each in found]),
        weights @ np.stack([each.total for each in found]),
    )
    unresolved = unit * float(np.mean([each.unresolved for each in found]))
    return InputEffects(list(names), effects, first, total, unit * float(power.mean()), unresolved)


def to_botorch(gp: Regressor) -> Any:
    """This regressor as a model of BoTorch, for its acquisition functions; it needs the package botorch.

    :class:`~stratagp.export.botorch_model.FittedModel` says what it can do.
    """
    check_is_fitted(gp, "fitted_")
    try:
        module = import_module("stratagp.export.botorch_model")
    except ModuleNotFoundError as error:
        raise InputError(f"to_botorch needs botorch ({error}): pip install 'stratagp[botorch]'") from error
    return module.FittedModel(gp)


def _check_columns_known(gp: Regressor, asked: str) -> None:
    check_is_fitted(gp, "fitted_")
    if gp.inputs_.objects:
        raise InputError(f"{asked} is about columns, but this kernel acts on objects, which have none")


def _check_exact(gp: Regressor, asked: str) -> ProcessModel:
    fitted = gp.fitted_
    if isinstance(fitted, ProcessModel) and isinstance(fitted.draws[0][0].process, ExactPosterior):
        return fitted
    raise InputError(f"{asked} needs GPRegressor with inference='exact' and noise that does not vary: refit with these")


def _averaged(gp: Regressor, belief_of: Callable[[TargetPosterior], Gaussian]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over draws of the hyperparameters, in the units of the targets."""
    fitted = gp.fitted_
    if not isinstance(fitted, (ChainModel, ProcessModel)):
        raise InputError(f"{type(fitted).__name__} does not tell its joint covariance: refit with inference='exact'")
    with torch.no_grad():
        draws = [fitted.targets()] if isinstance(fitted, ChainModel) else fitted.draws
        found = [[belief_of(target) for target in targets] for targets in draws]
    means = np.stack([as_numpy(torch.cat([each.mean for each in row], 1)) for row in found])
    var = np.stack([as_numpy(torch.cat([each.var for each in row], 1)) for row in found]).mean(0) + means.var(0)
    mean, std = gp.scale_.back(means.mean(0)), gp.scale_.back_std(np.sqrt(var))
    return (mean[:, 0], std[:, 0]) if gp.one_target_ else (mean, std)


def _names(gp: Regressor) -> list[str]:
    """The names of the user's columns, ``x0, x1, …`` where they have none."""
    names = vars(gp).get("feature_names_in_")
    return [f"x{i}" for i in range(gp.n_features_in_)] if names is None else [str(name) for name in names]


def _position(gp: Regressor, column: Column) -> int:
    """The number of one of the user's columns."""
    names = _names(gp)
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and -len(names) <= column < len(names):
        return int(column) % len(names)
    raise InputError(f"{column!r} is no column of X; its columns are {', '.join(names)}, or 0 to {len(names) - 1}")


def _encoded(gp: Regressor, column: int, values: list[Any]) -> tuple[list[int], Float[Tensor, "g c"]]:
    """Where a user's column went, and what its values are there."""
    index = [j for j, source in enumerate(gp.inputs_.source) if source == column]
    encoder = gp.inputs_.encoder
    if encoder is None or not encoder.is_categorical[column]:
        given = as_array(values, "grid")
        parts = () if encoder is None else encoder.date_parts.get(_names(gp)[column], ())
        numbers = torch.from_numpy(np.column_stack([given, waves(given, parts)]))
    else:
        known = list(encoder.categories[_names(gp)[column]])
        unseen = [value for value in values if value not in known]
        if unseen:
            raise InputError(f"grid has the category {unseen[0]!r}, which fit has not seen; it knows {known}")
        codes = torch.tensor([known.index(value) for value in values])
        one_hot = encoder.encoding == "one-hot"
        numbers = torch.eye(len(known), dtype=torch.float64)[codes] if one_hot else codes.double()[:, None]
    centre, scale = gp.inputs_.centre, gp.inputs_.scale
    return index, numbers if centre is None or scale is None else (numbers - centre[index]) / scale[index]


def input_spreads(
    gp: Regressor, std: Mapping[str, ArrayLike] | ArrayLike, n: int, option: str = "std"
) -> Float[Tensor, "n d"]:
    """Standard deviations of the encoded and scaled columns; ``option`` is what the user calls them."""
    names, encoder = _names(gp), gp.inputs_.encoder
    if isinstance(std, Mapping):
        given = dict.fromkeys(range(len(names)), 0.0) | {_position(gp, name): value for name, value in std.items()}
        std = np.stack([np.broadcast_to(as_array(given[i], option), n) for i in range(len(names))], 1)
    elif is_frame(std):
        frame: Any = std
        std = frame[names]
    spread = as_array(cast(ArrayLike, std), option)
    if spread.shape not in ((len(names),), (n, len(names))):
        raise InputError(
            f"{option} must have one number for each of {len(names)} columns, for all rows or for each of {n} rows"
        )
    if not (np.isfinite(spread).all() and (spread >= 0).all()):
        raise InputError(f"{option} must be finite and not negative; 0 is an input that is known")
    spread = np.broadcast_to(spread, (n, len(names)))
    if encoder is not None and spread[:, np.array(encoder.is_categorical)].any():
        raise InputError(f"{option} of a category must be 0: a category cannot be normal")
    waves_of = [] if encoder is None else [names.index(date) for date, parts in encoder.date_parts.items() if parts]
    if spread[:, waves_of].any():
        raise InputError(f"{option} of a date must be 0 where times of the year are columns too: give a kernel")
    values = torch.from_numpy(spread[:, gp.inputs_.source].copy())
    return values if gp.inputs_.scale is None else values / gp.inputs_.scale
