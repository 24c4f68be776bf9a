"""The look of all pictures: colours for colour-blind readers, legible on light and dark backgrounds."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from stratagp.errors import InputError

# The palette of Okabe and Ito (2008) without black and yellow, which vanish on one of the two backgrounds.
BLUE, ORANGE, GREEN, PINK, SKY, AMBER = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER)
BAND = 0.3  # opacity of a band; nested bands add up
LINES, MARKERS = ("-", "--", "-.", ":"), "os^DvP"  # vary with the colours, for readers who see none
_ENDS = 0.1, 0.85  # of a colour map; the rest vanishes on a dark or a light background
_LONG = 6  # entries that make a legend long
_WIDTH, _HEIGHT = 4.8, 3.5  # inches per panel


def library(name: str = "matplotlib.pyplot") -> Any:
    """A part of matplotlib, loaded on first use."""
    return importlib.import_module(name)


def one_axes(ax: Any) -> Any:
    """The Axes to draw on: those given, or new ones."""
    if ax is None:
        return library().subplots(figsize=(_WIDTH, _HEIGHT), layout="constrained")[1]
    if not isinstance(ax, library("matplotlib.axes").Axes):
        raise InputError(f"ax must be matplotlib Axes, got {type(ax).__name__}")
    return ax


def many_axes(ax: Any, count: int) -> np.ndarray:
    """``count`` Axes: those given, or new ones side by side."""
    if ax is None:
        rows, columns = -(-count // 3), min(count, 3)
        size = (_WIDTH * columns * 0.85, _HEIGHT * rows)
        figure, made = library().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for spare in made.ravel()[count:]:
            figure.delaxes(spare)
        return np.asarray(made.ravel()[:count])
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(given) != count:
        raise InputError(f"ax must be {count} matplotlib Axes, one for each panel, got {len(given)}")
    return np.array([one_axes(each) for each in given], dtype=object)


def ink(ax: Any) -> Any:
    """The colour of the axes' own text, which stands out from the background."""
    return ax.xaxis.label.get_color()


def colours(count: int) -> list[Any]:
    """``count`` colours, from a colour map if the palette has too few."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    return list(library("matplotlib").colormaps["viridis"](np.linspace(*_ENDS, count)))


def add_legend(ax: Any, **options: Any) -> None:
    """Add a translucent legend where it is least in the way, in two columns if it is long."""
    count = len(options.get("handles", ax.get_legend_handles_labels()[1]))
    ax.legend(fontsize="small", framealpha=0.6, ncols=2 if count > _LONG else 1, **options)


def tidy_dates(axis: Any, values: np.ndarray) -> None:
    """Use short date labels, because long ones would overlap."""
    if values.dtype.kind == "M":
        dates = library("matplotlib.dates")
        axis.set_major_locator(dates.AutoDateLocator(maxticks=7))
        axis.set_major_formatter(dates.ConciseDateFormatter(axis.get_major_locator()))


def percent(level: float) -> str:
    """0.95 as ``95 %``."""
    return f"{100 * level:.3g} %"
