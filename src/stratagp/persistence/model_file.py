"""Saving and loading fitted estimators."""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import safetensors.torch
import torch
from sklearn.base import BaseEstimator

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.decoding import Decoder
from stratagp.persistence.encoding import Encoder
from stratagp.persistence.files import check_target, read_config, read_tensors, reading, write_model
from stratagp.persistence.registry import Trust

_RELATIVE, _ABSOLUTE = 1e-4, 1e-6  # of the answers of another machine, beside the largest of them
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_CALIBRATIONS = 10  # of one model, at most
_ROWS = 2  # of the example, at most
_SHOWN = 200  # letters of an argument in the description


@runtime_checkable
class Saveable(Protocol):
    """An estimator that can be asked about a few rows, and must answer alike after it was loaded."""

    get_params: Any

    def _answers(self) -> dict[str, np.ndarray]: ...


def save(model: object, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Save the fitted estimator as a folder, without pickle; :func:`stratagp.load` gives it back, to the last bit.

    Arguments:
        path: the folder, which is made.
        overwrite: whether the files of a model that is there are replaced; other files in the folder stay.
    """
    inner = _inner(model)
    if not _is_fitted(model):
        raise InputError(f"save: this {type(model).__name__} is not fitted: call fit first")
    if not isinstance(inner, Saveable) or not isinstance(model, Saveable):
        kind = type(inner).__name__
        raise InputError(f"save: {kind}, which was calibrated, is not a model of StrataGP: save it by itself")
    check_target(Path(path), overwrite)
    encoder = Encoder(model, _answers(model))
    encoder.check()
    config = {"library": _versions(), "about": _about(model, inner), "objects": encoder.objects}
    write_model(Path(path), config, safetensors.torch.save(encoder.tensors.named))


def load(path: str | os.PathLike[str], trust: Sequence[str] = ()) -> BaseEstimator:
    """The fitted estimator that was saved in a folder.

    Files from people you do not know are safe to load: they cannot run code. One that is damaged or altered gives a
    :class:`~stratagp.ModelFileError`. The model is then asked a stored question and must give the stored answer.

    Arguments:
        path: the folder.
        trust: names of your own classes and functions that the file may use, ``["mypackage.kernels.MyKernel"]``, or of
            modules and packages, ``["mypackage"]``. They are imported, which runs their code.

    >>> import tempfile
    >>> from stratagp import GPRegressor
    >>> gp = GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gp.save(f"{folder}/model")
    ...     again = load(f"{folder}/model")
    >>> bool(again.predict([[0.5]]) == gp.predict([[0.5]]))
    True
    """
    folder, trusted = Path(path), Trust(trust)
    with reading(folder), torch.random.fork_rng(devices=[]):
        config = read_config(folder)
        trusted.refuse_unknown(config["objects"])
        named = safetensors.torch.load(read_tensors(folder, config["tensors"]))
        decoder = Decoder(config["objects"], named, trusted)
        model, expected = decoder.read()
        _check_estimator(model)
        if unused := decoder.tensors.unused:
            raise ModelFileError(f"the tensor file has a tensor {unused[0][:80]!r} that nothing refers to")
        _check_answers(model, expected)
    return model


def _is_fitted(model: object) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def _inner(model: object) -> object:
    """The model itself, or that which was calibrated, however often."""
    for _ in range(_CALIBRATIONS):
        model = vars(model).get("model") if getattr(model, "calibrates", False) else model
    return model


@cache
def _versions() -> dict[str, str]:
    names = ("stratagp", "torch", "numpy", "scikit-learn")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def _about(model: Saveable, inner: Saveable) -> dict[str, Any]:
    """What people may want to know of a model; ``load`` reads none of it."""
    own, inputs = {**vars(inner), **vars(model)}, vars(inner).get("inputs_")
    encoder = None if inputs is None else inputs.encoder
    known = {} if encoder is None else encoder.categories
    given = model.get_params(deep=False).items()
    return {
        "class": type(model).__name__,
        "arguments": {name: _ADDRESS.sub("", repr(value))[:_SHOWN] for name, value in given},
        "columns": [str(name) for name in own.get("feature_names_in_", [])],
        "features": own.get("n_features_in_"),
        "categories": {str(name): [str(value) for value in values] for name, values in known.items()},
        "classes": [str(label) for label in own.get("classes_", [])],
        "inference": own.get("inference_"),
        "scaled": {"inputs": inputs is not None and inputs.centre is not None, "targets": "scale_" in own},
        "calibrated": None if inner is model else type(inner).__name__,
    }


def _check_estimator(model: object) -> None:
    inner = _inner(model)
    if not all(isinstance(each, Saveable) and _is_fitted(each) for each in (model, inner)):
        raise ModelFileError("it does not hold a fitted estimator")
    example, inputs = vars(inner).get("_example", ()), vars(inner).get("inputs_")
    views = example.values() if isinstance(example, dict) else example
    takes_views = inputs is not None and inputs.takes_views and isinstance(example, (dict, list))
    for rows in views if takes_views else [example]:
        if len(rows) > _ROWS:
            raise ModelFileError(f"its test asks about {len(rows)} rows instead of {_ROWS}")


def _answers(model: Saveable) -> dict[str, np.ndarray]:
    """What a model says about the first rows that it has seen; random numbers of the process stay as they are."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        return model._answers()


def _check_answers(model: Saveable, expected: object) -> None:
    """Ask the model what it was asked when it was saved."""
    try:
        found = _answers(model)
    except Exception as error:
        kind = type(error).__name__
        raise ModelFileError(f"the model does not work ({kind}: {str(error)[:200]}): it was altered") from error
    if not isinstance(expected, dict) or expected.keys() != found.keys():
        raise ModelFileError("its test has the wrong questions for such a model")
    for name, values in found.items():
        stored = expected[name]
        if not isinstance(stored, np.ndarray) or stored.shape != values.shape or stored.dtype != values.dtype:
            raise ModelFileError(f"the model answers {name!r} in another shape than when it was saved: it was altered")
        largest = np.nanmax(np.abs(stored), initial=0.0)
        if not np.isclose(values, stored, _RELATIVE, _ABSOLUTE * largest, equal_nan=True).all():
            otherwise = "differently than when it was saved: it was altered, or this machine computes differently"
            raise ModelFileError(f"the model answers {name!r} {otherwise}")
