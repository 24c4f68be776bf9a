"""The pictures of a page, drawn from plain results, each with a text that tells in numbers what it shows.

They are SVG inside the page, in the colour of its text, so that they suit light and dark themes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stratagp import metrics
from stratagp.plotting.calibration import draw_coverage, draw_reliability, draw_residuals
from stratagp.plotting.dependence import Curves, draw_lines, draw_points
from stratagp.plotting.style import BLUE, ORANGE, add_legend, ink, library, tidy_dates
from stratagp.report.values import count, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # loaded when a picture is drawn
    Axes = Figure = Any

_SIZE = (4.6, 3.3)  # inches
_REACH = 1.96  # standard deviations, of a band
_CLASSES = 20  # bars of classes
_TICKS = 6  # on an axis of numbers, which may be long
_FEW = 30  # epochs, below which each is a point
_LONGEST = 28  # characters of a name on an axis
_INK = "#010203"  # stands for the colour of the page's text
_THEMED = {_INK: "currentColor", BLUE.lower(): "var(--blue)", ORANGE.lower(): "var(--orange)"}  # of the style
_SETTINGS: dict[str, Any] = {
    "text.parse_math": False,  # names may have dollar signs
    "axes.unicode_minus": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "stratagp",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10.0,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), "inherit"),
}
_TAG = re.compile(r"<[^>]*>")
_NAME = re.compile(r'(\bid="|url\(#|href="#)')
Drawn = tuple[str, str]  # what a picture shows in numbers, and what to look for in it


class Picture(NamedTuple):
    """A drawing as inline SVG, and what to look for in it."""

    svg: str
    caption: str


def draw_all(results: dict[str, Any]) -> dict[str, Any]:
    """Every picture that the results have data for, by name; the curves of columns are a list."""
    wanted: dict[str, Callable[..., Drawn]]
    if results["task"] == "regression":
        wanted = {"target": _histogram, "agreement": _agreement, "residuals": _residuals, "pit": _pit}
        wanted |= {"coverage": _coverage} if results["calibration"]["levels"] else {}
    else:
        wanted = {"target": _class_counts, "reliability": _reliability}
    wanted |= {"relevance": _relevance} if results["effects"]["relevance"] else {}
    wanted |= {"candidates": _candidates} if results["model"]["candidates"] else {}
    wanted |= {"history": _history} if results["history"] else {}
    wanted |= {"series": _series} if results["effects"].get("series") else {}
    wanted |= {"map": _map} if results["effects"].get("map") else {}
    drawn: dict[str, Any] = {name: _picture(name, draw, results) for name, draw in wanted.items()}
    columns = enumerate(results["effects"]["curves"])
    return drawn | {"curves": [_picture(f"curve{i}", _curve, results, column) for i, column in columns]}


def _picture(name: str, draw: Callable[..., Drawn], *results: dict[str, Any]) -> Picture:
    """Draw on new axes, without changing the state of pyplot."""
    with library("matplotlib").rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser's fonts have them
        figure = library("matplotlib.figure").Figure(figsize=_SIZE, layout="constrained")
        alt, caption = draw(figure.subplots(), *results)
        return Picture(_inline(figure, name, alt), caption)


def _inline(figure: Figure, name: str, alt: str) -> str:
    """The figure as an ``svg`` element with a text for those who cannot see it; the same figure gives the same text.

    ``name`` goes before every identifier, since those of one page must differ.
    """
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    found = text.getvalue()
    found = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", found[found.index("<svg") :], flags=re.DOTALL
    )

    def themed(tag: re.Match[str]) -> str:
        own = _NAME.sub(rf"\g<1>{name}-", tag[0])
        for colour, variable in _THEMED.items():
            own = own.replace(colour, variable)
        return own

    found = _TAG.sub(themed, found)
    box = re.search(r'viewBox="([^"]*)"', found)
    assert box is not None
    width = float(box[1].split()[2])
    head = f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(alt)}" style="max-width: {width * 4 / 3:.0f}px">'
    return head + re.sub(r"\n\s*", "\n", found[found.index(">") + 1 :].strip())


def _histogram(ax: Axes, results: dict[str, Any]) -> Drawn:
    target, name = results["data"]["target"], results["target"]
    edges, counts = np.array(target["edges"]), np.array(target["counts"])
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, edgecolor=BLUE, linewidth=0.4)
    ax.set(xlabel=_cut(name), ylabel="rows")
    ax.locator_params(axis="x", nbins=_TICKS)
    peak = int(counts.argmax())
    alt = (
        f"Histogram of {name}: mean {number(target['mean'])}, standard deviation {number(target['std'])}; most rows, "
        f"{counts[peak]}, lie between {number(edges[peak])} and {number(edges[peak + 1])}."
    )
    return alt, "The target in the training rows."


def _class_counts(ax: Axes, results: dict[str, Any]) -> Drawn:
    target = results["data"]["target"]
    names, counts = target["classes"][:_CLASSES], target["counts"][:_CLASSES]
    _bars(ax, names, counts, "rows")
    alt = "Rows of each class: " + ", ".join(f"{name} {n}" for name, n in zip(names, counts, strict=True)) + "."
    return alt, "How many training rows each class has." + _left_out(len(target["classes"]) - len(names))


def _agreement(ax: Axes, results: dict[str, Any]) -> Drawn:
    points, name = results["performance"]["points"], results["target"]
    predicted, true = np.array(points["predicted"], dtype=float), np.array(points["true"], dtype=float)
    ends = float(np.nanmin([predicted, true])), float(np.nanmax([predicted, true]))
    ax.plot(ends, ends, color=ink(ax), linewidth=0.8, linestyle=":", label="ideal")
    ax.plot(predicted, true, ".", color=BLUE, markersize=5, alpha=0.8)
    ax.set(xlabel=_cut(f"predicted {name}"), ylabel=_cut(f"true {name}"))
    ax.locator_params(nbins=_TICKS)
    add_legend(ax, loc="upper left")
    constant = np.ptp(predicted) == 0 or np.ptp(true) == 0 or len(true) < 2
    agree = "" if constant else f"; their correlation is {number(float(np.corrcoef(predicted, true)[0, 1]), 2)}"
    alt = f"True against predicted {name} for {count(len(true), 'row')}{agree}."
    return alt, "Each point is a row. On the dotted line, prediction and truth agree." + _shown(results)


def _residuals(ax: Axes, results: dict[str, Any]) -> Drawn:
    points = results["performance"]["points"]
    predicted, z = np.array(points["predicted"], dtype=float), np.array(points["z"], dtype=float)
    name = _cut(f"predicted {results['target']}")
    draw_residuals(ax, predicted, z, name, _REACH, f"± {_REACH} standard deviations")
    ax.locator_params(axis="x", nbins=_TICKS)
    inside = int(np.sum(np.abs(z) <= _REACH))
    alt = (
        f"Errors in standard deviations against predictions: {inside} of the {count(len(z), 'row')} shown lie within "
        f"± {_REACH}, the largest is {number(float(z[np.argmax(np.abs(z))]), 3)}."
    )
    caption = "Errors, in standard deviations of their predictions. A pattern is something that the model has missed."
    return alt, caption + _shown(results)


def _pit(ax: Axes, results: dict[str, Any]) -> Drawn:
    counts = np.array(results["calibration"]["pit"])
    even, places = counts.sum() / len(counts), np.arange(len(counts)) / len(counts)
    ax.bar(places, counts, 1 / len(counts), align="edge", color=BLUE, alpha=0.8, edgecolor=ink(ax), linewidth=0.5)
    ax.axhline(even, color=ORANGE, linewidth=1.5, linestyle="--", label="ideal")
    ax.set(xlabel="where the truth lies in the prediction", ylabel="rows", xlim=(0, 1), ylim=(0, 1.3 * counts.max()))
    add_legend(ax, loc="upper right")
    alt = (
        f"Histogram of where true values lie in their predicted distribution, in {len(counts)} bins: "
        f"{', '.join(number(each, 3) for each in counts.tolist())} rows; {number(even, 3)} each would be right."
    )
    caption = (
        "0 is the lowest value that the model thought possible, 1 the highest. Even bars are right; a bowl means that "
        "error bars are too narrow, a hill that they are too wide."
    )
    if results["calibration"]["counts"]:
        caption += " A count is spread between the probability of less and that of at most as much."
    return alt, caption


def _coverage(ax: Axes, results: dict[str, Any]) -> Drawn:
    found = results["calibration"]
    shares = np.array(found["inside"]) / found["rows"]
    draw_coverage(ax, np.array(found["promised"]), shares, found["rows"], found["counts"])
    pairs = zip(found["levels"], shares, strict=True)
    shown = ", ".join(f"{percent(level)} holds {percent(share)}" for level, share in pairs)
    caption = (
        "Only points outside the grey band matter: above it intervals are too wide, below it too narrow. A point just "
        "outside may be chance."
    )
    return f"Share of rows inside intervals against their level: {shown}.", caption


def _reliability(ax: Axes, results: dict[str, Any]) -> Drawn:
    found = results["calibration"]
    bins = metrics.Reliability(**{name: np.array(values, dtype=float) for name, values in found["bins"].items()})
    label = f"error {found['error']:.3f} ({found['error_low']:.3f} to {found['error_high']:.3f})"
    draw_reliability(ax, bins, "probability of the most probable class", "share that is right", label)
    shown = ", ".join(
        f"probability {percent(bins.probability[b])}: {percent(bins.share[b])} right of {bins.rows[b]:.0f}"
        for b in np.flatnonzero(bins.rows > 0)
    )
    caption = (
        "On the dotted line probabilities are right. Below it the model is too sure. The bars at the bottom count the "
        "rows, on the axis at the right."
    )
    return f"Share of right rows against the predicted probability: {shown}.", caption


def _relevance(ax: Axes, results: dict[str, Any]) -> Drawn:
    shares = results["effects"]["relevance"]
    _bars(ax, [each["name"] for each in shares], [each["share"] for each in shares], "share of the effect")
    shown = ", ".join(f"{each['name']} {percent(each['share'], 2)}" for each in shares)
    caption = "How much predictions change when the values of a column are shuffled, as a share of all columns."
    return f"Relevance of columns: {shown}.", caption + _left_out(results["effects"]["more"])


def _candidates(ax: Any, results: dict[str, Any]) -> Drawn:
    board = sorted(results["model"]["candidates"], key=lambda each: -each["density"])
    ax.figure.set_size_inches(_SIZE[0], max(1.6, 0.8 + 0.27 * len(board)))
    for place, each in enumerate(board):
        ax.plot(each["density"], place, "o", color=BLUE if each["weight"] else ORANGE)
    ax.set_yticks(range(len(board)), [_cut(each["name"]) for each in board])
    ax.invert_yaxis()
    ax.set(xlabel="mean log density of held-out rows")
    shown = ", ".join(f"{each['name']} {number(each['density'], 3)}" for each in board)
    caption = "What candidates said of rows that they had not seen: more is better. Members of the mixture are blue."
    return f"Held-out log density of candidates: {shown}.", caption


def _curve(ax: Axes, results: dict[str, Any], found: dict[str, Any]) -> Drawn:
    parts, name, is_category = found["curves"], found["name"], found["kind"] == "category"
    mean, low, high = (
        np.stack([np.array(part[key], dtype=float) for part in parts], 1) for key in ("mean", "low", "high")
    )
    kinds: dict[str, Any] = {"number": float, "date": "datetime64[s]", "category": object}
    values = np.array(found["values"], dtype=kinds[found["kind"]])
    of_classes = results["task"] == "classification"
    axis = ("probability" if len(parts) > 1 else parts[0]["name"]) if of_classes else results["target"]
    (draw_points if is_category else draw_lines)(
        ax, values, Curves(mean, low, high, found["band"], [part["name"] for part in parts])
    )
    ax.set(xlabel=_cut(name), ylabel=_cut(axis))
    rug = np.array(found["rug"], dtype=float)
    ax.plot(rug, np.full(len(rug), 0.02), "|", color=ink(ax), alpha=0.4, transform=ax.get_xaxis_transform())
    if found["kind"] == "number":
        ax.locator_params(axis="x", nbins=_TICKS)
    add_legend(ax)
    if is_category:
        shown = ", ".join(f"{value} {number(m, 3)}" for value, m in zip(found["values"], mean[:, 0], strict=True))
        alt = f"Predicted {axis} by {name} ({parts[0]['name']}): {shown}."
    else:
        ends = [
            f"{part['name']} goes from {number(mean[0, c], 3)} to {number(mean[-1, c], 3)}, "
            f"between {number(mean[:, c].min(), 3)} and {number(mean[:, c].max(), 3)}"
            for c, part in enumerate(parts)
        ]
        first, last = number(found["values"][0]), number(found["values"][-1])
        alt = f"Predicted {axis} over {name} from {first} to {last}: {'; '.join(ends)}."
    caption = f"The effect of {name}, averaged over the other columns."
    if found["more_values"]:
        caption += f" The most frequent values are shown.{_left_out(found['more_values'])}"
    if found["more_curves"]:
        caption += f" The classes that change most are shown.{_left_out(found['more_curves'])}"
    return alt, caption


def _series(ax: Axes, results: dict[str, Any]) -> Drawn:
    found, name = results["effects"]["series"], results["target"]
    days, seen = (np.array(found[key], dtype="datetime64[s]") for key in ("dates", "seen"))
    mean, low, high = (np.array(found[key], dtype=float) for key in ("mean", "low", "high"))
    ax.plot(seen, np.array(found["values"], dtype=float), ".", color=ink(ax), markersize=3, alpha=0.5, label="rows")
    ax.fill_between(days, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 %")
    ax.plot(days, mean, color=BLUE, label="predicted")
    last: Any = np.datetime64(found["last"], "s")
    ax.axvline(last, color=ORANGE, linestyle="--", linewidth=1.0, label="last row")
    ax.set(xlabel=_cut(found["name"]), ylabel=_cut(name))
    tidy_dates(ax.xaxis, days)
    add_legend(ax)
    alt = (
        f"{name} over {found['name']}: predicted {number(mean[0], 3)} at {found['dates'][0]} and {number(mean[-1], 3)} "
        f"at {found['dates'][-1]}, between {number(low[-1], 3)} and {number(high[-1], 3)}."
    )
    others = "" if found["alone"] else ", for typical values of the other columns"
    return alt, f"The target over time, and the forecast beyond the last row{others}."


def _map(ax: Any, results: dict[str, Any]) -> Drawn:
    found, name = results["effects"]["map"], results["target"]
    east, north = (np.array(found[key], dtype=float) for key in ("east", "north"))
    mean = np.array(found["mean"], dtype=float).reshape(len(north), len(east))
    drawn = ax.pcolormesh(east, north, mean, shading="nearest", cmap="viridis")
    ax.figure.colorbar(drawn, ax=ax, label=_cut(f"predicted {name}"))
    ax.plot(*(np.array(part, dtype=float) for part in found["seen"]), ".", color="white", markersize=2, alpha=0.7)
    ax.set(xlabel=_cut(found["names"][0]), ylabel=_cut(found["names"][1]))
    ax.locator_params(nbins=_TICKS)
    top, bottom = (np.unravel_index(place, mean.shape) for place in (mean.argmax(), mean.argmin()))
    ends = [f"{number(mean[i, j], 3)} at {number(east[j], 3)}, {number(north[i], 3)}" for i, j in (bottom, top)]
    others = "" if found["alone"] else ", for typical values of the other columns"
    caption = f"Predictions over the map{others}. Points are rows; far from them predictions return to the average."
    return f"Map of predicted {name}, from {ends[0]} to {ends[1]}.", caption


def _history(ax: Axes, results: dict[str, Any]) -> Drawn:
    start, shown = 0, []
    for i, phase in enumerate(results["history"]):
        x, values = start + np.array(phase["epochs"]), phase["values"]
        style = ("." if len(x) < _FEW else "") + ("-" if i % 2 == 0 else "--")
        label = f"phase {phase['number']}: {phase['ending']}"
        ax.plot(x, np.array(values, dtype=float), style, color=(BLUE, ORANGE)[i % 2], label=label)
        epochs, start = count(phase["epochs"][-1], "epoch"), int(x[-1])
        shown.append(f"from {number(values[0])} to {number(values[-1])} in {epochs}, {phase['ending']}")
    ax.set(xlabel="epochs", ylabel="objective")
    add_legend(ax, loc="lower right")
    caption = "What training maximises, epoch by epoch. If the curve still climbs at its end, train for more epochs."
    return f"The objective of training: {'; then '.join(shown)}.", caption


def _bars(ax: Any, names: list[str], values: list[float], what: str) -> None:
    ax.figure.set_size_inches(_SIZE[0], max(1.6, 0.8 + 0.27 * len(names)))
    ax.barh(np.arange(len(names)), values, color=BLUE)
    ax.set_yticks(np.arange(len(names)), [_cut(name) for name in names])
    ax.invert_yaxis()
    ax.set(xlabel=what, xlim=(0, None))
    ax.locator_params(axis="x", nbins=6)


def _shown(results: dict[str, Any]) -> str:
    """How many rows a picture shows, if there are more."""
    shown, rows = len(results["performance"]["points"]["true"]), results["performance"]["rows"]
    return f" {shown} of {rows:,} rows are shown." if shown < rows else ""


def _left_out(more: int) -> str:
    return f" {more:,} more {'is' if more == 1 else 'are'} left out." if more > 0 else ""


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
