"""AutoGP on 8,100,000 deformed digits: the largest experiment of its paper (Krauth et al. 2016), at its size.

The digits are those of MNIST, each 135 times with another small deformation: rotated, scaled, sheared, shifted and bent
elastically. They are written once, as shards of uint8 (6.4 GB), to ``results/mnist8m`` or where ``STRATAGP_SCRATCH``
says. A softmax of ten processes, each with 784 lengthscales and 200 inducing points of its own, learns from them in a
stream: a little of the bound, then the leave-one-out density of all parameters by 10 samples, with Adam and batches of
1000. Training leaves its state every five minutes and goes on from there when the script is started again.

There are two legs, each with a rate that falls along a cosine: one of 24,000 steps, about an hour of two cores, and one
of 48,000, two more. The curve is drawn over hours of two cores: processor time of training, without that of tests,
halved. The paper reaches 0.89 % and a negative log probability (NLP) of 0.033 in ten hours of a GPU. Reading alone is
timed too: batches without a model.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from autogp_mnist import Data, load, new_model, test_scores
from harness import RESULTS, Benchmark, peer
from stratagp.data import Rules, Stream, survey
from stratagp.data.source import Arrays, Block
from stratagp.models import StochasticGP
from stratagp.objectives import elbo, leave_one_out
from stratagp.training.checkpoint import Checkpoint, write_whole
from stratagp.training.schedules import constant, cosine
from stratagp.training.world import World

SHARDS, INDUCING, BATCH, RATE = 135, 200, 1000, 0.01
MARKS, SHOWN = 1000, 5000  # steps from one test to the next, and from one line of the table to the next
PAPER = {"error": 0.89, "nlp": 0.033}
MEMORY = 128 << 20  # of rows that wait to be shuffled
CHUNK = 5000  # images that are deformed at once


class Leg(NamedTuple):
    """Some steps by one objective; the rate stays, or falls along a cosine."""

    name: str
    objective: Any
    steps: int
    schedule: Any


LEGS = [
    Leg("bound", elbo, 300, constant),
    Leg("first hour", leave_one_out, 24_000, cosine),
    Leg("two more hours", leave_one_out, 48_000, cosine),
]
QUICK = [Leg("bound", elbo, 20, constant), Leg("first hour", leave_one_out, 20, cosine)]


def deformed(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image with a random affine map (about 5°, 5 %, 0.7 pixels) and a smooth field of 0.8 pixels."""
    draw = partial(torch.randn, generator=generator)
    n, (angle, shear), scale = len(images), 0.08 * draw(2, len(images)), 1 + 0.05 * draw(2, len(images))
    rows = [
        torch.stack([scale[0] * angle.cos(), -angle.sin() + shear], 1),
        torch.stack([angle.sin(), scale[1] * angle.cos()], 1),
    ]
    shift = draw(n, 2, 1) / 20  # an image is two units wide, a pixel a fourteenth
    grid = functional.affine_grid(torch.cat([torch.stack(rows, 1), shift], 2), [n, 1, 28, 28], align_corners=False)
    field = functional.interpolate(draw(n, 2, 6, 6) / 18, size=28, mode="bilinear", align_corners=True)
    bent = functional.grid_sample(images[:, None], grid + field.permute(0, 2, 3, 1), align_corners=False)
    return bent.squeeze(1)


