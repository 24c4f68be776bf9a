"""Calls of a function in a forked process that may be killed, limited and watched: what came of it, and its end."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

WATCHED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")


class Ended(NamedTuple):
    """How a run ended: "done" (with its value), "error" (its type and text), "killed", "hung" or a crash, "signal 11".

    ``bytes`` is the peak of memory above that of its start; ``events`` what it did of ``WATCHED``.
    """

    how: str
    value: Any
    seconds: float
    bytes: int
    events: tuple[str, ...]


def forked(function: Callable[[], Any], limit: float = 60.0, kill_after: float | None = None, user: int = 0) -> Ended:
    """Call a function in a copy of this process.

    Arguments:
        limit: seconds after which the run counts as hung.
        kill_after: seconds after which it gets SIGKILL.
        user: the number of a user without rights, to become before the call.
    """
    reading, writing = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(function, writing, user)
    os.close(writing)
    content = _until_closed(reading, start + (limit if kill_after is None else kill_after))
    hung = content is None
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    seconds = time.perf_counter() - start
    if hung:
        return Ended("hung" if kill_after is None else "killed", None, seconds, 0, ())
    if os.WIFSIGNALED(status):
        return Ended(f"signal {os.WTERMSIG(status)}", None, seconds, 0, ())
    if not content:
        return Ended(f"exit {os.waitstatus_to_exitcode(status)}", None, seconds, 0, ())
    how, value, peak, events = pickle.loads(content)
    return Ended(how, value, seconds, peak, events)


def _until_closed(reading: int, end: float) -> bytes | None:
    """What a child writes until it ends; None if that takes longer than until ``end``."""
    parts = []
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.perf_counter()))[0]:
            part = pipe.read(2**16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return None


def _child(function: Callable[[], Any], writing: int, user: int) -> None:
    events: list[str] = []
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    sys.addaudithook(lambda name, _: events.append(name) if name in WATCHED else None)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    try:
        if user:
            os.setgid(user)
            os.setuid(user)
        answer = ("done", function())
    except BaseException as error:
        answer = ("error", (type(error).__name__, str(error)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    content = pickle.dumps((*answer, max(0, peak), tuple(events)))
    while content:
        content = content[os.write(writing, content) :]
    os._exit(0)
