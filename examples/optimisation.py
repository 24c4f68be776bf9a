"""Optimisation of an expensive function: evaluate where the improvement is expected to be largest.

Branin's function of two inputs has three equal minima of 0.3979. After 8 evaluations that fill the square, each of 25
more goes where a Gaussian process, refitted each time, expects most. Random search continues from the same 8. Run it
with ``python examples/optimisation.py``; the picture goes to ``out/optimisation.png``.
"""

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import qmc

from stratagp import GPRegressor
from stratagp.models import expected_improvement

LOW, HIGH, LEAST = np.array([-5.0, 0.0]), np.array([10.0, 15.0]), 0.397887
START, STEPS = 8, 25


def branin(x: np.ndarray) -> np.ndarray:
    """Branin's function, on −5 ≤ x₀ ≤ 10, 0 ≤ x₁ ≤ 15."""
    bowl = x[:, 1] - 5.1 / (4 * np.pi**2) * x[:, 0] ** 2 + 5 / np.pi * x[:, 0] - 6
    return bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x[:, 0]) + 10


def improvement(gp: GPRegressor, x: np.ndarray, best: float) -> np.ndarray:
    """By how much an evaluation at each row is expected to beat the best so far."""
    mean, std = (torch.from_numpy(part) for part in gp.predict(x, return_std=True, of="f"))
    return expected_improvement(mean, std, best).numpy()


def most_promising(score: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """The maximum of a score: the best of many random points, then of points ever closer to it."""
    x = rng.uniform(LOW, HIGH, (1000, 2))
    for reach in (0.1, 0.02, 0.004):
        best = x[score(x).argmax()]
        near = best + reach * (HIGH - LOW) * rng.standard_normal((200, 2))
        x = np.vstack([best, np.clip(near, LOW, HIGH)])
    return x[score(x).argmax()]


def search(seed: int, steps: int) -> tuple[np.ndarray, GPRegressor]:
    """All points in order of evaluation, and the last model."""
    rng = np.random.default_rng(seed)
    x = qmc.scale(qmc.LatinHypercube(2, rng=rng).random(START), LOW, HIGH)
    for _ in range(steps):
        y = branin(x)
        gp = GPRegressor(noise=1e-4).fit(x, y)
        best = float(y.min())
        x = np.vstack([x, most_promising(lambda rows, gp=gp, best=best: improvement(gp, rows, best), rng)])
    return x, gp


def regret(x: np.ndarray) -> np.ndarray:
    """How far the best value so far is from the minimum, after each evaluation."""
    return np.minimum.accumulate(branin(x)) - LEAST


def main(n_seeds: int = 10, steps: int = STEPS) -> dict[str, np.ndarray]:
    """Search from several starts, and compare with random points."""
    runs = [search(seed, steps) for seed in range(n_seeds)]
    ours = np.stack([regret(x) for x, _ in runs])
    random = np.random.default_rng(0).uniform(LOW, HIGH, (n_seeds, 40, steps, 2))  # 40 times from the same start
    theirs = np.stack(
        [regret(np.vstack([x[:START], more])) for (x, _), each in zip(runs, random, strict=True) for more in each]
    )
    print(f"Median distance from the least value, {n_seeds} starts")
    print("evaluations   expected improvement   random search")
    for n in range(START, START + steps + 1, 5):
        print(f"  {n:9}   {np.median(ours[:, n - 1]):20.4f}   {np.median(theirs[:, n - 1]):13.4f}")
    path = Path("out/optimisation.png")
    draw(path, runs[0], ours, theirs)
    print(f"Picture: {path}")
    return {"ours": ours, "theirs": theirs}


def draw(path: Path, run: tuple[np.ndarray, GPRegressor], ours: np.ndarray, theirs: np.ndarray) -> None:
    """Where the first search went, and how fast all of them converged."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    axes = [np.linspace(low, high, 81) for low, high in zip(LOW, HIGH, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    x, gp = run
    left.contourf(*axes, np.log(np.clip(gp.predict(grid), 0.4, None)).reshape(81, 81).T, levels=14, cmap="Blues_r")
    left.plot(*x[:START].T, "ks", markersize=4, label="initial design")
    left.plot(*x[START:].T, "C1o", markersize=4, label="chosen")
    left.set(xlabel="x₀", ylabel="x₁", title="Where one search looked")
    left.legend(loc="upper right", fontsize=8)
    for values, label in ((ours, "expected improvement"), (theirs, "random search")):
        right.semilogy(np.arange(1, values.shape[1] + 1), np.median(values, 0), label=label)
    right.axvline(START, color="k", lw=0.5)
    right.set(xlabel="evaluations", ylabel="median distance from the least value", title="How fast it comes near")
    right.legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
