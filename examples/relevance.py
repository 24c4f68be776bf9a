"""Which inputs matter? Automatic relevance determination: a lengthscale for each column, learnt from the data.

The target depends only on the first of three inputs; the second is a noisy copy of the first, and the third is
irrelevant. Run it with ``python examples/relevance.py``; the picture goes to ``out/relevance.png``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from stratagp import ExactGP, GPRegressor
from stratagp import kernels as k

WEIGHTS = ((1.0, 1.0), (1.0, 0.01))  # η = 1/ℓ² of the two inputs of each drawn function


def data(n: int = 100, noise: float = 0.1) -> tuple[pd.DataFrame, np.ndarray]:
    """The cause, its noisy copy and a bystander; the target is a sine of the cause."""
    rng = np.random.default_rng(0)
    cause, bystander = rng.normal(0, 0.5, (2, n))
    copy = cause + rng.normal(0, 0.1, n)
    target = np.sin(2 * np.pi * cause) + rng.normal(0, noise, n)
    return pd.DataFrame({"cause": cause, "copy": copy, "bystander": bystander}), target


def draw_functions(x: torch.Tensor) -> list[np.ndarray]:
    """Functions of two inputs from the prior: with weights (1, 0.01) the second input hardly matters."""
    priors = [ExactGP(k.RBF(lengthscale=1 / np.sqrt(eta))) for eta in WEIGHTS]
    return [prior.draw(2000, torch.Generator().manual_seed(3))(x).numpy() for prior in priors]


def main() -> dict[str, np.ndarray | float]:
    """Learn the lengthscales, print them and draw."""
    X, y = data()
    gp = GPRegressor(k.RBF(ard=True), hyperparameters="ml").fit(X, y)
    eta = gp.kernel_.lengthscale.detach().numpy() ** -2.0
    noise = float(np.sqrt(gp.predictive(X).var - gp.predictive(X, of="f").var).mean())

    print(gp.hyperparameters_)
    print(f"Noise: standard deviation {noise:.3f}, it was 0.1")
    print("Input        η = 1/ℓ²   share of the prediction")
    for name, weight, share in zip(X.columns, eta, gp.relevance_, strict=True):
        print(f"  {name:10} {weight:8.1e}   {100 * share:6.2f} %")

    path = Path("out/relevance.png")
    picture(path, X, y, gp)
    print(f"Picture: {path}")
    return {"eta": eta, "relevance": gp.relevance_, "noise": noise}


def picture(path: Path, X: pd.DataFrame, y: np.ndarray, gp: GPRegressor) -> None:
    """Two functions from the prior, and the fit along the input that matters."""
    axis = torch.linspace(-4, 4, 61, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6))
    for panel, eta, values in zip(panels, WEIGHTS, draw_functions(grid), strict=False):
        panel.contourf(axis, axis, values.reshape(61, 61).T, levels=14)
        panel.set(xlabel="first input", ylabel="second input", title=f"A prior draw with η = {eta}")

    rows = pd.DataFrame({"cause": np.linspace(-1.5, 1.5, 200), "copy": 0.0, "bystander": 0.0})
    low, high = gp.predict_interval(rows)
    right = panels[2]
    right.fill_between(rows.cause, low, high, alpha=0.2, label="95 % interval")
    right.plot(rows.cause, gp.predict(rows), label="prediction")
    right.plot(X.cause, y, "k.", markersize=4, label="data")
    right.set(xlabel="cause", ylabel="target", title="The other two inputs were switched off")
    right.legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
