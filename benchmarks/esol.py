"""Solubility of molecules from their SMILES (ESOL, Delaney 2004) by exact processes on graphs and fingerprints.

1128 molecules, five random splits of 80 and 20 %; RMSE and negative log predictive density (NLPD) in log mol/l, and the
share of test values inside the 95 % interval. `GPRegressor` with its defaults learns variances and noise.

- WL: Weisfeiler-Lehman subtrees of graphs that `read_smiles` gives, three rounds.
- WL, RBF: an RBF of the distance that this kernel has.
- WL, size: the counts as they are, so that large molecules have large functions.
- paths: shortest paths between labelled atoms.
- WL + paths: the sum of the two.
- Tanimoto: min-max similarity of Morgan fingerprints with counts, radius 2 (needs RDKit).
- forest: scikit-learn's random forest on counts of 1024 hashed Morgan fragments (needs RDKit); it has no density.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from datasets import esol
from harness import Benchmark, in_words, peer
from stratagp import kernels as k
from stratagp.estimators import GPRegressor
from stratagp.metrics import rmse

SPLITS = 5


KERNELS: dict[str, Callable[[], k.Kernel]] = {
    "WL": lambda: k.WeisfeilerLehman(3, parse=k.read_smiles),
    "WL, RBF": lambda: k.WeisfeilerLehman(3, parse=k.read_smiles, lengthscale=1.0),
    "paths": lambda: k.ShortestPath(parse=k.read_smiles),
    "WL, size": lambda: k.WeisfeilerLehman(3, parse=k.read_smiles, normalise=False),
    "WL + paths": lambda: k.WeisfeilerLehman(3, parse=k.read_smiles) + k.ShortestPath(parse=k.read_smiles),
    "Tanimoto": lambda: k.Tanimoto(parse=k.fingerprint),
}


def data(split: int, quick: bool) -> tuple[list[str], np.ndarray, list[str], np.ndarray]:
    table = esol()
    order = np.random.default_rng(split).permutation(len(table["smiles"]))[: 150 if quick else None]
    smiles, y = table["smiles"][order].tolist(), table["solubility"][order].astype(float)
    cut = len(order) // 5
    return smiles[cut:], y[cut:], smiles[:cut], y[:cut]


def measure(name: str, split: int, quick: bool) -> dict[str, float]:
    x, y, x_test, y_test = data(split, quick)
    if name in ("Tanimoto", "forest"):
        peer("rdkit")
    start = time.perf_counter()
    if name == "forest":
        return {"rmse": rmse(y_test, forest(x, y, x_test)), "seconds": time.perf_counter() - start}
    model = GPRegressor(KERNELS[name](), random_state=0).fit(x, y)
    low, high = model.predict_interval(x_test)
    return {
        "rmse": rmse(y_test, model.predict(x_test)),
        "nlpd": -float(np.mean(model.log_density(x_test, y_test))),
        "inside": float(np.mean((low < y_test) & (y_test < high))),
        "seconds": time.perf_counter() - start,
    }


def forest(x: list[str], y: np.ndarray, x_test: list[str]) -> Any:
    def columns(smiles: list[str]) -> np.ndarray:
        found = np.zeros((len(smiles), 1024))
        for row, text in zip(found, smiles, strict=True):
            for key, count in k.fingerprint(text).items():
                row[key % 1024] += count
        return found

    trees = peer("sklearn.ensemble").RandomForestRegressor(500, random_state=0)
    return trees.fit(columns(x), y).predict(columns(x_test))


def main() -> None:
    bench = Benchmark.from_command_line("esol", __doc__)
    shown = []
    for name in (*KERNELS, "forest"):
        splits = range(1 if bench.quick else SPLITS)
        rows = [bench.row(f"{name}, {i}", lambda n=name, i=i: measure(n, i, bench.quick)) for i in splits]
        if not all(rows):
            continue
        mean = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        line = {"model": name, "RMSE": f"{mean['rmse'].mean():.3f} ± {mean['rmse'].std():.3f}"}
        if "nlpd" in mean:
            line["NLPD"] = f"{mean['nlpd'].mean():.3f} ± {mean['nlpd'].std():.3f}"
            line["inside 95 %"] = f"{100 * mean['inside'].mean():.0f} %"
        shown.append({**line, "fit and predict": in_words(float(mean["seconds"].mean()))})
    bench.show(f"Solubility, {SPLITS} splits, {bench.threads} threads", shown)


if __name__ == "__main__":
    main()
