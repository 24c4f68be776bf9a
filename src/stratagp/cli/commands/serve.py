"""``stratagp serve``: predictions of a model over HTTP."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import click
from sklearn.base import is_classifier

import stratagp
from stratagp.cli.model_folder import Learnt, open_model
from stratagp.cli.output import Console, plain
from stratagp.cli.program import declared
from stratagp.cli.table import WRITTEN, pandas
from stratagp.data import Field
from stratagp.errors import InputError
from stratagp.serving import Limits, Server, Wanted

_QUIET = Console(silent=True)


@declared("serve")
@click.argument("model", metavar="MODEL")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="NUMBER",
              help="Where it listens; 0 takes a free one.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="An address of this machine; 0.0.0.0 lets every machine ask that can reach this one.")  # fmt: skip
@click.option("--max-bytes", type=click.IntRange(min=1), default=4_000_000, show_default=True, metavar="NUMBER",
              help="The largest request.")  # fmt: skip
@click.option("--max-rows", type=click.IntRange(min=1), default=10_000, show_default=True, metavar="NUMBER",
              help="The most rows of a request.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=30.0, show_default=True, metavar="SECONDS",
              help="How long a request may take to arrive, and again to be answered.")  # fmt: skip
def command(console: Console, model: str, port: int, host: str, max_bytes: int, max_rows: int, timeout: float) -> None:
    """Predict rows that other programs send over HTTP.

    \b
    curl localhost:8000/predict -d '{"rows": [{"size": 3.2, "town": "Oslo"}]}'

    Rows and answers are JSON; answers are those of stratagp predict, with a warning where the model has
    not seen a category. GET /model tells which columns the rows need, GET /health whether the server
    works, and / is a page to try rows by hand. There is no password and no encryption. Ctrl-C and
    SIGTERM let running requests finish.
    """
    learnt = open_model(model)
    try:
        server = Server(Answers(learnt), about(learnt), host, port, Limits(max_bytes, max_rows, timeout))
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror}; --port 0 takes a free port") from None
    bound, shown = server.server_address[1], f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{bound}/"
    console.result(f"{model} answers at {url}; Ctrl-C ends", {"url": url, "model": model})
    with console.at_work():
        run(server)


def run(server: Server) -> None:
    """Serve until Ctrl-C or SIGTERM, then finish what runs; a second signal ends the process at once."""

    def end(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        threading.Thread(target=server.shutdown).start()  # it waits for the loop below, which this thread runs

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.serve_forever(poll_interval=0.1)
        server.finish(server.limits.timeout)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Answers:
    """Rows of JSON to predictions, as ``stratagp predict`` writes them.

    Arguments:
        learnt: the model.
    """

    def __init__(self, learnt: Learnt) -> None:
        self._learnt = learnt
        self._fields = {each.name: each for each in learnt.schema.fields if each.used}

    def __call__(self, rows: Sequence[dict[str, Any]], wanted: Wanted) -> list[dict[str, Any]]:
        """A prediction for each row."""
        learnt, model = self._learnt, self._learnt.model
        if wanted.quantiles and is_classifier(model):
            raise InputError("quantiles are those of numbers, but the model predicts classes: leave quantiles out")
        columns = {
            name: [self._value(row.get(name), field, i) for i, row in enumerate(rows, 1)]
            for name, field in self._fields.items()
            if name in wanted.columns
        }
        frame = pandas().DataFrame(columns, index=range(1, len(rows) + 1))
        others = {name: [None] * len(rows) for name in sorted(wanted.columns - set(columns))}
        if len(columns) < len(self._fields):  # the names of the others show what may be meant
            frame = frame.assign(**others)
        X = learnt.inputs(frame, "the request", _QUIET)
        if why := learnt.refused(X).why:
            raise InputError(f"the request has {why}: correct the row, or leave it out")
        taken = learnt.taken(learnt.as_learnt(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of new categories, which each answer tells of its own row
            found = stratagp.estimators.predicted_columns(model, taken, wanted.level)
            if wanted.quantiles:
                values = model.predict_quantiles(taken, list(wanted.quantiles))
                found |= {f"q({level!r})": values[:, i] for i, level in enumerate(wanted.quantiles)}
        listed = {name: plain(values) for name, values in found.items()}
        answers = [dict(zip(listed, each, strict=True)) for each in zip(*listed.values(), strict=True)]
        return [answer | self._strange(columns, i) for i, answer in enumerate(answers)]

    def _strange(self, columns: dict[str, list[Any]], i: int) -> dict[str, str]:
        """What to tell of the categories of a row that the model has not seen."""
        for name, known in self._learnt.schema.categories.items():
            value = columns.get(name, {i: None})[i]
            if value is not None and value not in known:
                return {"warning": f"the category {value!r} in column {name!r} was not in the training data"}
        return {}

    def _value(self, value: Any, field: Field, row: int) -> Any:
        """A value as a file would give it: it must not depend on the rows of other requests."""
        if isinstance(value, (list, dict)):
            kind = "a list" if isinstance(value, list) else "an object"
            raise InputError(f"the request has {kind} in column {field.name!r}, row {row}: give one value")
        if field.kind not in WRITTEN:
            return _number(value) if isinstance(value, (int, float)) and field.kind == "number" else value
        if isinstance(value, bool):
            known = self._learnt.schema.categories.get(field.name, ())
            return next((each for each in known if each.lower() == str(value).lower()), str(value))
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return value if value is None else str(value)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits, which is refused as infinity
        return float("inf")


def about(learnt: Learnt) -> dict[str, Any]:
    """What a client needs to know of a model."""
    columns: list[dict[str, Any]] = []
    for each in learnt.schema.fields:
        if each.used:
            known = learnt.schema.categories.get(each.name)
            columns.append({"name": each.name, "kind": each.kind} | ({} if known is None else {"known": list(known)}))
    classes = {"classes": plain(learnt.model.classes_)} if is_classifier(learnt.model) else {}
    return {
        "target": learnt.target,
        "task": learnt.task,
        **classes,
        "columns": columns,
        "gaps": learnt.model.get_params().get("missing") == "impute",
        "model": type(learnt.model).__name__,
        "version": stratagp.__version__,
    }
