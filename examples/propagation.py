"""Uncertainty propagation: what do uncertain inputs do to the output of a function that is expensive to run?

First a cantilever beam: we choose its width and thickness; the stiffness and two loads are uncertain. A
Gaussian process learnt from 80 runs gives mean and spread of the displacement for any design in closed form; a million
runs of the true function are the check. Then the Ishigami function, whose Sobol indices are known: which input explains
how much of the variance? Run it with ``python examples/propagation.py``; the picture goes to ``out/propagation.png``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import qmc

from stratagp import GPRegressor
from stratagp import kernels as k
from stratagp.estimators.surrogate import InputEffects

EXPECTED = {"width": 3.0, "thickness": 4.0, "stiffness": 29.0, "side_load": 500.0, "down_load": 1000.0}
SPREAD = {"stiffness": 1.45, "side_load": 100.0, "down_load": 100.0}  # standard deviations; the others are known
LOW, HIGH = [2.0, 3.0, 23.0, 100.0, 600.0], [4.0, 5.0, 35.0, 900.0, 1400.0]
FIRST, TOTAL = np.array([0.3139, 0.4424, 0.0]), np.array([0.5576, 0.4424, 0.2437])  # Ishigami with a = 7, b = 0.1


def displacement(x: pd.DataFrame) -> pd.Series:
    """The displacement of the tip of a beam of length 100 in; stiffness in Mpsi, loads in lb, the rest in inches."""
    bend = np.hypot(x.down_load / x.thickness**2, x.side_load / x.width**2)
    return 4 / (x.stiffness * x.width * x.thickness) * bend


def ishigami(x: np.ndarray) -> np.ndarray:
    """``sin x₀ + 7 sin² x₁ + 0.1 x₂⁴ sin x₀`` for inputs uniform in [−π, π]."""
    return np.sin(x[:, 0]) * (1 + 0.1 * x[:, 2] ** 4) + 7 * np.sin(x[:, 1]) ** 2


def design(n: int, low: list[float], high: list[float]) -> np.ndarray:
    """Runs that fill the box evenly: a Latin hypercube."""
    sampler = qmc.LatinHypercube(len(low), rng=np.random.default_rng(0), optimization="random-cd")
    return qmc.scale(sampler.random(n), low, high)


def simulate(row: pd.Series, n: int = 1_000_000) -> pd.Series:
    """The displacement of one design by brute force: the true function at random inputs."""
    rng = np.random.default_rng(1)
    return displacement(pd.DataFrame({name: rng.normal(row[name], SPREAD.get(name, 0.0), n) for name in row.index}))


def indices(n: int = 128) -> InputEffects:
    """Sobol indices of the Ishigami function, in closed form from a Gaussian process with effects of two orders."""
    x = design(n, [-np.pi] * 3, [np.pi] * 3)
    kernel = k.anova_kernel([k.Measure.uniform(-np.pi, np.pi)] * 3, order=2)
    return GPRegressor(kernel, hyperparameters="ml").fit(x, ishigami(x)).sobol_indices()


def main() -> dict[str, np.ndarray]:
    """Learn the beam, predict designs of several widths, compare; then the shares of Ishigami's inputs."""
    runs = pd.DataFrame(design(80, LOW, HIGH), columns=list(EXPECTED))
    gp = GPRegressor(k.RBF(ard=True), hyperparameters="ml").fit(runs, displacement(runs))
    designs = pd.DataFrame(EXPECTED, index=range(5)).assign(width=[2.2, 2.5, 2.8, 3.2, 3.6])
    mean, std = gp.predict_uncertain(designs, SPREAD, of="f")
    checks = [simulate(row) for _, row in designs.iterrows()]
    truth = np.array([(each.mean(), each.std()) for each in checks])

    print("Displacement        80 runs and a surrogate    1 000 000 runs")
    for width, ours, brute in zip(designs.width, zip(mean, std, strict=True), truth, strict=True):
        print(f"  width {width:.1f} in       {ours[0]:.3f} ± {ours[1]:.3f}             {brute[0]:.3f} ± {brute[1]:.3f}")
    found = indices()
    print("Ishigami, 128 runs  first (known)    total (known)")
    for row in zip(found.names, found.first, FIRST, found.total, TOTAL, strict=True):
        print("  {}                {:.3f} ({:.3f})    {:.3f} ({:.3f})".format(*row))
    print(f"  variance          {found.variance:.2f} (13.84), of which {found.unresolved:.3f} is not yet resolved")

    path = Path("out/propagation.png")
    draw(path, designs.width.to_numpy(), mean, std, truth, found)
    print(f"Picture: {path}")
    return {"mean": mean, "std": std, "truth": truth, "first": found.first, "total": found.total}


def draw(
    path: Path, width: np.ndarray, mean: np.ndarray, std: np.ndarray, truth: np.ndarray, found: InputEffects
) -> None:
    """Mean and spread by width with the check, and the shares of the inputs."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.errorbar(width - 0.02, mean, 1.96 * std, fmt="o", capsize=4, label="80 runs and a surrogate")
    left.errorbar(width + 0.02, truth[:, 0], 1.96 * truth[:, 1], fmt="ks", capsize=4, label="1 000 000 runs")
    left.set(xlabel="width [in]", ylabel="displacement [in]", title="Mean and 1.96 standard deviations")
    left.legend(frameon=False)
    place = np.arange(len(found.names))
    right.bar(place - 0.2, found.first, 0.35, label="alone")
    right.bar(place + 0.2, found.total, 0.35, label="with interactions")
    right.plot(np.concatenate([place - 0.2, place + 0.2]), [*FIRST, *TOTAL], "k_", markersize=22, label="known value")
    right.set(xticks=place, xticklabels=found.names, ylabel="share of the variance", title="Ishigami: whose fault?")
    right.legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
