"""The benchmark of faults: calls in forked processes end as it says, and damaged tables are refused or read."""

import os
import random
import time

import numpy as np
import pytest

import faults
from forked import forked
from tests.persistence import mutate


def test_how_a_call_ends() -> None:
    assert forked(lambda: {"a": np.arange(3)}).value["a"].tolist() == [0, 1, 2]
    assert forked(lambda: np.zeros(10**6)).value.shape == (10**6,)  # more than a pipe holds
    assert forked(lambda: 1 / 0)[:2] == ("error", ("ZeroDivisionError", "division by zero"))
    assert forked(lambda: os.kill(os.getpid(), 15)).how == "signal 15"
    assert forked(lambda: time.sleep(60), limit=0.1).how == "hung"
    assert forked(lambda: time.sleep(60), kill_after=0.1).how == "killed"
    assert forked(lambda: 3, kill_after=60.0)[:2] == ("done", 3)


def test_what_a_call_does_is_watched() -> None:
    assert forked(lambda: os.system("true")).events == ("os.system",)
    assert forked(lambda: len(b"x" * 300 * 2**20)).bytes > 250 * 2**20
    assert forked(os.getuid, user=faults.NOBODY).value == faults.NOBODY or os.getuid()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_damaged_tables_are_refused_or_read(kind, tmp_path) -> None:
    path = faults.write_table(tmp_path, kind)
    whole = path.read_bytes()
    ends = []
    for i in range(80):
        path.write_bytes(mutate.alter_bytes(whole, random.Random(i)))
        ends.append(faults.read(path))
    assert set(ends) <= {"refused", "read all rows", "read other rows"}
    assert 8 <= ends.count("refused") <= 79
