"""The server with a made-up model: answers, limits, errors, and its end."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from stratagp.errors import InputError
from stratagp.serving import Limits, Server, Wanted


def twice(rows, wanted):
    """2 x of each row; x may be bad, or a number of seconds to wait."""
    if any(row["x"] == "bad" for row in rows):
        raise InputError("the request has 'bad' in column 'x'")
    if any(row["x"] == "broken" for row in rows):
        raise ZeroDivisionError("secret")
    time.sleep(max(row.get("wait", 0) for row in rows))
    return [{"mean": 2 * row["x"], "together": len(rows), "level": wanted.level} for row in rows]


@contextmanager
def serving(answer=twice, **limits):
    server = Server(answer, {"target": "y"}, port=0, limits=Limits(**limits))
    loop = threading.Thread(target=server.serve_forever, args=(0.02,))
    loop.start()
    try:
        yield server
    finally:
        server.shutdown()
        assert server.finish(5)
        loop.join()


def ask(server, path="/predict", body=None, method=None, connection=None, **headers):
    """The status of an answer, and its JSON."""
    own = connection or HTTPConnection(*server.server_address, timeout=10)
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    own.request(method or ("GET" if body is None else "POST"), path, body, headers)
    answer = own.getresponse()
    content = answer.read()
    if connection is None:
        own.close()
    return answer.status, json.loads(content) if content and answer.getheader("Content-Type")[
        -4:
    ] == "json" else content


def spoken(server, text):
    """What the server says to raw bytes, until it closes the connection."""
    with socket.create_connection(server.server_address, 10) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


@pytest.fixture(scope="module")
def server():
    with serving(max_bytes=2000, max_rows=3, timeout=5) as found:
        yield found


def test_many_requests_of_one_connection(server):
    connection = HTTPConnection(*server.server_address, timeout=10)
    for x in range(50):
        status, found = ask(server, body={"rows": [{"x": x}], "level": 0.5}, connection=connection)
        assert (status, found["predictions"][0]["mean"], found["predictions"][0]["level"]) == (200, 2 * x, 0.5)
    connection.close()


def test_a_bad_row_and_a_broken_model_spoil_no_other_request(server):
    """All but the first wait while it is answered, and then share a call."""
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(ask, server, body={"rows": [{"x": 0, "wait": 0.2}]})
        time.sleep(0.1)
        asked = [*range(14), "bad", "broken"]
        found = list(pool.map(lambda x: ask(server, body={"rows": [{"x": x}]}), asked))
        assert first.result()[0] == 200
    assert [status for status, _ in found] == [200] * 14 + [400, 500]
    assert [each["predictions"][0]["mean"] for _, each in found[:14]] == [2 * x for x in range(14)]
    assert max(each["predictions"][0]["together"] for _, each in found[:14]) > 1
    assert found[14][1] == {"error": "the request has 'bad' in column 'x'"}
    assert found[15][1] == {"error": "unexpected ZeroDivisionError: the server's log says more"}


@pytest.mark.parametrize(
    ("status", "path", "body", "says"),
    [
        (404, "/no", None, "there is no '/no'; there are /, /health, /model, /predict"),
        (405, "/predict", None, "/predict takes POST, not GET"),
        (405, "/health", b"{}", "/health takes GET, HEAD, not POST"),
        (413, "/predict", b" " * 2001, "the body has 2001 bytes, but at most 2000 are taken"),
        (413, "/predict", {"rows": [{"x": 1}] * 4}, "there are 4 rows, but at most 3 are taken"),
        (400, "/predict", b"{", "the body is not JSON: Expecting property name"),
        (400, "/predict", b"[" * 1999, "the body is not JSON"),
        (400, "/predict", b'{"rows": [{"x": NaN}]}', "NaN is no number of JSON: use null"),
        (400, "/predict", b'\xff', "the body is not JSON"),
        (400, "/predict", b'{"rows": [{"x": "\\ud800"}]}', "the body is not JSON: 'utf-8' codec can't encode"),
        (400, "/predict", b"[]", "the body must be an object with rows"),
        (400, "/predict", {"rows": []}, "the body must be an object with rows"),
        (400, "/predict", {"rows": [{"x": 1}, 7]}, "row 2 must be an object"),
        (400, "/predict", {"rows": [{"x": 1}], "levels": 1}, "'levels' is none of rows, level and quantiles"),
        (400, "/predict", {"rows": [{"x": 1}], "level": 95}, "level must be a number between 0 and 1, got 95"),
        (400, "/predict", {"rows": [{"x": 1}], "quantiles": [True]}, "quantiles must be a list"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(server, status, path, body, says):
    found = ask(server, path, body)
    assert found[0] == status
    assert list(found[1]) == ["error"]
    assert says in found[1]["error"]


def test_methods_lengths_and_texts_that_are_not_http(server):
    assert ask(server, method="DELETE") == (405, {"error": "/predict takes POST, not DELETE"})
    assert ask(server, "/health", method="HEAD")[0] == 200
    chunks = "POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
    assert spoken(server, f"{chunks}Connection: close\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())[9:12] == "411"
    assert spoken(server, b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n")[9:12] == "400"
    assert spoken(server, b"nonsense\r\n\r\n").endswith("}\n")
    assert spoken(server, b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n")[9:12] == "431"


def test_what_takes_too_long_is_ended(caplog):
    with serving(timeout=0.3) as server, ThreadPoolExecutor(4) as pool:
        slow = pool.submit(ask, server, body={"rows": [{"x": 1, "wait": 1}]})
        late = pool.submit(spoken, server, b"POST /predict HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        silent = pool.submit(spoken, server, b"")
        begun = pool.submit(spoken, server, b"GET /health HTTP/1.1\r\na")
        status, found = slow.result()
        assert status == 504
        assert "no answer within 0.3 s" in found["error"]
        assert late.result()[9:12] == "408"
        assert silent.result() == ""
        assert "ok" in begun.result() or begun.result() == ""
        assert ask(server, "/health")[1]["status"] == "ok"


def test_too_many_connections_are_told_so(monkeypatch):
    monkeypatch.setattr("stratagp.serving.server._CONNECTIONS", 1)
    with serving() as server:
        first = HTTPConnection(*server.server_address, timeout=10)
        assert ask(server, "/health", connection=first)[0] == 200
        said = spoken(server, b"")
        assert said.startswith("HTTP/1.1 503")
        assert json.loads(said.partition("\r\n\r\n")[2]) == {"error": "too many connections are open: try later"}
        assert len(said.partition("\r\n\r\n")[2]) == 54
        first.close()


def test_running_requests_are_finished_and_silent_connections_closed():
    server = Server(twice, {}, port=0)
    threading.Thread(target=server.serve_forever, args=(0.02,)).start()
    silent = HTTPConnection(*server.server_address, timeout=10)
    assert ask(server, "/health", connection=silent)[1]["rows"] == 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, server, body={"rows": [{"x": 4, "wait": 0.4}]})
        time.sleep(0.2)
        server.shutdown()
        assert server.finish(5)
        assert running.result()[1]["predictions"][0]["mean"] == 8
    assert silent.sock.recv(1) == b""
    silent.close()
    assert server.health()["status"] == "stopping"
    assert server.predicted == 1
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection(*server.server_address, timeout=2).connect()


def test_rows_that_want_different_things_are_not_mixed():
    seen = []

    def answer(rows, wanted):
        seen.append((len(rows), wanted))
        time.sleep(0.1)
        return [{} for _ in rows]

    with serving(answer) as server, ThreadPoolExecutor(5) as pool:
        bodies = [{"rows": [{"x": 1}], "level": level} for level in (0.5, 0.6, 0.5, 0.6, 0.5)]
        assert [each[0] for each in pool.map(lambda body: ask(server, body=body), bodies)] == [200] * 5
    assert sum(n for n, _ in seen) == 5
    assert {wanted for _, wanted in seen} == {Wanted(level, (), frozenset("x")) for level in (0.5, 0.6)}
