"""The pictures of a page, drawn from plain results, each with a text that says in numbers what it shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stratagp import metrics
from stratagp.plotting.calibration import draw_coverage, draw_reliability, draw_residuals
from stratagp.plotting.dependence import Curves, draw_curves
from stratagp.plotting.style import BLUE, ORANGE, add_legend, ink, library
from stratagp.report.formats import count, number, percent
from stratagp.report.svg import SETTINGS, inline

_SIZE = (4.6, 3.3)  # inches
_REACH = 1.96  # standard deviations, of a band
_CLASSES = 20  # bars of classes
_TICKS = 6  # along an axis of numbers, which may be long ones
_FEW = 30  # epochs, up to which each is a point
_LONGEST = 28  # letters of a name beside an axis


class Picture(NamedTuple):
    """A drawing as inline SVG, which says what it shows in numbers, and what to look for in it."""

    svg: str
    caption: str


def draw_all(results: dict[str, Any]) -> dict[str, Any]:
    """Every picture that the results have data for, by name; curves of columns are a list."""
    drawn: dict[str, Any] = {"curves": [_curve(results, i) for i in range(len(results["effects"]["curves"]))]}
    drawn["target"] = (_histogram if results["task"] == "regression" else _class_counts)(results)
    if results["task"] == "regression":
        drawn |= {"agreement": _agreement(results), "residuals": _residuals(results), "pit": _pit(results)}
        if results["calibration"]["levels"]:
            drawn["coverage"] = _coverage(results)
    else:
        drawn["reliability"] = _reliability(results)
    if results["effects"]["relevance"]:
        drawn["relevance"] = _relevance(results)
    if results["history"]:
        drawn["history"] = _history(results)
    return drawn


def _picture(
    name: str, draw: Callable[[Any], Any], alt: str, caption: str, size: tuple[float, float] = _SIZE
) -> Picture:
    """Draw on new axes without the state of pyplot, so that nothing outside is changed."""
    with library("matplotlib").rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser's fonts have them
        figure = library("matplotlib.figure").Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        return Picture(inline(figure, name, alt), caption)


def _histogram(results: dict[str, Any]) -> Picture:
    target, name = results["data"]["target"], results["target"]
    edges, counts = np.array(target["edges"]), np.array(target["counts"])

    def draw(ax: Any) -> None:
        ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, edgecolor=BLUE, linewidth=0.4)
        ax.set(xlabel=_cut(name), ylabel="rows")
        ax.locator_params(axis="x", nbins=_TICKS)

    peak = int(counts.argmax())
    alt = (
        f"Histogram of {name}: mean {number(target['mean'])}, standard deviation {number(target['std'])}; most rows, "
        f"{counts[peak]}, lie between {number(edges[peak])} and {number(edges[peak + 1])}."
    )
    return _picture("target", draw, alt, "How the target is spread over the training rows.")


def _class_counts(results: dict[str, Any]) -> Picture:
    target = results["data"]["target"]
    names, counts = target["classes"][:_CLASSES], target["counts"][:_CLASSES]
    alt = "Rows of each class: " + ", ".join(f"{name} {n}" for name, n in zip(names, counts, strict=True)) + "."
    caption = "How many training rows each class has." + _left_out(len(target["classes"]) - len(names))
    return _picture("target", lambda ax: _bars(ax, names, counts, "rows"), alt, caption, _bars_size(len(names)))


def _agreement(results: dict[str, Any]) -> Picture:
    points, name = results["performance"]["points"], results["target"]
    predicted, true = _numbers(points["predicted"]), _numbers(points["true"])

    def draw(ax: Any) -> None:
        ends = float(np.nanmin([predicted, true])), float(np.nanmax([predicted, true]))
        ax.plot(ends, ends, color=ink(ax), linewidth=0.8, linestyle=":", label="as it should be")
        ax.plot(predicted, true, ".", color=BLUE, markersize=5, alpha=0.8)
        ax.set(xlabel=_cut(f"predicted {name}"), ylabel=_cut(f"true {name}"))
        ax.locator_params(nbins=_TICKS)
        add_legend(ax, loc="upper left")

    constant = np.ptp(predicted) == 0 or np.ptp(true) == 0 or len(true) < 2
    agree = "" if constant else f"; their correlation is {number(float(np.corrcoef(predicted, true)[0, 1]), 2)}"
    alt = f"True against predicted {name} for {count(len(true), 'row')}{agree}."
    caption = "Each point is a row; on the dotted line, prediction and truth agree." + _shown(results)
    return _picture("agreement", draw, alt, caption)


def _residuals(results: dict[str, Any]) -> Picture:
    points = results["performance"]["points"]
    predicted, z = _numbers(points["predicted"]), _numbers(points["z"])
    name = _cut(f"predicted {results['target']}")
    inside = int(np.sum(np.abs(z) <= _REACH))
    alt = (
        f"Errors in standard deviations against predictions: {inside} of the {count(len(z), 'row')} shown lie within "
        f"± {_REACH}, the largest is {number(float(z[np.argmax(np.abs(z))]), 3)}."
    )
    caption = "Errors, in standard deviations of their prediction. Any pattern is something that the model has missed."
    caption += _shown(results)

    def draw(ax: Any) -> None:
        draw_residuals(ax, predicted, z, name, _REACH, f"± {_REACH} standard deviations")
        ax.locator_params(axis="x", nbins=_TICKS)

    return _picture("residuals", draw, alt, caption)


def _pit(results: dict[str, Any]) -> Picture:
    counts = np.array(results["calibration"]["pit"])
    even = counts.sum() / len(counts)

    def draw(ax: Any) -> None:
        places = np.arange(len(counts)) / len(counts)
        ax.bar(places, counts, 1 / len(counts), align="edge", color=BLUE, alpha=0.8, edgecolor=ink(ax), linewidth=0.5)
        ax.axhline(even, color=ORANGE, linewidth=1.5, linestyle="--", label="as it should be")
        ax.set(
            xlabel="where the truth lies in the prediction", ylabel="rows", xlim=(0, 1), ylim=(0, 1.3 * counts.max())
        )
        add_legend(ax, loc="upper right")

    alt = (
        f"Histogram of where true values lie in their predicted distribution, in {len(counts)} bins: "
        f"{', '.join(number(each, 3) for each in counts.tolist())} rows; {number(even, 3)} each would be right."
    )
    caption = (
        "0 is the lowest that was thought possible, 1 the highest. Even bars are right; a bowl means error bars that "
        "are too narrow, a hill too wide ones."
    )
    if results["calibration"]["counts"]:
        caption += " A count stands for all between the probability of less and that of at most as much."
    return _picture("pit", draw, alt, caption)


def _coverage(results: dict[str, Any]) -> Picture:
    found = results["calibration"]
    levels, wanted, n = found["levels"], np.array(found["promised"]), found["rows"]
    shares = np.array(found["inside"]) / n
    said = ", ".join(f"{percent(level)} holds {percent(share)}" for level, share in zip(levels, shares, strict=True))
    caption = (
        "Only points outside the grey band count: above it intervals are too wide, below it too narrow; one point just "
        "outside may be chance."
    )
    alt = f"Share of rows inside intervals against their level: {said}."
    return _picture("coverage", lambda ax: draw_coverage(ax, wanted, shares, n, found["counts"]), alt, caption)


def _reliability(results: dict[str, Any]) -> Picture:
    found = results["calibration"]
    bins = metrics.Reliability(**{name: _numbers(values) for name, values in found["bins"].items()})
    label = f"error {found['error']:.3f} ({found['error_low']:.3f} to {found['error_high']:.3f})"
    some = np.flatnonzero(bins.rows > 0)
    said = ", ".join(
        f"probability {percent(bins.probability[b])}: {percent(bins.share[b])} right of {bins.rows[b]:.0f}"
        for b in some
    )
    caption = (
        "On the dotted line probabilities are shares. Points below it mean that the model is too sure; bars at the "
        "bottom tell how many rows there are, on the axis at the right."
    )

    def draw(ax: Any) -> None:
        draw_reliability(ax, bins, "probability of the most probable class", "share that is right", label)

    return _picture(
        "reliability", draw, f"Share of right rows against the probability that was given: {said}.", caption
    )


def _relevance(results: dict[str, Any]) -> Picture:
    shares = results["effects"]["relevance"]
    names, values = [each["name"] for each in shares], [each["share"] for each in shares]
    alt = "Relevance of columns: " + ", ".join(f"{n} {percent(v, 2)}" for n, v in zip(names, values, strict=True)) + "."
    caption = "The share of each column in what is predicted: how much predictions change when its values are shuffled."
    caption += _left_out(results["effects"]["more"])

    def draw(ax: Any) -> None:
        _bars(ax, names, values, "share of the effect")

    return _picture("relevance", draw, alt, caption, _bars_size(len(names)))


def _curve(results: dict[str, Any], i: int) -> Picture:
    found = results["effects"]["curves"][i]
    parts, name = found["curves"], found["name"]
    mean, low, high = (np.stack([_numbers(part[key]) for part in parts], 1) for key in ("mean", "low", "high"))
    curves = Curves(mean, low, high, found["band"], [part["name"] for part in parts])
    kinds: dict[str, Any] = {"number": float, "date": "datetime64[s]", "category": object}
    values = np.array(found["values"], dtype=kinds[found["kind"]])
    of_classes = results["task"] == "classification"
    axis = ("probability" if len(parts) > 1 else parts[0]["name"]) if of_classes else results["target"]

    def draw(ax: Any) -> None:
        draw_curves(ax, values, curves, found["kind"] != "category")
        ax.set(xlabel=_cut(name), ylabel=_cut(axis))
        rug = _numbers(found["rug"])
        ax.plot(rug, np.full(len(rug), 0.02), "|", color=ink(ax), alpha=0.4, transform=ax.get_xaxis_transform())
        if found["kind"] == "number":
            ax.locator_params(axis="x", nbins=_TICKS)
        add_legend(ax)

    caption = f"The effect of {name}, other columns averaged."
    if found["more_values"]:
        caption += f" Of its values, the most frequent are shown.{_left_out(found['more_values'])}"
    if found["more_curves"]:
        caption += f" The classes that change most are shown.{_left_out(found['more_curves'])}"
    return _picture(f"curve{i}", draw, _curve_text(found, mean, axis), caption)


def _curve_text(found: dict[str, Any], mean: np.ndarray, axis: str) -> str:
    values = found["values"]
    if found["kind"] == "category":
        said = ", ".join(f"{value} {number(m, 3)}" for value, m in zip(values, mean[:, 0], strict=True))
        return f"Predicted {axis} by {found['name']} ({found['curves'][0]['name']}): {said}."
    ends = [
        f"{part['name']} goes from {number(mean[0, c], 3)} to {number(mean[-1, c], 3)}, "
        f"between {number(mean[:, c].min(), 3)} and {number(mean[:, c].max(), 3)}"
        for c, part in enumerate(found["curves"])
    ]
    return f"Predicted {axis} over {found['name']} from {number(values[0])} to {number(values[-1])}: {'; '.join(ends)}."


def _history(results: dict[str, Any]) -> Picture:
    phases = results["history"]

    def draw(ax: Any) -> None:
        start = 0
        for i, (phase, colour) in enumerate(zip(phases, [BLUE, ORANGE] * len(phases), strict=False)):
            x = start + np.array(phase["epochs"])
            style = ("." if len(x) < _FEW else "") + ("-" if i % 2 == 0 else "--")
            label = f"phase {phase['number']}: {phase['ending']}"
            ax.plot(x, _numbers(phase["values"]), style, color=colour, label=label)
            start = int(x[-1])
        ax.set(xlabel="epochs", ylabel="objective")
        add_legend(ax, loc="lower right")

    said = [
        f"from {number(phase['values'][0])} to {number(phase['values'][-1])} in {count(phase['epochs'][-1], 'epoch')}, "
        f"{phase['ending']}"
        for phase in phases
    ]
    caption = "What training maximises, epoch by epoch. A curve that still climbs at its end asks for more epochs."
    return _picture("history", draw, f"The objective of training: {'; then '.join(said)}.", caption)


def _bars(ax: Any, names: list[str], values: list[float], what: str) -> None:
    ax.barh(np.arange(len(names)), values, color=BLUE)
    ax.set_yticks(np.arange(len(names)), [_cut(name) for name in names])
    ax.invert_yaxis()
    ax.set(xlabel=what, xlim=(0, None))
    ax.locator_params(axis="x", nbins=6)


def _bars_size(n: int) -> tuple[float, float]:
    return _SIZE[0], max(1.6, 0.8 + 0.27 * n)


def _shown(results: dict[str, Any]) -> str:
    """How many rows a picture of points shows, where there are more."""
    shown, rows = len(results["performance"]["points"]["true"]), results["performance"]["rows"]
    return f" {shown} of {rows:,} rows are shown." if shown < rows else ""


def _left_out(more: int) -> str:
    return f" {more:,} more {'is' if more == 1 else 'are'} left out." if more > 0 else ""


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _numbers(values: list[Any]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
