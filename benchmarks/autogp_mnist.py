"""AutoGP on MNIST: raw pixels in [0, 1], softmax, RBF with 784 lengthscales for each class, 200 inducing points each.

Two runs: the variational bound alone, and a little of the bound followed by the leave-one-out density of all
parameters by 10 samples, with Adam and batches of 1000. The paper (Krauth et al. 2016) has 1.71 % error and a negative
log probability (NLP) of 0.063 by leave-one-out with 200 inducing points, and about 3 % by the bound.

A run is a list of stages; the model is stored after each, and a second start goes on behind the last one. Each epoch
adds a point to the learning curve, drawn to results/autogp_mnist.png. The seconds are those of training; the test rows
are predicted after each epoch, outside of the clock. Calibration is the mean gap between confidence and accuracy in 15
bins of equal width (ECE); confidence is also shown for test images with shuffled pixels, which are no digits at all.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from datasets import mnist
from harness import RESULTS, Benchmark, peer
from stratagp.kernels import RBF
from stratagp.likelihoods import Sampled, Softmax
from stratagp.models import StochasticGP
from stratagp.objectives import elbo, leave_one_out
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.schedules import constant, cosine

INDUCING, SAMPLES, BATCH = 200, 10, 1000
LENGTHSCALE, VARIANCE = 8.0, 4.0  # at the start, in pixels and in units of class scores
PAPER = {"error": 1.71, "nlp": 0.063}
OBJECTIVES = {"elbo": elbo, "loo": leave_one_out}
MARKS = (10, 30, 60)  # minutes


class Stage(NamedTuple):
    """Some epochs by one objective; the rate stays, or falls to a fiftieth along a cosine."""

    objective: str
    epochs: int
    rate: float
    falls: bool = False


RUNS = {
    "leave-one-out": [Stage("elbo", 3, 0.01), *[Stage("loo", 40, 0.01)] * 3, Stage("loo", 100, 0.01, falls=True)],
    "bound": [Stage("elbo", 10, 0.01), Stage("elbo", 20, 0.01, falls=True)],
}
QUICK = {"bound": [Stage("elbo", 1, 0.01)], "leave-one-out": [Stage("elbo", 1, 0.01), Stage("loo", 1, 0.01)]}


class Data(NamedTuple):
    """Pixels and digits, of training and of test rows."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def load() -> Data:
    split = mnist()
    return Data(*(torch.from_numpy(part) for part in split))._replace(y=torch.from_numpy(split.y_train).float())


def new_model(data: Data, m: int) -> StochasticGP:
    kernel = RBF(ard=data.x.shape[1]).set(lengthscale=LENGTHSCALE, variance=VARIANCE).replicate(10)
    z = kmeans_points(data.x, m).expand(10, -1, -1).clone()
    return StochasticGP(kernel, z, Sampled(Softmax(), SAMPLES, torch.Generator().manual_seed(0), what="both"))


def probabilities(gp: StochasticGP, x: Tensor) -> Tensor:
    p = gp.predict(x).mean.double()
    return p / p.sum(1, keepdim=True)


def test_scores(gp: StochasticGP, data: Data) -> dict[str, float]:
    p = probabilities(gp, data.x_test)
    chosen = p[torch.arange(len(p)), data.y_test]
    wrong = p.argmax(1) != data.y_test
    return {"error": 100 * wrong.double().mean().item(), "nlp": -chosen.clamp_min(1e-12).log().mean().item()}


def run_stage(gp: StochasticGP, data: Data, stage: Stage, seed: int) -> list[dict[str, float]]:
    """Train through one stage; the learning curve with seconds since its start."""
    curve: list[dict[str, float]] = []
    clock = {"start": time.perf_counter(), "paused": 0.0}

    def note() -> float:
        paused = time.perf_counter()
        scores = test_scores(gp, data)
        curve.append({"seconds": paused - clock["start"] - clock["paused"], **scores})
        clock["paused"] += time.perf_counter() - paused
        return float(len(curve))  # the last state is kept, not the one that suits the test rows

    gp.fit(
        data.x,
        data.y,
        OBJECTIVES[stage.objective],
        natural=False,
        batch_size=BATCH,
        epochs=stage.epochs,
        rate=stage.rate,
        schedule=cosine if stage.falls else constant,
        generator=torch.Generator().manual_seed(seed),
        score=note,
    )
    return curve[1:]  # without the start


