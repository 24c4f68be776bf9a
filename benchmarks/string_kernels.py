"""String kernels beside dictionaries in plain Python, on random proteins of 200 symbols.

The matrix of normalised similarities between all pairs of sequences, from the texts to the numbers. The plain way
counts the features of each sequence in a dictionary and multiplies dictionaries pair by pair, the shorter against the
longer; it is the same for all kernels, and agreement with it is checked first. Dictionaries are raced on few sequences
only. Where the package strkernel is installed, its mismatch kernel is raced too, for words of three symbols: it visits
all words of the alphabet.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import torch

from harness import Benchmark, Skip, in_subprocess, in_words, peer, race
from stratagp import kernels as k

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
LENGTH, FEW, MANY = 200, 100, 3000

Features = Callable[[str], Counter]


def proteins(count: int, length: int = LENGTH) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choices(LETTERS, k=length)) for _ in range(count)]


# --- the same features, one symbol at a time ---


def words(size: int) -> Features:
    return lambda a: Counter(a[i : i + size] for i in range(len(a) - size + 1))


def double(d: int) -> Features:
    return lambda a: Counter((o, a[i], a[i + o]) for o in range(1, d + 1) for i in range(len(a) - o))


def triple(d: int) -> Features:
    offsets = list(product(range(1, d + 1), repeat=2))
    return lambda a: Counter((o, p, a[i], a[i + o], a[i + o + p]) for o, p in offsets for i in range(len(a) - o - p))


def neighbours(word: str, m: int) -> Iterable[tuple[str, ...]]:
    for at in combinations(range(len(word)), m):
        yield from product(*(LETTERS if i in at else word[i] for i in range(len(word))))


def mismatch(size: int, m: int) -> Features:
    near = cache(lambda word: set(neighbours(word, m)))

    def features(a: str) -> Counter:
        found: Counter = Counter()
        for i in range(len(a) - size + 1):
            found.update(near(a[i : i + size]))
        return found

    return features


def wildcard(size: int, m: int, decay: float) -> Features:
    kept = [at for stars in range(m + 1) for at in combinations(range(size), size - stars)]

    def features(a: str) -> Counter:
        found: Counter = Counter()
        for i in range(len(a) - size + 1):
            for at in kept:
                found[at, tuple(a[i + j] for j in at)] += decay ** (size - len(at))
        return found

    return features


def gapped(window: int, size: int) -> Features:
    chosen = list(combinations(range(window), size))

    def features(a: str) -> Counter:
        found: Counter = Counter()
        for i in range(len(a) - window + 1):
            found.update({tuple(a[i + j] for j in at) for at in chosen})
        return found

    return features


def subsequences(decay: float) -> Features:
    """Of two symbols."""

    def features(a: str) -> Counter:
        found: Counter = Counter()
        for i, j in combinations(range(len(a)), 2):
            found[a[i], a[j]] += decay ** (j - i + 1)
        return found

    return features


KERNELS: dict[str, tuple[k.ObjectKernel, Features]] = {
    "Spectrum(3)": (k.Spectrum(3), words(3)),
    "Double(1, 5)": (k.Double(1, 5), double(5)),
    "Triple(1, 3)": (k.Triple(1, 3), triple(3)),
    "Mismatch(3, 1)": (k.Mismatch(3, 1, LETTERS), mismatch(3, 1)),
    "Mismatch(5, 1)": (k.Mismatch(5, 1, LETTERS), mismatch(5, 1)),
    "Wildcard(5, 1)": (k.Wildcard(5, 1, 0.5), wildcard(5, 1, 0.5)),
    "Gapped(6, 4)": (k.Gapped(6, 4), gapped(6, 4)),
    "Subsequence(2)": (k.Subsequence(2, 0.5), subsequences(0.5)),
}


def by_dictionaries(features: Features, texts: list[str]) -> np.ndarray:
    counted = [features(text) for text in texts]
    found = np.empty((len(texts), len(texts)))
    for i, left in enumerate(counted):
        for j, right in enumerate(counted[: i + 1]):
            few, many = (left, right) if len(left) < len(right) else (right, left)
            found[i, j] = found[j, i] = sum(count * many[key] for key, count in few.items() if key in many)
    size = np.sqrt(found.diagonal())
    return found / np.outer(size, size)


def ours(kernel: k.ObjectKernel, texts: list[str]) -> np.ndarray:
    with torch.no_grad():
        return kernel(texts).numpy()


def by_strkernel(texts: list[str]) -> Callable[[], np.ndarray]:
    """Its mismatch kernel of three symbols with one mismatch, on sequences of whole numbers."""
    peer("strkernel")
    library = peer("strkernel.mismatch_kernel")
    numbers = [[LETTERS.index(letter) for letter in text] for text in texts]
    make = lambda: library.MismatchKernel(l=len(LETTERS), k=3, m=1)  # noqa: E731 (one serves once)
    return lambda: np.asarray(make().get_kernel(numbers, normalize=True).kernel)


def measure(bench: Benchmark, name: str, count: int) -> dict[str, Any]:
    kernel, features = KERNELS[name]
    texts = proteins(count)
    runs: dict[str, Callable[[], np.ndarray]] = {
        "StrataGP": lambda: ours(kernel, texts),
        "dictionaries": lambda: by_dictionaries(features, texts),
    }
    if name == "Mismatch(3, 1)":
        runs |= bench.available({"strkernel": by_strkernel}, texts)
    truth = runs["StrataGP"]()
    apart = max(float(np.abs(run() - truth).max()) for run in runs.values())
    if apart > 1e-10:
        raise Skip(f"the others are {apart:.0e} from us: not the same kernel")
    return {"seconds": race(runs, 1 if count > 50 else 2), "difference": apart}


def prepare(name: str, count: int) -> Callable[[], float]:
    """For :func:`harness.in_subprocess`: the matrix of many sequences, after a small one that loads the libraries."""
    kernel, _ = KERNELS[name]
    ours(kernel, proteins(5))
    texts = proteins(count)
    return lambda: float(ours(kernel, texts)[0, 1])


def large(bench: Benchmark, name: str, count: int) -> dict[str, Any]:
    run = in_subprocess("string_kernels:prepare", name, count, threads=bench.threads)
    return {"seconds": run.seconds, "bytes": run.peak_bytes}


def show(bench: Benchmark, count: int, many: int, rows: dict[str, tuple[Any, Any]]) -> None:
    shown = []
    for name, (row, alone) in rows.items():
        line = {"kernel": name}
        if row:
            seconds = row["seconds"]
            line |= {contestant: in_words(value) for contestant, value in seconds.items()}
            line["faster"] = f"{seconds['dictionaries'] / seconds['StrataGP']:.0f}×"
            line["difference"] = f"{row['difference']:.0e}"
        if alone:
            line[f"n = {many}"] = in_words(alone["seconds"])
            line["memory"] = f"{alone['bytes'] / 2**20:.0f} MB" if alone["bytes"] else "–"
        shown.append(line)
    title = f"Similarities of {count} proteins of {LENGTH} symbols, {bench.threads} threads"
    bench.show(title, shown, f"n = {many}: ours on as many sequences, with its peak of memory")


def main() -> None:
    bench = Benchmark.from_command_line("string_kernels", __doc__)
    count, many = (30, 300) if bench.quick else (FEW, MANY)
    rows = {}
    for name in KERNELS:
        raced = bench.row(f"{name}, n = {count}", lambda name=name: measure(bench, name, count))
        rows[name] = raced, bench.row(f"{name}, n = {many} alone", lambda name=name: large(bench, name, many))
    show(bench, count, many, rows)


if __name__ == "__main__":
    main()
