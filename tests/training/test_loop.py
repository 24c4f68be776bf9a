"""The training loop on objectives whose answer is known, and on ones that go wrong."""

import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from stratagp.errors import ConvergenceWarning, InputError, NotPositiveDefiniteError
from stratagp.posteriors import FullGaussian
from stratagp.training.loop import cosine, rows, train
from stratagp.training.schedules import constant, warm_up

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


class Bowl(nn.Module):
    """``−½ Σ cᵢ (aᵢ − 1)² − 2 |b|²``, in float64."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64))
        self.b = nn.Parameter(torch.full((2, 2), 0.7, dtype=torch.float64))

    def score(self, x):
        curvature = torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
        return -0.5 * (curvature * (self.a - 1).square()).sum() - 2 * self.b.square().sum()


def by_hand(make, steps, clip=None, schedule=constant):
    """The parameters of a bowl after steps of torch's own optimiser, one tensor at a time."""
    bowl = Bowl()
    peer = make(bowl)
    rates = [group["lr"] for group in peer.param_groups]
    for step in range(steps):
        for group, rate in zip(peer.param_groups, rates, strict=True):
            group["lr"] = rate * schedule(step / steps)
        peer.zero_grad()
        (-bowl.score(None)).backward()
        norm = torch.cat([p.grad.flatten() for p in bowl.parameters()]).norm()
        if clip is not None and norm > clip:
            for parameter in bowl.parameters():
                parameter.grad *= clip / norm
        peer.step()
    return bowl


def adam(bowl):
    return torch.optim.Adam(bowl.parameters(), 0.05)


def rmsprop(bowl):
    return torch.optim.RMSprop(bowl.parameters(), 0.003, alpha=0.9)


@pytest.mark.parametrize("schedule", [constant, cosine, warm_up])
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize(("optimiser", "rate", "make"), [("adam", 0.05, adam), ("rmsprop", 0.003, rmsprop)])
def test_steps_equal_those_of_torch(optimiser, rate, make, clip, schedule):
    bowl, twin = Bowl(), by_hand(make, 80, clip, schedule)
    options = {"optimiser": optimiser, "rate": rate, "clip": clip, "schedule": schedule}
    train(bowl.score, bowl, (X,), steps=80, **options)
    for mine, theirs in zip(bowl.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_the_first_steps_have_their_closed_form():
    """Adam goes ``rate`` along the sign of the gradient, RMSProp ``rate / √(1 − 0.9)``."""
    for optimiser, length in (("adam", 1.0), ("rmsprop", 0.1**-0.5)):
        bowl = Bowl()
        start = bowl.a.detach().clone()
        train(bowl.score, bowl, (X,), steps=1, optimiser=optimiser, rate=0.01, schedule=constant)
        expected = start + 0.01 * length * (1 - start).sign()
        torch.testing.assert_close(bowl.a.detach(), expected, rtol=1e-6, atol=0)


def test_clipping_bounds_the_gradient_over_all_parameters():
    slope = torch.tensor([3.0, 4.0]), torch.tensor([12.0])  # a norm of 13
    pair = nn.ParameterList([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))])
    seen = []

    def objective(x):
        return (pair[0] * slope[0]).sum() + (pair[1] * slope[1]).sum()

    def spy(parameter):
        seen.append(parameter.grad.clone())

    for clip, factor in ((1.3, 0.1), (20.0, 1.0)):
        seen.clear()
        with Watched(spy):
            train(objective, pair, (X,), steps=1, clip=clip)
        for found, own in zip(seen, slope, strict=True):
            torch.testing.assert_close(found, -factor * own)


class Watched:
    """Calls ``spy`` with each parameter just before an optimiser of torch steps."""

    def __init__(self, spy):
        self.spy = spy

    def __enter__(self):
        def look(optimiser, args, kwargs):
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    self.spy(parameter)

        self.handle = register_optimizer_step_pre_hook(look)

    def __exit__(self, *_):
        self.handle.remove()


