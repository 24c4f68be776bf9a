"""Saving and loading fitted estimators."""

from __future__ import annotations

import inspect
import os
import platform
import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.decoding import Decoder
from stratagp.persistence.description import read_config, reading
from stratagp.persistence.encoding import Encoder
from stratagp.persistence.files import check_target, read_tensors, write_model
from stratagp.persistence.nodes import texts
from stratagp.persistence.registry import Trust, refuse_strangers

_RELATIVE, _ABSOLUTE = 1e-4, 1e-6  # of the answers of another machine, beside the largest of them
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_LEFT_BY_FIT = ("fitted_", "model_", "residuals_", "scores_", "levels_", "temperature_")
_CALIBRATIONS = 10  # of one model, at most
_ROWS = 2  # of the example, at most
_SHOWN = 200  # letters of an argument in the description


def save(model: Any, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Save a fitted estimator as a folder of ``config.json`` and ``model.safetensors``; ``load`` gives it back.

    Arguments:
        model: a fitted estimator.
        path: the folder, which is made.
        overwrite: whether the files of a model that is there are replaced; other files in the folder stay.

    >>> import tempfile
    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(gp, f"{folder}/model")
    ...     sorted(file.name for file in Path(folder, "model").iterdir())
    ['config.json', 'model.safetensors']
    """
    target = Path(path)
    if not _is_fitted(model):
        raise InputError(f"save: this {type(model).__name__} is not fitted: call fit first")
    if not hasattr(inner := _inner(model), "_answers"):
        raise InputError(
            f"save: {type(inner).__name__}, which was calibrated, is no model of StrataGP: save it by itself"
        )
    check_target(target, overwrite)
    encoder = Encoder()
    encoder.value(model, "")
    encoder.check()
    test = encoder.value(_answers(model), "test")
    write_model(
        target,
        {"library": dict(_versions()), "about": _about(model), "objects": encoder.objects, "test": test},
        encoder.tensors.named,
    )


def load(path: str | os.PathLike[str], trust: Sequence[str] = ()) -> Any:
    """The fitted estimator that was saved in a folder.

    A file from a stranger can be loaded without fear: it cannot run code. One that is damaged or altered gives a
    :class:`~stratagp.ModelFileError`. The model then answers a stored question, and has to give the stored answer.

    Arguments:
        path: the folder.
        trust: names of your own classes and functions that the file may use, ``["mypackage.kernels.MyKernel"]``, or of
            modules and packages, ``["mypackage"]``. They are imported, and run code of their own.

    >>> import tempfile
    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gp.save(f"{folder}/model")
    ...     again = load(f"{folder}/model")
    >>> bool((again.predict(X) == gp.predict(X)).all())
    True
    """
    folder, trusted = Path(path), Trust(trust)
    with reading(folder):
        config = read_config(folder)
        refuse_strangers([config["objects"], config["test"]], trusted)
        tensors = read_tensors(folder, config["tensors"])
        decoder = Decoder(config["objects"], tensors, trusted)
        model = decoder.read()
        expected = decoder.value(config["test"])
        if unused := sorted(tensors.keys() - decoder.tensors.used):
            raise ModelFileError(f"the tensor file has a tensor {unused[0][:80]!r} that nothing refers to")
        _check_estimator(model)
        _check_answers(model, expected)
    return model


def _is_fitted(model: Any) -> bool:
    return any(name in getattr(model, "__dict__", {}) for name in _LEFT_BY_FIT)


def _inner(model: Any) -> Any:
    """The model itself, or that which was calibrated, however often."""
    for _ in range(_CALIBRATIONS):
        if not getattr(model, "calibrates", False):
            break
        model = vars(model).get("model")
    return model


@cache
def _versions() -> dict[str, str]:
    names = ("stratagp", "torch", "numpy", "scikit-learn")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def _about(model: Any) -> dict[str, Any]:
    """What people may want to know of a model; ``load`` reads none of it."""
    given = {name: _ADDRESS.sub("", repr(value))[:_SHOWN] for name, value in model.get_params(deep=False).items()}
    inner = _inner(model)
    inputs = getattr(inner, "inputs_", None)
    encoder = getattr(inputs, "encoder", None)
    known = {} if encoder is None else {str(name): [str(v) for v in own] for name, own in encoder.categories.items()}
    about: dict[str, Any] = {"class": type(model).__name__, "arguments": given}
    about["columns"] = [str(name) for name in getattr(model, "feature_names_in_", [])]
    about["features"] = getattr(model, "n_features_in_", None)
    about["categories"] = known
    about["classes"] = [str(label) for label in getattr(model, "classes_", [])]
    about["inference"] = getattr(inner, "inference_", None)
    about["scaled"] = {"inputs": getattr(inputs, "centre", None) is not None, "targets": hasattr(inner, "scale_")}
    about["calibrated"] = None if inner is model else type(inner).__name__
    return about


def _check_estimator(model: Any) -> None:
    if (inner := _inner(model)) is not model:
        if getattr(inner, "calibrates", False):
            raise ModelFileError("calibrations in it are nested too deep")
        _check_estimator(inner)
    if not hasattr(model, "get_params") or not hasattr(model, "_answers") or not _is_fitted(model):
        raise ModelFileError("what it holds is no fitted estimator")
    _take_defaults(model)
    _check_example(vars(model).get("_example", ()), getattr(vars(model).get("inputs_"), "takes_views", False))


def _take_defaults(model: Any) -> None:
    """Give a model the defaults of arguments that its class did not have when it was saved."""
    for name, argument in inspect.signature(type(model).__init__).parameters.items():
        if name in model._get_param_names() and not hasattr(model, name):
            if argument.default is inspect.Parameter.empty:
                raise ModelFileError(f"the argument {name!r} of {type(model).__name__} is missing")
            setattr(model, name, argument.default)


def _check_example(example: Any, views: bool) -> None:
    """Refuse a test about more rows than ``save`` asks about; of views, each has so many."""
    if views and isinstance(example, (dict, list)):
        for part in example.values() if isinstance(example, dict) else example:
            _check_example(part, False)
    elif len(example) > _ROWS:
        raise ModelFileError(f"its test asks about {len(example)} rows, but {_ROWS} are due")


def _answers(model: Any) -> dict[str, np.ndarray]:
    """What a model says about the first rows that it has seen; random numbers of the process stay as they are."""
    state = torch.get_rng_state()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found: dict[str, np.ndarray] = model._answers()
            return found
    finally:
        torch.set_rng_state(state)


def _check_answers(model: Any, expected: Any) -> None:
    """Ask the model what it was asked when it was saved."""
    try:
        found = _answers(model)
    except Exception as error:
        kind = type(error).__name__
        raise ModelFileError(f"the model does not work ({kind}: {str(error)[:200]}): it was altered") from error
    if not isinstance(expected, dict) or expected.keys() != found.keys():
        raise ModelFileError("its test has other questions than such a model has")
    for name, values in found.items():
        texts(name)
        stored = expected[name]
        if not isinstance(stored, np.ndarray) or stored.shape != values.shape or stored.dtype != values.dtype:
            raise ModelFileError(f"the model answers {name!r} in another shape than when it was saved: it was altered")
        largest = np.nanmax(np.abs(stored), initial=0.0)
        near = np.isclose(values, stored, _RELATIVE, _ABSOLUTE * largest, equal_nan=True)
        if not near.all():
            raise ModelFileError(
                f"the model answers {name!r} otherwise than when it was saved: it was altered, or this machine "
                "computes otherwise"
            )
