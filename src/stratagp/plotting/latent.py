"""Rows in the latent space that a model found for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.plotting.answers import answers
from stratagp.plotting.plot_data import name_of
from stratagp.plotting.style import BLUE, add_legend, colours, one_axes

_MANY = 12  # distinct targets above which they count as numbers, not classes


def latent_manifold(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    dimensions: Any = None,
    spread: bool = True,
    target: str | None = None,
    ax: Any = None,
) -> Any:
    """Rows at two of their latent coordinates, with crosses of one standard deviation.

    Arguments:
        model: a fitted model with ``transform(X, return_std=True)``: :class:`~stratagp.BayesianGPLVM`,
            :class:`~stratagp.WishartProcessRegressor`, :class:`~stratagp.DFGPRegressor`, ….
        X, y: rows, and their classes or targets, which set the colours.
        dimensions: two of the coordinates; by default the most relevant if the model knows them, else the widest.
        spread: whether to draw the crosses.
        target: the name of the target, with its unit.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import BayesianGPLVM
    >>> t = np.linspace(-1, 1, 20)[:, None]
    >>> X = np.hstack([t, t**2, np.sin(3 * t)])
    >>> gplvm = BayesianGPLVM(n_components=2, n_inducing=5, max_iterations=5).fit(X)
    >>> ax = latent_manifold(gplvm, X, t[:, 0], dimensions=[0, 1], ax=Figure().subplots())
    >>> ax.get_xlabel()
    'latent dimension 0'
    """
    if not answers(model, "transform"):
        raise InputError(f"latent_manifold needs a model with transform, which {type(model).__name__} does not have")
    mean, std = (np.asarray(part) for part in model.transform(X, return_std=True))
    i, j = _two(model, mean, dimensions)
    shown = None if y is None else np.asarray(y)
    if shown is not None and shown.shape != (len(mean),):
        raise InputError(f"y must have one value for each of the {len(mean)} rows of X, got shape {shown.shape}")
    ax = one_axes(ax)
    place = mean[:, i], mean[:, j]
    if spread:
        faint = {"fmt": "none", "ecolor": "grey", "elinewidth": 0.5, "alpha": 0.4, "zorder": 1}
        ax.errorbar(*place, xerr=std[:, i], yerr=std[:, j], **faint)
    if shown is None:
        ax.scatter(*place, color=BLUE, s=12)
    elif shown.dtype.kind in "OUSb" or len(np.unique(shown)) <= _MANY:
        names = np.unique(shown)
        for label, colour in zip(names, colours(len(names)), strict=True):
            ax.scatter(*(part[shown == label] for part in place), color=[colour], s=12, label=str(label))
        add_legend(ax)
    else:
        dots = ax.scatter(*place, c=shown.astype(float), cmap="viridis", s=12)
        ax.figure.colorbar(dots, ax=ax, label=name_of(y, target))
    ax.set(xlabel=f"latent dimension {i}", ylabel=f"latent dimension {j}")
    return ax


def _two(model: Any, mean: np.ndarray, dimensions: Any) -> tuple[int, int]:
    if mean.shape[1] < 2:
        raise InputError("the model has one latent dimension, but a picture needs two: fit it with more")
    if dimensions is None:
        latent = answers(model, "inverse_transform", "relevance_")
        weight = model.relevance_ if latent else mean.std(0)
        first, second = np.argsort(-np.asarray(weight), kind="stable")[:2].tolist()
        return first, second
    chosen = list(dimensions) if isinstance(dimensions, (list, tuple)) else []
    whole = [each for each in chosen if isinstance(each, (int, np.integer)) and 0 <= each < mean.shape[1]]
    if len(whole) != 2 or len(chosen) != 2 or whole[0] == whole[1]:
        raise InputError(f"dimensions must be two of 0 to {mean.shape[1] - 1}, got {dimensions!r}")
    return int(whole[0]), int(whole[1])
