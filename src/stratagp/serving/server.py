"""An HTTP server for the predictions of one model: JSON in and out, with limits on size, time and connections.

``POST /predict`` takes rows, ``GET /model`` tells what these must be, ``GET /health`` whether the server works, and
``GET /`` is a page to try rows by hand. Each connection has a thread; one more thread answers (see
:mod:`~stratagp.serving.queueing`). Every error is a JSON object with ``error``, and never a traceback.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from stratagp.errors import InputError, StrataGPError
from stratagp.serving.queueing import Answer, Busy, Queue, Wanted

log = logging.getLogger("stratagp")

_PAGE = Path(__file__).with_name("page.html")
_TOGETHER = 1024  # rows of several requests that one call of the model gets
_CONNECTIONS = 256
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\n"
    b'Content-Length: 54\r\n\r\n{"error": "too many connections are open: try later"}\n'
)
_METHODS = {"/": "GET, HEAD", "/health": "GET, HEAD", "/model": "GET, HEAD", "/predict": "POST"}
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Limits(NamedTuple):
    """What one request may be and take.

    Arguments:
        max_bytes: of its body.
        max_rows: that it asks about.
        timeout: seconds until it has arrived, and again until it is answered; also how long a silent connection stays.

    >>> Limits(max_rows=100)
    Limits(max_bytes=4000000, max_rows=100, timeout=30.0)
    """

    max_bytes: int = 4_000_000
    max_rows: int = 10_000
    timeout: float = 30.0


class _Refused(Exception):
    """A request that is not answered: a status, and a sentence that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Server(socketserver.ThreadingTCPServer):
    """Serves a model until :meth:`shutdown`; :meth:`finish` then waits for the requests that run.

    Arguments:
        answer: the model.
        about: what ``GET /model`` answers.
        host, port: where it listens; port 0 takes a free one, which ``server_address`` tells.
        limits: of requests.

    >>> server = Server(lambda rows, wanted: [{"mean": 0.0} for _ in rows], {"target": "price"}, port=0)
    >>> server.server_address[0], server.health()["status"]
    ('127.0.0.1', 'ok')
    >>> server.server_close()
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(
        self,
        answer: Answer,
        about: Mapping[str, Any],
        host: str = "127.0.0.1",
        port: int = 8000,
        limits: Limits | None = None,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.limits = limits or Limits()
        self.about = _as_json({**about, "limits": self.limits._asdict()})
        self.page = _PAGE.read_bytes()
        self.queue = Queue(answer, _TOGETHER)
        self.stopping = False
        self.predicted = 0  # rows
        self._started = time.monotonic()
        self._open: dict[_Handler, None] = {}
        self._changed = threading.Condition()
        super().__init__((host, port), _Handler)

    def health(self) -> dict[str, Any]:
        """Whether the server takes requests, for how many seconds it has run, and how many rows it has predicted."""
        status = "stopping" if self.stopping else "ok"
        return {"status": status, "seconds": round(time.monotonic() - self._started, 3), "rows": self.predicted}

    def finish(self, timeout: float) -> bool:
        """Close silent connections and wait until all requests are answered; False if that takes too long."""
        self.stopping = True
        self.server_close()
        end = time.monotonic() + timeout
        while self._open and time.monotonic() < end:
            for handler in list(self._open):
                if handler.phase in ("silent", "parting"):
                    handler.end()
            with self._changed:
                self._changed.wait(0.05)
        return not self._open

    def opened(self, handler: _Handler) -> None:
        """Remember a connection."""
        with self._changed:
            self._open[handler] = None

    def closed(self, handler: _Handler) -> None:
        """Forget a connection."""
        with self._changed:
            self._open.pop(handler, None)
            self._changed.notify_all()

    def count(self, rows: int) -> None:
        """Add to the number of predicted rows."""
        with self._changed:
            self.predicted += rows

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether one more connection may be opened."""
        if len(self._open) < _CONNECTIONS:
            return True
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_FULL)
        return False

    def service_actions(self) -> None:
        """End connections that take too long to send a request or to take an answer; called several times a second."""
        late = time.monotonic() - self.limits.timeout
        for handler in list(self._open):
            if handler.phase != "waiting" and handler.since < late:
                handler.end()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error; anything else is written to the log."""
        log.debug("connection of %s ended", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One connection: its requests, one after another."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "stratagp", ""
    disable_nagle_algorithm = True  # else an answer waits 40 ms for the client's acknowledgement
    wbufsize = 65536
    phase, since = "silent", 0.0  # or reading, waiting (for the model), writing, parting; since when

    def setup(self) -> None:
        super().setup()
        self._enter("silent")
        self.server.opened(self)

    def finish(self) -> None:
        try:
            with contextlib.suppress(OSError):
                super().finish()
        finally:
            self.server.closed(self)

    def end(self) -> None:
        """End the connection from another thread; what has arrived can still be read."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR if self.phase == "writing" else socket.SHUT_RD)

    def _enter(self, phase: str) -> None:
        self.phase, self.since = phase, time.monotonic()

    def handle_one_request(self) -> None:
        """Read and answer one request."""
        super().handle_one_request()
        self._enter("silent")
        self.close_connection |= self.server.stopping

    def parse_request(self) -> bool:
        """Read the head of a request, whose first line is there."""
        self._enter("reading")
        return super().parse_request()

    def do_GET(self) -> None:
        """Answer questions about the server and the model."""
        path = self.path.partition("?")[0]
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads such a body
        if path == "/":
            self._send(200, self.server.page, "text/html; charset=utf-8")
        elif path == "/health":
            self._send(503 if self.server.stopping else 200, _as_json(self.server.health()))
        elif path == "/model":
            self._send(200, self.server.about)
        else:
            self._not_here(path)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Answer with predictions."""
        path = self.path.partition("?")[0]
        if path != "/predict":
            self.close_connection = True
            self._not_here(path)
            return
        try:
            rows, wanted = self._asked(self._body())
            self._enter("waiting")
            found = self.server.queue.ask(rows, wanted, self.server.limits.timeout)
            self.server.count(len(rows))
            self._send(200, _as_json({"predictions": found}))
        except _Refused as refused:
            self._say(refused.status, refused.why)
        except Busy:
            self._say(504, f"no answer within {self.server.limits.timeout:g} s: send fewer rows, or try later")
        except InputError as error:
            self._say(400, str(error))
        except StrataGPError as error:
            self._say(500, str(error))
        except ConnectionError:
            raise
        except Exception as error:
            self._say(500, f"unexpected {type(error).__name__}: the server's log says more")

    def _body(self) -> bytes:
        """The body of a request, of a length that is told and allowed."""
        told, most = self.headers.get("Content-Length"), self.server.limits.max_bytes
        if told is None or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise _Refused(411, "give the length of the body in a Content-Length header, not in chunks")
        if not (told.isascii() and told.isdigit()) or len(self.headers.get_all("Content-Length", [])) > 1:
            self.close_connection = True
            raise _Refused(400, f"Content-Length must be one whole number, got {told[:40]!r}")
        if int(told[:20]) > most:
            self.close_connection = True
            raise _Refused(413, f"the body has {told[:20]} bytes, but at most {most} are taken: send fewer rows")
        body = self.rfile.read(int(told))
        if len(body) < int(told):
            self.close_connection = True
            raise _Refused(408, f"only {len(body)} of {told} bytes of the body have arrived in time: send them again")
        return body

    def _asked(self, body: bytes) -> tuple[list[dict[str, Any]], Wanted]:
        """The rows of a request, and what is wanted of them."""
        try:
            asked = json.loads(body, parse_constant=_no_number)
            if b"\\ud" in body.lower():  # half a letter, as JSON can write it, is no text to anybody else
                json.dumps(asked, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise _Refused(400, f"the body is not JSON: {error}") from None
        if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list) or not asked["rows"]:
            raise _Refused(400, 'the body must be an object with rows: {"rows": [{"column": value, …}, …]}')
        unknown = sorted(set(asked) - {"rows", "level", "quantiles"})
        if unknown:
            raise _Refused(400, f"{unknown[0]!r} is none of rows, level and quantiles: remove it")
        rows, most = asked["rows"], self.server.limits.max_rows
        if len(rows) > most:
            raise _Refused(413, f"there are {len(rows)} rows, but at most {most} are taken: send them in parts")
        wrong = next((i for i, row in enumerate(rows, 1) if not isinstance(row, dict)), None)
        if wrong is not None:
            raise _Refused(400, f"row {wrong} must be an object with a value for each column")
        level, quantiles = asked.get("level", 0.95), asked.get("quantiles", [])
        if not _is_share(level):
            raise _Refused(400, f"level must be a number between 0 and 1, got {json.dumps(level)[:40]}")
        if not isinstance(quantiles, list) or len(quantiles) > 100 or not all(map(_is_share, quantiles)):
            raise _Refused(400, "quantiles must be a list of at most 100 numbers between 0 and 1, such as [0.1, 0.9]")
        return rows, Wanted(float(level), tuple(map(float, quantiles)), frozenset(name for row in rows for name in row))

    def _not_here(self, path: str) -> None:
        """Say that there is no such page, or that it wants another method."""
        if path in _METHODS:
            self._say(405, f"{path} takes {_METHODS[path]}, not {self.command}", {"Allow": _METHODS[path]})
        else:
            self._say(404, f"there is no {path[:80]!r}; there are {', '.join(_METHODS)}")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parent class refuses: requests that are not HTTP, too long, or of unknown methods."""
        self.close_connection = True
        path = (getattr(self, "path", None) or "").partition("?")[0]
        if code == HTTPStatus.NOT_IMPLEMENTED and path:
            self._not_here(path)
        else:
            self._say(code, message or HTTPStatus(code).phrase)

    def _say(self, status: int, why: str, more: Mapping[str, str] | None = None) -> None:
        self._send(status, _as_json({"error": why}), more=more)
        if self.close_connection:  # let the client read this before the connection is reset for what it still sends
            self._enter("parting")
            with contextlib.suppress(OSError):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_WR)
                while self.connection.recv(65536):
                    pass

    def _send(
        self, status: int, body: bytes, kind: str = "application/json", more: Mapping[str, str] | None = None
    ) -> None:
        self._enter("writing")
        self.close_connection |= self.server.stopping
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        headers |= {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": _POLICY}
        headers |= {"Connection": "close"} if self.close_connection else {}
        headers |= {"Retry-After": "1"} if status in (503, 504) else {}
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: thousands of requests a second would bury what matters."""


def _as_json(value: Any) -> bytes:
    """One line of JSON, in ASCII, so that any text can be sent back."""
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON: use null for a missing value")


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1