def write_shards(data: Data, folder: Path, count: int) -> None:
    """Those shards that are not there yet, each with all digits once in a random order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{number:03d}.npy"
        if path.exists():
            continue
        generator = torch.Generator().manual_seed(number)
        order = torch.randperm(len(data.x), generator=generator)
        images = data.x.reshape(-1, 28, 28)[order]
        parts = [deformed(part, generator).mul(255).round().byte() for part in images.split(CHUNK)]
        whole = torch.cat([torch.cat(parts).reshape(len(order), -1), data.y[order].byte()[:, None]], 1)
        beside = path.with_suffix(".part")
        with beside.open("wb") as file:
            np.save(file, whole.numpy())
        beside.replace(path)
        print(f"\rwritten: {number + 1} of {count} shards", end="", flush=True)


def opened(folder: Path, count: int) -> Stream:
    """The shards as a stream of pixels in [0, 1] and digits."""
    shards = [np.load(folder / f"{number:03d}.npy", mmap_mode="r") for number in range(count)]
    source = Arrays([shard[:, :-1] for shard in shards], [shard[:, -1] for shard in shards], memory=MEMORY)

    def encode(block: Block) -> list[Tensor]:
        pixels, digits = np.divide(block.X, 255, dtype=np.float32), np.asarray(block.y).astype(np.float32)
        return [torch.from_numpy(pixels), torch.from_numpy(digits)]

    rules = Rules()
    return Stream(source, rules, survey(source, rules, of_classes=False), encode, MEMORY)


class Curve:
    """Error and NLP of the test rows by steps and processor seconds, kept in a file."""

    def __init__(self, path: Path, data: Data) -> None:
        self.path, self.data = path, data
        self.points: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        self.before, self.start = 0.0, time.process_time()

    def resume(self, step: int) -> None:
        """Forget what a broken training has seen beyond its last saved state, and go on with its clock.

        Steps between the last mark and that state count with the seconds that a step took on average.
        """
        pace = self.points[-1]["seconds"] / max(1, self.points[-1]["step"]) if self.points else 0.0
        self.points = [point for point in self.points if point["step"] <= step]
        mark = self.points[-1] if self.points else {"step": 0, "seconds": 0.0}
        self.before, self.start = mark["seconds"] + (step - mark["step"]) * pace, time.process_time()

    def note(self, gp: StochasticGP, step: int, leg: str) -> None:
        """Test the model, outside of the clock."""
        seconds = self.before + time.process_time() - self.start
        scores = test_scores(gp, self.data)
        self.points = [point for point in self.points if (point["step"], point["leg"]) != (step, leg)]
        self.points.append({"step": step, "seconds": seconds, "leg": leg, **scores})
        print(f"step {step}, {seconds / 7200:.2f} h: {scores['error']:.2f} %, NLP {scores['nlp']:.4f}", flush=True)
        write_whole(self.path, json.dumps(self.points, indent=1).encode())
        self.before, self.start = seconds, time.process_time()


def train(gp: StochasticGP, stream: Stream, legs: list[Leg], curve: Curve, checkpoint: Checkpoint) -> None:
    """All legs, from where an earlier start has left them."""
    done = 0
    for number, leg in enumerate(legs):
        started = False

        def rate(progress: float, leg: Leg = leg, done: int = done) -> float:
            nonlocal started
            step = done + round(progress * leg.steps)
            if not started:
                started = True
                curve.resume(step)
            if step % MARKS == 0:
                curve.note(gp, step, leg.name)
            return leg.schedule(progress)

        gp.fit(
            stream,
            objective=leg.objective,
            natural=False,
            batch_size=BATCH,
            steps=leg.steps,
            rate=RATE,
            schedule=rate,
            generator=torch.Generator().manual_seed(number),
            checkpoint=checkpoint,
        )
        done += leg.steps
        if started:
            curve.note(gp, done, leg.name)


def reading(stream: Stream, batches: int) -> dict[str, float]:
    """Rows a second that come without a model, and that training consumes."""
    made = stream.batches(BATCH, torch.Generator().manual_seed(9), torch.float32, World())
    start, seen = time.perf_counter(), 0
    for x, _ in made.epoch(batches):
        seen += len(x)
    return {"rows a second": seen / (time.perf_counter() - start)}


def draw(points: list[dict[str, Any]]) -> None:
    """Error and NLP over hours, after the start."""
    points = [point for point in points if point["step"]]
    plt = peer("matplotlib.pyplot")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, key, label in zip(axes, PAPER, ("test error (%)", "negative log probability"), strict=True):
        axis.plot([p["seconds"] / 7200 for p in points], [p[key] for p in points], label="leave-one-out, 200 points")
        axis.axhline(PAPER[key], color="tab:orange", lw=1, ls="--", label="paper, 10 GPU hours")
        axis.set(yscale="log", xlabel="hours of two cores", ylabel=label)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(frameon=False)
    figure.savefig(RESULTS / "mnist8m.png", dpi=110)


def line(point: dict[str, Any]) -> dict[str, str]:
    return {
        "steps of 1000 digits": f"{point['step']:,}",
        "hours": f"{point['seconds'] / 7200:.2f}",
        "error": f"{point['error']:.2f} %",
        "NLP": f"{point['nlp']:.3f}",
    }


def learn(bench: Benchmark, quick: str) -> None:
    """Train as far as there is time, and draw the curve."""
    data = load()
    folder = Path(os.environ.get("STRATAGP_SCRATCH", RESULTS)) / f"mnist8m{quick}"
    count, legs = (2, QUICK) if bench.quick else (SHARDS, LEGS)
    write_shards(data, folder, count)
    stream = opened(folder, count)
    speed = bench.row("reading", lambda: reading(stream, 100 if bench.quick else 2000))
    gp, curve = new_model(data, 20 if bench.quick else INDUCING), Curve(RESULTS / f"mnist8m{quick}-curve.json", data)
    train(gp, stream, legs, curve, Checkpoint(folder / "run", every=300))
    last = curve.points[-1]
    used = BATCH * last["step"] / (last["seconds"] / 2)
    bench.console.print(f"rows a second: read {speed['rows a second']:,.0f}, trained on {used:,.0f} by two cores")
    draw(curve.points)


def main() -> None:
    bench = Benchmark.from_command_line("mnist8m", __doc__)
    quick = "-quick" if bench.quick else ""
    if not bench.markdown:
        learn(bench, quick)
    points = json.loads((RESULTS / f"mnist8m{quick}-curve.json").read_text())
    marks = [point for point in points if point["step"] and point["step"] % SHOWN == 0]
    marks += [] if points[-1] in marks else [points[-1]]
    bench.show(f"MNIST of 8,100,000 digits, m = {INDUCING}", [line(point) for point in marks])


if __name__ == "__main__":
    main()
