"""Survival times by a deep feed-forward process: the second experiment of Kandemir and Hamprecht (2015) on public data.

686 women with breast cancer (GBSG2, which ships with lifelines): years until the cancer returned or the patient died;
for 56 % the study ended first. Three folds, two to train and one to test, in four random orders, so that each patient
is tested once in each. Sizes, nodes and receptors enter as logarithms, the grade as 1, 2, 3.

- DFGP: two hidden processes with 10 inducing points each, output kernel RBF + linear, censored log-normal times.
- RBF, linear: one sparse process with the same likelihood (AutoGP), 30 and 10 inducing points.
- AFT, Cox: log-normal accelerated failure times by maximum likelihood and proportional hazards, of lifelines.
- Kaplan-Meier: one curve for all.

A fifth of the training rows tells DFGP and the RBF when to stop. DFGP's settings had the best density of 11 that were
tried on three other splits of the same patients; of the RBF and the linear process only the likelihood was chosen, by
the same splits, and the RBF stops as DFGP does. Logarithms served these three and Cox better than plain columns.

``C`` is the concordance index; ``density`` the mean log density of an event, or log probability of a longer time where
censored; ``Brier`` the score of S(t | x) averaged over five years, weighted for censoring (lower is better);
``calibration`` the mean difference between predicted and Kaplan-Meier survival in thirds of patients by predicted risk,
over the same years. ``±`` is the standard deviation over folds; ``denser`` counts folds where DFGP has more density.

The picture shows the thirds by DFGP, and how often what it foretells for three years comes true, beside Cox.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness import Benchmark, in_words, peer
from stratagp.estimators import AutoGPRegressor, DFGPRegressor
from stratagp.kernels import Linear
from stratagp.metrics import kaplan_meier, survival_brier

FOLDS, ORDERS, QUICK_ROWS = 3, 4, 150
YEARS = np.arange(1, 21) / 4
FORTNIGHTS = np.arange(0, 131) / 26
DRAWN = "DFGP"  # whose curves are shown, of the first order
THREE = int(np.flatnonzero(YEARS == 3)[0])
DEEP = {"n_hidden": 2, "n_inducing": 10, "output_kernel": "rbf + linear", "validation": 0.2}
SHALLOW = {"n_inducing": 30, "validation": 0.2, "standardise": "both"}
LINEAR = {"n_inducing": 10, "standardise": "both"}
GROUPS = {"high risk": "tab:red", "middle": "tab:orange", "low risk": "tab:blue"}


class Foretold(NamedTuple):
    """What a model says of test rows: later for a larger ``order``, survival at ``YEARS``, the mean log density."""

    order: np.ndarray
    survival: np.ndarray
    density: float | None


Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Foretold]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Eight columns, and ``(years, observed)``."""
    t = peer("lifelines.datasets").load_gbsg2()
    grade = t["tgrade"].map({"I": 1, "II": 2, "III": 3})
    columns = [t["horTh"] == "yes", t["menostat"] == "Post", t["age"], grade]
    columns += [np.log(t["tsize"]), np.log(t["pnodes"]), np.log1p(t["progrec"]), np.log1p(t["estrec"])]
    return np.column_stack(columns).astype(float), np.column_stack([t["time"] / 365.25, t["cens"]]).astype(float)


def process(model: Any) -> Fit:
    """An estimator with a censored likelihood."""

    def fit(x: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray) -> Foretold:
        model.fit(x, y)
        density = float(model.log_density(new, truth).mean())
        return Foretold(model.predict_quantiles(new, [0.5])[:, 0], model.predict_survival(new, YEARS), density)

    return fit


def regression(name: str) -> Fit:
    """A fitter of lifelines; in Cox's model times have no density."""

    def fit(x: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray) -> Foretold:
        frame, is_cox = peer("pandas").DataFrame, name == "CoxPHFitter"
        train, test = (frame(np.c_[a, b]) for a, b in ((x, y), (new, truth)))
        model = getattr(peer("lifelines"), name)().fit(train, x.shape[1], x.shape[1] + 1)
        order = -model.predict_partial_hazard(test) if is_cox else model.predict_median(test)
        density = None if is_cox else float(model.score(test, scoring_method="log_likelihood"))
        return Foretold(np.asarray(order), model.predict_survival_function(test, times=YEARS).to_numpy().T, density)

    return fit


def alike(x: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray) -> Foretold:
    return Foretold(np.zeros(len(new)), np.tile(kaplan_meier(y, YEARS).share, (len(new), 1)), None)


def models() -> dict[str, Fit]:
    same: dict[str, Any] = {"likelihood": "log-normal", "random_state": 0}
    return {
        "DFGP": process(DFGPRegressor(**DEEP, **same)),
        "RBF": process(AutoGPRegressor(**SHALLOW, **same)),
        "linear": process(AutoGPRegressor(Linear(ard=True), **LINEAR, **same)),
        "AFT": regression("LogNormalAFTFitter"),
        "Cox": regression("CoxPHFitter"),
        "Kaplan-Meier": alike,
    }


