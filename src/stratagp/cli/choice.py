"""Which model, with how many rows and epochs, and why: by the size and kinds of the data, and by the time there is.

A time limit is spent on short trials on this machine. The cost of an exact process grows with the cube of the ``n``
rows at most, that of a sparse one with ``n min(n, m)²`` for ``m`` inducing points, that of mini-batches with ``n``.
What was chosen becomes part of the settings, so that a repetition makes the same steps however fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import stratagp
from stratagp.errors import InputError

EXACT_ROWS, LAPLACE_ROWS, SPARSE_ROWS = 4000, 3000, 200_000  # up to which auto takes these
MODELS = ("auto", "exact", "sparse", "autogp", "dkl", "dfgp", "gp-drf")
_BATCHED = ("autogp", "dkl", "dfgp", "gp-drf")
_FILLS = ("exact", "sparse")  # models that fill missing inputs
_TEXT_ROWS = 2000  # up to which texts alone have an exact process
_LEAST, _TRIAL = 50, 500  # rows of the first trial: a quarter of all, between these
_BATCH_TRIAL = 2000  # rows of trials by mini-batches
_POINTS = 500  # inducing points of sparse models
_ROUNDING = 1e-6  # of rows


@dataclass(frozen=True)
class Choice:
    """A model and why it was chosen.

    Arguments:
        model: its name on the command line.
        texts: the columns of text that it compares by a kernel of texts.
        alone: whether a text is all that it sees.
        log: whether the logarithm of the target is Gaussian, and not the target.
    """

    model: str
    reason: str
    texts: tuple[str, ...] = ()
    alone: bool = False
    log: bool = False

    @property
    def by_batches(self) -> bool:
        """Whether it learns by mini-batches."""
        return self.model in _BATCHED

    def by_epochs(self, task: str) -> bool:
        """Whether it goes over the rows again and again, so many times as ``--epochs`` says."""
        return self.by_batches or (self.model == "sparse" and task == "classification")

    @property
    def fills(self) -> bool:
        """Whether it fills missing inputs."""
        return self.model in _FILLS and not self.texts


def choose(
    said: str, task: str, columns: Sequence[stratagp.data.Field], rows: int, classes: int, log: bool = False
) -> Choice:
    """The model for so many rows of such columns; ``log`` asks for one of the logarithm of the target."""
    used = [each for each in columns if each.used]
    texts = tuple(each.name for each in used if each.kind == "text")
    alone = len(used) == len(texts) == 1
    if texts and said not in ("auto", "gp-drf") and not (alone and said in ("exact", "autogp")):
        raise InputError(
            f"--model {said} cannot compare texts, which the column {texts[0]!r} holds: take gp-drf, or leave it out "
            f"by --as {texts[0]}=ignore"
        )
    if log:
        return _of_logarithms(said, texts, alone)
    if said != "auto":
        return Choice(said, "as asked for", texts, alone)
    if alone and rows * max(1, classes if classes > 2 else 1) <= _TEXT_ROWS:
        return Choice("exact", f"{rows:,} texts are at most {_TEXT_ROWS:,}: a process over texts", texts, alone)
    if texts:
        return Choice("gp-drf", f"the column {texts[0]!r} holds texts: processes over texts and columns", texts, alone)
    if task == "classification":
        size = rows * (classes if classes > 2 else 1)
        if size <= LAPLACE_ROWS:
            return Choice("exact", f"{size:,} latent values are at most {LAPLACE_ROWS:,}: Laplace's method")
        return Choice("autogp", f"{size:,} latent values are more than {LAPLACE_ROWS:,}: mini-batches")
    if rows <= EXACT_ROWS:
        return Choice("exact", f"{rows:,} rows are at most {EXACT_ROWS:,}: the exact process")
    if rows <= SPARSE_ROWS:
        return Choice("sparse", f"{rows:,} rows are more than {EXACT_ROWS:,}: the collapsed bound")
    return Choice("autogp", f"{rows:,} rows are more than {SPARSE_ROWS:,}: mini-batches")


def _of_logarithms(said: str, texts: tuple[str, ...], alone: bool) -> Choice:
    if said not in ("auto", *_BATCHED):
        raise InputError(f"--log is for models that learn by mini-batches, which {said} does not: take autogp")
    reason = "the logarithm of the target is learnt by mini-batches" if said == "auto" else "as asked for"
    return Choice(("gp-drf" if texts else "autogp") if said == "auto" else said, reason, texts, alone, log=True)


class Plan(NamedTuple):
    """A model with its rows and epochs; None stands for all, and for the usual number."""

    choice: Choice
    rows: int | None
    epochs: int | None
    word: str = ""


Fit = Callable[[Choice, int, int | None], Any]
"""``fit(choice, rows, epochs)``: train on so many rows."""


def plan(choice: Choice, n: int, seconds: float, usual: int, fit: Fit, sparse: bool) -> Plan:
    """What to train in about so many seconds.

    Arguments:
        choice: the model without a limit.
        n: how many rows there are.
        usual: epochs of mini-batches without a limit.
        fit: trains a model on some rows, for a trial.
        sparse: whether a sparse model may take the place of an exact one.
    """
    if choice.by_batches:
        return _batches(choice, n, seconds, usual, fit)
    rows, left = _grow(choice, n, seconds, fit)
    if rows == n:
        return Plan(choice, None, None)
    if sparse and choice.model == "exact" and rows > _POINTS and left > 0.2 * seconds:  # of fewer it costs no less
        other = Choice("sparse", "the exact process would take longer than the time limit")
        more, rest = _grow(other, n, left, fit)
        if more > rows:
            return Plan(other, None if more == n else more, None, f"a sparse model of {more:,} of {n:,} rows fits into")
        rows = max(_first(n), _able(rows, max(rest, 0.0) / left, "exact"))  # which the other trials have left
    return Plan(choice, rows, None, f"{rows:,} of {n:,} rows fit into")


def _grow(choice: Choice, n: int, seconds: float, fit: Fit) -> tuple[int, float]:
    """The most rows whose training fits into the time, by trials on more and more of them, and what these leave."""
    left, rows = seconds, _first(n)
    while True:
        took = _timed(fit, choice, rows, None)
        left -= took
        able = _able(rows, max(left, 0.0) / took, choice.model)
        if able >= n or able < 4 * rows:  # another trial would take the time of the training itself
            return min(n, max(_first(n), able)), left
        rows *= 2


def _first(n: int) -> int:
    """The rows of the first trial, which are trained on whatever the limit is."""
    return min(n, max(_LEAST, min(n // 4, _TRIAL)))


def _able(rows: int, ratio: float, model: str, m: int = _POINTS) -> int:
    """How many rows take ``ratio`` times as long as ``rows`` do; a sparse model has ``m`` inducing points at most.

    >>> _able(1000, 8, "exact"), _able(1000, 8, "sparse"), _able(250, 8, "sparse"), _able(250, 16, "sparse")
    (2000, 8000, 500, 1000)
    """
    if model == "exact":
        return int(rows * ratio ** (1 / 3) + _ROUNDING)
    cost = ratio * rows * min(rows, m) ** 2
    return int((cost ** (1 / 3) if cost <= m**3 else cost / m**2) + _ROUNDING)


def _batches(choice: Choice, n: int, seconds: float, usual: int, fit: Fit) -> Plan:
    """Epochs of mini-batches, from two trials of which the longer one clearly takes longer."""
    rows = min(n, _BATCH_TRIAL)
    spent = longer = _timed(fit, choice, rows, 1)
    short, trial = longer, 1
    while longer < 1.5 * short and spent <= seconds / 4:
        short, trial = longer, 4 * trial
        longer = _timed(fit, choice, rows, trial)
        spent += longer
    an_epoch = longer if trial == 1 else max(longer - short, 0.1 * longer) / (0.75 * trial)
    left = seconds - spent - max(longer - trial * an_epoch, 0.0)
    an_epoch *= n / rows
    epochs = int(left / an_epoch)
    if epochs >= usual:
        return Plan(choice, None, None)
    if epochs >= 1:
        return Plan(choice, None, epochs, f"{epochs} epochs fit into")
    some = int(np.clip(n * left / an_epoch, min(n, _TRIAL), n))
    return Plan(choice, some, 1, f"one epoch of {some:,} of {n:,} rows fits into")


def _timed(fit: Fit, choice: Choice, rows: int, epochs: int | None) -> float:
    start = time.perf_counter()
    fit(choice, rows, epochs)
    return max(time.perf_counter() - start, 1e-9)
