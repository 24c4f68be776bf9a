"""The settings of Vecchia's process, compared on rows held out from training rows; test rows take no part.

Sets are those of `benchmarks/sizes.py`: a tenth of the training rows, at most 1,000, is held out by seed 2. One fit
with each smoothness of the Matérn kernel, one with the squared exponential kernel (∞), and one that chooses;
predictions of the last come from 50 to 400 neighbours. The numbers are NLPD in units of the deviation of the targets.

    STRATAGP_DATA=… python benchmarks/vecchia_settings.py
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from harness import Benchmark, in_subprocess
from sizes import data
from stratagp import GPRegressor
from stratagp.kernels import RBF, Kernel, Matern

ROWS = {"protein": 0, "pol": 0, "pumadyn32nm": 0, "powerplant": 0, "smooth": 36_000, "flights": 200_000}
KERNELS: dict[str, Kernel | None] = {
    "1/2": Matern(nu=0.5, ard=True),
    "3/2": Matern(nu=1.5, ard=True),
    "5/2": Matern(nu=2.5, ard=True),
    "∞": RBF(ard=True),
    "chosen": None,
}
NEIGHBOURS = (50, 100, 200, 400)


def prepare(name: str, n: int, kernel: str) -> Any:
    """For :func:`harness.in_subprocess`: fit, and predict the rows held out from many and few neighbours."""
    x, y, _, _ = data(name, n)
    held, kept = np.split(np.random.default_rng(2).permutation(len(y)), [min(1000, len(y) // 10)])

    def run() -> dict[str, Any]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = GPRegressor(KERNELS[kernel], inference="vecchia", standardise="none", random_state=0)
        model.fit(x[kept], y[kept])
        found: dict[str, Any] = {"fit": time.perf_counter() - start, "smoothness": getattr(model.kernel_, "nu", "∞")}
        (target,) = model.fitted_.draws[0]
        for m in NEIGHBOURS if kernel == "chosen" else (200,):
            own = replace(target, process=replace(target.process, n_neighbours=m))
            model.fitted_ = replace(model.fitted_, draws=[[own]])
            start = time.perf_counter()
            density = model.log_density(x[held], y[held])
            found[str(m)] = {"nlpd": float(-np.mean(density)), "predict": time.perf_counter() - start}
        return found

    return run


def line(name: str, found: dict[str, dict[str, Any] | None]) -> dict[str, str]:
    results = {kernel: row["result"] for kernel, row in found.items() if row}
    smooth = {f"ν = {kernel}": f"{row['200']['nlpd']:.3f}" for kernel, row in results.items() if kernel != "chosen"}
    chosen = results.get("chosen", {})
    by_rows = {f"{m} rows": f"{chosen[str(m)]['nlpd']:.3f}" for m in NEIGHBOURS if chosen}
    return {"set": name, **smooth, **({"chosen": str(chosen["smoothness"])} if chosen else {}), **by_rows}


def main() -> None:
    bench = Benchmark.from_command_line("vecchia_settings", __doc__)
    shown = []
    for name, n in {"smooth": 2000}.items() if bench.quick else ROWS.items():
        found = {}
        for kernel in KERNELS:
            ask = partial(
                in_subprocess, "vecchia_settings:prepare", name, n, kernel, threads=bench.threads, peaks=False
            )
            found[kernel] = bench.row(f"{name}, {kernel}", lambda ask=ask: ask()._asdict())
        shown.append(line(name, found))
    bench.show("Settings of Vecchia's process, by NLPD on rows held out", shown)


if __name__ == "__main__":
    main()
