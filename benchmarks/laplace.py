"""Fitting a binary classifier by Laplace's approximation: ours beside scikit-learn's GaussianProcessClassifier.

Both maximise the same evidence by L-BFGS from the same start, for one RBF kernel with 8 lengthscales and a variance,
logistic likelihood, float64. The seconds are those of the whole fit; the evidence is what each reached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness import Benchmark, in_words, peer, race
from stratagp.kernels import RBF
from stratagp.models.classification import GPClassification
from stratagp.objectives.sites import WarmStart
from stratagp.training import maximise

COLUMNS = 8
SIZES = {500: 2, 1000: 1}  # rows, and how often each contestant runs
BOUNDS = (1e-5, 1e5)

Fit = Callable[[], tuple[float, int]]  # the evidence reached, and how often it was evaluated


def problem(n: int) -> tuple[Tensor, Tensor]:
    """An additive function: five of the columns matter, in different measure."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, COLUMNS, generator=generator, dtype=torch.float64)
    f = 3 * torch.sin(2 * x[:, 0]) + x[:, 1:5] @ torch.tensor([2.0, 1.5, 1.0, 0.5], dtype=torch.float64)
    noise = torch.rand(n, generator=generator, dtype=torch.float64)
    return x, (noise < f.sigmoid()).double()


def stratagp_fit(x: Tensor, t: Tensor) -> Fit:
    def fit() -> tuple[float, int]:
        model, start = GPClassification(RBF(ard=COLUMNS)), WarmStart()
        result = maximise(lambda: model.log_evidence(x, t, start), model.parameters())
        return result.value, result.evaluations

    return fit


def sklearn_fit(x: Tensor, t: Tensor) -> Fit:
    gp = peer("sklearn.gaussian_process")
    points, labels = x.numpy(), t.numpy()

    def fit() -> tuple[float, int]:
        kernel = gp.kernels.ConstantKernel(1.0, BOUNDS) * gp.kernels.RBF([1.0] * COLUMNS, BOUNDS)
        calls = []

        def minimise(objective: Callable[..., Any], theta: Any, bounds: Any) -> tuple[Any, float]:
            """What scikit-learn does by default, counted."""
            end = peer("scipy.optimize").minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds)
            calls.append(int(end.nfev))
            return end.x, end.fun

        model = gp.GaussianProcessClassifier(kernel, optimizer=minimise).fit(points, labels)
        return float(model.log_marginal_likelihood_value_), sum(calls)

    return fit


CONTESTANTS = {"StrataGP": stratagp_fit, "scikit-learn": sklearn_fit}


def fit_row(bench: Benchmark, n: int) -> dict[str, Any]:
    fits: dict[str, Fit] = bench.available(CONTESTANTS, *problem(n))
    reached: dict[str, tuple[float, int]] = {}

    def run(name: str) -> None:
        reached[name] = fits[name]()

    seconds = race({name: lambda name=name: run(name) for name in fits}, SIZES[n])
    return {"n": n, "seconds": seconds, "reached": reached}


def show(bench: Benchmark, rows: list[dict[str, Any]]) -> None:
    shown = []
    for row in rows:
        seconds = row["seconds"]
        for name, taken in seconds.items():
            value, evaluations = row["reached"][name]
            shown.append(
                {
                    "n": str(row["n"]),
                    "fit by": name,
                    "seconds": in_words(taken),
                    "evidence": f"{value:.4f}",
                    "evaluations": str(evaluations),
                    "each": in_words(taken / evaluations),
                    "StrataGP is faster": f"{taken / seconds['StrataGP']:.1f}×",
                }
            )
    title = f"Laplace classification, RBF, D = {COLUMNS}, float64, {bench.threads} threads"
    bench.show(title, shown, "both by L-BFGS from the same start, to their own defaults of convergence")


def main() -> None:
    bench = Benchmark.from_command_line("laplace", __doc__)
    sizes = [n for n in SIZES if n <= 500 or not bench.quick]
    rows = [bench.row(f"fit, n = {n}", lambda n=n: fit_row(bench, n)) for n in sizes]
    show(bench, [row for row in rows if row])


if __name__ == "__main__":
    main()
