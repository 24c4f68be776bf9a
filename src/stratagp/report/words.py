"""What the numbers mean, in sentences; and the table of scores with those of baselines."""

from __future__ import annotations

from typing import Any, NamedTuple

from stratagp.metrics.calibration import binomial_interval
from stratagp.report.values import count, listed, number, percent

LEVELS = (0.5, 0.8, 0.95)
TOGETHER = 0.95  # the probability that the ranges of all levels hold
_MATTERS = 0.02  # a share that is off by less is right
_VAGUE = 0.15  # if shares may be off by more, there are too few rows to judge
_MOST_SENTENCES = 5  # about columns
_CHANCE = 2.0  # standard errors that chance can explain
_IMPOSSIBLE = 15.0  # standard deviations that no chance explains
_SURE = 0.95  # the level of intervals of shares
_SHARES = ("accuracy", "error", "coverage95")  # scores that are shown in percent
# the name of a score, and whether more is better; None if it should be as promised
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
_COMPARED = {  # what is predicted, and how sure: of each the first score that the model and a baseline have
    "regression": (("rmse", "mae"), ("nlpd",)),
    "classification": (("accuracy",), ("log_loss", "brier")),
}

_STACK = "a mixture of processes and trees, each weighted by how well it predicted rows that it had not seen"
_FAMILIES = {
    "StrataRegressor": _STACK,
    "StrataClassifier": _STACK,
    "GPRegressor": "a Gaussian process",
    "GPClassifier": "a Gaussian process whose values are turned into probabilities of classes",
    "StudentTProcessRegressor": "a Student-t process: a Gaussian process with an unknown scale",
    "AutoGPRegressor": "a sparse Gaussian process, trained on small batches of rows",
    "AutoGPClassifier": "sparse Gaussian processes, trained on small batches of rows",
    "DKLRegressor": "a neural network that turns the columns into features for Gaussian processes",
    "DKLClassifier": "a neural network that turns the columns into features for Gaussian processes",
    "DFGPRegressor": "a deep Gaussian process: the values of some processes are the inputs of another",
    "DFGPClassifier": "a deep Gaussian process: the values of some processes are the inputs of another",
    "NoisyInputRegressor": "a Gaussian process of the true values of columns that were measured with errors",
    "WishartProcessRegressor": "a Wishart process: a Gaussian process that learns how columns work together",
    "DRFRegressor": "a deep Gaussian process by random features",
    "DRFClassifier": "a deep Gaussian process by random features",
    "GPDRFRegressor": "a Gaussian process on the inputs, followed by deep random features",
    "GPDRFClassifier": "a Gaussian process on the inputs, followed by deep random features",
}
_INFERENCES = {
    "exact": "in closed form, without approximation",
    "vecchia": "from the nearest rows of each prediction",
    "sparse": "through a few hundred representative points, by a bound on the evidence",
    "stochastic": "from small batches of rows, through a few hundred representative points",
    "laplace": "by Laplace's approximation: a Gaussian around the most probable functions",
    "ep": "by expectation propagation, the most accurate approximation of the probabilities",
    "variational": "by a local variational bound",
}
_BENDS = {  # what a lengthscale means that is more than so many ranges of its column
    3.0: "almost a straight line, or no effect",
    1.0: "a curve that bends gently",
    0.3: "a curve that bends once or twice",
    0.1: "a curve with several bends",
}


class Verdict(NamedTuple):
    """A judgement in a word or two, and a sentence that explains it."""

    kind: str
    sentence: str

    @property
    def loses(self) -> bool:
        """Whether a baseline is better, in one way at least."""
        return self.kind in ("worse", "mixed")


def what_it_is(results: dict[str, Any]) -> list[str]:
    """What kind of model it is, how it was learnt and why."""
    model = results["model"]
    own = model["inner"] or model["name"]
    sentences = [f"The model ({own}) is {_FAMILIES.get(own, 'an estimator like those of scikit-learn')}."]
    if results["task"] == "regression":
        sentences.append(
            "For each row it predicts a number with an error bar. It learns from similar rows; where there are few, "
            "the error bar is wide."
        )
    else:
        sentences.append(
            "For each row it predicts the probability of each class. It learns from similar rows; where there are few, "
            "the probabilities move towards the average."
        )
    if model["inference"] in _INFERENCES:
        reason = f" ({model['reason']})" if model["reason"] else ""
        sentences.append(f"The model was fitted {_INFERENCES[model['inference']]}{reason}.")
    if model["inner"]:
        sentences.append(f"Its uncertainty was then corrected with rows that it had not seen ({model['name']}).")
    return sentences


