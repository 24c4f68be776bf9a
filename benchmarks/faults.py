"""Faults: processes that are killed, disks that are full, folders that are read-only, files that are damaged.

Each row is a batch of trials in forked processes; a second run goes on with the batches that are missing.

- Kills: a fit with a checkpoint gets SIGKILL at random moments, again and again, until one run ends by itself. All
  parameters and predictions must equal those of an unbroken run, bit for bit.
- Full disk (a limit on the size of files) and read-only folders: saving and fitting with a checkpoint end with a clear
  error or a warning, and leave no half a file.
- Mutated model files (bytes, objects and tensors, with checksums that are right again) and mutated CSV and Parquet
  files: they are refused by a clear error or read; no crash, no 10 s, no code run (events of processes and sockets are
  watched), and memory at most 200 MB above that of the reader.

    python benchmarks/faults.py --threads 1
    python benchmarks/faults.py --only kills
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stratagp as s
from forked import Ended, forked
from harness import Benchmark
from stratagp.data import open_source
from stratagp.errors import InputError, ModelFileError
from stratagp.training.checkpoint import Checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.persistence import estimators as saved_models
from tests.persistence import mutate

SECONDS, MEMORY, NOBODY = 10.0, 200 * 2**20, 65534
KILLS, BATCHES = 25, 10  # of a batch at least; of each model
MUTATIONS = 40  # of a batch
QUICK, TABLE_ROWS = 10, 300
FITS: dict[str, Callable[[], Any]] = {
    "AutoGP": lambda: s.AutoGPRegressor(n_inducing=10, min_steps=300, random_state=0),
    "DKL": lambda: s.DKLRegressor(network=[8, 2], grid_size=8, max_epochs=60, pretrain_epochs=40, random_state=0),
    "DFGP": lambda: s.DFGPRegressor(
        n_hidden=2, n_inducing=8, inference="batches", min_steps=60, max_epochs=60, random_state=0
    ),
    "GP-DRF": lambda: s.GPDRFRegressor(n_inducing=8, n_features=8, max_epochs=60, random_state=0),
}
MODELS = ("exact", "classes of a frame", "texts", "autogp, deep kernel", "dkl, images", "stack")
WAYS = ("bytes", "tensors", "objects", "numbers")


def rows() -> tuple[np.ndarray, np.ndarray]:
    random_ = np.random.default_rng(0)
    X = random_.uniform(-2, 2, (120, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * random_.normal(size=120)


# Kills


def _fit(model: str, folder: Path | None) -> dict[str, np.ndarray]:
    """All tensors and predictions of a fit."""
    X, y = rows()
    kept = None if folder is None else Checkpoint(folder, every=0.02)
    gp = FITS[model]().fit(X, y, checkpoint=kept)
    mean, std = gp.predict(X, return_std=True)
    state = {name: value.detach().numpy() for name, value in gp.model_.state_dict().items()}
    return {**state, "mean": mean, "std": std}


def kills(model: str, batch: int, least: int) -> dict[str, Any]:
    """Broken fits of one model, until there were so many kills."""
    whole = forked(partial(_fit, model, None), 600.0)
    assert whole.how == "done", whole
    chance = random.Random(f"{model} {batch}")
    found: dict[str, Any] = {"kills": 0, "fits": 0, "equal": 0, "wrong": []}
    while found["kills"] < least:
        with tempfile.TemporaryDirectory() as folder:
            killed, last = _until_it_ends(partial(_fit, model, Path(folder) / "run"), whole.seconds, chance)
        found["kills"] += killed
        found["fits"] += 1
        if last.how == "done" and _equal(last.value, whole.value):
            found["equal"] += 1
        else:
            found["wrong"].append(f"{last.how}: {last.value if last.how == 'error' else 'other bits'}")
    return {**found, "seconds": round(whole.seconds, 2)}


def _until_it_ends(fit: Callable[[], Any], usual: float, chance: random.Random) -> tuple[int, Ended]:
    killed = 0
    while True:
        ended = forked(fit, 600.0, None if killed >= 8 else chance.uniform(0.0, 0.9) * usual)
        if ended.how != "killed":
            return killed, ended
        killed += 1


def _equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)


# Full disks and read-only folders


def _limit(bytes_: int | None) -> None:
    """Files of at most so many bytes: a write beyond them is an error of the system, as on a full disk."""
    if bytes_ is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def _save_again(model: Path, folder: Path, bytes_: int | None = None) -> None:
    loaded = s.load(model)
    _limit(bytes_)
    loaded.save(folder)


def _train(folder: Path, bytes_: int | None = None) -> list[str]:
    """The warnings of a fit with a checkpoint."""
    _limit(bytes_)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _fit("AutoGP", folder)
    return [str(warning.message) for warning in caught]


def _made(name: str, folder: Path) -> Any:
    """Rows to ask a model about that was fitted and saved in a process of its own: one that fits may not fork."""

    def make() -> Any:
        model, X = saved_models.fitted(name)
        model.save(folder)
        return X

    ended = forked(make, 600.0)
    assert ended.how == "done", ended
    return ended.value


def disk(count: int) -> dict[str, Any]:
    """Saving a model and training with a checkpoint on disks that are full, and in read-only folders."""
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        model = Path(home) / "model"
        X = _made("autogp", model)
        os.chmod(home, 0o755)
        for i in range(count):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                size = random.Random(i).choice([0, 10, 100, 1000, 3000, 10**4, 3 * 10**4])
                ended = forked(partial(_save_again, model, folder / "a", size), SECONDS)
                tally["save, full disk: " + _of_save(ended, folder / "a", X)] += 1
                tally["checkpoint, full disk: " + _of_fit(forked(partial(_train, folder / "b", size), 60.0))] += 1
                os.chmod(folder, 0o555)
                ended = forked(partial(_save_again, model, folder / "c"), SECONDS, user=NOBODY)
                tally["save, read-only: " + _of_save(ended, folder / "c", X)] += 1
                tally[
                    "checkpoint, read-only: " + _of_fit(forked(partial(_train, folder / "d"), 60.0, user=NOBODY))
                ] += 1
                os.chmod(folder, 0o755)
    return {"trials": 4 * count, "outcomes": dict(tally)}


CLEAR = ("InputError", "ModelFileError", "OSError", "PermissionError")


def _of_save(ended: Ended, folder: Path, X: Any) -> str:
    left = "a whole model left" if folder.exists() else "nothing left"
    if folder.exists():
        try:
            s.load(folder).predict(X)
        except ModelFileError:
            left = "half a model left!"
    return f"{_named(ended)}, {left}"


def _of_fit(ended: Ended) -> str:
    warned = ended.how == "done" and isinstance(ended.value, list) and any("could not be" in w for w in ended.value)
    return "warned and went on" if warned else _named(ended)


def _named(ended: Ended) -> str:
    if ended.how == "error":
        return ended.value[0] if ended.value[0] in CLEAR else f"{ended.value[0]}: {ended.value[1][:80]}!"
    return ended.how if ended.how == "done" else ended.how + "!"


# Mutated files


def model_files(name: str, way: str, batch: int, count: int) -> dict[str, Any]:
    """Altered files of one model, each read in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        X = _made(name, Path(place) / "model")
        files = mutate.Files(Path(place) / "model")
        altered = Path(place) / "altered"

        def trials() -> Iterator[Callable[[], str]]:
            for i in range(count):
                _alter(files, altered, way, random.Random(f"{name} {way} {batch} {i}"))
                yield partial(_load, altered, X)

        return _tallied(trials())


