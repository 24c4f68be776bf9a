"""A picture of what a deep feed-forward process learns: two latent coordinates, and the output process above them.

Noise of airfoils in a wind tunnel (1503 rows, 5 columns, a tenth to test), two hidden processes and an output process
with 20 inducing points each, closed form, 200 iterations of L-BFGS. On the left test rows by their first two principal
components, on the right by their latent coordinates, both coloured by what was measured. The ground on the right is
the mean of the output process, which fades to white where it knows no more than its prior; ellipses are two standard
deviations of the latent coordinates of some rows. Where dots have the colour of the ground below them, the prediction
is right. ``R²`` of the test rows is told for two and for as many hidden processes as columns. The picture is
drawn when its row is measured: ``--fresh`` draws it again.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datasets import Split, uci_regression
from harness import Benchmark, in_words, peer
from stratagp.estimators import DFGPRegressor

SET, TARGET = "airfoil", "sound, dB from the mean"
HIDDEN = (2, 5)  # those of the picture, and as many as columns
INDUCING, ITERATIONS, GRID, ELLIPSES = 20, 200, 120, 12


def measure(hidden: int, quick: bool, path: Path | None) -> dict[str, float]:
    rows, iterations = uci_regression(SET), 20 if quick else ITERATIONS
    start = time.perf_counter()
    model = DFGPRegressor(n_hidden=hidden, n_inducing=INDUCING, max_iterations=iterations, random_state=0)
    model.fit(rows.X_train, rows.y_train.ravel())
    seconds = time.perf_counter() - start
    if path is not None:
        draw(model, rows, path)
    return {"r2": model.score(rows.X_test, rows.y_test.ravel()), "seconds": seconds}


def principal(rows: Split) -> np.ndarray:
    """The first two principal components of test rows, by the standardised training rows."""
    mean, std = rows.X_train.mean(0), rows.X_train.std(0)
    axes = np.linalg.svd((rows.X_train - mean) / std, full_matrices=False)[2][:2]
    return (rows.X_test - mean) / std @ axes.T


def ground(model: DFGPRegressor, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the output process on a grid in units of the target, and its deviation as a share of the prior's."""
    points = torch.from_numpy(np.stack(np.meshgrid(a, b), -1).reshape(-1, 2))
    with torch.no_grad():
        belief = model.model_.layer.layers[-1](points)
        share = (belief.var / model.kernel_.diag(points)[:, None]).sqrt()
    mean = belief.mean.numpy() * model.scale_.scale + model.scale_.mean
    return mean.reshape(GRID, GRID), share.numpy().reshape(GRID, GRID)


def draw(model: DFGPRegressor, rows: Split, path: Path) -> None:
    pyplot, patches = peer("matplotlib.pyplot"), peer("matplotlib.patches")
    y = rows.y_test.ravel()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4.2), layout="constrained", width_ratios=(1, 1.35))
    look: dict[str, Any] = {"cmap": "viridis", "vmin": y.min(), "vmax": y.max()}
    dots: dict[str, Any] = {**look, "c": y, "s": 28, "edgecolors": "black", "linewidths": 0.6}
    left.scatter(*principal(rows).T, **dots)
    left.set(
        xlabel="first principal component",
        ylabel="second principal component",
        title="test rows by principal components",
    )
    latent, std = model.transform(rows.X_test, return_std=True)
    low, high = latent.min(0), latent.max(0)
    a, b = (np.linspace(x - 0.15 * (z - x), z + 0.15 * (z - x), GRID) for x, z in zip(low, high, strict=True))
    mean, share = ground(model, a, b)
    colours = pyplot.get_cmap(look["cmap"])(pyplot.Normalize(look["vmin"], look["vmax"])(mean))[..., :3]
    faded = colours + (1 - colours) * share.clip(0, 1)[..., None]
    right.imshow(faded, origin="lower", extent=(a[0], a[-1], b[0], b[-1]), aspect="auto", interpolation="bilinear")
    lines = right.contour(a, b, mean, levels=np.arange(-30, 20, 5), colors="black", linewidths=0.5)
    right.clabel(lines, fontsize=8)
    shown = right.scatter(*latent.T, **dots, zorder=3)
    for i in np.random.default_rng(0).choice(len(y), ELLIPSES, replace=False):
        right.add_patch(patches.Ellipse(latent[i], *(4 * std[i]), fill=False, ec="tab:red", lw=1.2, zorder=4))
    right.plot([], [], "o", mfc="none", mec="tab:red", label="± 2 standard deviations")
    right.legend(loc="upper left", fontsize=9)
    right.set(xlabel="first latent coordinate", ylabel="second latent coordinate", title="by latent coordinates")
    figure.colorbar(shown, ax=right, label=TARGET)
    figure.savefig(path, dpi=150)


def main() -> None:
    bench = Benchmark.from_command_line("dfgp_manifold", __doc__)
    bench.path.parent.mkdir(exist_ok=True)
    shown = []
    for hidden in HIDDEN:
        path = bench.path.with_suffix(".png") if hidden == 2 else None
        key = f"{SET}, {hidden} hidden, {INDUCING} inducing, {ITERATIONS} iterations"
        row = bench.row(key, partial(measure, hidden, bench.quick, path))
        if row:
            shown.append({"hidden processes": str(hidden), "R²": f"{row['r2']:.3f}", "fit": in_words(row["seconds"])})
    bench.show(f"{SET}, {INDUCING} inducing points, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