def what_it_learnt(results: dict[str, Any]) -> list[str]:
    """Lengthscales and noise, in everyday words."""
    spans = {column["name"]: (column["low"], column["high"]) for column in results["data"]["columns"]}
    order = [each["name"] for each in results["effects"]["relevance"]]
    places = {name: place for place, name in enumerate(order)}
    ranked = sorted(results["model"]["lengthscales"], key=lambda each: places.get(each["column"], len(order)))
    sentences = []
    for each in ranked[:_MOST_SENTENCES]:
        low, high = spans.get(each["column"], (None, None))
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and high > low:
            far = f"{number(each['value'], 3)} of {each['column']}, which ranges from {number(low)} to {number(high)}"
            bends = (shape for least, shape in _BENDS.items() if each["value"] / (high - low) > least)
            sentences.append(f"Predictions change over about {far}: {next(bends, 'quick changes')}.")
    noise, target = results["model"]["noise"], results["data"]["target"]
    if noise is not None and target.get("std"):
        share = min(1.0, noise**2 / target["std"] ** 2)
        sentences.append(
            f"Rows with the same inputs still differ by about ± {number(noise, 3)} in {results['target']} (one "
            f"standard deviation of the noise). That is {percent(share, 2)} of the variance of the target, which the "
            "model cannot explain by the columns."
        )
    return sentences


def score_table(results: dict[str, Any]) -> dict[str, Any]:
    """Columns (name, meaning, which way is better) and rows (name, values), the model first.

    Scores of the model have a standard error; a share of right rows has a 95 % interval. Unknown scores of
    baselines are left out.
    """
    scores, baselines = results["performance"]["scores"], results["performance"]["baselines"]
    others_have = dict.fromkeys(key for each in baselines.values() for key in each if key in NAMES)
    keys = [*scores, *(key for key in others_have if key not in scores)]
    columns = []
    for key in keys:
        name, more = NAMES.get(key, (key, None))
        better = {True: "more is better", False: "less is better", None: ""}[more]
        if key == "coverage95":
            found = results["calibration"]
            wanted = dict(zip(found["levels"], found["promised"], strict=True)).get(_SURE, _SURE)
            better = f"{percent(wanted)} is right"
        columns.append({"name": name, "better": better, "is_share": key in _SHARES})
    own = {"name": "this model", "values": [scores.get(key, {}).get("value") for key in keys]}
    errors = [scores.get(key, {}).get("error") for key in keys]
    others = [{"name": name, "values": [each.get(key) for key in keys]} for name, each in baselines.items()]
    ranges = [_range(scores[key]["value"], results) if key == "accuracy" and key in scores else None for key in keys]
    return {"columns": columns, "model": own, "errors": errors, "ranges": ranges, "baselines": others}


def compare(results: dict[str, Any]) -> Verdict:
    """Whether the model beats the best baseline, in what it predicts and in how sure it is, and by how much.

    The kind is "better", "unclear" or "worse"; "mixed" where one score is clearly better and another clearly worse; or
    "alone" if there is no baseline. What a fit has found, row by row, stands.
    """
    performance, found = results["performance"], []
    if performance.get("verdict"):
        return Verdict(*performance["verdict"])
    scores = performance["scores"]
    for keys in _COMPARED[results["task"]]:
        for key in keys:
            rivals = {name: each[key] for name, each in performance["baselines"].items() if each.get(key) is not None}
            if key in scores and scores[key]["value"] is not None and rivals:
                found.append(_compared(key, rivals, results))
                break
    if not found:
        key = _COMPARED[results["task"]][0][0]
        own = f"The {NAMES[key][0]} is {_shown(key, scores[key]['value'])} {_where(results)}"
        return Verdict("alone", f"{own}. There is no baseline to compare it with.")
    kinds = {each.kind for each in found}
    if {"better", "worse"} <= kinds:
        return Verdict(
            "mixed", " ".join(each.sentence for each in sorted(found, key=lambda each: each.kind != "worse"))
        )
    clear = [each for each in found if each.kind in ("better", "worse")]
    return (clear or found)[0]


def _where(results: dict[str, Any]) -> str:
    rows = count(results["performance"]["rows"], "row")
    return {
        "held-out": f"on {rows} that the model has not seen",
        "cross-validated": f"on {rows}, each predicted by a model that has not seen it",
        "leave-one-out": f"on {rows}, each predicted from all the others",
        "training": f"on {rows} that the model has learnt from",
    }[results["performance"]["evidence"]]


