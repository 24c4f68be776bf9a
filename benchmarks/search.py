"""What the quick search of hyperparameters gives away: its score and seconds beside a long search on all rows.

The quick search is that of `GPRegressor()`: all starts climb on 500 rows, and what is best goes on with more. The long
one climbs from the same starts on all rows until L-BFGS itself finds no better point. Both maximise the evidence with
the default priors, of training rows of ten tables (split 0 of `table_sets.py`), so no test row takes part.

    STRATAGP_DATA=… python benchmarks/search.py
    STRATAGP_DATA=… python benchmarks/search.py --rows 4000 --tables protein,pol
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import torch

from harness import Benchmark, command_line, in_subprocess
from stratagp.kernels import Matern
from stratagp.models.exact import ExactGP
from stratagp.models.fitted_process import ExactModel
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.exact import ExactRecipe, noise_of
from stratagp.recipes.search import Search, train
from stratagp.training.criterion import Criterion
from stratagp.training.start import start_from_data
from table_sets import TABLES, parts

NAMES = [
    "protein",
    "pol",
    "pumadyn32nm",
    "powerplant",
    "sarcos",
    "naval",
    "airfoil",
    "winequality_red",
    "abalone",
    "wine",
]


def rows_of(name: str, n: int) -> Data:
    """Training rows, standardised, without columns that are constant."""
    rows = parts(name, 0)
    x = torch.as_tensor(rows.X.select_dtypes("number").to_numpy(float)[:n])
    y = torch.as_tensor(rows.y[:n], dtype=torch.float64)
    x = x[:, x.std(0) > 0]
    return Data((x - x.mean(0)) / x.std(0), ((y - y.mean()) / y.std(correction=0))[:, None])


def quick(data: Data) -> ExactModel:
    kernel = Matern(2.5, ard=True).bind(data.x.shape[1])
    model = ExactRecipe(kernel).fit(Rows(data), FitContext())
    assert isinstance(model, ExactModel)
    return model


def long(data: Data) -> ExactModel:
    kernel = Matern(2.5, ard=True).bind(data.x.shape[1])
    kernel = start_from_data(kernel, data.x, data.y.mean(1))
    model = ExactModel(ExactGP(kernel, None, noise_of(data)), data)
    criterion = Criterion("map", model.module, model.score, {})
    model.result = train(criterion, Search(max_iterations=1000), FitContext())
    return model


def prepare(name: str, n: int, way: str) -> Any:
    """For :func:`harness.in_subprocess`: one search."""
    data = rows_of(name, n)

    def run() -> dict[str, Any]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = {"quick": quick, "long": long}[way](data)
        assert model.result is not None
        return {
            "score": model.result.value,
            "evaluations on all rows": model.result.evaluations,
            "seconds": time.perf_counter() - start,
            "rows": len(data),
            "columns": data.x.shape[1],
        }

    return run


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=2000, help="of each table (default: 2000)")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=NAMES, help="names, with commas")
    given = parser.parse_args()
    n, names = (300, NAMES[:1]) if given.quick else (given.rows, [name for name in given.tables if name in TABLES])
    bench = Benchmark("search", given.quick, threads=given.threads, markdown=given.markdown)
    if given.fresh:
        bench.forget(f"{name}, {n} rows, {way}" for name in names for way in ("quick", "long"))
    shown = []
    for name in names:
        found = {}
        for way in ("quick", "long"):
            ask = partial(in_subprocess, "search:prepare", name, n, way, threads=bench.threads, peaks=False)
            row = bench.row(f"{name}, {n} rows, {way}", lambda ask=ask: ask().result)
            if row is not None:
                found[way] = row
        if len(found) == 2:
            q, slow = found["quick"], found["long"]
            shown.append(
                {
                    "table": f"{name}, {q['rows']} × {q['columns']}",
                    "nats behind": f"{slow['score'] - q['score']:.2f}",
                    "quick": f"{q['seconds']:.1f} s",
                    "long": f"{slow['seconds']:.1f} s",
                }
            )
    bench.show("Quick and long searches of hyperparameters", shown)


if __name__ == "__main__":
    main()
