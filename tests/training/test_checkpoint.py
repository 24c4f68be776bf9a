"""A training that is broken off and called again ends in the same bits as one that nobody broke."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from stratagp.errors import InputError
from stratagp.training import checkpoint as module_under_test
from stratagp.training.checkpoint import EXIT_CODE, Checkpoint
from stratagp.training.loop import train
from stratagp.training.world import World

X = torch.randn(203, 3, generator=torch.Generator().manual_seed(1))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5]])


class Noisy(nn.Module):
    """A network with dropout, batch normalisation and samples of its own: all that a training can have in its state."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.network = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.generator = torch.Generator().manual_seed(5)

    def objective(self, x, y):
        noise = 0.1 * torch.randn(y.shape, generator=self.generator)
        return -(self.network(x) - y - noise).square().mean()

    def score(self):
        self.eval()
        with torch.no_grad():
            value = -(self.network(X[:20]) - Y[:20]).square().mean()
        self.train()
        return float(value)


class Break(BaseException):
    """The process ends here, as far as the training can tell."""


def breaks():
    raise Break


def fit(folder=None, break_after=None, stages=2, every=0.0, optimiser="adam", how=breaks, **options):
    """Two stages of training; what the module and histories are at the end."""
    model = Noisy()
    left = [break_after]

    def objective(x, y):
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                left[0] = how()
        return model.objective(x, y)

    kept = None if folder is None else Checkpoint(folder, every)
    histories = [
        train(
            objective,
            model,
            (X, Y),
            batch_size=16,
            epochs=3,
            optimiser=optimiser,
            score=model.score,
            checkpoint=kept,
            generator=model.generator if stage else torch.Generator().manual_seed(3),
            **options,
        )
        for stage in range(stages)
    ]
    return [t.clone() for t in (*model.parameters(), *model.buffers())], histories, model.generator.get_state()


