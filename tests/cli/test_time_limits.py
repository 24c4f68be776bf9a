"""Plans for a time limit, with a clock of our own."""

import pytest

from stratagp.cli import choice as choices
from stratagp.cli.choice import Choice


@pytest.mark.parametrize(("warm_up", "an_epoch"), [(0.0, 0.1), (1.0, 0.1), (1.0, 0.01)])
def test_epochs_fit_into_the_limit_although_the_first_trial_is_slow(monkeypatch, warm_up, an_epoch):
    calls = []

    def timed(fit, choice, rows, epochs):
        calls.append(epochs)
        return epochs * an_epoch + (warm_up if len(calls) == 1 else 0.0)

    monkeypatch.setattr(choices, "_timed", timed)
    found = choices.plan(Choice("autogp", ""), 200, 20.0, 10**6, lambda *_: None, False)
    spent = sum(calls) * an_epoch + warm_up
    assert found.epochs is not None
    assert 0.6 * (20 - spent) < found.epochs * an_epoch < 1.3 * (20 - spent)


def cost(model: str, rows: int) -> float:
    """Seconds of a machine on which 375 rows take one by the exact process, and two by the sparse one."""
    return (rows / 375) ** 3 if model == "exact" else 2 * rows * min(rows, 500) ** 2 / 375**3


def planned(monkeypatch, n: int, seconds: float) -> tuple[choices.Plan, float]:
    """A plan, and the seconds of its trials and its training."""
    spent = list[float]()

    def timed(fit, choice, rows, epochs):
        spent.append(cost(choice.model, rows))
        return spent[-1]

    monkeypatch.setattr(choices, "_timed", timed)
    found = choices.plan(Choice("exact", ""), n, seconds, 1, lambda *_: None, True)
    return found, sum(spent) + cost(found.choice.model, found.rows or n)


@pytest.mark.parametrize("seconds", [3.0, 8.0, 20.0, 60.0, 200.0])
@pytest.mark.parametrize("n", [1500, 6000])
def test_trials_and_training_take_the_time_and_no_more(monkeypatch, n, seconds):
    found, spent = planned(monkeypatch, n, seconds)
    assert spent <= seconds * 1.001 or found.rows == choices._first(n)
    assert found.rows is None or spent > 0.98 * seconds or found.rows == choices._first(n)


def test_of_two_models_the_one_with_more_rows_is_taken(monkeypatch):
    assert planned(monkeypatch, 1500, 3.0)[0][:2] == (Choice("exact", ""), int(375 * 2 ** (1 / 3)))  # no sparse trial
    short, long = (planned(monkeypatch, 1500, seconds)[0] for seconds in (8.0, 14.0))
    assert short.choice.model == "exact"
    assert short.rows == pytest.approx(375 * 5 ** (1 / 3), abs=2)  # 8 s - 1 s - 2 s are left
    assert (long.choice.model, long.rows) == ("sparse", int(11 * 375**3 / 2 / 500**2))  # 14 s - 1 s - 2 s


def test_more_time_than_the_usual_epochs_take_changes_nothing(monkeypatch):
    monkeypatch.setattr(choices, "_timed", lambda fit, choice, rows, epochs: 0.01 * epochs)
    assert choices.plan(Choice("autogp", ""), 200, 20.0, 100, lambda *_: None, False).epochs is None