def _compared(key: str, rivals: dict[str, float], results: dict[str, Any]) -> Verdict:
    """The verdict by one score."""
    (name, more_is_better), own = NAMES[key], results["performance"]["scores"][key]["value"]
    best = (max if more_is_better else min)(rivals, key=rivals.__getitem__)
    other = rivals[best]
    gain = own - other if more_is_better else other - own
    figures = f"The {name} is {_shown(key, own)} {_where(results)}, and {_shown(key, other)} for {best}"
    if results["performance"]["evidence"] == "training" and gain > 0:
        return Verdict("unclear", f"{figures}; but the model has learnt from these rows, so this proves nothing.")
    far = _farthest(results) if gain < 0 else 0.0
    if far <= _IMPOSSIBLE and _is_unclear(key, own, other, best, results):
        return Verdict("unclear", f"{figures}, the best baseline: no clear difference; it may be chance.")
    if key == "accuracy":
        by = f"{number(100 * abs(gain), 3)} percentage points"
    else:
        by = number(abs(gain), 3) if key in ("nlpd", "log_loss") or other <= 0 else percent(abs(gain) / other)
    if gain > 0:
        return Verdict("better", f"{figures}, the best baseline: the model is better by {by}.")
    why = f" Its worst prediction is {number(far, 2)} standard deviations off." if far > _IMPOSSIBLE else ""
    return Verdict("worse", f"{figures}: the model is worse by {by}.{why} Use the simpler one, or find out why.")


def _is_unclear(key: str, own: float, other: float, rival: str, results: dict[str, Any]) -> bool:
    """Whether chance may explain a difference: by the differences in each row, where these are known."""
    performance = results["performance"]
    known = performance.get("gains", {}).get(rival, {}).get(key)
    if known is not None:
        gain, error = known
        return not abs(gain) > _CHANCE * error
    if key == "accuracy":
        low, high = _range(own, results)
        return low <= other <= high or performance["rows"] == 1
    error = performance["scores"][key]["error"]
    return error is None or abs(own - other) <= _CHANCE * error


def _farthest(results: dict[str, Any]) -> float:
    """By how many standard deviations the worst prediction of a number is off; 0 where that is not known."""
    rows = results.get("worst", {}).get("rows", [])
    return max((abs(each.get("off") or 0.0) for each in rows), default=0.0)


def _range(share: float, results: dict[str, Any]) -> tuple[float, float]:
    """The 95 % interval of a share, given that of these rows."""
    n = results["performance"]["rows"]
    low, high = binomial_interval(round(share * n), n, _SURE)
    return float(low), float(high)


def _shown(key: str, value: float) -> str:
    return percent(value) if key in _SHARES else number(value)


def evidence(results: dict[str, Any]) -> str:
    """Which rows the figures are about, and how far you can trust them."""
    performance = results["performance"]
    rows = count(performance["rows"], "row")
    if performance["rows"] < performance["of"]:
        rows = f"{rows}, drawn at random from {performance['of']:,},"
    found = {
        "held-out": f"All figures are about {rows} that the model has not learnt from.",
        "cross-validated": f"All figures are about {rows}, each predicted by a model that had not learnt from it.",
        "leave-one-out": f"No rows were held out. The figures are about {rows} of training, each predicted from all "
        "the others. Lengthscales and noise come from all rows, so the figures are slightly too good.",
        "training": f"No rows were held out. The figures are about {rows} that the model has learnt from. They flatter "
        "the model and tell nothing about new rows: hold some rows out to find out.",
    }
    said = performance.get("said")
    return found[performance["evidence"]] + (f" {said[0].upper()}{said[1:]}." if said else "")


def rows(results: dict[str, Any]) -> str:
    """How many rows there are to learn from, and to test."""
    found, test = f"{count(results['data']['rows'], 'row')} to learn from", results["data"]["test_rows"]
    if test is None:
        return f"{found}, none held out"
    if results["performance"].get("among"):
        return f"{found}, {test:,} of which were held out for the test before"
    return f"{found} and {test:,} held out"


def coverage(calibration: dict[str, Any]) -> list[dict[str, Any]]:
    """How many targets the intervals of 50, 80 and 95 % hold, and ranges of these shares in the long run.

    They are judged by what they promise, which is more than their level if they must end on whole numbers.
    """
    n, found = calibration["rows"], zip(*(calibration[name] for name in ("levels", "promised", "inside")), strict=True)
    kept = [each for each in found if each[0] in LEVELS]
    rows = []
    for level, promised, inside in kept:
        low, high = map(float, binomial_interval(inside, n, 1 - (1 - TOGETHER) / len(kept)))
        share = inside / n
        off = abs(share - promised) > _MATTERS
        verdict = "too few" if high < promised and off else "too many" if low > promised and off else "as promised"
        each = {"level": level, "promised": promised, "inside": inside, "share": share, "low": low, "high": high}
        rows.append({**each, "verdict": verdict})
    return rows


