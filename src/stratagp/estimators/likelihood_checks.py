"""What likelihoods say about targets before any work starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.data.target_checks import Check, as_numbers
from stratagp.estimators import named_likelihoods as named
from stratagp.likelihoods import Likelihood


def refuse_bad_targets(likelihood: Likelihood, y: Tensor, outputs: int) -> None:
    """Let a likelihood say what is wrong with targets ``n p``."""
    with torch.no_grad():
        likelihood.log_prob(y, torch.zeros(len(y), likelihood.functions(outputs)).double())


def target_check(estimator: Any) -> Check | None:
    """What refuses targets of files that have no density, counts below zero say; None where all numbers have one.

    Of classes, all are known before training; targets that can be scaled may be any numbers.
    """
    if estimator.of_classes:
        return None
    likelihood, scalable = named.of_numbers(estimator.likelihood, 1, estimator.start_noise)

    def check(y: np.ndarray) -> None:
        targets = as_numbers(y)
        refuse_bad_targets(likelihood, torch.from_numpy(targets), targets.shape[1])

    return None if scalable else check