def _alter(files: mutate.Files, folder: Path, way: str, chance: random.Random) -> None:
    config, content, mend = files.config, files.content, True
    if way == "bytes":
        mend = chance.random() < 0.8
        content = mutate.alter_bytes(content, chance)
    elif way == "tensors":
        content = mutate.alter_tensors(content, chance)
    else:
        config = (mutate.alter_config if way == "objects" else mutate.alter_numbers)(config, chance)
    shutil.rmtree(folder, ignore_errors=True)
    files.write(folder, dict(config) if isinstance(config, dict) else config, content, mend)


def _load(folder: Path, X: Any) -> str:
    warnings.simplefilter("ignore")
    try:
        s.load(folder).predict(X)
    except ModelFileError:
        return "refused"
    except InputError:
        return "loaded, refused rows"
    if "antigravity" in sys.modules:
        return "imported a module that the file named!"
    return "loaded"


def tables(kind: str, batch: int, count: int) -> dict[str, Any]:
    """Altered CSV and Parquet files, each read whole in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        path = write_table(Path(place), kind)
        whole = path.read_bytes()

        def trials() -> Iterator[Callable[[], str]]:
            for i in range(count):
                path.write_bytes(mutate.alter_bytes(whole, random.Random(f"{kind} {batch} {i}")))
                yield partial(read, path)

        return _tallied(trials())


def write_table(folder: Path, kind: str) -> Path:
    """A table of numbers, texts and dates."""
    random_ = np.random.default_rng(0)
    days = pd.date_range("2020-01-01", periods=TABLE_ROWS)
    frame = pd.DataFrame(
        {
            "size": random_.normal(size=TABLE_ROWS),
            "town": random_.choice(["Rome", "Oslo", "Bern", "Köln"], TABLE_ROWS),
            "day": days.astype(str) if kind == "csv" else days,
            "y": random_.normal(size=TABLE_ROWS),
        }
    )
    path = folder / f"rows.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, row_group_size=100)
    return path


def read(path: Path) -> str:
    """Read a table to its end."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count = sum(len(block.X) for block in open_source(path, "y").blocks(0))
    except InputError:
        return "refused"
    return f"read {'all' if count == TABLE_ROWS else 'other'} rows"


