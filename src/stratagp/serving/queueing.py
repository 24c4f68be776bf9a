"""Requests that wait for one worker, which answers those that fit together in one call of the model.

A call of a model costs about as much for one row as for a hundred, so requests that arrive while it works share the
next call. Where a shared call fails, its requests are answered in two halves, and so on: a bad row spoils no other
request.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from stratagp.errors import StrataGPError

log = logging.getLogger("stratagp")

Answer: TypeAlias = Callable[[Sequence[dict[str, Any]], "Wanted"], list[dict[str, Any]]]
"""A model: rows, and what is wanted of each, to one prediction for each row."""


class Wanted(NamedTuple):
    """What a request wants to know of its rows, and the columns that they have.

    >>> Wanted(0.95, (), frozenset({"size"})).level
    0.95
    """

    level: float
    quantiles: tuple[float, ...]
    columns: frozenset[str]


class Busy(Exception):
    """There was no answer within the time that a request may take.

    >>> issubclass(Busy, Exception)
    True
    """


@dataclass(eq=False)
class _Request:
    rows: Sequence[dict[str, Any]]
    wanted: Wanted
    done: threading.Event = field(default_factory=threading.Event)
    given_up: bool = False
    found: list[dict[str, Any]] | Exception = field(default_factory=list)


class Queue:
    """Answers requests of many threads in one thread of its own.

    Arguments:
        answer: the model.
        together: at most how many rows one call of the model gets, unless a single request has more.

    >>> queue = Queue(lambda rows, wanted: [{"mean": 2 * row["x"]} for row in rows], together=100)
    >>> queue.ask([{"x": 1.5}], Wanted(0.95, (), frozenset({"x"})), timeout=5)
    [{'mean': 3.0}]
    """

    def __init__(self, answer: Answer, together: int) -> None:
        self._answer, self._together = answer, together
        self._waiting: deque[_Request] = deque()
        self._arrived = threading.Condition()
        threading.Thread(target=self._work, name="stratagp answers", daemon=True).start()

    def ask(self, rows: Sequence[dict[str, Any]], wanted: Wanted, timeout: float) -> list[dict[str, Any]]:
        """The answer to one request; :class:`Busy` where it takes more than ``timeout`` seconds."""
        request = _Request(rows, wanted)
        with self._arrived:
            self._waiting.append(request)
            self._arrived.notify()
        if not request.done.wait(timeout):
            request.given_up = True  # it is not started any more
            raise Busy
        if isinstance(request.found, Exception):
            raise request.found
        return request.found

    def _work(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: bool(self._waiting))
                requests = self._next()
            self._settle(requests)

    def _next(self) -> list[_Request]:
        """The request that waits longest, and others that want the same of rows with the same columns."""
        taken: list[_Request] = []
        left: deque[_Request] = deque()
        rows = 0
        for request in self._waiting:
            if request.given_up:
                continue
            fits = not taken or (request.wanted == taken[0].wanted and rows + len(request.rows) <= self._together)
            (taken if fits else left).append(request)
            rows += len(request.rows) if fits else 0
        self._waiting = left
        return taken

    def _settle(self, requests: list[_Request]) -> None:
        if not requests:
            return
        try:
            found = self._answer([row for request in requests for row in request.rows], requests[0].wanted)
        except Exception as error:
            if len(requests) > 1:
                middle = len(requests) // 2
                self._settle(requests[:middle])
                self._settle(requests[middle:])
                return
            if not isinstance(error, StrataGPError):
                log.exception("a request failed")
            requests[0].found = error
            requests[0].done.set()
            return
        start = 0
        for request in requests:
            request.found = found[start : start + len(request.rows)]
            start += len(request.rows)
            request.done.set()
