"""How far one call travels through the library: functions, files, packages, and the deepest chain of calls.

Each walk runs once on tiny data to warm up, then once under ``sys.setprofile``. Functions are those of StrataGP that
were called at least once (properties, comprehensions and lambdas are not counted apart from the function they are in);
packages are the folders below ``stratagp``; depth counts StrataGP's own frames. Of the functions, those in the leaves
(linear algebra, kernels, layers, likelihoods, posteriors, objectives, parameters) are counted apart from the middle.

    python benchmarks/walk.py
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import stratagp
from harness import Benchmark

HOME = str(Path(stratagp.__file__).parent)
LEAVES = {"linalg", "kernels", "layers", "likelihoods", "posteriors", "objectives"}
LEAVES |= {"means", "networks", "parameters", "parameterised", "priors", "types"}
LIMITS = {
    "GPRegressor.fit": (120, 25, 8, 16),
    "AutoGPClassifier(objective='loo').fit(parquet)": (190, 40, 11, 18),
    "stratagp fit, to the report": (400, 60, 14, 24),
    "DFGPRegressor with views": (170, 35, 10, 19),
    "GPDRFRegressor.save": (110, 25, 9, 18),
}

_COUNTED = ("functions", "files", "packages", "depth")


class Walk:
    """Counts what a call passes through."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.deepest: list[str] = []
        self._stack: list[str] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Called at each call and return."""
        code = frame.f_code
        if not code.co_filename.startswith(HOME) or code.co_name.startswith("<"):
            return
        if event == "call":
            self.codes.add(code)
            self._stack.append(code.co_qualname)
            if len(self._stack) > len(self.deepest):
                self.deepest = list(self._stack)
        elif event == "return" and self._stack:
            self._stack.pop()

    def counts(self) -> dict[str, int]:
        """Functions, files, packages, depth."""
        files = {code.co_filename for code in self.codes}
        parts = [Path(file).relative_to(HOME).parts for file in files]
        packages = {part[0] for part in parts if len(part) > 1}
        leaves = sum(
            Path(code.co_filename).relative_to(HOME).parts[0].removesuffix(".py") in LEAVES for code in self.codes
        )
        return {
            "functions": len(self.codes),
            "files": len(files),
            "packages": len(packages),
            "depth": len(self.deepest),
            "leaves": leaves,
            "middle": len(self.codes) - leaves,
        }


def walked(call: Callable[[], Any], again: Callable[[], Any]) -> Walk:
    """Run a call to warm up, and once more under the profiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        walk = Walk()
        sys.setprofile(walk)
        try:
            again()
        finally:
            sys.setprofile(None)
    return walk


def table(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


def gp_regressor(folder: Path) -> Walk:
    X, y = table()

    def call() -> Any:
        return stratagp.GPRegressor(random_state=0).fit(X, y)

    return walked(call, call)


def autogp_parquet(folder: Path) -> Walk:
    import pandas

    X, y = table(60)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["label"] = np.where(y > 0, "up", "down")
    frame.to_parquet(folder / "rows.parquet")

    def call() -> Any:
        gp = stratagp.AutoGPClassifier(n_inducing=5, objective="loo", max_epochs=4, random_state=0)
        return gp.fit(str(folder / "rows.parquet"), "label")

    return walked(call, call)


def command_line(folder: Path) -> Walk:
    from stratagp.cli import main

    X, y = table(60)
    file = folder / "table.csv"
    rows = ["a,b,c,y", *(",".join(f"{v:.4f}" for v in (*x, t)) for x, t in zip(X, y, strict=True))]
    file.write_text("\n".join(rows))
    runs = iter(range(9))

    def call() -> Any:
        out = folder / f"model{next(runs)}"
        with suppress(SystemExit):
            main(["fit", str(file), "--target", "y", "--out", str(out)], standalone_mode=False)

    return walked(call, call)


def dfgp_views(folder: Path) -> Walk:
    X, y = table()

    def call() -> Any:
        return stratagp.DFGPRegressor(views=[[0], [1, 2]], n_inducing=5, max_iterations=5, random_state=0).fit(X, y)

    return walked(call, call)


def gp_drf_save(folder: Path) -> Walk:
    X, y = table()
    model = stratagp.GPDRFRegressor(n_inducing=5, n_features=5, n_processes=2, max_epochs=1, random_state=0).fit(X, y)
    return walked(lambda: model.save(folder / "a"), lambda: model.save(folder / "b"))


WALKS = dict(zip(LIMITS, (gp_regressor, autogp_parquet, command_line, dfgp_views, gp_drf_save), strict=True))


def main() -> None:
    bench = Benchmark.from_command_line("walk", __doc__)
    rows = []
    for name, walk_of in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = bench.row(name, lambda walk_of=walk_of, folder=folder: walk_of(Path(folder)).counts())
        rows.append(
            {
                "walk": name,
                "functions / files / packages / depth": " / ".join(str(found[key]) for key in _COUNTED),
                "wanted": " / ".join(map(str, LIMITS[name])),
                "functions in leaves + middle": f"{found['leaves']} + {found['middle']}",
            }
        )
    bench.show("How far a call travels", rows)


if __name__ == "__main__":
    main()