def _tallied(trials: Iterator[Callable[[], str]]) -> dict[str, Any]:
    """How trials ended, with the longest, the largest, and what went wrong."""
    tally: Counter[str] = Counter()
    slowest, largest, wrong = 0.0, 0, []
    for trial in trials:
        ended = forked(trial, SECONDS)
        slowest, largest = max(slowest, ended.seconds), max(largest, ended.bytes)
        if ended.how == "done" and not ended.events and ended.bytes <= MEMORY and not ended.value.endswith("!"):
            tally[ended.value] += 1
        else:
            tally["wrong"] += 1
            wrong.append(f"{ended.how} {ended.value} {ended.bytes / 1e6:.0f} MB {list(ended.events)}"[:400])
    return {"outcomes": dict(tally), "slowest": round(slowest, 2), "megabytes": round(largest / 1e6), "wrong": wrong}


# The tables


def kill_line(model: str, found: list[dict[str, Any]]) -> dict[str, str]:
    total = {key: sum(each[key] for each in found) for key in ("kills", "fits", "equal")}
    wrong = sum(len(each["wrong"]) for each in found)
    return {
        "fit": model,
        "kills": f"{total['kills']:,}",
        "resumed": f"{total['fits']:,}",
        "equal in all bits": f"{total['equal']:,}",
        "not": str(wrong),
    }


def file_line(name: str, found: list[dict[str, Any]]) -> dict[str, str]:
    tally: Counter[str] = sum((Counter(each["outcomes"]) for each in found), Counter())
    return {
        "files": name,
        "tried": f"{tally.total():,}",
        "refused": f"{tally['refused']:,}",
        "read": f"{tally.total() - tally['refused'] - tally['wrong']:,}",
        "crash, hang, code": str(tally["wrong"]),
        "slowest": f"{max(each['slowest'] for each in found):.2f} s",
        "most memory": f"{max(each['megabytes'] for each in found)} MB",
    }


def main() -> None:
    bench = Benchmark.from_command_line("faults", __doc__)
    few = bench.quick
    killed: dict[str, list[dict[str, Any]]] = {}
    damaged: dict[str, list[dict[str, Any]]] = {}
    for batch in range(1 if few else BATCHES):  # all advance alike
        jobs = [
            (killed, model, f"kills, {model}", partial(kills, model, batch, QUICK if few else KILLS)) for model in FITS
        ]
        count = QUICK if few else MUTATIONS
        for name in MODELS:
            for way in WAYS:
                words = f"model files, {name.replace(',', '')}, {way}"
                jobs.append((damaged, f"models, {way}", words, partial(model_files, name, way, batch, count)))
        for kind in ("csv", "parquet"):
            jobs.append((damaged, kind, f"tables, {kind}", partial(tables, kind, batch, count)))
        for found, subject, key, measure in jobs:
            row = bench.row(f"{key}, {batch}", measure)
            if row:
                found.setdefault(subject, []).append(row)
    bench.show("Killed fits", [kill_line(*item) for item in killed.items()])
    bench.show("Damaged files", [file_line(*item) for item in damaged.items()])
    outcomes = (bench.row("disk", partial(disk, 2 if few else 7)) or {}).get("outcomes", {})
    trials = [
        dict(zip(("trial", "outcome"), key.split(": ", 1), strict=True), times=str(n))
        for key, n in sorted(outcomes.items())
    ]
    bench.show("Full disks and read-only folders", trials)


if __name__ == "__main__":
    main()
