"""Laplace's method, expectation propagation and the local bound beside sampled latent values, which are the truth.

200 rows of each set, the rest to test (1,000 at most). `GPClassifier` learns the values of its kernel by each method.
Then, with the same values, the latent functions are drawn by elliptical slice sampling (32 chains of 7,500 steps), and
both predict the same rows: how far the probabilities are apart, on average and at most, and the log loss of each. The
standard error of the samples comes from the spread between chains.

    STRATAGP_DATA=… python benchmarks/latent_samples.py --threads 1
    python benchmarks/latent_samples.py --markdown
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn import datasets as toys

from datasets import classic, gp_drf_fold
from harness import Benchmark, in_words
from stratagp import GPClassifier
from stratagp.models import sample_classes

ROWS, TESTED, CHAINS = 200, 1000, 32
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
    lengths = (10 * CHAINS, 50, 1) if quick else (100 * CHAINS, 1500, 60)
    truth = sample_classes(prior, rows, torch.from_numpy(y), *lengths, CHAINS, generator)
    seconds_of_samples = time.perf_counter() - start
    chains = [replace(truth, values=part).probabilities(new).numpy() for part in truth.values.chunk(CHAINS)]
    sampled, found = np.mean(chains, 0), model.predict_proba(x_test)
    gap, at = np.abs(found - sampled).max(1), np.arange(len(y_test))
    return {
        "rows": len(y),
        "mean gap": float(gap.mean()),
        "largest gap": float(gap.max()),
        "error of samples": float((np.std(chains, 0, ddof=1).max(1) / CHAINS**0.5).mean()),
        "log loss": -float(np.log(found[at, y_test]).mean()),
        "log loss of samples": -float(np.log(sampled[at, y_test]).mean()),
        "r_hat": truth.r_hat,
        "seconds": seconds,
        "seconds of samples": seconds_of_samples,
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
                    "error of samples": f"{row['error of samples']:.4f}",
                    "largest gap": f"{row['largest gap']:.3f}",
                    "log loss": f"{row['log loss']:.4f}",
                    "that of samples": f"{row['log loss of samples']:.4f}",
                    "training": in_words(row["seconds"]),
                    "sampling": in_words(row["seconds of samples"]),
                }
            )
    bench.show(f"Probabilities beside sampled latent values, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
