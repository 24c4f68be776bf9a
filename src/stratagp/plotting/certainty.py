"""Whether a classifier knows where it is wrong: how certain it is of right and of wrong rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.metrics.checks import check_count
from stratagp.plotting.answers import answers, check_classifier
from stratagp.plotting.plot_data import labels
from stratagp.plotting.style import BLUE, ORANGE, add_legend, one_axes

_LEAST = 1e-6  # the least margin drawn
_HEADROOM = 1.35  # space above the tallest bar, for the legend


def certainty_histogram(model: Any, X: Any, y: Any, *, of: str = "scores", bins: int = 30, ax: Any = None) -> Any:
    """How far apart the two most probable classes are, in rows predicted right and in rows predicted wrong.

    The margin is ``certainty(X)`` of the model, the Bhattacharyya distance between its beliefs about the two classes,
    on a logarithmic axis; those below 1e-6 are in the first bin. Heights are shares of each group, so that both are
    visible; the legend has the number of rows.

    Arguments:
        model: a fitted classifier with ``certainty``: :class:`~stratagp.GPDRFClassifier`,
            :class:`~stratagp.DRFClassifier`, :class:`~stratagp.AutoGPClassifier`, ….
        X, y: rows that it was not trained on, and their classes.
        of: "scores" or "probabilities", as in ``certainty``.
        bins: the number of bins, of equal width on the logarithmic axis.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import DRFClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(100, 1))
    >>> drf = DRFClassifier(n_layers=1, n_features=5, max_epochs=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = certainty_histogram(drf, X, X[:, 0] > 0, ax=Figure().subplots())
    >>> ax.get_xscale()
    'log'
    """
    check_classifier(model, "certainty_histogram")
    if not answers(model, "certainty"):
        raise InputError(f"certainty_histogram needs a model with certainty(X), got {type(model).__name__}")
    count = check_count(bins, "bins", 1)
    margin = np.maximum(model.certainty(X, of=of), _LEAST)
    right = model.predict(X) == labels(y, len(margin))
    low, high = np.log10(margin.min()), np.log10(margin.max())
    edges = np.logspace(low, high if high > low else low + 1, count + 1)
    edges[0], edges[-1] = margin.min(), max(margin.max(), edges[-1])
    ax = one_axes(ax)
    for rows, name, colour in ((right, "right", BLUE), (~right, "wrong", ORANGE)):
        if not rows.any():
            ax.plot([], [], color=colour, label=f"{name}: no rows")
            continue
        middle = np.median(margin[rows])
        share = np.full(rows.sum(), 1 / rows.sum())
        options: dict[str, Any] = {"weights": share, "color": colour}
        ax.hist(margin[rows], edges, alpha=0.45, label=f"{name}: {rows.sum()} rows", **options)
        ax.hist(margin[rows], edges, histtype="step", linewidth=1.4, **options)
        ax.axvline(middle, color=colour, linewidth=1.2, linestyle="--")
    ax.set(xscale="log", xlabel=f"margin of the two most probable classes ({of})", ylabel="share of the group")
    ax.plot([], [], color="grey", linestyle="--", label="medians")
    ax.set_ylim(top=_HEADROOM * ax.dataLim.ymax)
    add_legend(ax, loc="upper left")
    return ax
