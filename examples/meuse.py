"""A map with error bars from a data frame: zinc in the flood plain of the Meuse.

The log of zinc at 155 sites depends on the distance to the river, the elevation, how often it is flooded (a category),
and for the rest on the place; kriging knows only the place. The map has 3103 cells whose elevations nobody measured:
``missing="impute"`` averages over what they may be. Set ``STRATAGP_DATA``, then ``python examples/meuse.py``; the
picture goes to ``out/meuse.png``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from stratagp import kernels as k
from stratagp import metrics
from stratagp.estimators import GPRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import datasets

FLOODING = np.array(["", "often", "sometimes", "rarely"])


def frame(sites: dict[str, np.ndarray]) -> pd.DataFrame:
    """Named columns: kilometres, the root of the distance to the river (1 is the farthest), metres, a category."""
    columns = {
        "east": sites["x"] / 1000,
        "north": sites["y"] / 1000,
        "river": np.sqrt(sites["dist"]),
        "elevation": sites.get("elev", np.nan),
        "flooding": pd.Categorical(FLOODING[sites["ffreq"].astype(int)]),
    }
    return pd.DataFrame(columns)


def models() -> dict[str, GPRegressor]:
    """From the place alone to all columns."""
    place = k.Matern(1.5).on(["east", "north"])
    effects = k.RBF().on("river") + k.Linear().on("flooding") + place
    return {
        "kriging": GPRegressor(place),
        "with effects": GPRegressor(effects),
        "and elevation": GPRegressor(effects + k.RBF().on("elevation"), missing="impute"),
    }


def main(folds: int = 10) -> dict[str, float]:
    """Cross-validate the models and draw the map."""
    sites = datasets.geostat("meuse")
    table, zinc = frame(sites), np.log(sites["zinc"])
    print(f"log zinc at {len(zinc)} sites: {folds}-fold cross-validation, and the log evidence of all rows")
    print(f"{'':15s}  RMSE   NLPD   in the 95 % interval   evidence")
    errors = {}
    for name, gp in models().items():
        errors[name] = report(name, zinc, judge(gp, table, table, zinc, folds), gp.fit(table, zinc))
    asked = table.assign(elevation=np.nan)  # as in the cells of the map
    errors["unmeasured"] = report("  not measured", zinc, judge(gp, table, asked, zinc, folds), gp.fit(table, zinc))
    print(f"the map is of {gp.kernel_}")
    draw(Path("out/meuse.png"), gp, table, zinc)
    return errors


def judge(gp: GPRegressor, X: pd.DataFrame, asked: pd.DataFrame, y: np.ndarray, folds: int) -> np.ndarray:
    """Mean and standard deviation of each requested row, predicted from the other folds."""
    found = np.empty((2, len(y)))
    for train, test in KFold(folds, shuffle=True, random_state=0).split(X):
        found[:, test] = gp.fit(X.iloc[train], y[train]).predict(asked.iloc[test], return_std=True)
    return found


def report(name: str, y: np.ndarray, found: np.ndarray, gp: GPRegressor) -> float:
    """Print the scores of a model; returns the error."""
    error = metrics.rmse(y, found[0])
    scores = f"{error:.3f}  {metrics.nlpd(y, *found):.3f} {metrics.coverage(y, *found):10.0%}"
    print(f"{name:15s} {scores} {gp.log_marginal_likelihood():21.1f}")
    return error


def draw(path: Path, gp: GPRegressor, sites: pd.DataFrame, zinc: np.ndarray) -> None:
    """Mean and standard deviation of log zinc on the grid."""
    grid = frame(datasets.geostat("meuse_grid"))
    mean, std = gp.predict(grid, return_std=True)
    figure, panels = plt.subplots(1, 2, figsize=(9, 5), sharey=True)
    titles = "Log zinc, and as measured", "Its standard deviation"
    for axes, values, title, colours in zip(panels, (mean, std), titles, ("viridis", "magma"), strict=True):
        cells = axes.scatter(grid["east"], grid["north"], c=values, marker="s", s=9, linewidths=0, cmap=colours)
        figure.colorbar(cells, ax=axes)
        axes.set(title=title, xlabel="east, km", aspect="equal")
    low, high = mean.min(), mean.max()
    panels[0].scatter(
        sites["east"], sites["north"], c=zinc, vmin=low, vmax=high, s=14, edgecolors="white", linewidths=0.5
    )
    panels[1].plot(sites["east"], sites["north"], "w.", markersize=2)
    panels[0].set_ylabel("north, km")
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
