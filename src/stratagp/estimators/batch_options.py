"""Options of training by mini-batches, checked before any work."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number


def check_batch_options(estimator: Any) -> None:
    """Refuse options of mini-batches that make no sense; an estimator need not have all of them."""
    for name in ("batch_size", "phase_epochs", "n_components", "n_samples", "patience"):
        value = getattr(estimator, name, None)
        if value is not None and not (name == "n_samples" and value == "auto"):
            check_whole_number(name, value, 1)
    for name in ("rate", "network_rate", "fine_tuning"):
        value = getattr(estimator, name, 1.0)
        if not isinstance(value, Real) or not 0 < float(value) < math.inf:
            raise InputError(f"{name} must be positive, got {value!r}")
    for name in ("validation", "dropout"):
        value = getattr(estimator, name, 0.0)
        if not isinstance(value, Real) or not 0 <= float(value) < 1:
            raise InputError(f"{name} must be a share, from 0 to below 1, got {value!r}")
    for name in ("shared", "conditional", "batch_norm", "spectral"):
        value = getattr(estimator, name, False)
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, got {value!r}")
    if estimator.patience is not None and not estimator.validation:
        raise InputError("patience waits for a better score of held-out rows: give validation=0.1, or so")
