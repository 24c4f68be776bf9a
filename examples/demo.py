"""Fit an exact Gaussian process to the diabetes data of scikit-learn and see whether its error bars hold.

Run it with ``make demo``. The disease progression of 442 patients is predicted from ten measurements; a tenth of the
patients is held out. The picture goes to ``out/demo.png``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from stratagp import ExactGP, metrics
from stratagp import kernels as k
from stratagp.training import maximise


def main() -> None:
    """Load, standardise, fit, score, draw."""
    data = load_diabetes()
    x, x_test, y, y_test = train_test_split(data.data, data.target, test_size=0.1, random_state=0)
    centre, scale = y.mean(), y.std()
    x_scale = x.std(0)
    x, x_test = (torch.from_numpy(part / x_scale) for part in (x, x_test))

    kernel = (k.RBF(lengthscale=10**0.5, ard=True) + k.Linear(variance=0.1)).bind(data.feature_names)
    gp = ExactGP(kernel, noise=0.5)
    target = torch.from_numpy((y - centre) / scale)
    result = maximise(lambda: gp.log_evidence(x, target), gp.parameters())

    belief = gp.condition(x, target).marginals(x_test)
    mean = belief.mean.squeeze().numpy() * scale + centre
    std = (belief.var.squeeze() + gp.noise.detach()).sqrt().numpy() * scale
    trivial = np.full_like(y_test, centre)

    print(f"Fitted {len(x)} patients in {result.evaluations} evaluations, log evidence {result.value:.2f}")
    print(f"  {gp.kernel}")
    print(f"Held-out patients: {len(y_test)}          StrataGP   mean of the training set")
    print(f"  error (RMSE)                 {metrics.rmse(y_test, mean):10.2f}   {metrics.rmse(y_test, trivial):10.2f}")
    trivial_std = np.full_like(y_test, scale)
    ours, theirs = metrics.nlpd(y_test, mean, std), metrics.nlpd(y_test, trivial, trivial_std)
    print(f"  negative log density (NLPD)  {ours:10.3f}   {theirs:10.3f}")
    ours, theirs = metrics.coverage(y_test, mean, std), metrics.coverage(y_test, trivial, trivial_std)
    print(f"  inside the 95 % interval     {100 * ours:9.0f} %   {100 * theirs:9.0f} %")

    path = Path("out/demo.png")
    draw(path, y_test, mean, std, kernel.parts[0].lengthscale.detach().numpy(), data.feature_names)
    print(f"Picture: {path}")


def draw(
    path: Path, y: np.ndarray, mean: np.ndarray, std: np.ndarray, lengthscale: np.ndarray, names: list[str]
) -> None:
    """Predictions with their 95 % intervals in order, and the relevance of each measurement."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), gridspec_kw={"width_ratios": [2, 1]})
    order = np.argsort(mean)
    rows = np.arange(len(y))
    left.fill_between(rows, (mean - 1.96 * std)[order], (mean + 1.96 * std)[order], alpha=0.2, label="95 % interval")
    left.plot(rows, mean[order], label="prediction")
    left.plot(rows, y[order], "k.", label="patient")
    left.set(xlabel="held-out patients, by prediction", ylabel="disease progression", title="Do the error bars hold?")
    left.legend(frameon=False)
    rank = np.argsort(lengthscale)[::-1]
    right.barh([names[i] for i in rank], 1 / lengthscale[rank])
    right.set(xlabel="1 / lengthscale", title="Which inputs bend the function?")
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
