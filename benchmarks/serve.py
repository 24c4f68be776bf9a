"""How many requests a second ``stratagp serve`` answers on this machine, and how long one waits.

The server is a process of its own, and the client another: connections that each send a request when the last one is
answered, over the loopback. A request is lost if it has no answer, or not that of its own rows as ``stratagp predict``
gives it, to 1e-9. The model is an exact process of 1,000 rows with four numbers and a category.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from harness import Benchmark, in_words

TOWNS = ["Bonn", "Oslo", "Rome", "Turin"]
CLOSE = 1e-9  # what answers to the same row may differ by, in the unit of the target
DIFFERENT = 1000  # rows that requests take in turn


class Load(NamedTuple):
    """Connections, requests in all, and rows of each."""

    connections: int
    requests: int
    rows: int


LOADS = [Load(1, 5_000, 1), Load(8, 20_000, 1), Load(32, 100_000, 1), Load(2, 200, 1000)]
QUICK = [Load(1, 200, 1), Load(32, 2_000, 1), Load(2, 10, 1000)]


def table(n: int, seed: int) -> pd.DataFrame:
    """Numbers, a town, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(0, 1, (n, 4)).round(6), columns=list("abcd"))
    frame["town"] = rng.choice(TOWNS, n)
    effects = np.sin(6 * frame["a"]) + frame["b"] * frame["c"] + frame["town"].map(TOWNS.index)
    return frame.assign(y=effects + 0.1 * rng.standard_normal(n))


def stratagp(*words: Any) -> str:
    """What a command prints on standard output."""
    command = [sys.executable, "-m", "stratagp", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def served(model: Path) -> Iterator[int]:
    """The port of a server of a model, which is ended afterwards and must end well."""
    command = [sys.executable, "-m", "stratagp", "serve", str(model), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1].strip("/"))
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> list[dict[str, float]]:
    """The predictions that a request is answered with; none if it is refused."""
    writer.write(message)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    answer = json.loads(await reader.readexactly(length))
    return answer["predictions"] if b" 200 " in head.split(b"\r\n")[0] else []


async def client(port: int, load: Load) -> dict[str, Any]:
    """Send all requests of a load; seconds of each, and how many were lost."""
    frame = pd.read_csv("new.csv")
    expected = pd.read_csv("expected.csv")["mean"].tolist()
    listed = frame.to_dict("records")
    parts = [range(start, start + load.rows) for start in range(0, DIFFERENT - load.rows + 1, load.rows)]
    messages = []
    for part in parts:
        body = json.dumps({"rows": [listed[i] for i in part]}).encode()
        messages.append(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    turns, seconds, right = iter(range(load.requests)), [], 0

    async def connection() -> None:
        nonlocal right
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        for turn in turns:
            which = turn % len(parts)
            start = time.perf_counter()
            found = await ask(reader, writer, messages[which])
            seconds.append(time.perf_counter() - start)
            gaps = [abs(each["mean"] - expected[i]) for each, i in zip(found, parts[which], strict=True)]
            right += max(gaps) < CLOSE
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(load.connections)), return_exceptions=True)
    took = time.perf_counter() - start
    median, p99 = np.quantile(seconds, [0.5, 0.99])
    return {"seconds": took, "median": median, "p99": p99, "slowest": max(seconds), "lost": load.requests - right}


def measure(model: Path, load: Load) -> dict[str, Any]:
    """A fresh server under one load, from a process of its own."""
    with served(model) as port:
        for warm in (Load(1, 20, 1), load):
            command = [sys.executable, __file__, "client", str(port), json.dumps(warm)]
            run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=model.parent)
    return {**load._asdict(), **json.loads(run.stdout)}


def prepare(folder: Path) -> Path:
    """A model, new rows, and what ``stratagp predict`` says of them."""
    table(1000, 0).to_csv(folder / "old.csv", index=False)
    table(DIFFERENT, 1).drop(columns="y").to_csv(folder / "new.csv", index=False)
    stratagp(
        "fit", folder / "old.csv", "-t", "y", "-o", folder / "model", "--model", "exact", "--no-report", "--test", 0
    )
    stratagp("predict", folder / "model", folder / "new.csv", "-o", folder / "expected.csv")
    return folder / "model"


def shown(row: dict[str, Any]) -> dict[str, str]:
    """A row as it is printed."""
    rate = row["requests"] / row["seconds"]
    return {
        "connections": str(row["connections"]),
        "rows a request": f"{row['rows']:,}",
        "requests": f"{row['requests']:,}",
        "requests a second": f"{rate:,.0f}",
        "rows a second": f"{rate * row['rows']:,.0f}",
        "median": in_words(row["median"]),
        "99 % within": in_words(row["p99"]),
        "slowest": in_words(row["slowest"]),
        "lost": str(row["lost"]),
    }


def main() -> None:
    bench = Benchmark.from_command_line("serve", __doc__)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for load in QUICK if bench.quick else LOADS:
            key = f"{load.connections} connections, {load.rows} rows"
            model = Path(folder) / "model"
            rows.append(
                bench.row(key, lambda: measure(model if model.exists() else prepare(Path(folder)), load))  # noqa: B023
            )
    bench.show("Requests over HTTP", [shown(row) for row in rows if row])


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        print(json.dumps(asyncio.run(client(int(sys.argv[2]), Load(*json.loads(sys.argv[3]))))))
    else:
        main()
