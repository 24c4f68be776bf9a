"""A small harness for benchmarks: races, memory in a fresh process, a table on the screen, JSON beside it.

A benchmark is a script that asks for its settings, measures rows and shows them::

    bench = Benchmark.from_command_line("sorting", __doc__)
    measured = [bench.row(f"n={n}", lambda: race(contestants(n), repeats=5)) for n in (10, 1000)]
    bench.show("Sorting", [{name: in_words(s) for name, s in row.items()} for row in measured if row])

Each row is written to ``benchmarks/results/<name>.json`` as soon as it is measured; a second run measures
only what is missing, unless ``--fresh`` asks for all. An absent peer or data set is skipped, with a word.
``--markdown`` measures nothing and writes the tables of stored rows into the pages.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from datasets import DataMissing

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PAGES = [HERE.parent / "docs" / f"{name}.md" for name in ("benchmarks", "scaling", "trust")]
PAUSE = 0.3  # seconds before each timed call: the idle threads of another library's BLAS spin for a while
PACKAGES = {"stratagp", "torch", "numpy", "scipy", "scikit-learn", "gpytorch", "gpflow", "lightgbm", "gpboost"}
PEERS: dict[str, str] = {}  # the versions of other libraries that this process has asked for


class Skip(Exception):
    """Something that cannot be measured here, and why."""


def peer(name: str) -> ModuleType:
    """Import another library, or skip what needs it; its version goes into the rows of :func:`in_subprocess`."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        raise Skip(f"{name} is not installed") from None
    PEERS[name] = str(getattr(module, "__version__", "unknown"))
    return module


def best_of(function: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest of ``repeats`` calls, after one that warms up."""
    return race({"it": function}, repeats)["it"]


def race(contestants: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Best seconds of each contestant; they take turns, so that a busy moment of the machine hits all."""
    for function in contestants.values():
        function()
    best = dict.fromkeys(contestants, math.inf)
    for _ in range(repeats):
        for name, function in contestants.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def in_a_row(step: Callable[[], Any], count: int) -> Callable[[], None]:
    """Several calls as one, for steps too short to be timed alone after a pause."""

    def steps() -> None:
        for _ in range(count):
            step()

    return steps


def in_words(seconds: float) -> str:
    """Three digits with a unit: ``12.3 ms``, ``4.56 s``, ``17.6 min``."""
    if seconds >= 1000:
        return f"{seconds / 60:.3g} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def beside_peers(
    rows: list[dict[str, Any]], peers: Iterable[str], memory: Callable[[dict], str]
) -> list[dict[str, str]]:
    """Rows of a race as they are printed: times, how much faster than the fastest peer, memory, agreement."""
    shown = []
    for row in rows:
        seconds = row["seconds"]
        fastest = min((seconds[name] for name in peers if name in seconds), default=None)
        shown.append(
            {
                "n": str(row["n"]),
                **{name: in_words(value) for name, value in seconds.items()},
                "faster": f"{fastest / seconds['StrataGP']:.2f}×" if fastest else "–",
                "memory": memory(row) if row["memory"] is not None else "–",
                "difference": f"{row['difference']:.0e}" if row["difference"] is not None else "–",
            }
        )
    return shown


def use_threads(threads: int) -> None:
    """Hold torch and every BLAS in the process to the same number of threads."""
    torch.set_num_threads(threads)
    threadpool_limits(threads)


class Measured(NamedTuple):
    """What a call in a fresh process returned and took, and the versions of other libraries that it used.

    There are no ``peak_bytes`` where the system does not tell.
    """

    result: Any
    seconds: float
    peak_bytes: int | None
    peers: dict[str, str]


def in_subprocess(
    target: str, *args: Any, threads: int = 2, peaks: bool = True, limit: float | None = None
) -> Measured:
    """Call ``prepare(*args)()`` in a fresh interpreter, where ``target`` is ``"module:prepare"``.

    ``prepare`` builds the problem and returns the function to be measured. The peak is that of the call,
    above what the process held before it. Arguments and result pass as JSON. True ``peaks`` need freed arrays to return
    to the system at once, which costs time: where only time matters, do without. A process that takes more than
    ``limit`` seconds is ended: :class:`TimeoutError`.
    """
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        **dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], str(threads)),
        **({"MALLOC_MMAP_THRESHOLD_": "65536"} if peaks else {}),
    }
    command = [sys.executable, "-c", "import harness; harness.serve()", target, json.dumps(args)]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{target} did not finish in {limit:g} s") from None
    if run.returncode:
        raise RuntimeError(f"{target} failed in its own process:\n{run.stderr}")
    answer = json.loads(run.stdout.splitlines()[-1])
    if "skipped" in answer:
        raise Skip(answer["skipped"])
    return Measured(**answer)


def serve() -> None:
    """The other end of :func:`in_subprocess`."""
    module, _, name = sys.argv[1].partition(":")
    use_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        function = getattr(importlib.import_module(module), name)(*json.loads(sys.argv[2]))
        answer = _measure(function)._asdict()
    except (Skip, DataMissing) as reason:
        answer = {"skipped": str(reason)}
    print("\n" + json.dumps(answer))


def _measure(function: Callable[[], Any]) -> Measured:
    before = _memory("VmRSS", reset_peak=True)
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    after = _memory("VmHWM")
    return Measured(result, seconds, None if before is None or after is None else after - before, dict(PEERS))


def _memory(field: str, reset_peak: bool = False) -> int | None:
    """Bytes that Linux reports for this process: resident now (``VmRSS``) or at most (``VmHWM``)."""
    try:
        if reset_peak:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


