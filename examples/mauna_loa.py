"""Decompose the carbon dioxide over Mauna Loa into trend, season and irregularities, and look nine years ahead.

The kernel is that of Rasmussen and Williams (2006, section 5.4.3), learnt from the months up to the end of 2003, as
theirs was. Set ``STRATAGP_DATA``, then ``python examples/mauna_loa.py``; the picture goes to ``out/mauna_loa.png``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from stratagp import kernels as k
from stratagp import metrics
from stratagp.estimators import GPRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import datasets

BOOK = {  # name of a hyperparameter: (what it is, its unit, the value in the book)
    "kernel.0.variance": ("trend", "ppm", 66),
    "kernel.0.lengthscale": ("", "years", 67),
    "kernel.1.1.variance": ("season", "ppm", 2.4),
    "kernel.1.0.lengthscale": ("  its decay", "years", 90),
    "kernel.1.1.lengthscale": ("  its smoothness", "", 1.3),
    "kernel.2.variance": ("irregularities", "ppm", 0.66),
    "kernel.2.lengthscale": ("", "years", 1.2),
    "kernel.2.alpha": ("  their shape", "", 0.78),
    "kernel.3.variance": ("correlated noise", "ppm", 0.18),
    "kernel.3.lengthscale": ("", "years", 1.6 / 12),
    "noise": ("white noise", "ppm", 0.19),
}


def main(ends: Sequence[int] = (2000, 2004)) -> dict[str, float]:
    """Learn from the months before each year of ``ends``, and judge the months after it; draws the last."""
    record = datasets.classic("mauna_loa")
    measured = ~np.isnan(record["co2"])  # five months were lost
    t, y = record["t"][measured, None], record["co2"][measured]
    for end in ends:
        past = t[:, 0] < end
        gp = fit(t[past], y[past])
        mean, std = gp.predict(t[~past], return_std=True)
        found = {
            "evidence": gp.log_marginal_likelihood(),
            "rmse": metrics.rmse(y[~past], mean),
            "nlpd": metrics.nlpd(y[~past], mean, std),
            "coverage": metrics.coverage(y[~past], mean, std),
        }
        print(f"{past.sum()} months before {end}, log evidence {found['evidence']:.1f}; {(~past).sum()} months after:")
        print(f"  RMSE {found['rmse']:.2f} ppm, NLPD {found['nlpd']:.2f}")
        print(f"  in the 95 % interval {found['coverage']:.0%}, above the mean {(y[~past] > mean).mean():.0%}")
    (_, trend), (_, total) = gp.predict_component(t[past], 0, return_std=True), gp.predict(t[past], True, of="f")
    print(f"half of a 95 % interval: trend {1.96 * np.median(trend):.1f} ppm, sum {1.96 * np.median(total):.1f} ppm")
    draw(Path("out/mauna_loa.png"), gp, t, y, end)
    return found | compare(gp)


def fit(t: np.ndarray, y: np.ndarray) -> GPRegressor:
    """The kernel of the book from round start values in ppm and years, by maximum likelihood."""
    unit = y.var()  # the variances of a kernel are those of standardised targets
    trend = k.RBF(50.0, 50**2 / unit)
    season = k.locally_periodic(period=1.0, lengthscale=1.0, decay=50.0, variance=3**2 / unit).fix("1.period")
    irregular = k.RationalQuadratic(1.0, 1.0, 1 / unit)
    weather = k.RBF(0.1, 0.3**2 / unit)
    return GPRegressor(trend + season + irregular + weather, hyperparameters="ml").fit(t, y)


def compare(gp: GPRegressor) -> dict[str, float]:
    """Print the learnt values with their 95 % intervals beside those in the book."""
    print(f"{'learnt':30s} {'95 % interval':>15s} {'the book':>9s}")
    learnt = {}
    for name, (what, unit, book) in BOOK.items():
        power = 0.5 if unit == "ppm" else 1.0  # from variances to sizes
        value, low, high = (getattr(gp.hyperparameters_[name], part) ** power for part in ("value", "lower", "upper"))
        print(f"{what:18s} {value:5.3g} {unit:5s} {low:7.2g} to {high:<5.3g} {book:8.2g}")
        learnt[name] = value
    return learnt


def draw(path: Path, gp: GPRegressor, t: np.ndarray, y: np.ndarray, end: int) -> None:
    """The extrapolation, and three of the parts."""
    figure, ((ahead, trend), (season, irregular)) = plt.subplots(2, 2, figsize=(10, 6))
    future = np.linspace(end - 4, t.max(), 600)[:, None]
    ahead.fill_between(future[:, 0], *gp.predict_interval(future), alpha=0.3, label="95 % interval")
    ahead.plot(future, gp.predict(future))
    ahead.plot(t[t > end - 4], y[t[:, 0] > end - 4], "k.", markersize=3, label="measured")
    ahead.axvline(end, color="grey", linewidth=1)
    ahead.set(title=f"Learnt before {end}, and what came", ylabel="CO₂, ppm")
    ahead.legend(frameon=False)
    years = np.linspace(t.min(), end, 1000)[:, None]
    for axes, number, title in ((trend, 0, "Long trend, about the average"), (irregular, 2, "Irregularities")):
        mean, std = gp.predict_component(years, number, return_std=True)
        axes.fill_between(years[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3)
        axes.plot(years, mean)
        axes.set_title(title)
    month = np.linspace(0, 1, 100)[:, None]
    for year in (1960, end - 1):
        season.plot(12 * month, gp.predict_component(year + month, 1), label=f"{year}")
    season.set(title="Season", xlabel="month")
    season.legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"Picture: {path}")


if __name__ == "__main__":
    try:
        main()
    except datasets.DataMissing as missing:
        print(f"Nothing to show: {missing}.")
