"""Flights from Parquet files: rows a second, memory, two processes, and the time to beat a model of 100,000 rows.

Regression of delays by a sparse process (200 inducing points, batches of 1000, float32) from folders of 300,000,
3,000,000 and 30,000,000 rows, the last by repeating files; each in a process of its own.

- survey: one pass over all rows, before anything is trained.
- reading: batches without a model, from the first 2,000,000 rows of an epoch at most.
- training: 300 steps, by one process with two threads and by two with one each (`torchrun`).
- memory: the most that survey, reading and training held above what the process held before them.

Rows wait to be shuffled in 4 MB, so that the smallest folder fills them too.

Then, from rows that are not tested on: the seconds of training, without those of the tests, until the NLPD of 200,000
rows is that of a model which has seen 100,000 rows ten times. (Delays have tails: fewer test rows tell little.)

Last, what larger sizes would cost: a step of ``b`` rows by one core takes ``fixed + b · each`` seconds, by a straight
line through steps of 250 to 16,000 rows, and averages its gradients in ``latency + bytes / bandwidth``, measured
between two processes of this machine (a network of 10 Gb/s and 50 µs is assumed beyond it).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datasets import flights
from harness import HERE, Benchmark, in_subprocess, in_words, peer, use_threads
from stratagp.data import Rules, Stream, open_source
from stratagp.data.source import Block
from stratagp.data.survey import survey
from stratagp.kernels import RBF
from stratagp.likelihoods import GaussianNoise
from stratagp.models import StochasticGP
from stratagp.objectives import elbo
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.world import World, join

SIZES, QUICK = (300_000, 3_000_000, 30_000_000), (50_000,)
FILE_ROWS, TEST, SMALL, EPOCHS, INDUCING, BATCH, STEPS = 100_000, 200_000, 100_000, 10, 200, 1000, 300
READ = 2_000_000  # rows, at most
WINDOWS = 4 << 20  # bytes
STEP_ROWS = (250, 1000, 4000, 16_000)
LATENCY, BANDWIDTH = 50e-6, 1.25e9  # of a network: seconds, and bytes a second
SCENES = (
    (100_000_000, 1, 8_000),
    (100_000_000, 16, 16_000),
    (10_000_000_000, 64, 64_000),
    (10_000_000_000, 1024, 262_144),
)
COLUMNS = ("month", "day", "minute_of_day", "distance", "origin", "dest", "delay")


def store(folder: Path, rows: int) -> str:
    """Flights that are not tested on, as Parquet files of 100,000 rows; by links, where there are not as many."""
    pandas, data = peer("pandas"), flights()
    order = np.random.default_rng(0).permutation(len(data["delay"]))[TEST:]
    own, size = folder / f"{rows}", min(FILE_ROWS, rows)
    own.mkdir()
    unique = min(rows, len(order)) // size
    for number in range(rows // size):
        file = own / f"{number:05d}.parquet"
        if number >= unique:
            os.link(own / f"{number % unique:05d}.parquet", file)
            continue
        chosen = order[number * size : (number + 1) * size]
        table = pandas.DataFrame({name: data[name][chosen].astype(np.float32) for name in COLUMNS})
        table.to_parquet(file, row_group_size=50_000)
    return str(own)


def opened(folder: str) -> tuple[Stream, Callable[[Block], list[torch.Tensor]], torch.Tensor]:
    """All rows as a stream, how they are standardised, and the points of a sample."""
    source, rules = open_source(folder, "delay", memory=WINDOWS), Rules()
    seen = survey(source, rules, of_classes=False, world=World())
    sample = seen.sample.settle()
    x, moments = sample.X.to_numpy(), seen.moments
    centre, spread = x.mean(0), x.std(0)

    def encode(block: Block) -> list[torch.Tensor]:
        points, targets = block.X.to_numpy(), (block.y - moments.mean) / moments.spread
        return [torch.from_numpy((points - centre) / spread), torch.from_numpy(targets.astype(np.float32))]

    return Stream(source, rules, seen, encode, WINDOWS), encode, encode(sample)[0]


def model(points: torch.Tensor) -> StochasticGP:
    kernel = RBF(ard=len(COLUMNS) - 1).set(lengthscale=2.0, variance=0.5)
    return StochasticGP(kernel, kmeans_points(points, INDUCING), GaussianNoise(0.8))


def prepare(folder: str, steps: int) -> Callable[[], dict[str, float]]:
    """For :func:`harness.in_subprocess`: survey, reading and training from a folder."""

    def run() -> dict[str, float]:
        start = time.perf_counter()
        stream, _, points = opened(folder)
        found = {"rows": stream.rows, "survey": stream.rows / (time.perf_counter() - start)}
        batches = stream.batches(BATCH, torch.Generator().manual_seed(0), torch.float32, World())
        start, read = time.perf_counter(), 0
        for x, _ in batches.epoch(READ // BATCH):
            read += len(x)
        found["reading"] = read / (time.perf_counter() - start)
        history = model(points).fit(stream, steps=steps, batch_size=BATCH)
        return {**found, "training": history.steps * BATCH / history.seconds}

    return run


def worker(folder: str, steps: int) -> None:
    """Training alone, in one of the processes that ``torchrun`` has started; the first tells of it."""
    world = join()
    stream, _, points = opened(folder)
    history = model(points).fit(stream, steps=steps, batch_size=BATCH)
    if world.is_first:
        print(json.dumps(history.steps * BATCH / history.seconds))


def started(processes: int, *arguments: str) -> Any:
    """What a part of this script prints in the first of so many processes, with two threads in all."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        "OMP_NUM_THREADS": str(2 // processes),
    }
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*start, __file__, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{arguments[0]} by {processes} processes failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def measure(rows: int, quick: bool) -> dict[str, Any]:
    steps = 20 if quick else STEPS
    with tempfile.TemporaryDirectory() as folder:
        own = store(Path(folder), rows)
        found = in_subprocess("scale:prepare", own, steps)
        two = started(2, "worker", own, str(steps))
    return {**found.result, "memory": found.peak_bytes, "two": two}


