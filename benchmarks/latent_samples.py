"""Laplace's method, expectation propagation and the local bound beside sampled latent values, which are the truth.

200 rows of each set, the rest to test (1,000 at most). `GPClassifier` learns the values of its kernel by each method.
Then, with the same values, the latent functions are drawn by elliptical slice sampling (eight chains, 4,000 draws), and
both predict the same rows: how far the probabilities are apart, on average and at most, and the log loss of each.

    STRATAGP_DATA=… python benchmarks/latent_samples.py --threads 1
    python benchmarks/latent_samples.py --markdown
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn import datasets as toys

from datasets import classic, gp_drf_fold
from harness import Benchmark, in_words
from stratagp import GPClassifier
from stratagp.models import sample_classes

ROWS, TESTED = 200, 1000
BINARY = ("synthetic", "spam", "eeg", "breast cancer")
METHODS = {**dict.fromkeys(BINARY, ("laplace", "ep", "variational")), "wine, three classes": ("laplace",)}

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def data(name: str, rows: int) -> Arrays:
    """Training and test rows, at random."""
    if name == "synthetic":  # of the book by Rasmussen and Williams: two columns, two mixtures of Gaussians
        found = classic("gpml_classification")
        X, y = found["x"], (np.ravel(found["y"]) > 0).astype(int)
    elif name in ("spam", "eeg"):
        fold = gp_drf_fold(name)
        X, y = np.concatenate([fold.X_train, fold.X_test]), np.concatenate([fold.y_train, fold.y_test]).ravel()
    else:
        X, y = (toys.load_wine if name.startswith("wine") else toys.load_breast_cancer)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    cut = min(rows, len(y) // 2)
    train, test = order[:cut], order[cut : cut + TESTED]
    return X[train], y[train], X[test], y[test]


def measure(name: str, inference: str, quick: bool) -> dict[str, Any]:
    x, y, x_test, y_test = data(name, 40 if quick else ROWS)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPClassifier(inference=inference, random_state=0).fit(x, y)
    seconds, prior = time.perf_counter() - start, model.fitted_.prior
    rows, new = (model.inputs_.points(model, part).values for part in (x, x_test))
    generator = torch.Generator().manual_seed(0)
    start = time.perf_counter()
    lengths = (400, 200, 1) if quick else (4000, 2000, 20)
    truth = sample_classes(prior, rows, torch.from_numpy(y), *lengths, generator=generator)
    sampled, found = truth.probabilities(new).numpy(), model.predict_proba(x_test)
    gap, at = np.abs(found - sampled).max(1), np.arange(len(y_test))
    return {
        "rows": len(y),
        "mean gap": float(gap.mean()),
        "largest gap": float(gap.max()),
        "log loss": -float(np.log(found[at, y_test]).mean()),
        "log loss of samples": -float(np.log(sampled[at, y_test]).mean()),
        "r_hat": truth.r_hat,
        "seconds": seconds,
        "seconds of samples": time.perf_counter() - start,
    }


def main() -> None:
    bench = Benchmark.from_command_line("latent_samples", __doc__)
    shown = []
    for name in list(METHODS)[:1] if bench.quick else METHODS:
        for inference in METHODS[name]:
            row = bench.row(f"{name}, {inference}", lambda n=name, i=inference: measure(n, i, bench.quick))
            if row is None:
                continue
            shown.append(
                {
                    "set": f"{name} ({row['rows']})",
                    "inference": inference,
                    "mean gap": f"{row['mean gap']:.4f}",
                    "largest gap": f"{row['largest gap']:.3f}",
                    "log loss": f"{row['log loss']:.4f}",
                    "of samples": f"{row['log loss of samples']:.4f}",
                    "R̂": f"{row['r_hat']:.3f}",
                    "training": in_words(row["seconds"]),
                    "sampling": in_words(row["seconds of samples"]),
                }
            )
    bench.show(f"Probabilities beside sampled latent values, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
