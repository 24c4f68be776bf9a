"""Checks what every recipe must satisfy: its model answers every question, and the answers agree."""

from __future__ import annotations

import numpy as np
import torch

from stratagp.models.fitted import Fitted
from stratagp.predictive import Classes, Predictive
from stratagp.recipes.base import Data, FitContext, Recipe, Rows

_LEVELS = (0.1, 0.5, 0.9)
_DRAWS = 4000


def check_recipe(recipe: Recipe, rows: Rows | None = None, chunk_tolerance: float = 1e-8) -> Fitted:
    """Fit a recipe to small data, assert that the model meets the contract, and return it.

    - ``predictive`` has finite means and positive variances; noise only adds to the variance of the function.
    - Quantiles and the distribution function are inverse to each other, and the slope of the latter is the density.
    - Draws have the predicted mean and variance.
    - Rows get the same predictions in parts as together, and a second fit with the same seed gives the same model.
    - Probabilities of classes are positive and sum to one.

    Arguments:
        recipe: the recipe to check; if it has a kernel, bound to two columns.
        rows: the data; by default 40 rows of two columns with one target.
        chunk_tolerance: by how much rows predicted separately may differ.

    >>> from stratagp import kernels as k
    >>> from stratagp.recipes.exact import ExactRecipe
    >>> type(check_recipe(ExactRecipe(k.RBF(ard=2)))).__name__
    'ExactModel'
    """
    rows = toy_rows() if rows is None else rows
    model = recipe.fit(rows, FitContext(seed=1))
    assert isinstance(model, Fitted), f"fit must return a Fitted, got {type(model).__name__}"
    x = rows.data.x[:7]
    found = model.predictive(x)
    assert torch.isfinite(model.score()), "score() must be finite"
    assert np.isfinite(model.function(x)).all(), "function() must be finite"
    if isinstance(found, Classes):
        _check_classes(found, rows.n_classes)
    else:
        _check_numbers(found, model, x, rows.data.y[:7].numpy())
        parts = np.concatenate([part.mean for part in model.predictives(x)])  # type: ignore[union-attr]
        np.testing.assert_allclose(parts, found.mean, rtol=1e-6, atol=chunk_tolerance)
    return model


def _check_numbers(found: Predictive, model: Fitted, x: object, y: np.ndarray) -> None:
    function = model.predictive(x, of="f")
    assert isinstance(function, Predictive), "of='f' must be a Predictive"
    assert np.isfinite(found.mean).all(), "means must be finite"
    assert (found.var > 0).all(), "variances must be positive"
    if not found.discrete:
        for level, values in zip(_LEVELS, found.quantile(_LEVELS), strict=True):
            np.testing.assert_allclose(found.cdf(values), level, atol=1e-5, err_msg="cdf(quantile(level)) is not level")
        _check_density(found, y)
    drawn = found.sample(_DRAWS, torch.Generator().manual_seed(0))
    error = 6 * np.sqrt(found.var / _DRAWS)
    assert (np.abs(drawn.mean(0) - found.mean) < error).all(), "draws must have the predicted mean"
    np.testing.assert_allclose(drawn.var(0), found.var, rtol=0.5, err_msg="draws must have the predicted variance")


def _check_density(found: Predictive, y: np.ndarray) -> None:
    """Check that ``exp(log_density)`` is the slope of the distribution function, for one target."""
    if y.shape[1] > 1:
        return
    step = 1e-4 * np.sqrt(found.var)
    slope = (found.cdf(y + step) - found.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(
        np.exp(found.log_density(y)), slope, rtol=1e-3, atol=1e-6, err_msg="the density must be the slope of the cdf"
    )


def _check_classes(found: Classes, n_classes: int) -> None:
    assert found.probabilities.shape[1] == n_classes, "there must be a probability for each class"
    assert (found.probabilities >= 0).all(), "probabilities must not be negative"
    np.testing.assert_allclose(found.probabilities.sum(1), 1, rtol=1e-9)


def toy_rows(n: int = 40, n_classes: int = 0) -> Rows:
    """Rows of two columns: a smooth function with a little noise, or classes cut from it."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    y = (4 * x[:, :1]).sin() + x[:, 1:] + 0.1 * torch.randn(n, 1, generator=generator, dtype=torch.float64)
    y = (y - y.mean()) / y.std()
    if n_classes:
        edges = torch.linspace(-0.7, 0.7, n_classes - 1, dtype=torch.float64)
        y = torch.bucketize(y, edges).double()
    return Rows(Data(x, y), n_classes, columns=["a", "b"])
