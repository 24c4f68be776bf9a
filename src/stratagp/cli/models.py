"""The models of the command line: which one suits a table, which estimator a name means, and how it is trained.

How large a table may be for which way of inference is the library's business: :mod:`stratagp.recipes.choose` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import stratagp
from stratagp.cli.kernel_text import parse_kernel
from stratagp.cli.output import Console
from stratagp.cli.settings import Settings
from stratagp.cli.table import DataFrame
from stratagp.errors import InputError

if TYPE_CHECKING:
    from stratagp.estimators.shell import Estimator as Estimator
else:  # loads torch
    Estimator = Any

_SECONDS = {4000: 60.0, 50_000: 180.0}  # that best takes for up to so many rows, unless --time-limit says otherwise
_EPOCHS = 10  # of GPClassifier with mini-batches, unless --epochs says otherwise


class Model(NamedTuple):
    """What a name means, for numbers and for classes: estimators, loaded when asked for, and their inference.

    Models that learn by mini-batches, and stacks, have no choice of inference.
    """

    estimators: Callable[[], tuple[type[Estimator], type[Estimator]]]
    inference: tuple[str, str] | None = None
    stacked: bool = False


_MODELS = {
    "best": Model(lambda: (stratagp.StrataRegressor, stratagp.StrataClassifier), stacked=True),
    "exact": Model(lambda: (stratagp.GPRegressor, stratagp.GPClassifier), ("exact", "laplace")),
    "vecchia": Model(lambda: (stratagp.GPRegressor, stratagp.GPClassifier), ("vecchia", "vecchia")),
    "sparse": Model(lambda: (stratagp.GPRegressor, stratagp.GPClassifier), ("sparse", "stochastic")),
    "autogp": Model(lambda: (stratagp.AutoGPRegressor, stratagp.AutoGPClassifier)),
    "dkl": Model(lambda: (stratagp.DKLRegressor, stratagp.DKLClassifier)),
    "dfgp": Model(lambda: (stratagp.DFGPRegressor, stratagp.DFGPClassifier)),
    "gp-drf": Model(lambda: (stratagp.GPDRFRegressor, stratagp.GPDRFClassifier)),
}
MODELS = ("auto", "single", *_MODELS)
_LEAST_STACKED = 20  # rows from which "auto" takes the best mixture, up to the last of _SECONDS
_OF_WAY = {
    "exact": "exact",
    "laplace": "exact",
    "vecchia": "vecchia",
    "stochastic": "autogp",
    "features": "gp-drf",
}
_OF_TEXTS = ("exact", "autogp")  # take a column of texts that stands alone; gp-drf also takes it beside others


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
        return _MODELS[self.model].inference is None and not self.stacked

    @property
    def stacked(self) -> bool:
        """Whether it is a mixture of candidates, which keeps a time limit by itself."""
        return _MODELS[self.model].stacked

    def by_epochs(self, task: str) -> bool:
        """Whether it passes over the rows as often as ``--epochs`` says."""
        return self.by_batches or (self.model == "sparse" and task == "classification")

    @property
    def goes_on(self) -> bool:
        """Whether it learns from more rows from where it ended, in a part of the time."""
        return self.model in ("best", "exact", "vecchia")


def choose(settings: Settings, columns: Sequence[stratagp.data.Field], rows: int, classes: int) -> Choice:
    """The model for so many rows of such columns; ``classes`` is 0 if the target is a number."""
    asked, log, likelihood = settings.model, settings.log, settings.likelihood
    if log and likelihood:
        raise InputError("--log is --likelihood log-normal: give one of the two")
    used = [each for each in columns if each.used]
    texts = tuple(each.name for each in used if each.kind == "text")
    alone = len(used) == len(texts) == 1
    if texts and asked not in ("auto", "single", "best", "gp-drf") and not (alone and asked in _OF_TEXTS):
        raise InputError(
            f"--model {asked} cannot compare texts, but the column {texts[0]!r} holds texts: use --model best or "
            f"gp-drf, or leave the column out with --as {texts[0]}=ignore"
        )
    suits = not (log or likelihood or settings.kernel) and settings.device in (None, "cpu")
    if asked == "auto" and suits and _LEAST_STACKED <= rows <= max(_SECONDS):
        limit = f"{limit_of(settings, rows):g} s"
        able = "trees, as classes are many," if classes > stratagp.recipes.MANY_CLASSES else "processes and trees"
        reason = f"the best mixture of {able} that {limit} allow; --model single is quicker"
        return Choice("best", reason, texts)
    if asked in ("auto", "single"):
        by_batches = log or likelihood is not None
        way, reason = stratagp.recipes.of_table(rows, classes, texts, alone, log=by_batches, columns=len(used))
        reason = reason if likelihood is None else f"only mini-batches learn by --likelihood {likelihood}"
        return Choice(_OF_WAY[way], reason, texts, alone, log)
    found = Choice(asked, "as asked for", texts, alone and asked != "best", log)
    if (log or likelihood) and not found.by_batches:
        option = "--log" if log else "--likelihood"
        raise InputError(
            f"{option} needs a model that learns by mini-batches, and {asked} does not: use --model autogp"
        )
    return found


def choose_for_files(settings: Settings) -> Choice:
    """A model that learns from rows as they are read."""
    if settings.model in ("auto", "single"):
        way, reason = stratagp.recipes.of_table(0, files=True)
        return Choice(_OF_WAY[way], reason)
    found = Choice(settings.model, "as asked for")
    if not found.by_batches:
        able = ", ".join(name for name in _MODELS if Choice(name, "").by_batches)
        raise InputError(
            f"--model {settings.model} needs all rows in memory, but {settings.file} is read in batches: use one of "
            f"{able}"
        )
    return found


def limit_of(settings: Settings, rows: int) -> float:
    """Seconds that the best mixture may take."""
    usual = next((seconds for most, seconds in _SECONDS.items() if rows <= most), max(_SECONDS.values()))
    return settings.time_limit or usual


def later_by(settings: Settings) -> str | None:
    """The column of dates by which new rows are later; None where rows are not split by time."""
    way, _, column = (settings.split or "").partition(":")
    return column if way == "time" else None


def build(
    choice: Choice, task: str, settings: Settings, rows: int, missing: bool = False, verbose: bool = False
) -> Estimator:
    """The estimator, not fitted yet.

    Arguments:
        rows: that it will learn from.
        missing: whether inputs are missing, which the model is to fill.
    """
    kernel = None if settings.kernel is None else parse_kernel(settings.kernel)
    if kernel is not None and choice.model == "dkl":
        raise InputError("--kernel: dkl has a kernel of its own, over the features of a network: leave --kernel out")
    if kernel is not None and choice.stacked:
        raise InputError("--kernel: best tries kernels of its own: leave --kernel out, or use --model exact")
    if kernel is not None and kernel.takes_tensors == bool(choice.texts):
        what = f"texts, which the column {choice.texts[0]!r} holds" if choice.texts else "numbers and categories"
        raise InputError(f"--kernel: {kernel} cannot compare {what}")
    options: dict[str, Any] = {"random_state": settings.seed, "verbose": verbose}
    options["missing"] = "impute" if missing else "raise"
    options |= {} if settings.device is None else {"device": settings.device}
    options |= {} if settings.epochs is None else {"max_epochs": settings.epochs}
    used = stratagp.kernels.Spectrum(3) if choice.texts and kernel is None else kernel
    if choice.stacked:
        options["texts"] = list(choice.texts)
    elif choice.texts and not choice.alone:
        options["view_kernels"] = dict.fromkeys(choice.texts, used)
    elif used is not None:
        options["kernel"] = used
    of_classes, named = task == "classification", _MODELS[choice.model]
    if named.inference is not None:
        options["inference"] = named.inference[of_classes]
    if choice.stacked:
        limit = limit_of(settings, rows)
        plan = list(settings.plan) or None
        options |= {"time_limit": limit, "plan": plan, "order": later_by(settings)}
    if choice.model == "autogp" and kernel is None:
        options["standardise"] = "both"
    if choice.model == "dkl" and settings.epochs is not None:
        options["pretrain_epochs"] = settings.epochs
    likelihood = "log-normal" if choice.log else settings.likelihood
    if likelihood is not None:
        options["likelihood"] = likelihood
    return named.estimators()[of_classes](**options)


def usual_epochs(choice: Choice, task: str, settings: Settings, rows: int) -> int:
    """How often a model passes over so many rows: as ``--epochs`` says, else more often over few rows."""
    if settings.epochs is not None:
        return settings.epochs
    return int(build(choice, task, settings, rows).epochs_for(rows)) if choice.by_batches else _EPOCHS


@contextmanager
def training(model: Estimator, console: Console) -> Iterator[None]:
    """Warnings of a fit as lines of the console; an interrupted fit ends the command."""
    with console.at_work():
        yield
    if was_interrupted(model):
        raise KeyboardInterrupt


def was_interrupted(model: Estimator) -> bool:
    """Whether somebody ended the training of a model, which is then as its last step left it."""
    return any(each.ending == "interrupted" for each in getattr(model, "histories_", ()))


def as_inputs(X: DataFrame, choice: Choice) -> DataFrame | list[str]:
    """Rows as the estimator takes them: a frame, or a list where texts are all there is."""
    return X[choice.texts[0]].tolist() if choice.alone else X
