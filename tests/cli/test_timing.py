"""Plans for a time limit, with a clock of our own."""

import pytest

from stratagp.cli import timing
from stratagp.cli.models import Choice


@pytest.mark.parametrize(("warm_up", "an_epoch"), [(0.0, 0.1), (1.0, 0.1), (1.0, 0.01)])
def test_epochs_fit_into_the_limit_although_the_first_trial_is_slow(monkeypatch, warm_up, an_epoch):
    calls = []

    def timed(fit, choice, rows, epochs):
        calls.append(epochs)
        return epochs * an_epoch + (warm_up if len(calls) == 1 else 0.0)

    monkeypatch.setattr(timing, "_timed", timed)
    found = timing.plan(Choice("autogp", ""), 200, 20.0, 10**6, lambda *_: None, False)
    spent = sum(calls) * an_epoch + warm_up
    assert found.epochs is not None
    assert 0.6 * (20 - spent) < found.epochs * an_epoch < 1.3 * (20 - spent)


def test_more_time_than_the_usual_epochs_take_changes_nothing(monkeypatch):
    monkeypatch.setattr(timing, "_timed", lambda fit, choice, rows, epochs: 0.01 * epochs)
    assert timing.plan(Choice("autogp", ""), 200, 20.0, 100, lambda *_: None, False).epochs is None
