"""Which task, which model, and why; then the estimator itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stratagp import estimators, kernels
from stratagp.cli.columns import Column, is_date
from stratagp.cli.console import Console
from stratagp.cli.kernel_text import parse_kernel
from stratagp.errors import InputError

EXACT_ROWS, LAPLACE_ROWS, SPARSE_ROWS = 4000, 3000, 200_000  # up to which auto takes these
_TEXT_ROWS = 2000  # up to which texts alone have an exact process
_CODES = 10  # classes at most, where whole numbers are taken for their codes
BATCHED = {"autogp": "AutoGP", "dkl": "DKL", "dfgp": "DFGP", "gp-drf": "GPDRF"}
_FILLS = ("exact", "sparse")  # models that fill missing inputs


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
        return self.model in BATCHED

    def by_epochs(self, task: str) -> bool:
        """Whether it goes over the rows again and again, so many times as ``--epochs`` says."""
        return self.by_batches or (self.model == "sparse" and task == "classification")

    @property
    def fills(self) -> bool:
        """Whether it fills missing inputs."""
        return self.model in _FILLS and not self.texts


def find_task(values: Any, said: str) -> tuple[str, str]:
    """Regression or classification, and why.

    >>> import pandas as pd
    >>> find_task(pd.Series([0, 1, 2, 0, 1, 2, 1]), "auto")[0], find_task(pd.Series([0.5, 1.5, 2.0]), "auto")[0]
    ('classification', 'regression')
    """
    present = values.dropna()
    kind = getattr(present.dtype, "kind", "O")
    if said == "regression" and kind not in "iufb":
        raise InputError(f"--task regression needs numbers, but the target {values.name!r} has {present.iloc[0]!r}")
    if said != "auto":
        return said, "as asked for"
    if is_date(present):
        raise InputError(
            f"the target {values.name!r} holds dates, {str(present.iloc[0])!r}, which are not predicted: give a "
            "number, days since one of them for example; --task classification takes them as classes"
        )
    distinct = np.unique(present.to_numpy()) if kind in "iuf" else None
    if distinct is None:
        return "classification", f"the target has {present.nunique()} different texts"
    codes = len(distinct) <= _CODES and np.array_equal(distinct, distinct[0] + np.arange(len(distinct)))
    if len(distinct) == 2 or (codes and distinct[0] in (0, 1) and len(present) > 2 * len(distinct)):
        return "classification", f"the target has {len(distinct)} values alone; --task regression takes them as numbers"
    return "regression", "the target is a number"


def choose(said: str, task: str, columns: Sequence[Column], rows: int, classes: int, log: bool = False) -> Choice:
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
    if said not in ("auto", *BATCHED):
        raise InputError(f"--log is for models that learn by mini-batches, which {said} does not: take autogp")
    reason = "the logarithm of the target is learnt by mini-batches" if said == "auto" else "as asked for"
    return Choice(("gp-drf" if texts else "autogp") if said == "auto" else said, reason, texts, alone, log=True)


def build(
    choice: Choice,
    task: str,
    kernel: str | None,
    seed: int,
    epochs: int | None,
    missing: bool,
    verbose: bool,
    device: str | None = None,
) -> Any:
    """The estimator, not fitted yet.

    Arguments:
        kernel: the text of one, or None for the default.
        epochs: of models that go over the rows again and again, or None for the default.
        missing: whether inputs are missing, which the model is to fill.
        device: where the model is trained; the processor where it is None.
    """
    given = None if kernel is None else parse_kernel(kernel)
    options: dict[str, Any] = {"random_state": seed, "verbose": verbose}
    options |= {} if device is None else {"device": device}
    ending = "Classifier" if task == "classification" else "Regressor"
    if given is not None and choice.model == "dkl":
        raise InputError("--kernel is of columns or texts, but dkl has one of features of a network: leave it out")
    if choice.texts and not choice.alone:
        of_texts = given if given is not None else kernels.Spectrum(3)
        options["view_kernels"] = dict.fromkeys(choice.texts, of_texts)
    elif choice.alone:
        options["kernel"] = given if given is not None else kernels.Spectrum(3)
    elif given is not None:
        options["kernel"] = given
    _check_kernel(given, choice)
    if not choice.by_batches:
        options["missing"] = "impute" if missing else "raise"
        options |= {} if epochs is None else {"max_epochs": epochs}
        inference = {"exact": ("laplace", "exact"), "sparse": ("stochastic", "sparse")}[choice.model]
        return getattr(estimators, f"GP{ending}")(inference=inference[ending == "Regressor"], **options)
    if choice.model == "autogp" and given is None:
        options["standardise"] = "both"
    options |= {"likelihood": "log-normal"} if choice.log else {}
    made = getattr(estimators, f"{BATCHED[choice.model]}{ending}")(**options)
    if epochs is not None:
        made.set_params(max_epochs=epochs, **({"pretrain_epochs": epochs} if choice.model == "dkl" else {}))
        made.least_steps = 1
    return made


def _check_kernel(given: Any, choice: Choice) -> None:
    if given is not None and given.takes_tensors == bool(choice.texts):
        what = f"texts, as the column {choice.texts[0]!r} holds" if choice.texts else "numbers and categories"
        raise InputError(f"--kernel: {given} does not compare {what}")


def train(model: Any, X: Any, y: Any, checkpoint: str | None, console: Console) -> None:
    """Fit an estimator, by as many steps as it was built for; an interruption ends the command."""
    with console.at_work():
        model.fit(X, y, **({} if checkpoint is None else {"checkpoint": checkpoint}))
    model.__dict__.pop("least_steps", None)  # of this training, no part of the model
    if any(each.ending == "interrupted" for each in getattr(model, "histories_", None) or ()):
        raise KeyboardInterrupt


def as_inputs(X: Any, choice: Choice) -> Any:
    """Rows as the estimator takes them: a frame, or a list where texts are all there is."""
    return X[choice.texts[0]].tolist() if choice.alone else X