def prepare_race(folder: str, small_epochs: int) -> Callable[[], dict[str, float]]:
    """The NLPD of a model of few rows, and how long one of all rows takes to be as good."""

    def run() -> dict[str, float]:
        stream, encode, points = opened(folder)
        data = flights()
        order = np.random.default_rng(0).permutation(len(data["delay"]))[: TEST + SMALL]
        table = peer("pandas").DataFrame({name: data[name][order].astype(np.float32) for name in COLUMNS})
        x, y = encode(Block(table.drop(columns="delay"), table["delay"].to_numpy(), "", 0))
        small = model(points)
        history = small.fit(x[TEST:], y[TEST:], epochs=small_epochs, batch_size=BATCH)
        goal = nlpd(small, x, y)
        found = race(model(points), stream, x, y, goal)
        return {"goal": goal, "small seconds": history.seconds, **found}

    return run


def nlpd(gp: StochasticGP, x: torch.Tensor, y: torch.Tensor) -> float:
    """Of the test rows, in standard deviations of the delay."""
    return -float(gp.log_predictive(x[:TEST], y[:TEST]).double().mean())


def race(gp: StochasticGP, stream: Stream, x: torch.Tensor, y: torch.Tensor, goal: float) -> dict[str, float]:
    """One epoch of all rows; the seconds and steps after which the goal was reached, and where it ended."""
    state = {"steps": 0, "testing": 0.0}
    found: dict[str, float] = {}
    start = time.perf_counter()

    def objective(*args: Any) -> Any:
        state["steps"] += 1
        if state["steps"] % 100 == 0 and "seconds" not in found:
            before = time.perf_counter()
            reached = nlpd(gp, x, y) <= goal
            state["testing"] += time.perf_counter() - before
            if reached:
                found.update(seconds=time.perf_counter() - start - state["testing"], steps=state["steps"])
        return elbo(*args)

    gp.fit(stream, objective=objective, natural=True, epochs=1, batch_size=BATCH)
    return {**found, "end": nlpd(gp, x, y), "epoch": time.perf_counter() - start - state["testing"]}


