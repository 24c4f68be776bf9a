"""Which columns matter: relevance, and the shares of an analysis of variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count
from stratagp.plotting.answers import answers, names_of
from stratagp.plotting.style import BLUE, SKY, add_legend, one_axes


def relevance(model: Any, *, top: int | None = None, ax: Any = None) -> Any:
    """``relevance_`` of a fitted model as bars, the largest on top.

    Arguments:
        model: an estimator with ``relevance_``: the columns' shares in predictions; for
            :class:`~stratagp.BayesianGPLVM`, the inverse lengthscales of its dimensions.
        top: how many to show; by default all.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> ax = relevance(GPRegressor(max_iterations=0).fit(X, X[:, 1]), ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x1', 'x0']
    """
    if not answers(model, "relevance_"):
        raise InputError(f"relevance needs a fitted model with relevance_, which this {type(model).__name__} lacks")
    values = np.asarray(model.relevance_)
    of_columns = not answers(model, "inverse_transform")
    names = names_of(model) if of_columns else [f"dimension {i}" for i in range(len(values))]
    order = np.argsort(-values, kind="stable")[: len(values) if top is None else check_count(top, "top", 1)]
    ax = one_axes(ax)
    ax.barh(np.arange(len(order)), values[order], color=BLUE)
    _name_bars(ax, [names[i] for i in order])
    ax.set_xlabel("relevance (share of the effect)" if of_columns else "relevance (1 / lengthscale)")
    return ax


def anova_effects(model: Any, *, by: str = "columns", order: int | None = None, ax: Any = None) -> Any:
    """Sobol indices of a regressor with an ANOVA kernel, as bars: shares of the variance of its function.

    Arguments:
        model: a ``GPRegressor(kernels.anova_kernel(…))`` fitted to one target.
        by: "columns" shows each column and its interactions, up to its total index; "sets" shows each column and
            each interaction.
        order: the largest sets for ``by="sets"``.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor, kernels as k
    >>> X = np.random.default_rng(0).uniform(size=(30, 2))
    >>> gp = GPRegressor(k.anova_kernel([k.Measure.uniform(0, 1)] * 2), noise=1e-2).fit(X, 20 * X[:, 0] + 10 * X[:, 1])
    >>> ax = anova_effects(gp, by="sets", ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x0 × x1']
    """
    if by not in ("columns", "sets"):
        raise InputError(f"by must be 'columns' or 'sets', got {by!r}")
    if not answers(model, "sobol_indices"):
        raise InputError(f"anova_effects needs a GPRegressor with an ANOVA kernel, got {type(model).__name__}")
    found = model.sobol_indices(order if by == "sets" else None)
    ax = one_axes(ax)
    if by == "sets":
        shares = sorted(found.effects.items(), key=lambda item: -item[1])
        ax.barh(np.arange(len(shares)), [share for _, share in shares], color=BLUE)
        _name_bars(ax, [" × ".join(names) for names, _ in shares])
    else:
        ranked = np.argsort(-found.total, kind="stable")
        place, alone = np.arange(len(ranked)), found.first[ranked]
        ax.barh(place, alone, color=BLUE, label="alone")
        ax.barh(place, found.total[ranked] - alone, left=alone, color=SKY, label="with others")
        _name_bars(ax, [found.names[i] for i in ranked])
        add_legend(ax, loc="lower right")
    ax.set_xlabel("share of the variance of the function")
    return ax


def _name_bars(ax: Any, names: list[str]) -> None:
    ax.set_yticks(np.arange(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.locator_params(axis="x", nbins=6)
