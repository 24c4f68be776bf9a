"""Co-kriging: map the cadmium of the Swiss Jura with the help of nickel and zinc, which are cheaper to measure.

Cadmium is known at 259 sites and wanted at 100 others; nickel and zinc are known at all 359 (Goovaerts 1997). A linear
model of coregionalisation relates the metals. Set ``STRATAGP_DATA``, then ``python examples/jura.py``; the
picture goes to ``out/jura.png``.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from stratagp import kernels as k
from stratagp import metrics
from stratagp.estimators import GPRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import datasets

Function = Callable[[np.ndarray], np.ndarray]
METALS = ("Cd", "Ni", "Zn")
SCALES: dict[str, tuple[Function, Function]] = {"as measured": (np.array, np.array), "logarithms": (np.log, np.exp)}


class Answer(NamedTuple):
    """The median and the ends of the 95 % interval at each site, in ppm."""

    median: np.ndarray
    low: np.ndarray
    high: np.ndarray


def main(scales: Sequence[str] = tuple(SCALES), max_iterations: int = 200) -> dict[str, float]:
    """Kriging and co-kriging on each scale of the metals; draws the last."""
    known, wanted = datasets.geostat("jura_pred"), datasets.geostat("jura_val")
    found = {}
    print(f"Cadmium at {len(wanted['Cd'])} sites{'':14s} MAE   RMSE   in the 95 % interval")
    for scale in scales:
        forth, back = SCALES[scale]
        for method in (kriging, co_kriging):
            answer = Answer(*map(back, method(known, wanted, forth, max_iterations)))
            error = np.abs(wanted["Cd"] - answer.median)
            inside = ((answer.low <= wanted["Cd"]) & (wanted["Cd"] <= answer.high)).mean()
            scores = f"{error.mean():.4f} {metrics.rmse(wanted['Cd'], answer.median):.4f} {inside:8.0%}"
            print(f"  {method.__name__.replace('_', '-'):10s} {scale:18s} {scores}", flush=True)
            found[f"{method.__name__}, {scale}"] = error.mean()
            if method is kriging:
                alone, alone_error = answer, error
        gain = alone_error - error
        print(
            f"  gain       {gain.mean():25.4f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.4f} (paired, standard error)"
        )
    draw(Path("out/jura.png"), wanted, alone, answer)
    return found


def places(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Coordinates in kilometres."""
    return np.column_stack([sites["Xloc"], sites["Yloc"]])


def kriging(known: dict, wanted: dict, forth: Function, max_iterations: int) -> Answer:
    """Cadmium from the coordinates alone."""
    gp = GPRegressor(k.Matern(0.5), max_iterations=max_iterations).fit(places(known), forth(known["Cd"]))
    return Answer(gp.predict(places(wanted)), *gp.predict_interval(places(wanted)))


def co_kriging(known: dict, wanted: dict, forth: Function, max_iterations: int) -> Answer:
    """Three metals that mix a rough and a smooth function; cadmium is missing at the sites to predict."""
    X = np.concatenate([places(known), places(wanted)])
    Y = np.concatenate([np.column_stack([sites[metal] for metal in METALS]) for sites in (known, wanted)])
    Y[len(known["Cd"]) :, 0] = np.nan  # not observed

    kernel = k.Matern(0.5, lengthscale=0.2) + k.Matern(0.5, lengthscale=1.0)
    gp = GPRegressor(kernel, outputs="correlated", max_iterations=max_iterations).fit(X, forth(Y))
    answers = gp.predict(places(wanted)), *gp.predict_interval(places(wanted))
    return Answer(*(answer[:, 0] for answer in answers))


def draw(path: Path, wanted: dict, alone: Answer, together: Answer) -> None:
    """Predicted against measured cadmium with both, and the errors on the map."""
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), gridspec_kw={"width_ratios": [1, 1, 1.15]})
    cadmium, top = wanted["Cd"], 5.2
    for axes, answer, title in zip(panels, (alone, together), ("Kriging", "Co-kriging"), strict=False):
        bars = np.abs(np.stack([answer.low, answer.high]) - answer.median)
        axes.errorbar(answer.median, cadmium, xerr=bars, fmt="none", alpha=0.3, elinewidth=0.6)
        axes.plot(answer.median, cadmium, "k.", markersize=4)
        axes.plot([0, top], [0, top], "k", linewidth=0.8)
        mistake = np.abs(cadmium - answer.median).mean()
        axes.set(xlim=(0, top), ylim=(0, top), xlabel="predicted cadmium, ppm", title=f"{title}: MAE {mistake:.3f}")
    panels[0].set_ylabel("measured cadmium, ppm")
    x, y = places(wanted).T
    gain = np.abs(cadmium - alone.median) - np.abs(cadmium - together.median)
    dots = panels[2].scatter(x, y, c=gain, cmap="coolwarm_r", vmin=-1, vmax=1, s=30, edgecolors="grey", linewidths=0.3)
    figure.colorbar(dots, ax=panels[2], label="smaller error by, ppm")
    panels[2].set(title="Where nickel and zinc help", xlabel="km", aspect="equal")
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
