"""What lets an estimator be saved: the way to a file, and a question that it must answer alike when it is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor

from stratagp.data.tables import is_frame, pandas_like
from stratagp.export import export
from stratagp.persistence.model_file import save

_ROWS = 2  # of the example

save_model = save


def export_model(estimator: BaseEstimator, path: str | os.PathLike[str], format: str = "onnx") -> None:
    """Write the map from rows of numbers to mean and variance, or probabilities, as a graph for other programs.

    It is possible for most models of tables and images, with kernels of elementary functions;
    :func:`stratagp.export.export` says for which, and refuses the others.

    Arguments:
        path: of the file, which ends with ``.onnx`` or ``.pt2``.
        format: "onnx", or "torch" for ``torch.export.load``.
    """
    export(estimator, path, format)


def first_rows(X: Any, views: bool) -> Any:
    """The first rows of what was fitted on, apart from the rest.

    Arguments:
        views: whether a list or mapping is one of views, each with its rows.

    >>> first_rows(["a", "b", "c"], views=False)
    ['a', 'b']
    """
    if views and isinstance(X, Mapping):
        return {name: first_rows(part, False) for name, part in X.items()}
    if views and isinstance(X, (list, tuple)):
        return [first_rows(part, False) for part in X]
    if is_frame(X):
        return pandas_like(X).iloc[:_ROWS].reset_index(drop=True)
    if isinstance(X, (list, tuple)):
        return list(X[:_ROWS])
    found = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    return found[:_ROWS].copy()
