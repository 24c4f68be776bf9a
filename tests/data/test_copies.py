"""Copies of CSV files: one for all processes of a machine, whoever fails or is killed, and gone in the end."""

import os
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

from stratagp.data import copies, open_source
from stratagp.errors import InputError
from tests.training.test_world import together

BODY = """
import json, os, sys, tempfile
from pathlib import Path
folder = Path(__file__).parent
tempfile.tempdir = str(folder / "tmp")
from stratagp.data import copies, open_source
from stratagp.errors import InputError
from stratagp.training.world import join
world = join()
copy = copies._copy_csv
def noted(*args):
    (folder / f"made-{world.rank}-{Path(args[0]).name}").touch()
    copy(*args)
copies._copy_csv = noted
"""

OPENED = """
source = open_source(str(folder / "t-*.csv"), "row")
again = open_source(str(folder / "t-*.csv"), "row")
rows = [float(b.y.sum()) for part in range(len(source.parts)) for b in source.blocks(part)]
folders = sorted(path.name for path in (folder / "tmp").iterdir())
found = world.all_have([rows, folders])
if world.is_first:
    print(json.dumps(found))
    only_here = open_source(str(folder / "t-0.csv"), "row")  # nobody else opens it, and nobody waits
"""


def csv_files(folder, count=2):
    (folder / "tmp").mkdir()
    for i in range(count):
        pd.DataFrame({"a": [1.0, 2.0], "row": [i, 10.0 * i]}).to_csv(folder / f"t-{i}.csv", index=False)


def test_two_processes_make_one_copy(tmp_path):
    csv_files(tmp_path)
    (found,) = together(BODY + OPENED, folder=tmp_path)
    assert found[0] == found[1]
    assert found[0][0] == [0.0, 11.0]
    assert len(found[0][1]) == 1
    assert len(list(tmp_path.glob("made-*-t-1.csv"))) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


FAILED = """
error = ""
try:
    open_source(str(folder / "t-*.csv"), "row")
except InputError as own:
    error = str(own)
found = world.all_have(error)
if world.is_first:
    print(json.dumps(found))
"""


def test_what_the_copier_meets_all_meet(tmp_path):
    csv_files(tmp_path)
    (tmp_path / "t-1.csv").write_text("a,row\n1\n")
    (found,) = together(BODY + FAILED, folder=tmp_path)
    assert all("t-1.csv cannot be read as CSV" in error for error in found)
    assert list((tmp_path / "tmp").iterdir()) == []


SLOW = """
import os, sys, time
from stratagp.data import copies, open_source
folder = sys.argv[1]
copy = copies._copy_csv
def slow(*args):
    open(os.path.join(folder, "started"), "w").close()
    time.sleep(1000 * (sys.argv[2] == "slow"))
    copy(*args)
copies._copy_csv = slow
print(open_source(os.path.join(folder, "t-*.csv"), "row").rows)
"""


def test_nobody_waits_for_a_process_that_was_killed(tmp_path):
    csv_files(tmp_path)
    environment = {**os.environ, "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", "TMPDIR": str(tmp_path / "tmp")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

    def start(how):
        command = [sys.executable, "-c", SLOW, str(tmp_path), how]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    first = start("slow")
    while not (tmp_path / "started").exists():
        assert first.poll() is None
        time.sleep(0.05)
    second = start("quick")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert second.communicate(timeout=100)[0] == "4\n"
    assert second.returncode == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_changed_file_is_copied_anew_and_a_strangers_folder_is_not_used(tmp_path, monkeypatch):
    csv_files(tmp_path)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(copies.tempfile, "tempdir", str(tmp_path / "tmp"))
    before = open_source(tmp_path / "t-1.csv", "row")
    pd.DataFrame({"a": [1.0], "row": [5.0]}).to_csv(tmp_path / "t-1.csv", index=False)
    after = open_source(tmp_path / "t-1.csv", "row")
    assert (before.rows, after.rows) == (2, 1)
    del before, after
    assert list((tmp_path / "tmp").iterdir()) == []
    monkeypatch.setattr(os, "getuid", lambda: -1)
    with pytest.raises(InputError, match=", which another user owns: set TMPDIR"):
        open_source(tmp_path / "t-1.csv", "row")


def test_a_copy_of_its_own_is_removed_where_it_fails(tmp_path, monkeypatch):
    csv_files(tmp_path)
    monkeypatch.setattr(copies.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "t-1.csv").write_text("a,row\n1\n")
    with pytest.raises(InputError, match=r"t-1.csv cannot be read"):
        open_source(str(tmp_path / "t-*.csv"), "row")
    assert list((tmp_path / "tmp").iterdir()) == []


def overlapping(folder, visitors=4, visits=40):
    """What visitors who come and go at any time miss of the copies, or what else goes wrong."""
    wrong = []

    def make():
        for name in map(str, range(20)):
            (folder / name).touch()

    def visit():
        try:
            for _ in range(visits):
                room = copies._enter(folder, make)
                wrong.extend(name for name in map(str, range(20)) if not (folder / name).exists())
                copies._leave(folder, room)
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=visit) for _ in range(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_who_comes_while_the_last_one_leaves_has_copies(tmp_path):
    assert overlapping(tmp_path / "shared") == []
    assert list(tmp_path.iterdir()) == []


def test_who_comes_while_the_folder_is_being_removed_has_copies(tmp_path, monkeypatch):
    """The door goes first, which somebody who comes then would make anew."""
    folder, remove, met = tmp_path / "shared", copies.shutil.rmtree, []
    room = copies._enter(folder, lambda: (folder / "copy").write_text("first"))
    come = threading.Thread(
        target=lambda: met.append(copies._enter(folder, lambda: (folder / "copy").write_text("second")))
    )

    def slowly(path, *_):
        (path / "door").unlink()
        come.start()
        come.join(5)
        remove(path)

    monkeypatch.setattr(copies.shutil, "rmtree", slowly)
    copies._leave(folder, room)
    monkeypatch.undo()
    come.join()
    assert (folder / "copy").read_text() == "second"
    copies._leave(folder, met[0])
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(InputError, match=rf"{name}, which is not a folder: remove it or set TMPDIR"):
            copies._enter(tmp_path / name, lambda: None)
    with pytest.raises(FileNotFoundError):
        copies._enter(tmp_path / "nowhere" / "copies", lambda: None)


def test_processes_with_other_targets_have_other_copies(tmp_path, monkeypatch):
    """In one of them whole numbers may have become real ones."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(copies.tempfile, "tempdir", str(tmp_path / "tmp"))
    csv_files(tmp_path)
    sources = [open_source(tmp_path / "t-0.csv", target) for target in ("row", "a", "a")]
    assert len(list((tmp_path / "tmp").iterdir())) == 2
    del sources
    assert list((tmp_path / "tmp").iterdir()) == []
