"""Which estimator a model's name means, with its options; its training."""

from __future__ import annotations

from typing import Any

import stratagp
from stratagp.cli.choice import Choice
from stratagp.cli.kernel_text import parse_kernel
from stratagp.cli.output import Console
from stratagp.errors import InputError

_FAMILIES = {"exact": "GP", "sparse": "GP", "autogp": "AutoGP", "dkl": "DKL", "dfgp": "DFGP", "gp-drf": "GPDRF"}
_INFERENCE = {  # of regressors and classifiers
    "exact": {"Regressor": "exact", "Classifier": "laplace"},
    "sparse": {"Regressor": "sparse", "Classifier": "stochastic"},
}
_EPOCHS = 10  # of mini-batches of GPRegressor and GPClassifier, if nobody says


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
    if given is not None and choice.model == "dkl":
        raise InputError("--kernel is of columns or texts, but dkl has one of features of a network: leave it out")
    if given is not None and given.takes_tensors == bool(choice.texts):
        what = f"texts, as the column {choice.texts[0]!r} holds" if choice.texts else "numbers and categories"
        raise InputError(f"--kernel: {given} does not compare {what}")
    options: dict[str, Any] = {"random_state": seed, "verbose": verbose}
    options |= {} if device is None else {"device": device}
    options |= {} if epochs is None else {"max_epochs": epochs}
    used = stratagp.kernels.Spectrum(3) if choice.texts and given is None else given
    if choice.texts and not choice.alone:
        options["view_kernels"] = dict.fromkeys(choice.texts, used)
    elif used is not None:
        options["kernel"] = used
    ending = "Classifier" if task == "classification" else "Regressor"
    if not choice.by_batches:
        options |= {"missing": "impute" if missing else "raise", "inference": _INFERENCE[choice.model][ending]}
    if choice.model == "autogp" and given is None:
        options["standardise"] = "both"
    if choice.model == "dkl" and epochs is not None:
        options["pretrain_epochs"] = epochs
    if choice.log:
        options["likelihood"] = "log-normal"
    return getattr(stratagp, f"{_FAMILIES[choice.model]}{ending}")(**options)


def usual_epochs(choice: Choice, task: str, rows: int) -> int:
    """How often a model goes over so many rows if nobody says: few rows oftener, for some steps at least."""
    model = build(choice, task, None, 0, None, False, False)
    return int(model.epochs_for(rows)) if choice.by_batches else _EPOCHS


def train(model: Any, X: Any, y: Any, checkpoint: str | None, console: Console) -> None:
    """Fit an estimator; an interruption ends the command."""
    with console.at_work():
        model.fit(X, y, **({} if checkpoint is None else {"checkpoint": checkpoint}))
    if any(each.ending == "interrupted" for each in getattr(model, "histories_", None) or ()):
        raise KeyboardInterrupt


def as_inputs(X: Any, choice: Choice) -> Any:
    """Rows as the estimator takes them: a frame, or a list where texts are all there is."""
    return X[choice.texts[0]].tolist() if choice.alone else X
