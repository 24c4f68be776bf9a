"""Whether predictions keep their promises: shares, intervals and residuals of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.stats import binom

from stratagp import metrics
from stratagp.errors import InputError
from stratagp.estimators.regression import is_of_counts
from stratagp.metrics.checks import check_level
from stratagp.plotting.answers import check_classifier, check_regressor, interval, moments, promised
from stratagp.plotting.plot_data import PlotData, name_of, numbers
from stratagp.plotting.style import BAND, BLUE, ORANGE, SKY, add_legend, ink, library, one_axes, percent, tidy_dates

_BARS = 0.25  # height of the tallest bar of counts, relative to the picture
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def reliability(
    model: Any, X: Any, y: Any, *, of: Any = None, bins: int = 10, level: float = 0.95, ax: Any = None
) -> Any:
    """How often the most probable class is right against its probability, with binomial intervals.

    Bars at the bottom show the number of rows in each bin, on their own axis at the right; the legend has the
    expected calibration error with its interval.

    Arguments:
        model: a fitted classifier with ``predict_proba``.
        X, y: rows that it was not trained on, and their classes.
        of: a class, to plot its probability instead.
        bins: the number of bins of the probability.
        level: of the intervals.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPClassifier
    >>> X = np.random.default_rng(0).normal(size=(80, 1))
    >>> gp = GPClassifier().fit(X[:40], X[:40, 0] > 0)
    >>> reliability(gp, X[40:], X[40:, 0] > 0, ax=Figure().subplots()).get_xlabel()
    'probability of the most probable class'
    """
    check_classifier(model, "reliability")
    p, names = model.predict_proba(X), model.classes_
    found = metrics.reliability(y, p, names, of, bins, level)
    error = metrics.ece(y, p, names, of, bins)
    low, high = metrics.ece_interval(y, p, names, of, bins, level)
    what = "of the most probable class" if of is None else f"of {of}"
    label = f"error {error:.3f} ({low:.3f} to {high:.3f})"
    share = "share that is right" if of is None else f"share that is {of}"
    return draw_reliability(one_axes(ax), found, f"probability {what}", share, label)


def draw_reliability(ax: Any, found: metrics.Reliability, name: str, share: str, label: str) -> Any:
    """Shares of rows against their probability, with axes named ``share`` and ``name``; ``label`` is for the legend."""
    some = found.rows > 0
    ends = np.abs(np.stack([found.share - found.lower, found.upper - found.share]))[:, some]
    ax.plot([0, 1], [0, 1], color=ink(ax), linewidth=0.8, linestyle=":", label="as it should be")
    ax.errorbar(found.probability[some], found.share[some], ends, fmt="o-", color=BLUE, capsize=3, label=label)
    counts = ax.twinx()
    counts.bar(found.edges[:-1], found.rows, np.diff(found.edges), align="edge", color=ORANGE, alpha=0.6, zorder=0)
    counts.set_ylim(0, found.rows.max() / _BARS)
    counts.set_ylabel("rows (bars)", loc="bottom")
    counts.yaxis.set_major_locator(library("matplotlib.ticker").FixedLocator([0, found.rows.max()]))
    counts.spines["right"].set_visible(True)
    ax.set_zorder(counts.get_zorder() + 1)  # points in front of bars
    ax.patch.set_visible(False)
    ax.set(xlabel=name, ylabel=share, xlim=(0, 1), ylim=(0, 1.02))
    add_legend(ax, loc="upper left")
    return ax


def coverage_curve(model: Any, X: Any, y: Any, *, levels: Sequence[float] = LEVELS, ax: Any = None) -> Any:
    """The share of targets inside the model's intervals against their level, and the range that chance allows.

    The band contains 95 % of what a calibrated model gives on this many rows (binomial), for each level separately:
    above it intervals are too wide, below too narrow, and one point just outside may be chance. Intervals of counts end
    on whole numbers; they are drawn at their own probability, which is more than their level.

    Arguments:
        model: a fitted regressor.
        X, y: rows that it was not trained on, and their targets.
        levels: of the intervals.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 1))
    >>> gp = GPRegressor(max_iterations=0).fit(X[:40], X[:40, 0])
    >>> coverage_curve(gp, X[40:], X[40:, 0], ax=Figure().subplots()).get_ylabel()
    'share of targets inside'
    """
    check_regressor(model, "coverage_curve")
    targets = numbers(y, len(X))
    chosen = np.sort([check_level(level, "levels") for level in levels])
    ends = [interval(model, X, float(level)) for level in chosen]
    shares = np.array([np.mean((low <= targets) & (targets <= high)) for low, high in ends])
    wanted = np.array([promised(model, X, each, float(level)) for each, level in zip(ends, chosen, strict=True)])
    return draw_coverage(one_axes(ax), wanted, shares, len(targets), whole=is_of_counts(model))


def draw_coverage(ax: Any, wanted: np.ndarray, shares: np.ndarray, n: int, whole: bool) -> Any:
    """Observed shares of n rows against the nominal ones, and the band that chance allows.

    ``whole``: whether intervals end on whole numbers, so that their probability is not their level.
    """
    low, high = (binom.ppf(tail, n, wanted) / n for tail in (0.025, 0.975))
    ax.fill_between(wanted, low, high, color=ink(ax), alpha=0.15, linewidth=0, label="95 % of chance, point by point")
    ax.plot([0, 1], [0, 1], color=ink(ax), linewidth=0.8, linestyle=":")
    ax.plot(wanted, shares, "o-", color=BLUE, markersize=4, label=f"observed, {n} rows")
    name = "probability of the interval" if whole else "level of the interval"
    ax.set(xlabel=name, ylabel="share of targets inside", xlim=(0, 1), ylim=(0, 1))
    add_legend(ax, loc="upper left")
    return ax


def residuals(
    model: Any, X: Any, y: Any, *, against: Any = None, level: float = 0.95, target: str | None = None, ax: Any = None
) -> Any:
    """Residuals in standard deviations of their prediction, ``(y − m)/s``, against the prediction or a column.

    The band is where a Gaussian with these deviations has ``level`` of them; the legend shows how many are there. Any
    pattern is something that the model missed.

    Arguments:
        model: a fitted regressor with ``predict(X, return_std=True)``.
        X, y: rows that it was not trained on, and their targets.
        against: the name or number of a column of numbers; by default the predicted mean.
        target: the name of the target, with its unit.

    >>> from matplotlib.figure import Figure
    >>> from stratagp import GPRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 1))
    >>> gp = GPRegressor(max_iterations=0).fit(X[:40], X[:40, 0])
    >>> residuals(gp, X[40:], X[40:, 0], target="height (m)", ax=Figure().subplots()).get_xlabel()
    'predicted height (m)'
    """
    check_regressor(model, "residuals")
    mean, std = moments(model, X)
    targets = numbers(y, len(mean))
    values, name = mean, f"predicted {name_of(y, target)}"
    if against is not None:
        rows = PlotData(X, model)
        j = rows.position(against)
        if not rows.is_number(j, model):
            raise InputError(f"against must be a column of numbers, but {rows.names[j]!r} is a category")
        values, name = rows.column(j), rows.names[j]
    z, reach = (targets - mean) / std, NormalDist().inv_cdf(0.5 + check_level(level) / 2)
    label = f"{percent(level)} expected, {percent(round(float(np.mean(np.abs(z) <= reach)), 3))} found"
    return draw_residuals(one_axes(ax), values, z, name, reach, label)


def draw_residuals(ax: Any, values: np.ndarray, z: np.ndarray, name: str, reach: float, label: str) -> Any:
    """Residuals ``z`` in standard deviations against ``values``, named ``name``, and a band of ``± reach``."""
    ax.axhspan(-reach, reach, color=SKY, alpha=BAND, linewidth=0, label=label)
    ax.axhline(0, color=BLUE, linewidth=0.8)
    ax.plot(values, z, ".", color=ink(ax), markersize=4, alpha=0.7)
    tidy_dates(ax.xaxis, values)
    edge = 1.15 * max(reach, float(np.abs(z).max()))
    ax.set(xlabel=name, ylabel="residual / standard deviation", ylim=(-edge, edge))
    add_legend(ax)
    return ax
