"""What the numbers mean, in sentences that depend on them."""

from __future__ import annotations

from typing import Any, NamedTuple

from stratagp.metrics.calibration import binomial_interval
from stratagp.report import scores
from stratagp.report.formats import count, listed, number, percent

LEVELS = (0.5, 0.8, 0.95)
TOGETHER = 0.95  # the probability that the intervals of all levels hold
_MATTERS = 0.02  # a share that is off by less is right enough
_VAGUE = 0.15  # what shares may be off by where rows are too few for a judgement
_MOST_SENTENCES = 5  # about columns

_FAMILIES = {
    "GPRegressor": "a Gaussian process",
    "GPClassifier": "a Gaussian process whose values are turned into probabilities of classes",
    "StudentTProcessRegressor": "a Student-t process: a Gaussian process with an unknown scale",
    "AutoGPRegressor": "a sparse Gaussian process, trained on small batches of rows",
    "AutoGPClassifier": "sparse Gaussian processes, trained on small batches of rows",
    "DKLRegressor": "a neural network that turns the columns into features, with Gaussian processes on these",
    "DKLClassifier": "a neural network that turns the columns into features, with Gaussian processes on these",
    "DFGPRegressor": "a deep Gaussian process: processes whose values are the inputs of another one",
    "DFGPClassifier": "a deep Gaussian process: processes whose values are the inputs of another one",
    "WishartProcessRegressor": "a Wishart process: a Gaussian process that learns how columns work together",
    "DRFRegressor": "a deep Gaussian process by random features",
    "DRFClassifier": "a deep Gaussian process by random features",
    "GPDRFRegressor": "a Gaussian process on the inputs, with deep random features behind it",
    "GPDRFClassifier": "a Gaussian process on the inputs, with deep random features behind it",
}
_INFERENCES = {
    "exact": "in closed form, without approximation",
    "sparse": "through a few hundred representative points, with a bound on what that loses",
    "stochastic": "from small batches of rows, through a few hundred representative points",
    "cg": "to all rows, by an iterative solver",
    "laplace": "by Laplace's approximation: a Gaussian around the most probable functions",
    "ep": "by expectation propagation, the most accurate approximation of the probabilities",
    "variational": "by a local variational bound",
}
_BENDS = {
    3.0: "almost a straight line, or no effect",
    1.0: "a curve that bends gently",
    0.3: "a curve that bends once or twice",
    0.1: "a curve with several bends",
}


class Verdict(NamedTuple):
    """A judgement in a word or two, and the sentence that explains it."""

    kind: str
    sentence: str


def what_it_is(results: dict[str, Any]) -> list[str]:
    """The kind of model, how it was learnt and why so."""
    model = results["model"]
    own = model["inner"] or model["name"]
    said = [f"The model ({own}) is {_FAMILIES.get(own, 'an estimator in the manner of scikit-learn')}."]
    if results["task"] == "regression":
        said.append(
            "For each row it gives a number and an error bar. It trusts rows that are similar, and where there are few "
            "of them the error bar is wide."
        )
    else:
        said.append(
            "For each row it gives a probability of each class. It trusts rows that are similar, and where there are "
            "few of them the probabilities move towards the average."
        )
    if model["inference"] in _INFERENCES:
        reason = f" ({model['reason']})" if model["reason"] else ""
        said.append(f"The model was fitted {_INFERENCES[model['inference']]}{reason}.")
    if model["inner"]:
        said.append(f"Its uncertainty was then corrected by rows that it had not seen ({model['name']}).")
    return said


def what_it_learnt(results: dict[str, Any]) -> list[str]:
    """Lengthscales and noise for readers who do not know these words."""
    spans = {column["name"]: (column["low"], column["high"]) for column in results["data"]["columns"]}
    order = [each["name"] for each in results["effects"]["relevance"]]
    ranked = sorted(results["model"]["lengthscales"], key=lambda each: _place(each["column"], order))
    said = []
    for each in ranked[:_MOST_SENTENCES]:
        low, high = spans.get(each["column"], (None, None))
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and high > low:
            far = f"{number(each['value'], 3)} of {each['column']}, which goes from {number(low)} to {number(high)}"
            said.append(f"Predictions change over about {far}: {_bend(each['value'] / (high - low))}.")
    noise, target = results["model"]["noise"], results["data"]["target"]
    if noise is not None and target.get("std"):
        share = min(1.0, noise**2 / target["std"] ** 2)
        said.append(
            f"Rows with the same inputs still differ by about ± {number(noise, 3)} in {results['target']} (one "
            f"standard deviation of the noise). That is {percent(share, 2)} of the variance of the target, and "
            "the model sees nothing in the columns that would explain it."
        )
    return said


