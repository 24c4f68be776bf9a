"""Plans for a time limit, with a clock of our own."""

import pytest

from stratagp.recipes import budget as budgets
from stratagp.recipes.budget import Budget, Plan, plan
from stratagp.recipes.choose import seconds_of
from stratagp.recipes.vecchia import CONDITIONALS


@pytest.mark.parametrize(("warm_up", "an_epoch"), [(0.0, 0.1), (1.0, 0.1), (1.0, 0.01)])
def test_epochs_fit_into_the_limit_although_the_first_trial_is_slow(monkeypatch, warm_up, an_epoch):
    calls = []

    def timed(trial, way, rows, epochs):
        calls.append(epochs)
        return epochs * an_epoch + (warm_up if len(calls) == 1 else 0.0)

    monkeypatch.setattr(budgets, "_timed", timed)
    found = plan("stochastic", 200, Budget(seconds=20.0), 10**6, lambda *_: None, False).budget
    spent = sum(calls) * an_epoch + warm_up
    assert found.epochs is not None
    assert 0.6 * (20 - spent) < found.epochs * an_epoch < 1.3 * (20 - spent)


def cost(way: str, rows: int) -> float:
    """Seconds of a machine on which 375 rows take one by the exact process, and two by Vecchia's."""
    return (rows / 375) ** 3 if way == "exact" else 2 * min(rows, CONDITIONALS) / 375


def planned(monkeypatch, n: int, seconds: float) -> tuple[Plan, float]:
    """A plan, and the seconds of its trials and its training."""
    spent = list[float]()

    def timed(trial, way, rows, epochs):
        spent.append(cost(way, rows))
        return spent[-1]

    monkeypatch.setattr(budgets, "_timed", timed)
    found = plan("exact", n, Budget(seconds=seconds), 1, lambda *_: None, True)
    return found, sum(spent) + cost(found.way, found.budget.rows or n)


@pytest.mark.parametrize("seconds", [3.0, 8.0, 20.0, 60.0, 200.0])
@pytest.mark.parametrize("n", [1500, 6000])
def test_trials_and_training_take_the_time_and_no_more(monkeypatch, n, seconds):
    found, spent = planned(monkeypatch, n, seconds)
    assert spent <= seconds * 1.001 or found.budget.rows == budgets._first(n)
    assert found.budget.rows is None or spent > 0.98 * seconds or found.budget.rows == budgets._first(n)


def test_of_many_rows_all_are_predicted_from_by_values_of_few(monkeypatch):
    """Where 500 rows take 1.17 s, and Vecchia's process of 200,000 rows takes 30 s, or up to 90."""
    slow, spent = 1.0, list[tuple[str, int]]()

    def timed(trial, way, rows, epochs):
        spent.append((way, rows))
        return slow * seconds_of(way, rows, 8)

    monkeypatch.setattr(budgets, "_timed", timed)
    plans = [plan("exact", 200_000, Budget(seconds=limit), 1, lambda *_: None, True, 8) for limit in (100, 20, 5)]
    assert spent == [("exact", 500)] * 3
    assert plans[0] == Plan("vecchia", Budget())
    assert (plans[1].way, plans[1].budget.rows) == ("vecchia", None)
    left = 20 - seconds_of("exact", 500, 8)
    took = (plans[1].search / 500) ** 3 * seconds_of("exact", 500, 8)
    assert took == pytest.approx(0.4 * left, rel=0.01)  # and 200 · 0.04 s are less than the rest
    assert plans[2].budget.rows == pytest.approx(25_000 * 0.6 * (5 - seconds_of("exact", 500, 8)), abs=1)


def test_of_two_models_the_one_with_more_rows_is_taken(monkeypatch):
    trial = (500 / 375) ** 3  # seconds of the exact process
    short, long = (planned(monkeypatch, 20_000, seconds)[0] for seconds in (14.0, 40.0))
    assert (short.way, short.budget.rows) == ("exact", int(375 * (14 - trial) ** (1 / 3)))  # no time for another trial
    assert (long.way, long.budget.rows) == ("vecchia", None)  # beyond so many conditionals rows cost nothing


def test_more_time_than_the_usual_epochs_take_changes_nothing(monkeypatch):
    monkeypatch.setattr(budgets, "_timed", lambda trial, way, rows, epochs: 0.01 * epochs)
    assert plan("stochastic", 200, Budget(seconds=20.0), 100, lambda *_: None, False) == Plan("stochastic", Budget())


def test_a_limit_of_rows_and_epochs_is_kept():
    asked = Budget(rows=100, epochs=3)
    assert plan("stochastic", 200, asked, 10, lambda *_: None, False) == Plan("stochastic", asked)


def test_a_plan_has_no_seconds_and_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(budgets, "_timed", lambda trial, way, rows, epochs: float(epochs))
    found = plan("stochastic", 100, Budget(rows=80, epochs=50, seconds=20.0), 1, lambda *_: None, False)
    assert found.budget.seconds is None
    assert found.budget.rows == 80
    assert 1 <= found.budget.epochs < 20
    assert found.reason == f"{found.budget.epochs} epochs fit into the time limit"
