"""Learning where there are no data: effects of single inputs carry over, a product kernel does not.

f(x) = sin(rπx₁) + cos(rπx₂) is observed in an L-shaped part of the unit square and predicted in the opposite corner.
The Gaussian kernel knows nothing there; a sum of one-input kernels has seen all that it needs. Additive kernels of
every order find out by themselves that there is no interaction. The partial dependence on one input,

    gᵢ(v) = 1/n Σⱼ f(xⱼ with xⱼᵢ = v),

is its effect plus a constant, the average of the other input's effect over the data. Run ``python examples/anova.py``;
the picture goes to ``out/anova.png``.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, metrics
from stratagp import kernels as k

KERNELS = {
    "Gaussian": k.RBF(ard=True),
    "first order": k.Additive(k.RBF(), max_order=1),
    "every order": k.Additive(k.RBF()),
    "centred": k.anova_kernel([k.Measure.uniform(0, 1)] * 2),  # effects of mean zero, and a constant
}
AXIS = np.linspace(0, 1, 61)
NOISE = 1e-6  # the values are exact: this only keeps the covariances well conditioned


def truth(x: np.ndarray, r: int) -> np.ndarray:
    """A sum of one function of each input."""
    return np.sin(r * np.pi * x[:, 0]) + np.cos(r * np.pi * x[:, 1])


def points(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Random points of the L where either input is below 0.4, and random points of the corner above 0.5."""
    rng = np.random.default_rng(0)
    square = rng.uniform(size=(20 * n, 2))
    return square[square.min(1) < 0.4][:n], rng.uniform(0.5, 1, (500, 2))


def dependence(x: np.ndarray, column: int, r: int) -> np.ndarray:
    """The true partial dependence on one input: averaged over the other in the rows."""
    rows = np.tile(x, (len(AXIS), 1, 1))
    rows[:, :, column] = AXIS[:, None]
    return truth(rows.reshape(-1, 2), r).reshape(len(AXIS), len(x)).mean(1)


def main(frequencies: Sequence[int] = (2, 4)) -> dict[tuple[str, int], float]:
    """Four kernels, two frequencies: errors in the corner, and the learnt effects; draws the last."""
    x, corner = points()
    models, errors = {}, {}
    print("Error (RMSE) in the corner  " + "".join(f"{f'r = {r}':>11}" for r in frequencies))
    for r in frequencies:
        given = GPRegressor(k.RBF(lengthscale=0.2, variance=1.0), noise=NOISE, max_iterations=0).fit(x, truth(x, r))
        errors["given", r] = metrics.rmse(truth(corner, r), given.predict(corner))
    print("  Gaussian, ℓ = 0.2 as given" + "".join(f"{errors['given', r]:11.1e}" for r in frequencies))
    for name, kernel in KERNELS.items():
        for r in frequencies:
            models[name, r] = GPRegressor(kernel, noise=NOISE, hyperparameters="ml").fit(x, truth(x, r))
            errors[name, r] = metrics.rmse(truth(corner, r), models[name, r].predict(corner))
        print(f"  {name + ', learnt':26}" + "".join(f"{errors[name, r]:11.1e}" for r in frequencies))
    for r in frequencies:
        first, second = models["every order", r].kernel_.variance.tolist()
        print(f"r = {r}: variance of single inputs {first:.1f}, of the interaction {second:.0e}")

    effects = [models["every order", r].partial_dependence(i, AXIS) for i in range(2)]
    for i, name in enumerate(("first", "second")):
        errors["effect", i] = metrics.rmse(dependence(x, i, r), effects[i][0])
        print(f"Effect of the {name} input alone, r = {r}: error (RMSE) {errors['effect', i]:.0e}")

    path = Path("out/anova.png")
    draw(path, x, models, effects, r)
    print(f"Picture: {path}")
    return errors


def draw(path: Path, x: np.ndarray, models: dict, effects: list[tuple[np.ndarray, np.ndarray]], r: int) -> None:
    """The prediction of the Gaussian and of the additive kernel, and the effects of the latter."""
    axis = np.linspace(0, 1, 81)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.4))
    for panel, name in zip(panels, ("Gaussian", "every order"), strict=False):
        values = models[name, r].predict(grid).reshape(81, 81).T
        panel.contourf(axis, axis, np.clip(values, -2, 2), levels=np.linspace(-2, 2, 17))
        panel.plot(*x.T, "w.", markersize=3)
        panel.set(xlabel="first input", ylabel="second input", title=f"Prediction, {name}")
    right = panels[2]
    for i, (mean, std) in enumerate(effects):
        right.fill_between(AXIS, mean - 1.96 * std, mean + 1.96 * std, alpha=0.2, color=f"C{i}")
        right.plot(AXIS, mean, color=f"C{i}", label=("first input", "second input")[i])
        right.plot(AXIS, dependence(x, i, r), "k:", label="truth" if i else None)
    right.set(xlabel="input", title="Partial dependence on each input")
    right.legend(loc="lower left", fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
