"""Two processes over gloo make the steps of one, by Adam and by natural gradients, whatever share of rows each has."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.likelihoods import GaussianNoise
from stratagp.models.autogp import Phase, autogp, fit_phases
from stratagp.training.loop import train
from stratagp.training.world import World, join

ROOT = str(__file__).rsplit("/tests/", 1)[0]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
# Threads of gloo outlive the interpreter now and then, which torch 2.13 does not always prevent: it is not waited for.
CRASH = "terminate called without an active exception"
END = "import atexit, os; atexit._run_exitfuncs(); sys.stdout.flush(); os._exit(0)"


def data(n=101):
    g = torch.Generator().manual_seed(0)
    x = torch.rand(n, 2, generator=g, dtype=torch.float64) * 4
    return x, (x.sin().sum(1) + 0.1 * torch.randn(n, generator=g, dtype=torch.float64))[:, None]


def fit(rows=101, batch=17):
    """Bound with natural gradients, then leave-one-out, in batches that two processes cannot share evenly."""
    x, y = data(rows)
    gp = autogp(
        k.RBF(1.0, variance=1.0), x[: min(10, rows)].clone(), GaussianNoise(0.1), outputs=1, dtype=torch.float64
    )
    plan = [Phase("elbo", 3), Phase("loo", 2, "hyper")]
    histories = fit_phases(gp, x, y, plan, batch_size=batch, rate=0.02)
    return [p.detach().tolist() for p in gp.parameters()], [h.values for h in histories]


def together(body, processes=2, *, expected=0, folder=None):
    """What a script prints as JSON in the first of several processes, which have the variables that torchrun sets."""
    path = folder / "script.py"
    path.write_text(f"import sys; sys.path.insert(0, {ROOT!r})\n{body}\n{END}")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "a test"}
    shared |= {"TORCHELASTIC_RESTART_COUNT": 0, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    variables = [environment(**shared, RANK=rank, LOCAL_RANK=rank) for rank in range(processes)]
    runs = [subprocess.Popen([sys.executable, str(path)], env=each, **PIPES) for each in variables]
    try:
        said = [run.communicate(timeout=300) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [expected] * processes, said
    return lines_of_json(said[0][0])


def lines_of_json(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith(("{", "["))]


def environment(**more):
    """The variables of a process that finds the package and the tests."""
    paths = os.pathsep.join([ROOT, *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **{name: str(more[name]) for name in more}}


FIT = """
import json
from stratagp.training.world import World, join
join()
from tests.training.test_world import fit
for rows, batch in ((101, 17), (3, 1)):
    found = fit(rows, batch)
    if World().is_first:
        print(json.dumps(found))
from tests.training.test_world import moments
found = World().all_have(moments())
if World().is_first:
    print(json.dumps(found))
"""


def moments():
    """What a batch normalisation has stored after one step, on five rows."""
    norm, rows = torch.nn.BatchNorm1d(1), torch.linspace(0, 3, 5)[:, None].square()
    train(lambda x: -norm(x).square().mean() - norm.bias.sum(), norm, [rows], batch_size=5, epochs=1, rate=1e-9)
    return norm.running_mean.item()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What two processes have printed, one experiment after another."""
    return together(FIT + LINE + FAULT, folder=tmp_path_factory.mktemp("together"))


def test_two_processes_make_the_steps_of_one(told):
    """101 rows in batches of 17, and 3 rows in batches of 1, of which one process has none.

    Stored moments, of three rows and of two, are a tenth of the way from 0 to the mean of all five.
    """
    *fits, stored, _ = told
    assert stored == [pytest.approx(0.1 * float(np.mean(np.linspace(0, 3, 5) ** 2)), rel=1e-6)] * 2
    for found, (rows, batch) in zip(fits, ((101, 17), (3, 1)), strict=True):
        alone = fit(rows, batch)
        for ours, theirs in zip(found[0], alone[0], strict=True):
            assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)
        for ours, theirs in zip(found[1], alone[1], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)


def test_alone_there_is_nobody_to_wait_for():
    world = join()
    assert (world.size, world.is_first) == (1, True)
    value = torch.tensor(3.0)
    assert world.average([], value, 5, fault=False, wish=1) == (value, False, 1)
    assert world.from_first([1]) == [1]
    assert world.all_have(2) == [2]
    assert World().share(torch.arange(5)).tolist() == [0, 1, 2, 3, 4]


LINE = """
import json, os, signal, torch
from pathlib import Path
from torch import nn
from stratagp.errors import NotPositiveDefiniteError
from stratagp.training.checkpoint import Checkpoint
from stratagp.training.world import World, join
from stratagp.training.loop import train
world = join()
folder = Path(__file__).parent
torch.manual_seed(0)
line = nn.Linear(1, 1)
x = torch.linspace(-1, 1, 64)[:, None]
seen = [0]
def objective(x):
    seen[0] += 1
    meet_fate()
    return -(line(x) - 3 * x).square().mean()
"""

FAULT = """
def meet_fate():
    if seen[0] == 5 and world.rank == 1:
        raise NotPositiveDefiniteError("a kernel")
history = train(objective, line, [x], batch_size=8, epochs=60, rate=0.2)
have = world.all_have([history.halvings, line.weight.item()])
if world.is_first:
    print(json.dumps(have))
"""


def test_a_fault_of_one_turns_all_back(told):
    found = told[-1]
    assert found[0] == found[1]
    assert found[0][0] == 1
    assert found[0][1] == pytest.approx(3.0, abs=0.1)


KILLED = """
def meet_fate():
    if seen[0] == 20 and world.rank == 1 and not (folder / "killed").exists():
        (folder / "killed").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
history = train(objective, line, [x], batch_size=8, epochs=5, rate=0.1, checkpoint=Checkpoint(folder / "run", 0.0))
if world.is_first:
    print(json.dumps([history.steps, seen[0], line.weight.item()]))
"""


def test_a_killed_process_leads_to_a_restart_from_the_last_checkpoint(tmp_path):
    """torchrun starts all anew when one is killed, and they go on after step 19 of 40 without anybody's help."""
    (tmp_path / "script.py").write_text(LINE + KILLED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    run = subprocess.run([*torchrun, str(tmp_path / "script.py")], env=environment(), timeout=300, check=False, **PIPES)
    assert run.returncode == 0 or CRASH in run.stderr, run.stderr[-3000:]
    ((steps, made, weight),) = lines_of_json(run.stdout)
    assert (tmp_path / "killed").exists()
    assert (steps, made) == (40, 21)
    torch.manual_seed(0)
    line = torch.nn.Linear(1, 1)
    x = torch.linspace(-1, 1, 64)[:, None]
    train(lambda x: -(line(x) - 3 * x).square().mean(), line, [x], batch_size=8, epochs=5, rate=0.1)
    assert weight == pytest.approx(line.weight.item(), abs=1e-6)
