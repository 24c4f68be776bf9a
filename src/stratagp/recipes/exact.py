"""Exact processes, with noise that is learnt, known or different in each row."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.models import ExactGP
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_process import ExactModel
from stratagp.parameters import Parameter, positive
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.processes import fit_process, learnt_again
from stratagp.recipes.search import Search
from stratagp.training.start import start_from_data


@dataclass(frozen=True)
class ExactRecipe(Recipe):
    """Learn an exact process.

    Arguments:
        kernel: bound to its columns.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> ExactModel:
        """Start from the data, climb, condition."""
        start_from_data(self.kernel, rows.data.x, rows.data.y.mean(1))
        prior = ExactGP(self.kernel, copy.deepcopy(self.mean), noise_of(rows.data))
        return fit_process(ExactModel(prior, rows.data), self.search, rows, context)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> ExactModel:
        """One climb from the values that were learnt before."""
        if not isinstance(before, ExactModel) or rows.filled is not None:
            return self.fit(rows, context)
        return learnt_again(before, rows.data, self.search, context)


def learnt_noise(targets: int = 1, start: float = 0.1) -> Parameter:
    """The noise variance of standardised targets: at least a hundred-millionth of theirs, or rounding would rule.

    One target has a number, several a vector.
    """
    noise = Parameter(start if targets == 1 else [start] * targets, constraints.greater_than(1e-8), name="noise")
    noise.unset = True
    return noise


def noise_of(data: Data, inference: str = "exact") -> Any:
    """The noise of a process: to be learnt, or as it is known; none where all known variances are zero."""
    if data.noise is None:
        return learnt_noise(data.y.shape[1])
    if inference != "exact" and not bool((data.noise > 0).all()):
        raise InputError(f"inference={inference!r} needs noise above 0; without noise use inference='exact'")
    level = data.noise.mean(0) if data.y.shape[1] > 1 else data.noise.mean()
    return positive(level, trainable=False, name="noise") if data.noise.any() else 0
