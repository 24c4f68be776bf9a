"""What training says, and when, by a clock that the tests wind."""

import io
import logging
import math
import sys

import pytest

from stratagp.training.progress import Meter, meter


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_speed_and_time_left():
    clock = Clock()
    own = Meter(total=10, batch=50, clock=clock)
    assert math.isinf(own.left)
    for _ in range(4):
        clock.now += 2.0
        own.step(1.0)
    assert own.rate == 25.0  # 4 · 50 rows in 8 s
    assert own.left == 12.0  # 6 steps of 2 s
    assert own.text == "objective 1 · 25 rows/s · 0:00:12 left"


def test_the_time_limit_is_nearer():
    clock = Clock()
    own = Meter(total=10, batch=50, seconds=5.0, clock=clock)
    clock.now += 2.0
    own.step(1.0)
    assert own.left == 3.0
    clock.now += 20.0
    own.step(1.0)
    assert own.left == 0.0


def test_the_objective_is_a_weighted_mean():
    own, values = Meter(total=10, batch=1), [3.0, math.nan, -1.0, 4.0]
    for value in values:
        own.step(value)
    weights = [0.98**2, 0.98, 1.0]
    expected = sum(w * v for w, v in zip(weights, [3.0, -1.0, 4.0], strict=True)) / sum(weights)
    assert own.objective == pytest.approx(expected, rel=1e-12)
    assert own.steps == 4


def test_the_score_is_told():
    own = Meter(total=10, batch=1)
    own.step(1.0)
    own.score = -0.25
    assert " · score -0.25 · " in own.text


def test_reports_keep_their_distance():
    clock, told = Clock(), []
    own = Meter(100, 1, show=lambda steps, text: told.append(steps), every=10.0, clock=clock)
    for _ in range(35):
        clock.now += 1.0
        own.step(0.0)
    assert told == [10, 20, 30]


@pytest.mark.parametrize("progress", [True, False])
def test_lines_where_there_is_no_terminal(progress, capsys, caplog):
    with caplog.at_level(logging.INFO, "stratagp"), meter(progress, total=2, batch=8) as show:
        show.step(-1.5)
        show.step(-1.5)
    printed, logged = capsys.readouterr().out.splitlines(), [record.getMessage() for record in caplog.records]
    assert len(logged) == 1
    assert logged[0].startswith("step 2 of 2 · objective -1.5 · ")
    assert printed == (logged if progress else [])


def test_the_last_line_comes_after_a_fault_too(capsys):
    def run():
        with meter(True, total=2, batch=8) as show:
            show.step(2.5)
            raise ValueError("fault")

    with pytest.raises(ValueError, match="fault"):
        run()
    assert capsys.readouterr().out.startswith("step 1 of 2 · objective 2.5 · ")


def test_a_bar_on_a_terminal(monkeypatch, caplog):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "stdout", terminal)
    with caplog.at_level(logging.INFO, "stratagp"), meter(True, total=3, batch=8) as show:
        show.step(-1.5)
        show.score = 0.75
    assert "━" in terminal.getvalue()
    assert "1/3" in terminal.getvalue()
    assert "objective -1.5 · score 0.75 · " in terminal.getvalue()
    assert not caplog.records


def test_rich_is_imported_only_for_a_bar(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)  # an import would fail
    with meter(True, total=1, batch=8) as show:
        show.step(-1.5)
    assert "objective" in capsys.readouterr().out