def bars_verdict(results: dict[str, Any]) -> Verdict:
    """Whether error bars, or probabilities of classes, keep their promise."""
    judge = _numbers_verdict if results["task"] == "regression" else _classes_verdict
    found, far = judge(results["calibration"]), _farthest(results)
    if far > _IMPOSSIBLE and found.kind in ("about right", "unclear"):
        sentence = f"But the worst prediction is {number(far, 2)} standard deviations off, which no chance explains."
        found = Verdict("uneven", f"{found.sentence} {sentence}")
    if results["performance"]["evidence"] == "training":
        kind = "unclear" if found.kind == "about right" else found.kind
        return Verdict(kind, f"{found.sentence} But the model has learnt from these rows.")
    return found


def _numbers_verdict(calibration: dict[str, Any]) -> Verdict:
    rows = coverage(calibration)
    if not rows:
        return Verdict("unknown", "The model has no intervals at these levels: it was calibrated with too few rows.")
    few = [row for row in rows if row["verdict"] == "too few"]
    many = [row for row in rows if row["verdict"] == "too many"]
    shown = (few or many or rows)[-1]
    n = count(calibration["rows"], "row")
    whole = f", which end on whole numbers and promise {percent(shown['promised'])}," if calibration["counts"] else ""
    fact = f"Intervals of {percent(shown['level'])}{whole} hold {percent(shown['share'])} of {n}"
    if few and many:
        last, first = percent(few[-1]["level"]), percent(many[0]["level"])
        shape = f"intervals of {first} hold too many rows and those of {last} too few"
        return Verdict("uneven", f"The error bars have the wrong shape: {shape}.")
    if few:
        return Verdict("too narrow", f"The error bars are too narrow. {fact}: the model is too sure of itself.")
    if many:
        return Verdict("too wide", f"The error bars are too wide. {fact}: the model could be surer.")
    reach = max(row["high"] - row["low"] for row in rows) / 2
    within = f"only to within about ± {number(100 * reach, 2)} percentage points"
    if reach > _VAGUE:
        return Verdict("unclear", f"The error bars may be right, but {n} can tell {within}. {fact}.")
    return Verdict("about right", f"The error bars are about right. {fact}. With {n}, coverage can be judged {within}.")


def _classes_verdict(calibration: dict[str, Any]) -> Verdict:
    n, right = calibration["rows"], calibration["right"]
    low, high = map(float, binomial_interval(right, n, 0.95))
    given, share = calibration["confidence"], right / n
    rows = count(n, "row")
    fact = f"Its choices have a probability of {percent(given)} on average, and {percent(share)} of {rows} are right"
    range_ = f"({percent(low)} to {percent(high)} in the long run)"
    if abs(given - share) > _MATTERS and given > high:
        return Verdict("too sure", f"The model is too sure. {fact} {range_}.")
    if abs(given - share) > _MATTERS and given < low:
        return Verdict("too unsure", f"The model could be surer. {fact} {range_}.")
    if calibration["error_low"] > _MATTERS:
        ends = f"{percent(calibration['error_low'], 2)} to {percent(calibration['error_high'], 2)}"
        off = f"they differ from shares by {ends} on average; see the picture"
        return Verdict("uneven", f"The probabilities are off in both directions: {off}. {fact} {range_}.")
    if (high - low) / 2 > _VAGUE:
        within = f"only to within about ± {number(50 * (high - low), 2)} percentage points"
        return Verdict("unclear", f"The probabilities may be right, but {rows} can tell {within}. {fact}.")
    return Verdict("about right", f"The probabilities are about right. {fact} {range_}.")


def driver(results: dict[str, Any]) -> str | None:
    """Which columns drive predictions most."""
    shares = results["effects"]["relevance"]
    if not shares or shares[0]["share"] <= 0:
        return None
    top = [each for each in shares[:3] if each["share"] >= 0.05] or shares[:1]
    names = listed([f"{each['name']} ({percent(each['share'], 2)})" for each in top])
    return f"Predictions are driven most by {names}." if len(shares) > 1 else None


def in_short(results: dict[str, Any]) -> list[str]:
    """The page in a few sentences."""
    data = results["data"]
    columns = len(data["columns"]) + data["more_columns"]
    given = f"{count(columns, 'column')}, learnt from {count(data['rows'], 'row')}"
    head = f"The model predicts {results['target']} from {given}."
    found = [head, compare(results).sentence, bars_verdict(results).sentence, driver(results)]
    return [sentence for sentence in found if sentence]
