"""How training went."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.plotting.answers import answer
from stratagp.plotting.style import BLUE, add_legend, colours, ink, one_axes
from stratagp.training import History

_WHAT = {"objective": "objective (mean of an epoch)", "score": "score of held-out rows"}


def learning_curve(model: Any, *, what: str = "objective", against: str = "epochs", ax: Any = None) -> Any:
    """The objective, or the score of held-out rows, after each epoch; phases of training have their own colours.

    Arguments:
        model: an estimator trained by mini-batches (with ``histories_``).
        what: "objective", which training raises, or "score", the mean log density of held-out rows
            (``validation=0.1``).
        against: "epochs" or "seconds".

    >>> from matplotlib.figure import Figure
    >>> from stratagp import DRFRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(50, 1))
    >>> drf = DRFRegressor(n_layers=1, n_features=5, max_epochs=50, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> ax = learning_curve(drf, ax=Figure().subplots())
    >>> bool(ax.get_lines()[0].get_ydata()[-1] > ax.get_lines()[0].get_ydata()[0])
    True
    """
    if what not in _WHAT:
        raise InputError(f"what must be 'objective' or 'score', got {what!r}")
    if against not in ("epochs", "seconds"):
        raise InputError(f"against must be 'epochs' or 'seconds', got {against!r}")
    kept = histories_of(model)
    if not kept:
        raise InputError(
            f"learning_curve needs a model trained by mini-batches, but {type(model).__name__} has no history: closed "
            "forms are maximised by L-BFGS, whose result is in result_"
        )
    drawn = [each.values if what == "objective" else each.scores for each in kept]
    phases = [number for number, values in enumerate(drawn) if values]
    if not phases:
        raise InputError(f"the model has no {what}: to record scores, fit with validation=0.1, for example")
    ax, start = one_axes(ax), 0.0
    shades = colours(len(phases)) if len(phases) > 1 else [BLUE]
    for number, colour in zip(phases, shades, strict=True):
        history, values = kept[number], drawn[number]
        x = start + (np.arange(1, len(values) + 1) if against == "epochs" else np.asarray(history.times[: len(values)]))
        marker = "." if len(values) < 30 else None
        ax.plot(x, values, color=colour, marker=marker, label=f"phase {number + 1}: {history.ending}")
        start = float(x[-1])
        if number != phases[-1]:
            ax.axvline(start, color=ink(ax), linewidth=0.6, linestyle=":")
    ax.set(xlabel=against, ylabel=_WHAT[what])
    add_legend(ax, loc="lower right")
    return ax


def histories_of(model: Any) -> list[Any]:
    """The histories of a model's training phases by mini-batches; empty if there were none."""
    result = answer(model, "result_")
    return list(answer(model, "histories_") or []) or ([result] if isinstance(result, History) else [])