class Benchmark:
    """The rows of one benchmark, kept in a JSON file as they are measured.

    Arguments:
        name: the name of the file, without ending; quick runs have a file of their own.
        quick: whether the script should measure small problems only.
        fresh: whether to forget the rows of earlier runs; rows of other versions or machines always are, unless
            ``portable``.
        threads: for torch and BLAS alike.
        only: groups of words; a row is measured if its name, cut at commas, has a word of each group.
        folder: where the file goes.
        packages: others whose versions the figures depend on.
        markdown: whether to measure nothing and write the tables of stored rows into the pages, each
            between its own two marks, which carry the name and, from the second table on, a number.
        portable: whether rows count on any machine, because scores matter more than seconds: those of another one are
            kept, each with its own environment.
    """

    def __init__(
        self,
        name: str,
        quick: bool = False,
        fresh: bool = False,
        threads: int = 2,
        only: Iterable[str] = (),
        folder: Path = RESULTS,
        packages: Iterable[str] = (),
        markdown: bool = False,
        portable: bool = False,
    ) -> None:
        self.name, self.quick, self.threads, self.markdown, self.shown = name, quick, threads, markdown, 0
        self.only = [set(words.split(",")) for words in only]
        self.path = folder / f"{name}{'-quick' if quick else ''}.json"
        self.console = Console(width=None if sys.stdout.isatty() else 150)
        self.environment, self.portable = environment(threads, packages), portable
        self._rows = {} if fresh else self._earlier_rows()
        use_threads(threads)

    @classmethod
    def from_command_line(cls, name: str, description: str | None, portable: bool = False) -> Benchmark:
        """Read the command line; the script's docstring becomes its help."""
        parser = command_line(description)
        only = "measure rows whose names have one of these words, A,B; given twice, a word of each list"
        parser.add_argument("--only", action="append", default=[], metavar="WORDS", help=only)
        given = parser.parse_args()
        options = {"markdown": given.markdown, "portable": portable}
        return cls(name, given.quick, given.fresh, given.threads, given.only, **options)

    def _earlier_rows(self) -> dict[str, dict[str, Any]]:
        if not self.path.exists():
            return {}
        stored = json.loads(self.path.read_text())
        if self.markdown or stored["environment"] == self.environment:
            return stored["rows"]
        if self.portable:
            return {key: {"environment": stored["environment"], **row} for key, row in stored["rows"].items()}
        self.console.print(f"{self.path.name} holds figures of another machine or other versions: starting afresh")
        return {}

    def row(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The values stored under ``key``, or else measured and stored now; None where that is impossible."""
        if key not in self._rows:
            if self.markdown or not all(words & set(key.split(", ")) for words in self.only):
                return None
            try:
                values = measure()
            except (Skip, DataMissing) as reason:
                self.console.print(f"{key}: skipped, {reason}")
                return None
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self._rows[key] = {"measured": now, "values": values}
            self._write()
        return self._rows[key]["values"]

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what is stored under these keys, to be measured again."""
        for key in keys:
            self._rows.pop(key, None)

    def available(self, makers: Mapping[str, Callable[..., Any]], *args: Any) -> dict[str, Any]:
        """``maker(*args)`` for each contestant, without those that cannot run here; pages need names alone."""
        if self.markdown:
            return dict.fromkeys(makers)
        made = {}
        for name, maker in makers.items():
            try:
                made[name] = maker(*args)
            except (Skip, DataMissing) as reason:
                self.console.print(f"{name}: left out, {reason}")
        return made

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"benchmark": self.name, "environment": self.environment, "rows": self._rows}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        part.replace(self.path)

    def measured(self) -> str:
        """When the stored rows were measured, and by what."""
        days = sorted({row["measured"][:10] for row in self._rows.values()})
        when = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "never"
        used = json.loads(self.path.read_text())["environment"] if self.path.exists() else self.environment
        threads = "one thread" if used["threads"] == 1 else f"{used['threads']} threads"
        return f"*Measured {when}: {used['machine']}, {threads}, torch {used['torch']}.*"

    def show(self, title: str, rows: list[dict[str, str]], note: str = "") -> None:
        """Print rows of text as a table, with the columns of all rows in the order in which they appear."""
        self.shown += 1
        if self.markdown:
            subject = self.name if self.shown == 1 else f"{self.name} {self.shown}"
            refresh(subject, f"{markdown_table(rows)}\n\n{self.measured()}")
            return
        table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
        columns = list(dict.fromkeys(column for row in rows for column in row))
        for column in columns:
            table.add_column(column, justify="left" if column == columns[0] else "right")
        for row in rows:
            table.add_row(*(row.get(column, "–") for column in columns))
        self.console.print(table)


def command_line(description: str | None) -> argparse.ArgumentParser:
    """What every benchmark understands; the script's docstring becomes its help."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=style)
    parser.add_argument("--quick", action="store_true", help="small problems only, in a minute or so")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured before")
    parser.add_argument("--threads", type=int, default=2, help="for every library (default: 2)")
    parser.add_argument("--markdown", action="store_true", help="refresh the pages from what is stored")
    return parser


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of text as a table of a page."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns), *([row.get(column, "–") for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def refresh(subject: str, text: str) -> None:
    """Put ``text`` between the two marks of a subject in the page that has them."""
    begin, end = f"<!-- {subject}: begin -->", f"<!-- {subject}: end -->"
    page = next(each for each in PAGES if begin in each.read_text(encoding="utf-8"))
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


def environment(threads: int, packages: Iterable[str] = ()) -> dict[str, Any]:
    """The machine and the versions that figures depend on."""
    installed = {found.name: found.version for found in importlib.metadata.distributions()}
    return {
        "machine": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        **{name: installed[name] for name in sorted({*PACKAGES, *packages} & installed.keys())},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
