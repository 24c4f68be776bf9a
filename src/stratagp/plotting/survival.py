"""Survival as it is predicted beside survival as it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count, numbers
from stratagp.metrics.survival import kaplan_meier
from stratagp.plotting.answers import answers
from stratagp.plotting.style import BAND, add_legend, colours, one_axes

_TIMES = 100


def survival(model: Any, X: Any, y: Any, *, parts: int = 3, ax: Any = None) -> Any:
    """The mean of predicted survival curves, and the Kaplan-Meier estimate with its 95 % band, in parts of the rows.

    Rows are put in order of the median time that is predicted for them, and cut into ``parts`` of equal size. Where the
    dashed curve of a part stays in its band, what the model foretells comes true.

    Arguments:
        model: a fitted regressor with ``predict_survival``, as for ``likelihood="weibull"`` or ``"log-normal"``.
        X, y: rows that it was not trained on; times, and whether the event happened then.
        parts: of the rows.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import AutoGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 1))
    >>> y = np.column_stack([np.exp(X[:, 0] + 0.1 * rng.normal(size=60)), np.ones(60)])
    >>> gp = AutoGPRegressor(likelihood="log-normal", n_inducing=5, max_epochs=5, random_state=0).fit(X, y)
    >>> ax = survival(gp, X, y, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'time'
    """
    if not answers(model, "predict_survival"):
        raise InputError(f"survival needs a model with predict_survival(X, times), got {type(model).__name__}")
    truth, count = numbers(y, "y"), check_count(parts, "parts", 1)
    median = model.predict_quantiles(X, [0.5])[:, 0]
    if truth.ndim != 2 or len(truth) != len(median):
        raise InputError(f"y must have the {len(median)} rows of X, a time and an event each, got shape {truth.shape}")
    if count > len(median):
        raise InputError(f"parts must be at most the {len(median)} rows of X, got {count}")
    times = np.linspace(0, truth[:, 0].max(), _TIMES + 1)[1:]
    foretold = model.predict_survival(X, times)
    ax = one_axes(ax)
    part = median.argsort(kind="stable").argsort() * count // len(median)
    for k, colour in enumerate(colours(count)):
        chosen = part == k
        happened = kaplan_meier(truth[chosen], times)
        ax.fill_between(times, happened.low, happened.high, step="post", color=colour, alpha=BAND / 2, linewidth=0)
        label = f"{chosen.sum()} rows, median {np.median(median[chosen]):.3g}"
        ax.step(times, happened.share, where="post", color=colour, linewidth=1.2, label=label)
        ax.plot(times, foretold[chosen].mean(0), "--", color=colour)
    ax.plot([], [], color="grey", label="Kaplan-Meier, 95 % band")
    ax.plot([], [], "--", color="grey", label="mean of predictions")
    ax.set(xlabel="time", ylabel="share without the event", ylim=(0, 1.02), xlim=(0, times[-1]))
    add_legend(ax, loc="best")
    return ax