def test_groups_have_rates_of_their_own():
    bowl = Bowl()
    twin = by_hand(lambda b: torch.optim.Adam([{"params": b.a}, {"params": b.b, "lr": 0.005}], 0.05), 40)
    train(bowl.score, bowl, (X,), steps=40, rate=0.05, rates=[(iter([bowl.b]), 0.1)], schedule=constant)
    torch.testing.assert_close(bowl.a, twin.a, rtol=1e-10, atol=0)
    torch.testing.assert_close(bowl.b, twin.b, rtol=1e-10, atol=0)


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_what_is_not_chosen_stays(optimiser):
    bowl = Bowl()
    a, b = bowl.a.detach().clone(), bowl.b.detach().clone()
    bowl.b.grad = torch.ones_like(b)
    asked = []

    def objective(x):
        asked.append(bowl.b.requires_grad)
        return bowl.score(x)

    train(objective, bowl, (X,), steps=5, optimiser=optimiser, parameters=iter([bowl.a]))
    assert torch.equal(bowl.b, b)
    assert torch.equal(bowl.b.grad, torch.ones_like(b))
    assert not torch.equal(bowl.a, a)
    assert asked == [False] * 5
    assert bowl.b.requires_grad


def test_gradients_are_asked_again_after_a_fault():
    bowl = Bowl()

    def objective(x):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        train(objective, bowl, (X,), parameters=[bowl.a])
    assert bowl.a.requires_grad
    assert bowl.b.requires_grad


