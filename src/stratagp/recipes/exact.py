"""Exact processes, with noise that is learnt, known or different in each row."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch.distributions import constraints

from stratagp.errors import InputError, NotPositiveDefiniteError, NumericalWarning
from stratagp.kernels import Kernel
from stratagp.models import ExactGP
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_process import ExactModel, ProcessModel
from stratagp.models.memory import check_memory
from stratagp.models.noisy_covariance import LARGE_ROWS
from stratagp.parameters import Parameter, positive
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.processes import check_device, fit_process, learnt_again
from stratagp.recipes.search import Known, Search
from stratagp.recipes.smoothness import kernels_of_all, smoothest
from stratagp.training.start import start_from_data


@dataclass(frozen=True)
class ExactRecipe(Recipe):
    """Learn an exact process.

    Arguments:
        kernel: bound to its columns. Left out, kernels of several smoothnesses compete.
        mean: the prior mean; zero if left out.
        search: how hyperparameters are learnt.
        many: learns the values for more than 5,000 rows, from conditionals, and serves where their covariance cannot be
            factored. Left out, and for kernels over objects, values come from 5,000 of the rows.
    """

    kernel: Kernel | None = None
    mean: Any = None
    search: Search = field(default_factory=Search)
    many: Recipe | None = None

    def fit(self, rows: Rows, context: FitContext) -> ProcessModel:
        """Start from the data, climb, condition."""
        data = rows.data
        if len(data) > LARGE_ROWS:
            check_memory(len(data), "the exact process", data.y.shape[1], 4)
            if self.many is not None and self._has_conditionals(data):
                return self._from_conditionals(self.many.fit(rows, context), context)
        check_device(data.x, context)
        if self.kernel is None:
            model, known, _ = smoothest(kernels_of_all(rows), partial(self.start, data, context), self.search, context)
        else:
            model, known = self.start(data, context, self.kernel), Known()
        most = len(data) if self.search.criterion == "bayes" else LARGE_ROWS
        return fit_process(model, self.search, rows, context, known, most)

    def start(self, data: Data, context: FitContext, kernel: Kernel) -> ExactModel:
        """The model before it has learnt, with values that suit the data."""
        kernel = start_from_data(kernel, data.x, data.y.mean(1))
        model = ExactModel(ExactGP(kernel, copy.deepcopy(self.mean), noise_of(data)), data)
        model.to(context.device)
        return model

    def _has_conditionals(self, data: Data) -> bool:
        noisy = data.noise is None or bool((data.noise > 0).all())
        return noisy and (self.kernel is None or self.kernel.takes_tensors) and self.search.criterion in ("map", "ml")

    def _from_conditionals(self, near: Any, context: FitContext) -> ProcessModel:
        """The exact process with the values of Vecchia's; the latter, aloud, where the covariance has no factor."""
        prior = ExactGP(near.prior.kernel, near.prior.mean, near.prior.parameter("noise"))
        model = ExactModel(prior, near.data, learnt=near.learnt, result=near.result, sets=near.sets)
        context.log(f"factor of {len(model.data):,} rows: {4e-9 * len(model.data) ** 2:.1f} GB in single precision")
        try:
            model.draws = [model.condition(context.progress)]
        except NotPositiveDefiniteError as error:
            warnings.warn(f"each prediction comes from the nearest rows: {error}", NumericalWarning, stacklevel=2)
            return near
        return model

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> ProcessModel:
        """One climb from the values that were learnt before, unless these come from far fewer rows."""
        if not isinstance(before, ExactModel) or rows.filled is not None or 2 * len(before.data) < len(rows.data):
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