def same(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    for a, b in zip(one[1], other[1], strict=True):
        assert (a.values, a.scores, a.steps, a.ending) == (b.values, b.scores, b.steps, b.ending)
    assert torch.equal(one[2], other[2])


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_broken_off_anywhere_it_ends_in_the_same_bits(tmp_path, optimiser):
    whole = fit(optimiser=optimiser)
    for after in np.random.default_rng(0).integers(1, 72, size=4):
        folder = tmp_path / f"{after}"
        with pytest.raises(Break):
            fit(folder, break_after=int(after), optimiser=optimiser)
        same(fit(folder, optimiser=optimiser), whole)


def test_broken_off_again_and_again(tmp_path):
    whole = fit()
    for after in (1, 5, 9, 11, 13, 20):
        with pytest.raises(Break):
            fit(tmp_path, break_after=after)
    same(fit(tmp_path), whole)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_broken_off_between_the_last_step_of_an_epoch_and_its_score(tmp_path, monkeypatch, after):
    whole, score, calls = fit(stages=1), Noisy.score, iter(range(9))
    with monkeypatch.context() as patch:
        patch.setattr(Noisy, "score", lambda model: breaks() if next(calls) == after else score(model))
        with pytest.raises(Break):
            fit(tmp_path, stages=1)
    same(fit(tmp_path, stages=1), whole)


def test_saves_are_rare_and_what_is_lost_is_done_again(tmp_path):
    whole = fit()
    with pytest.raises(Break):
        fit(tmp_path, break_after=50, every=0.02)
    same(fit(tmp_path, every=0.02), whole)


def test_ctrl_c_keeps_the_model_and_its_state_and_the_same_call_goes_on(tmp_path, caplog):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
    try:
        whole = fit(stages=1)
        _, (history,), _ = fit(
            tmp_path, break_after=20, stages=1, every=1e9, how=lambda: os.kill(os.getpid(), signal.SIGINT)
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert (history.ending, history.steps) == ("interrupted", 21)
    assert f"the model is kept, and its state is in {tmp_path / 'stage-0.safetensors'}" in caplog.text
    same(fit(tmp_path, stages=1), whole)


def test_a_stage_that_is_over_is_not_trained_again(tmp_path):
    whole = fit(tmp_path)
    same(fit(tmp_path, break_after=0), whole)  # no step is made


def test_a_training_that_turned_back_goes_on_as_it_would_have(tmp_path):
    """The last good state, the halved step and the moments of the optimiser are all part of the state."""

    def fit_with_fault(folder=None, break_after=None):
        torch.manual_seed(0)
        model, steps = nn.Linear(3, 1), [0]

        def objective(x, y):
            steps[0] += 1
            if break_after is not None and steps[0] > break_after:
                raise Break
            value = -(model(x) - y).square().mean()
            return value * float("nan") if bad(x) else value

        def bad(x):
            return bool((x == X[77]).all(1).any())  # one row spoils its batch, in each epoch

        kept = None if folder is None else Checkpoint(folder, 0.0)
        history = train(objective, model, (X, Y), batch_size=16, epochs=4, checkpoint=kept)
        return [p.clone() for p in model.parameters()], [history], torch.zeros(1)

    whole = fit_with_fault()
    assert whole[1][0].halvings >= 2
    with pytest.raises(Break):
        fit_with_fault(tmp_path, break_after=30)
    same(fit_with_fault(tmp_path), whole)


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from tests.training.test_checkpoint import Noisy, X, Y
from stratagp.training.checkpoint import Checkpoint
from stratagp.training.loop import train
import torch
torch.set_num_threads(1)
model = Noisy()
def objective(x, y):
    time.sleep(0.01)
    return model.objective(x, y)
train(objective, model, (X, Y), batch_size=16, epochs=20, checkpoint=Checkpoint({folder!r}, 0.01), score=model.score)
"""


def start(tmp_path):
    root = str(__file__).rsplit("/tests/", 1)[0]
    script = SCRIPT.format(tests=root, folder=str(tmp_path / "run"))
    paths = os.pathsep.join(filter(None, [root, *sys.path]))
    return subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.PIPE, text=True
    )


def wait_for_steps(tmp_path, process):
    file = tmp_path / "run" / "stage-0.safetensors"
    for _ in range(1200):
        if file.exists() or process.poll() is not None:
            return
        time.sleep(0.05)


def test_killed_at_random_moments_it_ends_in_the_same_bits(tmp_path):
    """SIGKILL, which no process can answer, at moments that fall into steps, saves and renames alike."""
    random = np.random.default_rng()
    for _ in range(2):
        process = start(tmp_path)
        wait_for_steps(tmp_path, process)
        time.sleep(float(random.uniform(0.0, 0.8)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    ends_in_the_same_bits(tmp_path)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["stage-0.safetensors"]


def ends_in_the_same_bits(tmp_path):
    """Start once more, to the end, and compare with a training that nobody broke."""
    torch.set_num_threads(1)
    ends = []
    for kept in (Checkpoint(tmp_path / "run", 0.01), None):
        model = Noisy()  # which seeds the draws of dropout, too
        train(model.objective, model, (X, Y), batch_size=16, epochs=20, checkpoint=kept, score=model.score)
        ends.append((*model.parameters(), *model.buffers()))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def saved_state(tmp_path):
    header = (tmp_path / "run" / "stage-0.safetensors").read_bytes()
    return json.loads(json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["__metadata__"]["state"])


def test_sigterm_saves_and_ends_and_the_same_call_goes_on(tmp_path):
    process = start(tmp_path)
    wait_for_steps(tmp_path, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == EXIT_CODE, errors
    state = saved_state(tmp_path)
    assert 0 < state["run"]["taken"] < 240
    assert not state["over"]
    assert state["run"]["history"]["ending"] == "finished"
    ends_in_the_same_bits(tmp_path)
    state = saved_state(tmp_path)
    assert (state["run"]["taken"], state["over"]) == (240, True)


def test_a_folder_of_another_fit_is_refused(tmp_path):
    fit(tmp_path)
    with pytest.raises(InputError, match="other data, length or model"):
        train(Noisy().objective, Noisy(), (X, Y), batch_size=16, epochs=7, checkpoint=Checkpoint(tmp_path))
    kept = Checkpoint(tmp_path / "named")
    kept.begin({"kernel": "RBF", "rows": 5})
    kept.begin({"kernel": "RBF", "rows": 5})
    with pytest.raises(InputError, match="which differs in kernel"):
        kept.begin({"kernel": "Matern", "rows": 5})
    (tmp_path / "named" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"named/run\.json is damaged"):
        kept.begin({"kernel": "RBF", "rows": 5})
    with pytest.raises(InputError, match=r"named/run\.json is damaged"):
        kept.settings()


def test_settings_that_cannot_be_written_are_reported(tmp_path, monkeypatch):
    def no_space(path, content):
        if content:
            raise OSError(28, "No space left on device")

    kept = Checkpoint(tmp_path)
    monkeypatch.setattr(module_under_test, "write_whole", no_space)
    with pytest.raises(InputError, match=r"run\.json could not be written .*use another folder"):
        kept.begin({"kernel": "RBF"})


def test_another_seed_is_not_blamed_on_the_data(tmp_path):
    kept = Checkpoint(tmp_path)
    kept.begin({"data": "a1", "seed": 1})
    with pytest.raises(InputError, match="which differs in seed: use"):
        kept.begin({"data": "b7", "seed": 2})


def test_a_training_that_goes_on_says_so(tmp_path, capsys):
    for _ in range(2):
        train(
            Noisy().objective, Noisy(), (X, Y), batch_size=16, steps=3, checkpoint=Checkpoint(tmp_path), progress=True
        )
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("step 3 of 3 · objective")
    assert second == "step 3 of 3 · restored from the checkpoint"


def test_who_writes_is_asked_when_there_is_something_to_write(tmp_path, monkeypatch):
    """A checkpoint that was made before the processes joined: the second of them leaves the file to the first."""
    kept = Checkpoint(tmp_path, 0.0)

    class Second(World):
        is_first = False

    monkeypatch.setattr(module_under_test, "World", Second)
    model = Noisy()
    train(model.objective, model, (X, Y), batch_size=16, steps=2, checkpoint=kept)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    tmp_path.rmdir()
    kept.begin({"kernel": "RBF"})  # which makes the folder that the first process did not find
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_damaged_files_are_reported(tmp_path):
    fit(tmp_path, stages=1)
    file = tmp_path / "stage-0.safetensors"
    for content in (b"", file.read_bytes()[:100], b"x" * 1000):
        file.write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            fit(tmp_path, stages=1)


def test_a_folder_that_cannot_be_written_is_reported_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not writable"):
        Checkpoint(tmp_path / "file" / "folder")
    with pytest.raises(InputError, match="every must be a number of seconds"):
        Checkpoint(tmp_path, every=-1)


def test_a_full_disk_is_reported_before_training_and_survived_later(tmp_path, monkeypatch):
    full = shutil_usage(free=10)
    monkeypatch.setattr(module_under_test.shutil, "disk_usage", lambda path: full)
    with pytest.raises(InputError, match="MB left"):
        fit(tmp_path / "before")
    monkeypatch.undo()
    whole = fit()
    with pytest.raises(Break):
        fit(tmp_path / "later", break_after=20)
    good = (tmp_path / "later" / "stage-0.safetensors").read_bytes()

    def no_space(path, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patched.setattr(module_under_test, "write_whole", no_space)
        patched.setattr(module_under_test, "_check_writable", lambda folder: None)
        same(fit(tmp_path / "later"), whole)
    assert any("keeps the last one" in str(each.message) for each in caught)
    assert (tmp_path / "later" / "stage-0.safetensors").read_bytes() == good


def shutil_usage(free):
    class Usage:
        def __init__(self):
            self.free = free

    return Usage()
