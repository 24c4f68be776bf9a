"""Calibration: which parameters of a simulator agree with measurements, when you can run it only a few times?

A drug turns into a product at rate k₁, which decays at rate k₂; the simulator gives the amount of the product. A
Gaussian process over (log time, k₁, k₂) stands in for it, as in Kennedy and O'Hagan (2001), here for a simulator
without bias. With the joint mean m(θ) and covariance V(θ) of the stand-in at the measured times,

    p(θ | y) ∝ N(y; m(θ), V(θ) + σ²I)  inside a box of plausible rates θ = (k₁, k₂).

Without V, the stand-in counts as exact. Run ``python examples/calibration.py``; the picture goes to
``out/calibration.png``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import qmc

from stratagp import GPRegressor

TRUTH, NOISE, TIMES = (1.2, 0.25), 0.01, np.linspace(0.5, 9.5, 10)
LOW, HIGH = [np.log(0.5), 0.8, 0.15], [np.log(10.0), 1.6, 0.35]  # where the simulator is run
RATES = np.stack(np.meshgrid(np.linspace(1.0, 1.4, 33), np.linspace(0.22, 0.28, 33), indexing="ij"), -1)  # the box
TRUE = 16 * 33 + 16  # the index of the true rates in the grid


def simulator(log_time: np.ndarray, k1: np.ndarray | float, k2: np.ndarray | float) -> np.ndarray:
    """The amount of the product: A → B at rate k₁, B → C at rate k₂."""
    return k1 / (k1 - k2) * (np.exp(-k2 * np.exp(log_time)) - np.exp(-k1 * np.exp(log_time)))


def surrogate(n_runs: int, seed: int) -> GPRegressor:
    """A Gaussian process fitted to runs of the simulator that fill its inputs evenly."""
    sampler = qmc.LatinHypercube(3, rng=np.random.default_rng(seed), optimization="random-cd")
    runs = qmc.scale(sampler.random(n_runs), LOW, HIGH)
    return GPRegressor(noise=1e-8).fit(runs, simulator(*runs.T))


def predictions(gp: GPRegressor) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``g t`` and joint covariance ``g t t`` of the simulator at the measured times, for each pair of rates."""
    t, means, covariances = len(TIMES), [], []
    for line in RATES:
        rows = np.column_stack([np.tile(np.log(TIMES), len(line)), np.repeat(line, t, axis=0)])
        mean, covariance = gp.predict(rows, return_cov=True, of="f")
        means.append(mean.reshape(-1, t))
        covariances.append(np.einsum("itis->its", covariance.reshape(len(line), t, len(line), t)))
    return np.concatenate(means), np.concatenate(covariances)


def posterior(mean: np.ndarray, covariance: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability of each pair of rates ``g`` given each experiment, a row of ``y``: ``e g``."""
    factor = np.linalg.cholesky(covariance + NOISE**2 * np.eye(len(TIMES)))
    residual = np.linalg.solve(factor, (y[:, None] - mean).transpose(1, 2, 0))
    log_density = -0.5 * (residual**2).sum(1).T - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    return density / density.sum(1, keepdims=True)


def region(probability: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Which pairs of rates are in the smallest region that contains ``level`` of the probability, ``e g``."""
    order = np.argsort(-probability, 1)
    ranked = np.take_along_axis(probability, order, 1)
    inside = np.zeros(probability.shape, dtype=bool)
    np.put_along_axis(inside, order, np.cumsum(ranked, 1) - ranked < level, 1)
    return inside


def main(n_designs: int = 6, n_experiments: int = 50) -> dict[tuple[int, str], float]:
    """With 60 runs and with 15: the rates of one experiment, and how often the 95 % regions of many are right."""
    noise = np.random.default_rng(0).standard_normal((n_experiments, len(TIMES)))
    y = simulator(np.log(TIMES), *TRUTH) + NOISE * noise
    print(f"The 95 % region holds the true rates {TRUTH} in {n_designs} designs × {n_experiments} experiments:")
    results, shown = {}, {}
    for n_runs in (60, 15):
        held = []
        for seed in range(n_designs):
            mean, covariance = predictions(surrogate(n_runs, seed))
            found = [posterior(mean, part, y) for part in (covariance, 0 * covariance)]
            held.append([region(each)[:, TRUE].mean() for each in found])
            shown.setdefault(n_runs, [each[0] for each in found])
        results[n_runs, "with"], results[n_runs, "without"] = share = 100 * np.mean(held, 0)
        centre = shown[n_runs][0] @ RATES.reshape(-1, 2)
        spread = np.sqrt(shown[n_runs][0] @ (RATES.reshape(-1, 2) - centre) ** 2)
        rates = f"{centre[0]:.3f} ± {spread[0]:.3f} and {centre[1]:.4f} ± {spread[1]:.4f}"
        print(f"  {n_runs} runs: {share[0]:3.0f} %, without V {share[1]:3.0f} %; the first says {rates}")
    draw(Path("out/calibration.png"), shown)
    print("Picture: out/calibration.png")
    return results


def draw(path: Path, shown: dict[int, list[np.ndarray]]) -> None:
    """The regions of one experiment, with the covariance of the surrogate and without."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for panel, (n_runs, found) in zip(panels, shown.items(), strict=True):
        for i, label in enumerate(("with the surrogate's covariance", "as if it were exact")):
            panel.contourf(*RATES.transpose(2, 0, 1), region(found[i][None]).reshape(33, 33), [0.5, 1], colors=f"C{i}")
            panel.plot([], "s", color=f"C{i}", label=label)
        panel.plot(*TRUTH, "k*", markersize=10, label="true rates")
        panel.set(xlabel="k₁", ylabel="k₂", title=f"95 % regions from {n_runs} runs")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
