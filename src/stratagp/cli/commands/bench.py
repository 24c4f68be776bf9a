"""``stratagp bench``: the speed of the exact process on this machine, against scikit-learn."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import click
import numpy as np

import stratagp
from stratagp.cli.output import Console, aligned
from stratagp.cli.program import declared
from stratagp.errors import InputError

_COLUMNS, _REPEATS = 8, 3
_AGREE = 1e-6  # relative


@declared("bench")
@click.option("--sizes", default="500,1000,2000", show_default=True, metavar="N,N,...", help="Numbers of rows.")
def command(console: Console, sizes: str) -> None:
    """Time the exact process on this machine, against scikit-learn.

    It times one log marginal likelihood with its gradient: eight lengthscales, double precision, torch's
    number of threads, the best of three. Both must agree on the value.
    """
    import torch

    rows, data = [["rows", "StrataGP", "scikit-learn", "faster", "difference"]], []
    for n in _sizes(sizes):
        console.note(f"{n} rows")
        ours, theirs, apart = _race(n)
        rows.append([str(n), f"{1e3 * ours:.1f} ms", f"{1e3 * theirs:.1f} ms", f"{theirs / ours:.1f}×", f"{apart:.0e}"])
        data.append({"rows": n, "stratagp": ours, "scikit-learn": theirs, "difference": apart})
    machine = {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "python": platform.python_version()}
    machine |= {name: version(name) for name in ("stratagp", "torch", "scikit-learn")}
    title = f"Log marginal likelihood with gradient, RBF with {_COLUMNS} lengthscales, threads: {machine['threads']}"
    console.result(f"{title}\n{aligned(rows, numbers=True)}", {"seconds": data, "machine": machine})


def _sizes(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        raise InputError(f"--sizes must be numbers of rows, as in 500,1000; got {text!r}") from None
    if min(found) < 2 or max(found) > 20_000:
        raise InputError(f"--sizes must be from 2 to 20000, got {text!r}")
    return found


def _race(n: int) -> tuple[float, float, float]:
    """Seconds of ours and theirs, the best of three, and the relative difference of the two values."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, _COLUMNS))
    y = np.sin(x.sum(1)) + 0.3 * rng.standard_normal(n)
    ours, theirs = _ours(x, y), _theirs(x, y)
    a, b = ours(), theirs()
    apart = abs(a - b) / abs(b)
    assert apart < _AGREE, f"StrataGP and scikit-learn disagree: {a} and {b}"
    best = [np.inf, np.inf]
    for _ in range(_REPEATS):
        for i, contestant in enumerate((ours, theirs)):
            start = time.perf_counter()
            contestant()
            best[i] = min(best[i], time.perf_counter() - start)
    return best[0], best[1], apart


def _ours(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    import torch

    kernel = stratagp.kernels.RBF(ard=_COLUMNS).set(lengthscale=2.0, variance=1.5)
    noise = torch.tensor(0.1, dtype=torch.float64).log().requires_grad_()
    points, targets = torch.from_numpy(x), torch.from_numpy(y)[:, None]
    leaves = [*kernel.parameters(), noise]

    def run() -> float:
        value = stratagp.linalg.gaussian_log_density(targets, kernel(points), noise.exp())
        torch.autograd.grad(value, leaves)
        return float(value.detach())

    return run


def _theirs(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as peers

    kernel = peers.ConstantKernel(1.5) * peers.RBF(np.full(_COLUMNS, 2.0)) + peers.WhiteKernel(0.1)
    model: Any = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
    theta = model.kernel_.theta
    return lambda: float(model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)[0])