def measure_race(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        own = store(Path(folder), QUICK[0] if quick else 2_700_000)
        return in_subprocess("scale:prepare_race", own, 1 if quick else EPOCHS, peaks=False).result


def prepare_steps() -> Callable[[], dict[str, float]]:
    """Seconds of a step by its rows, with one thread, and the bytes of all gradients."""

    def run() -> dict[str, float]:
        points = torch.randn(max(STEP_ROWS), len(COLUMNS) - 1, generator=torch.Generator().manual_seed(0))
        gp = model(points[:5000])
        found: dict[str, float] = {"bytes": 8.0 * sum(p.numel() for p in gp.parameters() if p.requires_grad)}
        for size in STEP_ROWS:
            seconds = []
            for _ in range(3):
                history = gp.fit(points[:size], points[:size, 0], steps=10, batch_size=size)
                seconds.append(history.seconds / 10)
            found[str(size)] = min(seconds)
        return found

    return run


def averaging() -> None:
    """In one of several processes: seconds of an average of as many bytes as gradients have, and of none."""
    world = join()
    times = []
    for numbers in (1, 1_000_000):
        flat = torch.zeros(numbers, dtype=torch.float64)
        world.sum(flat)
        start = time.perf_counter()
        for _ in range(20):
            world.sum(flat)
        times.append((time.perf_counter() - start) / 20)
    if world.is_first:
        print(json.dumps(times))


def measure_steps() -> dict[str, Any]:
    found = in_subprocess("scale:prepare_steps", threads=1, peaks=False).result
    slope, fixed = np.polyfit(
        STEP_ROWS, [found[str(size)] for size in STEP_ROWS], 1, w=[1 / size for size in STEP_ROWS]
    )
    latency, large = started(2, "averaging")
    return {**found, "fixed": fixed, "each": slope, "latency": latency, "bandwidth": 8e6 / (large - latency)}


def cost(found: dict[str, Any], rows: int, ranks: int, batch: int) -> dict[str, str]:
    """One epoch of many rows by many processes of a core each, in batches of so many rows."""
    work = found["fixed"] + batch / ranks * found["each"]
    talk = (
        LATENCY * 2 * (ranks - 1) + 2 * found["bytes"] / BANDWIDTH if ranks > 1 else 0.0
    )  # around a ring, as gloo does
    return {
        "rows": f"{rows:,}",
        "processes": f"{ranks:,}",
        "batch": f"{batch:,}",
        "step": in_words(work + talk),
        "of it, averaging": f"{100 * talk / (work + talk):.0f} %",
        "sent a step, each": f"{2 * found['bytes'] / 1e3:,.0f} kB",
        "an epoch": f"{rows / batch * (work + talk) / 3600:,.2f} h",
        "efficiency": f"{100 * batch / ranks * found['each'] / (work + talk):.0f} %",
    }


def line(row: dict[str, Any]) -> dict[str, str]:
    shown = {"rows": f"{row['rows']:,}"}
    shown |= {f"{name}, rows/s": f"{row[name]:,.0f}" for name in ("survey", "reading", "training")}
    shown["two processes, rows/s"] = f"{row['two']:,.0f}"
    shown["memory"] = f"{row['memory'] / 1e6:,.0f} MB" if row["memory"] else "–"
    return shown


def main() -> None:
    bench = Benchmark.from_command_line("scale", __doc__)
    sizes = QUICK if bench.quick else SIZES
    rows = [bench.row(f"{n} rows", lambda n=n: measure(n, bench.quick)) for n in sizes]
    bench.show(f"Flights from Parquet, {INDUCING} inducing points", [line(row) for row in rows if row])
    found = bench.row("race", lambda: measure_race(bench.quick))
    if found:
        reached = f"{in_words(found['seconds'])}, {found['steps']} steps" if "seconds" in found else "not reached"
        shown = {"NLPD of 100,000 rows": f"{found['goal']:.4f}", "its training": in_words(found["small seconds"])}
        shown |= {"all rows reach it after": reached, "one epoch of all": in_words(found["epoch"])}
        bench.show("All rows against few", [{**shown, "NLPD then": f"{found['end']:.4f}"}])
    costs = bench.row("steps", measure_steps)
    if costs:
        note = (
            f"A step takes {in_words(costs['fixed'])} + rows · {1e6 * costs['each']:.1f} µs; two processes here "
            f"average in {in_words(costs['latency'])} + bytes / ({costs['bandwidth'] / 1e9:.1f} GB/s)."
        )
        bench.show("What larger sizes would cost, by cores as these", [cost(costs, *scene) for scene in SCENES], note)


if __name__ == "__main__":
    if sys.argv[1:2] in (["worker"], ["averaging"]):
        use_threads(int(os.environ["OMP_NUM_THREADS"]))
        worker(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "worker" else averaging()
    else:
        main()