def test_finds_the_answer():
    line = Line()
    history = train(line.score, line, (X, Y), batch_size=64, epochs=60, rate=0.1)
    assert line.weight.grad is None
    torch.testing.assert_close(line.weight.detach(), TRUTH, rtol=0, atol=1e-3)
    assert history.steps == 60 * (500 // 64)
    assert len(history.values) == 60
    assert history.values[-1] > history.values[0]
    assert history.ending == "finished"
    assert len(history.times) == 60
    assert 0 < history.times[0] <= history.times[-1] <= history.seconds
    assert history.times == sorted(history.times)


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_seeds_reproduce(optimiser):
    weights, options = [], {"batch_size": 64, "steps": 30, "optimiser": optimiser, "clip": 1.0}
    for seed in (0, 0, 1):
        line = Line()
        train(line.score, line, (X, Y), generator=torch.Generator().manual_seed(seed), **options)
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


def test_phases_of_natural_gradients():
    """Only hyperparameters: the posterior rests; only the posterior: all else rests; a part of one is refused."""
    posterior, line = FullGaussian(2), Line()
    both, options = nn.ModuleList([posterior, line]), {"natural": [posterior], "steps": 3}

    def bound(x, y):
        return line.score(x, y) - (posterior.mean - 3).square().sum() - posterior.kl()

    train(bound, both, (X, Y), parameters=line.parameters(), **options)
    assert torch.equal(posterior.mean, torch.zeros(1, 2).double())
    assert torch.equal(posterior.scale[0], torch.eye(2).double())
    assert line.weight.abs().min() > 0
    weight = line.weight.detach().clone()
    train(bound, both, (X, Y), parameters=posterior.parameters(), **options)
    assert torch.equal(line.weight, weight)
    assert posterior.mean.min() > 0
    with pytest.raises(InputError, match="part of a posterior"):
        train(bound, both, (X, Y), parameters=[posterior.mean], **options)


def test_clipping_leaves_natural_gradients_alone():
    posterior = FullGaussian(1)

    def bound(x):  # y = 2 with unit noise: the posterior is N(1, ½)
        return -0.5 * ((posterior.mean - 2).square() + posterior.scale.square()).sum() - posterior.kl()

    train(bound, posterior, (X,), natural=[posterior], natural_rate=1.0, schedule=constant, steps=1, clip=1e-3)
    assert posterior.mean.item() == pytest.approx(1.0, rel=1e-12)
    assert posterior.scale.item() ** 2 == pytest.approx(0.5, rel=1e-12)


FAULTS = {
    "not positive definite": NotPositiveDefiniteError("no factor"),
    "linear algebra": torch.linalg.LinAlgError("singular"),
}


@pytest.mark.parametrize("fault", ["nan", "infinite gradient", *FAULTS])
def test_a_bad_step_goes_back_and_is_halved(fault):
    line, calls = Line(), []

    def objective(x, y):
        calls.append(line.weight.detach().clone())
        if len(calls) == 55:
            if fault == "nan":
                return line.weight.sum() * torch.nan
            if fault == "infinite gradient":
                return (line.weight - line.weight.detach()).sqrt().sum()
            raise FAULTS[fault]
        return line.score(x, y)

    history = train(objective, line, (X, Y), batch_size=50, steps=60)
    assert history.halvings == 1
    assert torch.equal(calls[55], calls[50])  # the state that was kept after 50 steps
    assert line.weight.isfinite().all()
    assert history.steps == 59


@pytest.mark.parametrize(("optimiser", "own"), [("adam", torch.optim.Adam), ("rmsprop", torch.optim.RMSprop)])
def test_after_a_bad_step_the_optimiser_remembers(optimiser, own):
    """The same trajectory by torch's own optimiser: 50 steps, then with half the step from there."""
    bowl, calls = Bowl(), []

    def objective(x):
        calls.append(0)
        return bowl.score(x) * (torch.nan if len(calls) == 54 else 1.0)

    twin, rate, options = Bowl(), 0.05, {"alpha": 0.9} if optimiser == "rmsprop" else {}
    peer = own(twin.parameters(), rate, **options)
    for step in range(55):
        peer.param_groups[0]["lr"] = rate if step < 50 else rate / 2
        peer.zero_grad()
        (-twin.score(None)).backward()
        peer.step()
    train(objective, bowl, (X,), batch_size=50, steps=59, rate=rate, optimiser=optimiser, schedule=constant)
    for mine, theirs in zip(bowl.parameters(), twin.parameters(), strict=True):  # 59 batches, 1 bad, 3 undone
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


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


def test_the_time_limit_ends_aloud(caplog):
    line, scores = Line(), []

    def slow(x, y):
        time.sleep(0.005)
        return line.score(x, y)

    def score():
        scores.append(len(scores))
        return torch.tensor(-1.0)

    history = train(slow, line, (X, Y), batch_size=5, epochs=100, seconds=0.05, score=score)
    assert history.ending == "out of time"
    assert 1 <= history.steps <= 10
    assert len(history.values) == len(history.scores) == len(history.times) == 1
    assert "time limit of 0.05 s" in caplog.text
    enough = train(line.score, line, (X, Y), epochs=2, seconds=100.0)
    assert enough.ending == "finished"


def test_buffers_go_back_with_the_parameters():
    layer, calls = nn.BatchNorm1d(3), []

    def objective(x):
        calls.append(layer.running_mean.clone())
        return layer(x).sum() * (torch.nan if len(calls) == 4 else 1.0)

    train(objective, layer, (X,), batch_size=50, steps=5)
    assert torch.equal(calls[4], calls[1])  # kept after the objective of the first batch, before its step


def test_scores_that_are_nan_never_count_as_best():
    line, scores, seen = Line(), iter([*[float("nan")] * 2, 2.0, float("nan")]), []

    def score():
        seen.append(line.weight.detach().clone())
        return next(scores)

    train(line.score, line, (X, Y), batch_size=100, epochs=3, score=score)
    assert torch.equal(line.weight, seen[2])


def test_the_best_score_is_kept_and_patience_ends():
    line, scores, seen = Line(), iter([0.5, 1.0, 3.0, 2.0, 2.5, 9.0]), []

    def score():
        seen.append(line.weight.detach().clone())
        return next(scores)

    history = train(line.score, line, (X, Y), batch_size=100, epochs=50, score=score, patience=2)
    assert history.scores == [1.0, 3.0, 2.0, 2.5]
    assert history.ending == "no more progress"
    assert torch.equal(line.weight, seen[2])


def test_a_start_that_nothing_beats_is_kept():
    line, scores = Line(), iter([5.0, 1.0, 2.0, 3.0])
    before = line.weight.detach().clone()
    train(line.score, line, (X, Y), batch_size=100, epochs=3, score=lambda: next(scores))
    assert torch.equal(line.weight, before)


def test_nobody_is_told_unless_asked(capsys):
    line = Line()
    train(line.score, line, (X, Y), epochs=1)
    assert capsys.readouterr().out == ""
    train(line.score, line, (X, Y), epochs=1, progress=True)
    assert "objective" in capsys.readouterr().out


def test_scores_wait_for_some_steps_but_not_at_the_start():
    line, asked = Line(), []
    history = train(
        line.score,
        line,
        (X, Y),
        batch_size=len(X),
        epochs=7,
        score=lambda: asked.append(1) or len(asked),
        score_steps=3,
    )
    assert len(asked) == 3  # the start, and after steps 3 and 6
    assert history.scores == [1, 1, 2, 2, 2, 3, 3]


def test_decay_shrinks_apart_from_the_gradient():
    bowl = nn.Module()
    bowl.a, bowl.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    options = {"steps": 10, "rate": 0.1, "schedule": constant, "decays": [([bowl.b], 0.5)]}
    train(lambda x: 0 * (bowl.a.sum() + bowl.b.sum()), bowl, (X,), **options)
    torch.testing.assert_close(bowl.b.detach(), torch.full((3,), (1 - 0.1 * 0.5) ** 10), rtol=1e-5, atol=0)
    assert torch.equal(bowl.a.detach(), torch.ones(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": (X, Y[:3])}, "equally many rows"),
        ({"data": (X[:0], Y[:0])}, "at least 1"),
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"steps": -1}, "negative"),
        ({"rate": 0.0}, "rate"),
        ({"natural_rate": 2.0}, "natural_rate"),
        ({"optimiser": "sgd"}, "adam, rmsprop"),
        ({"clip": 0.0}, "clip"),
        ({"seconds": 0.0}, "seconds"),
        ({"patience": 0}, "patience"),
        ({"parameters": []}, "nothing to train"),
        ({"parameters": [nn.Parameter(torch.zeros(1), requires_grad=False)]}, "nothing to train"),
        ({"parameters": [nn.Parameter(torch.zeros(1))]}, "does not depend"),
        ({"rates": [([], 0.0)]}, "positive factors"),
        ({"rates": [([nn.Parameter(torch.zeros(1))] * 2, 0.5)]}, "twice"),
        ({"decays": [([], -1.0)]}, "not be negative"),
        ({"decays": [([], 1.0)], "optimiser": "rmsprop"}, "adam"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    line = Line()
    with pytest.raises(InputError, match=message):
        train(line.score, line, **{"data": (X, Y), **options})


def test_an_objective_that_falls_without_end_is_turned_back():
    """Finite all the way down: a step that is far too long overshoots, and the next one more."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    module = nn.Module()
    module.weight = weight
    data = torch.zeros(4, 1, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = train(
            lambda x: -weight.abs().pow(8).sum() + 0 * x.sum(),
            module,
            (data,),
            batch_size=4,
            steps=200,
            rate=30.0,
            schedule=constant,
        )
    assert history.halvings > 0
    assert weight.abs().item() < 30


def test_an_interruption_keeps_the_best_state():
    weight = nn.Linear(1, 1, bias=False).double()
    x = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    seen = []

    def score():
        seen.append(weight.weight.item())
        if len(seen) == 4:
            raise KeyboardInterrupt
        return -len(seen)  # the first is the best

    history = train(
        lambda x: -(weight(x) - 3 * x).square().sum(),
        weight,
        (x,),
        batch_size=8,
        epochs=10,
        rate=0.1,
        score=score,
        dtype=torch.float64,
    )
    assert history.ending == "interrupted"
    assert weight.weight.item() == seen[0]
