"""The training loop on objectives whose answer is known, and on ones that go wrong."""

import numpy as np
import pytest
import torch
from torch import nn

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.posteriors import FullGaussian
from stratagp.training.loop import cosine, rows, train

G = torch.Generator().manual_seed(0)
X = torch.randn(500, 3, generator=G)
TRUTH = torch.tensor([[1.0], [-2.0], [0.5]])
Y = X @ TRUTH


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 1))

    def score(self, x, y):
        return -(x @ self.weight - y).square().mean()


def test_finds_the_answer():
    line = Line()
    history = train(line.score, line, (X, Y), batch_size=64, epochs=60, rate=0.1)
    torch.testing.assert_close(line.weight.detach(), TRUTH, rtol=0, atol=1e-3)
    assert history.steps == 60 * (500 // 64)
    assert len(history.values) == 60
    assert history.values[-1] > history.values[0]
    assert history.ending == "finished"
    assert history.seconds > 0


def test_seeds_reproduce():
    weights = []
    for seed in (0, 0, 1):
        line = Line()
        train(line.score, line, (X, Y), batch_size=64, steps=10, generator=torch.Generator().manual_seed(seed))
        weights.append(line.weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_every_row_is_seen_once_an_epoch():
    seen = []
    line = Line()

    def record(x):
        seen.append(x[:, 0])
        return -line.weight.square().sum()

    train(record, line, (np.arange(30.0)[:, None],), batch_size=10, epochs=2)
    assert [len(batch) for batch in seen] == [10] * 6
    for epoch in (seen[:3], seen[3:]):
        assert torch.equal(torch.cat(epoch).sort().values, torch.arange(30.0))
    assert not torch.equal(seen[0], seen[3])


def test_memory_maps_are_read_by_rows(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X.numpy())
    mapped = np.load(path, mmap_mode="r")
    first, second = Line(), Line()
    train(first.score, first, (mapped, Y), batch_size=50, epochs=3)
    train(second.score, second, (X, Y), batch_size=50, epochs=3)
    assert torch.equal(first.weight, second.weight)
    assert rows(mapped, slice(2, 4), torch.float64).dtype == torch.float64


def test_natural_gradients_move_their_posterior_alone():
    posterior, line = FullGaussian(2), Line()
    both = nn.ModuleList([posterior, line])

    def bound(x, y):  # two observations of each value, 3 and −1, with unit noise
        fit = -(posterior.mean - torch.tensor([3.0, -1.0])).square().sum() - posterior.scale.tril().square().sum()
        return fit - posterior.kl() + line.score(x, y)

    train(bound, both, (X, Y), natural=[posterior], natural_rate=1.0, schedule=lambda done: 1.0, steps=1)
    torch.testing.assert_close(posterior.mean.detach()[0], torch.tensor([2.0, -2 / 3]).double())
    torch.testing.assert_close(posterior.scale.detach()[0], torch.eye(2).double() / 3**0.5)
    assert line.weight.abs().max().item() == pytest.approx(0.01, rel=1e-3)  # one step of Adam


@pytest.mark.parametrize("fault", ["nan", "not positive definite"])
def test_a_bad_step_goes_back_and_is_halved(fault):
    line, calls = Line(), []

    def objective(x, y):
        calls.append(line.weight.detach().clone())
        if len(calls) == 55:
            if fault == "nan":
                return line.weight.sum() * torch.nan
            raise NotPositiveDefiniteError("no factor")
        return line.score(x, y)

    history = train(objective, line, (X, Y), batch_size=50, steps=60)
    assert history.halvings == 1
    assert torch.equal(calls[55], calls[50])  # the state that was kept after 50 steps
    assert line.weight.isfinite().all()
    assert history.steps == 59


def test_what_is_wrong_at_the_start_is_raised():
    line = Line()
    with pytest.raises(InputError, match="start"):
        train(lambda x: line.weight.sum() * torch.nan, line, (X,))


def test_training_that_always_diverges_ends_in_a_good_state():
    line, calls = Line(), []

    def objective(x):
        calls.append(0)
        return line.weight.sum() * (1.0 if len(calls) == 1 else torch.nan)

    with pytest.warns(ConvergenceWarning, match="diverged"):
        history = train(objective, line, (X,), batch_size=50, steps=100)
    assert history.ending == "diverged"
    assert torch.equal(line.weight, torch.zeros(3, 1))


def test_an_interrupt_keeps_the_module():
    line, calls = Line(), []

    def objective(x, y):
        calls.append(0)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return line.score(x, y)

    history = train(objective, line, (X, Y), batch_size=50)
    assert (history.ending, history.steps) == ("interrupted", 6)
    assert line.weight.abs().max() > 0


def test_the_best_score_is_kept_and_patience_ends():
    line, scores, seen = Line(), iter([1.0, 3.0, 2.0, 2.5, 9.0]), []

    def score():
        seen.append(line.weight.detach().clone())
        return next(scores)

    history = train(line.score, line, (X, Y), batch_size=100, epochs=50, score=score, patience=2)
    assert history.scores == [1.0, 3.0, 2.0, 2.5]
    assert history.ending == "no more progress"
    assert torch.equal(line.weight, seen[1])


def test_a_bar_is_drawn_only_when_asked(capsys):
    line = Line()
    train(line.score, line, (X, Y), epochs=1)
    assert capsys.readouterr().out == ""
    train(line.score, line, (X, Y), epochs=1, progress=True)
    assert "objective" in capsys.readouterr().out


def test_schedule():
    assert [round(cosine(done), 4) for done in (0, 0.5, 1, 2)] == [1.0, 0.51, 0.02, 0.02]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": (X, Y[:3])}, "as many rows"),
        ({"data": (X[:0], Y[:0])}, "at least one"),
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"steps": -1}, "negative"),
        ({"rate": 0.0}, "rate"),
        ({"natural_rate": 2.0}, "natural_rate"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    line = Line()
    with pytest.raises(InputError, match=message):
        train(line.score, line, **{"data": (X, Y), **options})
