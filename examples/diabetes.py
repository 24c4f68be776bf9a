"""Fit a Gaussian process to the diabetes data of scikit-learn and see whether its error bars hold.

The disease progression of 442 patients is predicted from ten measurements; a tenth of the
patients is held out. The picture goes to ``out/diabetes.png``.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from stratagp import GPRegressor, metrics
from stratagp import kernels as k


def main() -> None:
    """Load, fit, score, draw."""
    data = load_diabetes(as_frame=True)
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.1, random_state=0)
    gp = GPRegressor(k.RBF(ard=True) + k.Linear()).fit(X, y)
    mean, std = gp.predict(X_test, return_std=True)

    trivial = np.full_like(mean, y.mean()), np.full_like(std, y.std())
    print(f"Fitted {len(X)} patients by {gp.inference_} inference, log evidence {gp.log_marginal_likelihood():.2f}")
    print(f"Held-out patients: {len(y_test)}          StrataGP   mean of the training set")
    for name, measure in (
        ("error (RMSE)", lambda mean, std: f"{metrics.rmse(y_test, mean):.2f}"),
        ("negative log density (NLPD)", lambda mean, std: f"{metrics.nlpd(y_test, mean, std):.3f}"),
        ("inside the 95 % interval", lambda mean, std: f"{100 * metrics.coverage(y_test, mean, std):.0f} %"),
    ):
        print(f"  {name:<28} {measure(mean, std):>10}   {measure(*trivial):>10}")
    print(gp.hyperparameters_)

    path = Path("out/diabetes.png")
    draw(path, y_test.to_numpy(), mean, gp.predict_interval(X_test), gp.relevance_, data.feature_names)
    print(f"Picture: {path}")


def draw(
    path: Path,
    y: np.ndarray,
    mean: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    relevance: np.ndarray,
    names: list[str],
) -> None:
    """Predictions with their 95 % intervals in order, and the relevance of each measurement."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), gridspec_kw={"width_ratios": [2, 1]})
    order, rows = np.argsort(mean), np.arange(len(y))
    left.fill_between(rows, interval[0][order], interval[1][order], alpha=0.2, label="95 % interval")
    left.plot(rows, mean[order], label="prediction")
    left.plot(rows, y[order], "k.", label="patient")
    left.set(xlabel="held-out patients, by prediction", ylabel="disease progression", title="Do the error bars hold?")
    left.legend(frameon=False)
    rank = np.argsort(relevance)
    right.barh([names[i] for i in rank], relevance[rank])
    right.set(xlabel="relevance", title="What drives the prediction?")
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