def measure(order: int, quick: bool) -> dict[str, Any]:
    """Every model on each fold, and what they say of all patients together."""
    x, y = data()
    folds = np.array_split(np.random.default_rng(order).permutation(len(y))[: QUICK_ROWS if quick else None], FOLDS)
    concordance = peer("lifelines.utils").concordance_index
    found: dict[str, Any] = {}
    for name, fit in models().items():
        scores: dict[str, list] = {key: [] for key in ("C", "density", "Brier", "seconds")}
        thirds, survival = [], []
        tests = folds[:1] if quick else folds
        for test in tests:
            train = np.concatenate([fold for fold in folds if fold is not test])
            start = time.perf_counter()
            said = fit(x[train], y[train], x[test], y[test])
            scores["seconds"].append(time.perf_counter() - start)
            scores["C"].append(concordance(y[test, 0], said.order, y[test, 1]))
            scores["density"].append(said.density)
            scores["Brier"].append(survival_brier(y[test], said.survival, YEARS, train=y[train]))
            thirds.append(parts(said.order, len(GROUPS)))
            survival.append(said.survival)
        tested = y[np.concatenate(tests)], np.concatenate(survival)
        found[name] = {**scores, **curves(*tested, np.concatenate(thirds)), **three_years(*tested)}
        if order or name != DRAWN:
            del found[name]["curves"]  # of which there are many numbers
    return found


def parts(values: np.ndarray, count: int) -> np.ndarray:
    """The number of the part, of ``count`` equal ones, that each value falls into."""
    return values.argsort(kind="stable").argsort() * count // len(values)


def curves(y: np.ndarray, survival: np.ndarray, thirds: np.ndarray) -> dict[str, Any]:
    """Kaplan-Meier curves of thirds of patients with 95 % bands, and the mean of their predicted curves."""
    found: dict[str, list] = {"predicted": [], "happened": [], "low": [], "high": []}
    gaps = []
    for third in range(len(GROUPS)):
        own, predicted = y[thirds == third], survival[thirds == third].mean(0)
        _, happened, low, high = kaplan_meier(own, FORTNIGHTS)
        for key, values in (("happened", happened), ("low", low), ("high", high), ("predicted", predicted)):
            found[key].append(np.round(values, 4).tolist())
        gaps.append(np.abs(predicted - kaplan_meier(own, YEARS).share))
    return {"curves": found, "calibration": float(np.mean(gaps))}


def three_years(y: np.ndarray, survival: np.ndarray) -> dict[str, Any]:
    """Predicted and Kaplan-Meier survival of three years, with 95 % ends, in fifths by the former."""
    chance, found = survival[:, THREE], []
    for fifth in range(5):
        chosen = parts(chance, 5) == fifth
        curve = kaplan_meier(y[chosen], [3.0])
        found.append([chance[chosen].mean(), *curve.share, *curve.low, *curve.high])
    return {"three years": np.array(found).tolist()}


def draw(row: dict[str, Any], path: Path) -> None:
    pyplot = peer("matplotlib.pyplot")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=(1.35, 1))
    found = row[DRAWN]["curves"]
    for third, (name, colour) in enumerate(GROUPS.items()):
        happened, low, high, predicted = (found[key][third] for key in ("happened", "low", "high", "predicted"))
        left.fill_between(FORTNIGHTS, low, high, step="post", color=colour, alpha=0.15, lw=0)
        left.step(FORTNIGHTS, happened, where="post", color=colour, lw=1.3)
        left.plot(np.r_[0, YEARS], np.r_[1, predicted], "--", color=colour, lw=2)
        left.text(5.05, predicted[-1], name, color=colour, va="center")
    left.plot([], [], "k-", lw=1.3, label="Kaplan-Meier, with 95 % band")
    left.plot([], [], "k--", lw=2, label="mean predicted S(t | x)")
    left.set(xlabel="years", ylabel="share alive without relapse", xlim=(0, 5), ylim=(0, 1.02))
    left.set_title("test patients in thirds by DFGP's median time", fontsize=10)
    left.legend(frameon=False, loc="lower left")
    right.plot([0, 1], [0, 1], color="black", lw=0.8, ls=":")
    for name, colour, marker in (("Cox", "tab:grey", "s"), ("DFGP", "tab:green", "o")):
        x, y, low, high = np.array(row[name]["three years"]).T
        right.errorbar(x, y, (y - low, high - y), fmt=marker, color=colour, capsize=3, label=name)
    right.set(xlabel="predicted", ylabel="Kaplan-Meier", xlim=(0.2, 1), ylim=(0.2, 1))
    right.set_title("three years without relapse, fifths of patients", fontsize=10)
    right.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)


def in_short(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std():.3f}"


def line(name: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    found = {key: np.concatenate([row[name][key] for row in rows]) for key in ("C", "density", "Brier", "seconds")}
    ours = np.concatenate([row["DFGP"]["density"] for row in rows])
    shown = {"model": name, "C": in_short(found["C"])}
    if found["density"][0] is not None:
        shown["density"] = in_short(found["density"])
        shown["denser"] = "–" if name == "DFGP" else f"{(ours > found['density']).sum()} of {len(ours)}"
    shown["Brier"] = in_short(found["Brier"])
    if name != "Kaplan-Meier":  # whose thirds mean nothing
        shown["calibration"] = f"{np.mean([row[name]['calibration'] for row in rows]):.3f}"
    return {**shown, "fit and predict": in_words(float(found["seconds"].mean()))}


def main() -> None:
    bench = Benchmark.from_command_line("dfgp_survival", __doc__)
    settings = f"{FOLDS} folds, {DEEP}, {SHALLOW}, {LINEAR}"
    orders = range(1 if bench.quick else ORDERS)
    tried = [bench.row(f"order {i}, {settings}", partial(measure, i, bench.quick)) for i in orders]
    rows = [row for row in tried if row]
    if not rows:
        return
    if not bench.markdown:
        draw(rows[0], bench.path.with_suffix(".png"))
    title = f"GBSG2, {FOLDS} folds in {len(rows)} orders, {bench.threads} threads"
    bench.show(title, [line(name, rows) for name in rows[0]])


if __name__ == "__main__":
    main()
