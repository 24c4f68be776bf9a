"""Scores of the model beside those of baselines, and the sentence about who is better."""

from __future__ import annotations

from typing import Any, NamedTuple

from stratagp.metrics.calibration import binomial_interval
from stratagp.report.formats import count, number, percent

_SHARES = ("accuracy", "error", "coverage95")  # shown in percent
# what a score is called, and whether more of it is better; None where it should be as promised
NAMES: dict[str, tuple[str, bool | None]] = {
    "rmse": ("root mean squared error", False),
    "mae": ("mean absolute error", False),
    "nlpd": ("negative log density", False),
    "crps": ("continuous ranked probability score", False),
    "coverage95": ("share inside the 95 % intervals", None),
    "r2": ("R², share of variance explained", True),
    "accuracy": ("share of rows that are right", True),
    "error": ("share of rows that are wrong", False),
    "log_loss": ("log loss", False),
    "brier": ("Brier score", False),
    "ece": ("calibration error", False),
    "f1": ("F₁", True),
}
_FIRST = {"regression": ("rmse", "mae", "nlpd"), "classification": ("accuracy", "log_loss", "brier")}
_CHANCE = 2.0  # standard errors that chance alone gives
_SURE = 0.95  # the level of intervals of shares


class Comparison(NamedTuple):
    """``kind`` is "better", "unclear", "worse" or "alone", where there is nothing to compare with."""

    kind: str
    sentence: str


def score_table(results: dict[str, Any]) -> dict[str, Any]:
    """Columns (name, what it is, which way is better) and rows (name, values), the model first.

    Scores of the model have a standard error, or a 95 % interval where they are a share of right rows. Those of
    baselines that have no name here are left out.
    """
    scores, baselines = results["performance"]["scores"], results["performance"]["baselines"]
    others_have = dict.fromkeys(key for each in baselines.values() for key in each if key in NAMES)
    keys = [*scores, *(key for key in others_have if key not in scores)]
    own = {"name": "this model", "values": [scores.get(key, {}).get("value") for key in keys]}
    errors = [scores.get(key, {}).get("error") for key in keys]
    others = [{"name": name, "values": [each.get(key) for key in keys]} for name, each in baselines.items()]
    ranges = [_range(scores[key]["value"], results) if key == "accuracy" and key in scores else None for key in keys]
    columns = [_column(key, results) for key in keys]
    return {"columns": columns, "model": own, "errors": errors, "ranges": ranges, "baselines": others}


def compare(results: dict[str, Any]) -> Comparison:
    """Whether the model beats the best baseline in the first score that both have, and by how much."""
    scores, baselines = results["performance"]["scores"], results["performance"]["baselines"]
    for key in _FIRST[results["task"]]:
        rivals = {name: each[key] for name, each in baselines.items() if each.get(key) is not None}
        if key in scores and scores[key]["value"] is not None and rivals:
            return _compared(key, scores[key], rivals, results)
    key = _FIRST[results["task"]][0]
    own, name = scores[key]["value"], NAMES[key][0]
    said = f"The {name} is {_shown(key, own)} {_where(results)}. There is no baseline to compare it with."
    return Comparison("alone", said)


def _compared(key: str, score: dict[str, Any], rivals: dict[str, float], results: dict[str, Any]) -> Comparison:
    name, more_is_better = NAMES[key]
    sign = 1 if more_is_better else -1
    best = max(rivals, key=lambda each: sign * rivals[each])
    own, other = score["value"], rivals[best]
    gain = sign * (own - other)
    if key == "accuracy":
        low, high = _range(own, results)
        unclear = low <= other <= high or results["performance"]["rows"] == 1
    else:
        unclear = score["error"] is None or abs(gain) <= _CHANCE * score["error"]
    figures = f"The {name} is {_shown(key, own)} {_where(results)}, and {_shown(key, other)} for {best}"
    if results["performance"]["evidence"] == "training" and gain > 0:
        return Comparison("unclear", f"{figures}; but the model has learnt from these rows, which proves nothing.")
    if unclear:
        return Comparison(
            "unclear", f"{figures}, the best baseline: no clear difference, as chance alone could give it."
        )
    by = _difference(key, own, other)
    if gain > 0:
        return Comparison("better", f"{figures}, the best baseline: the model is better by {by}.")
    tail = f"the model does not beat it, and is worse by {by}. Use the simpler one, or ask why."
    return Comparison("worse", f"{figures}: {tail}")


def _range(share: float, results: dict[str, Any]) -> tuple[float, float]:
    """Where the share of all rows lies whose share of these rows is given."""
    n = results["performance"]["rows"]
    low, high = binomial_interval(round(share * n), n, _SURE)
    return float(low), float(high)


def _difference(key: str, own: float, other: float) -> str:
    if key in ("accuracy", "error", "f1", "r2"):
        return f"{number(100 * abs(own - other), 3)} percentage points"
    if key == "nlpd" or other <= 0:
        return number(abs(own - other), 3)
    return percent(abs(own - other) / other)


def _where(results: dict[str, Any]) -> str:
    performance = results["performance"]
    rows = count(performance["rows"], "row")
    said = {
        "held-out": f"on {rows} that the model has not seen",
        "leave-one-out": f"on {rows}, each predicted from all others",
        "training": f"on {rows} that the model has learnt from",
    }
    return said[performance["evidence"]]


def _shown(key: str, value: float) -> str:
    return percent(value) if key in _SHARES else number(value)


def _column(key: str, results: dict[str, Any]) -> dict[str, Any]:
    name, more = NAMES.get(key, (key, None))
    better = {True: "more is better", False: "less is better", None: ""}[more]
    if key == "coverage95":
        found = results["calibration"]
        wanted = dict(zip(found["levels"], found["promised"], strict=True)).get(_SURE, _SURE)
        better = f"{percent(wanted)} is right"
    return {"name": name, "better": better, "is_share": key in _SHARES}
