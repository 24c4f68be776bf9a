"""Noise that changes: the head of a dummy in a motorcycle crash, quiet for 15 ms and then thrown about.

A Gaussian process with one noise level is compared with one that learns the noise as a second function of time
(Silverman's data, 133 accelerations). Set ``STRATAGP_DATA``, then ``python examples/motorcycle.py``; the picture goes
to ``out/motorcycle.png``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

from stratagp.estimators import GPRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import datasets

MODELS = {"one noise level": GPRegressor(), "noise that varies": GPRegressor(noise="heteroscedastic")}
QUIET, IMPACT = (0, 15), (15, 40)  # milliseconds


def main(folds: int = 10) -> dict[str, float]:
    """Score both models by cross-validation, compare them row by row, and draw them."""
    crash = datasets.classic("mcycle")
    time, acceleration = crash["times"][:, None], crash["accel"]
    scores = {name: judge(gp, time, acceleration, folds) for name, gp in MODELS.items()}
    quiet, impact = ((time[:, 0] >= low) & (time[:, 0] < high) for low, high in (QUIET, IMPACT))

    print(f"{folds}-fold cross-validation of {len(time)} rows, inside the 95 % interval:")
    print(f"{'':18s} {'NLPD':>6s} {'everywhere':>11s} {'quiet':>8s} {'impact':>8s} {'width there':>12s}")
    for name, (density, low, high) in scores.items():
        inside = (low <= acceleration) & (acceleration <= high)
        shares = f"{inside.mean():11.0%} {inside[quiet].mean():8.0%} {inside[impact].mean():8.0%}"
        widths = "/".join(f"{np.median((high - low)[rows]):.0f}" for rows in (quiet, impact))
        print(f"{name:18s} {-density.mean():6.3f} {shares} {widths:>9s} g")
    (plain, *_), (varying, *_) = scores.values()
    gain = varying - plain
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(f"Gain of noise that varies: {gain.mean():.3f} ± {error:.3f} nats a row (paired, standard error)")

    draw(Path("out/motorcycle.png"), time, acceleration)
    inside = {name: (low <= acceleration) & (acceleration <= high) for name, (_, low, high) in scores.items()}
    return {"gain": gain.mean(), "error": error, "quiet": inside["noise that varies"][quiet].mean()}


def judge(gp: GPRegressor, x: np.ndarray, y: np.ndarray, folds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log density and 95 % interval of each row, predicted from the other folds."""
    found = np.empty((3, len(y)))
    for train, test in KFold(folds, shuffle=True, random_state=0).split(x):
        gp.fit(x[train], y[train])
        found[:, test] = gp.log_density(x[test], y[test]), *gp.predict_interval(x[test])
    density, low, high = found
    return density, low, high


def draw(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    """Both models on all rows, with their 95 % intervals."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    grid = np.linspace(0, 60, 400)[:, None]
    for axes, (name, gp) in zip(panels, MODELS.items(), strict=True):
        gp.fit(x, y)
        axes.fill_between(grid[:, 0], *gp.predict_interval(grid), alpha=0.2, label="95 % of observations")
        axes.fill_between(grid[:, 0], *gp.predict_interval(grid, of="f"), alpha=0.4, label="95 % of the function")
        axes.plot(grid, gp.predict(grid))
        axes.plot(x, y, "k.", markersize=4)
        axes.set(title=f"{name.capitalize()}: log evidence {gp.log_marginal_likelihood():.0f}", xlabel="milliseconds")
    panels[0].set_ylabel("acceleration, g")
    panels[0].legend(frameon=False, loc="lower right")
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