def _place(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else len(order)


def _bend(ratio: float) -> str:
    """What a lengthscale means beside the range of its column."""
    for least, said in _BENDS.items():
        if ratio > least:
            return said
    return "quick changes"


def evidence(results: dict[str, Any]) -> str:
    """Which rows the figures are about, and how far that can be trusted."""
    performance = results["performance"]
    rows = count(performance["rows"], "row")
    if performance["rows"] < performance["of"]:
        rows = f"{rows}, drawn at random from {performance['of']:,},"
    said = {
        "held-out": f"All figures are about {rows} that the model has not learnt from.",
        "leave-one-out": f"No rows were held out. The figures are about {rows} of training, each predicted from all "
        "others, with lengthscales and noise learnt from all of them: slightly too favourable.",
        "training": f"No rows were held out. The figures are about {rows} that the model has learnt from, and flatter "
        "it: they say nothing about new rows. Hold some rows out to learn that.",
    }
    return said[performance["evidence"]]


def coverage(calibration: dict[str, Any]) -> list[dict[str, Any]]:
    """How many targets the intervals of 50, 80 and 95 % hold, and what their shares may be in the long run.

    They are judged by what they promise, which is more than their level where they must end on whole numbers.
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
    """Whether error bars hold what they promise, or probabilities of classes are shares."""
    judge = _numbers_verdict if results["task"] == "regression" else _classes_verdict
    found = judge(results["calibration"])
    if results["performance"]["evidence"] == "training":
        kind = "unclear" if found.kind == "about right" else found.kind
        return Verdict(kind, f"{found.sentence} But this is about rows that the model has learnt from.")
    return found


def _numbers_verdict(calibration: dict[str, Any]) -> Verdict:
    rows = coverage(calibration)
    if not rows:
        return Verdict("unknown", "The model gives no intervals at these levels, as it was calibrated by too few rows.")
    few = [row for row in rows if row["verdict"] == "too few"]
    many = [row for row in rows if row["verdict"] == "too many"]
    shown = max(few or many or rows, key=lambda row: row["level"])
    n = count(calibration["rows"], "row")
    whole = f", which end on whole numbers and promise {percent(shown['promised'])}," if calibration["counts"] else ""
    fact = f"Intervals of {percent(shown['level'])}{whole} hold {percent(shown['share'])} of {n}"
    if few and many:
        last, first = percent(few[-1]["level"]), percent(many[0]["level"])
        shape = f"intervals of {first} hold too many rows and those of {last} too few"
        return Verdict("uneven", f"The error bars have the wrong shape: {shape}.")
    if few:
        return Verdict("too narrow", f"The error bars are too narrow. {fact}: the model is surer than it should be.")
    if many:
        return Verdict("too wide", f"The error bars are too wide. {fact}: the model is less sure than it could be.")
    reach = max(row["high"] - row["low"] for row in rows) / 2
    within = f"only to within about ± {number(100 * reach, 2)} percentage points"
    if reach > _VAGUE:
        return Verdict("unclear", f"Nothing speaks against the error bars, but {n} can tell {within}. {fact}.")
    return Verdict("about right", f"The error bars are about right. {fact}. With {n}, coverage can be judged {within}.")


def _classes_verdict(calibration: dict[str, Any]) -> Verdict:
    n, right = calibration["rows"], calibration["right"]
    low, high = map(float, binomial_interval(right, n, 0.95))
    said, share = calibration["confidence"], right / n
    rows = count(n, "row")
    fact = f"It gives its choices a probability of {percent(said)} on average, and {percent(share)} of {rows} are right"
    range_ = f"({percent(low)} to {percent(high)} in the long run)"
    if abs(said - share) > _MATTERS and said > high:
        return Verdict("too sure", f"The model is too sure. {fact} {range_}.")
    if abs(said - share) > _MATTERS and said < low:
        return Verdict("too unsure", f"The model is less sure than it could be. {fact} {range_}.")
    if calibration["error_low"] > _MATTERS:
        ends = f"{percent(calibration['error_low'], 2)} to {percent(calibration['error_high'], 2)}"
        off = f"they differ from shares by {ends} on average; see the picture"
        return Verdict("uneven", f"The probabilities are off in both directions: {off}. {fact} {range_}.")
    if (high - low) / 2 > _VAGUE:
        within = f"only to within about ± {number(50 * (high - low), 2)} percentage points"
        return Verdict("unclear", f"Nothing speaks against the probabilities, but {rows} can tell {within}. {fact}.")
    return Verdict("about right", f"The probabilities are about right. {fact} {range_}.")


def driver(results: dict[str, Any]) -> str | None:
    """Which columns drive predictions."""
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
    said = [head, scores.compare(results).sentence, bars_verdict(results).sentence, driver(results)]
    return [sentence for sentence in said if sentence]