def run(bench: Benchmark, name: str, stages: list[Stage], data: Data) -> tuple[StochasticGP | None, list[dict]]:
    """All stages of a run, from the last one that is stored; the whole learning curve."""
    gp: StochasticGP | None = None
    curve: list[dict] = []
    for number, stage in enumerate(stages, 1):
        path = RESULTS / f"autogp_mnist_{name}{'-quick' if bench.quick else ''}_{number}.pt"

        def measure(number: int = number, stage: Stage = stage, path: Any = path) -> dict[str, Any]:
            nonlocal gp
            before = path.with_name(path.name.replace(f"_{number}.pt", f"_{number - 1}.pt"))
            if gp is None:
                gp = new_model(data, 20 if bench.quick else INDUCING)
                if number > 1:
                    gp.load_state_dict(torch.load(before, weights_only=True))
            points = run_stage(gp, data, stage, number)
            RESULTS.mkdir(exist_ok=True)
            torch.save(gp.state_dict(), path)
            return {"curve": points}

        row = bench.row(f"{name}, stage {number}: {stage}", measure)
        start = curve[-1]["seconds"] if curve else 0.0
        curve += [
            {**point, "seconds": start + point["seconds"], "objective": stage.objective} for point in row["curve"]
        ]
    if gp is None:
        gp = new_model(data, 20 if bench.quick else INDUCING)
        gp.load_state_dict(torch.load(path, weights_only=True))
    return gp, curve


def honesty(gp: StochasticGP, data: Data) -> dict[str, float]:
    """Calibration, confidence on digits and on shuffled pixels, and the average latent deviation on digits."""
    p = probabilities(gp, data.x_test)
    confidence, digit = p.max(1)
    right = (digit == data.y_test).double()
    bins = (confidence * 15).long().clamp_max(14)
    gaps = [(right[bins == b] - confidence[bins == b]).sum().abs() for b in range(15)]
    order = torch.randperm(data.x.shape[1], generator=torch.Generator().manual_seed(0))
    shuffled = probabilities(gp, data.x_test[:2000, order]).max(1).values
    spread = gp.marginals(data.x_test[:2000]).var.sqrt().mean()
    return {
        "ece": float(sum(gaps)) / len(p),
        "confidence": confidence.mean().item(),
        "confidence, shuffled": shuffled.mean().item(),
        "latent std": spread.item(),
    }


def line(name: str, curve: list[dict], extra: dict[str, float]) -> dict[str, str]:
    shown = {"run": name}
    for minutes in MARKS:
        done = [point for point in curve if point["seconds"] <= 60 * minutes]
        if done and curve[-1]["seconds"] > 60 * minutes:
            shown[f"{minutes} min"] = f"{done[-1]['error']:.2f} % / {done[-1]['nlp']:.3f}"
    last = curve[-1]
    shown["end"] = f"{last['error']:.2f} % / {last['nlp']:.4f} ({last['seconds'] / 60:.0f} min, {len(curve)} epochs)"
    return {**shown, **{key: f"{value:.3f}" for key, value in extra.items()}}


def draw(curves: dict[str, list[dict]]) -> None:
    plt = peer("matplotlib.pyplot")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, key, label in zip(axes, ("error", "nlp"), ("test error (%)", "negative log probability"), strict=True):
        for (name, curve), colour in zip(curves.items(), ("tab:blue", "tab:grey"), strict=True):
            axis.plot([p["seconds"] / 60 for p in curve], [p[key] for p in curve], color=colour, label=name)
        axis.axhline(PAPER[key], color="tab:orange", lw=1, ls="--", label="paper, leave-one-out")
        axis.set(yscale="log", xlabel="minutes of training", ylabel=label)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(frameon=False)
    figure.savefig(RESULTS / "autogp_mnist.png", dpi=110)


def main() -> None:
    bench = Benchmark.from_command_line("autogp_mnist", __doc__)
    data = load()
    if bench.quick:
        data = Data(data.x[:5000], data.y[:5000], data.x_test[:1000], data.y_test[:1000])
    lines, curves = [], {}
    for name, stages in (QUICK if bench.quick else RUNS).items():
        gp, curves[name] = run(bench, name, stages, data)
        lines.append(line(name, curves[name], honesty(gp, data)))
    bench.show(f"MNIST, m = {INDUCING}, {bench.threads} threads: error / NLP on the test rows", lines)
    draw(curves)


if __name__ == "__main__":
    main()
