"""Classes by closed forms: Laplace's method, expectation propagation, the local variational bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from stratagp.kernels import Kernel, Linear
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_classes import ClassModel, class_model
from stratagp.models.observations import Data
from stratagp.parameters import positive
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.processes import fit_process, learnt_again
from stratagp.recipes.search import Search
from stratagp.training.start import spreads, start_from_data

INTERCEPT = 16.0  # the variance of the constant of latent functions: a base rate of 2 % is nothing special
LATENT_VARIANCE = 4.0  # of latent functions at the start: probabilities from 0.1 to 0.9


def intercept(mean: str, data: Data) -> float:
    """The variance of the constant of latent functions whose mean is "base-rate", "linear" or "zero".

    That of lines also moves them from the origin to the middle of the rows.
    """
    if mean != "linear":
        return INTERCEPT if mean == "base-rate" else 0.0
    return INTERCEPT * (1 + float((data.x.mean(0) / spreads(data.x)).square().sum()))


def lines(data: Data) -> Kernel:
    """Lines whose slopes are uncertain, as much as functions are at the start: a prior that is not learnt."""
    return Linear(positive(LATENT_VARIANCE / spreads(data.x).square(), trainable=False))


@dataclass(frozen=True)
class ClassRecipe(Recipe):
    """Learn classes by a closed form.

    Arguments:
        kernel: of the latent functions, bound to its columns.
        inference: "laplace", "ep" or "variational".
        link: "logit" or "probit"; left out, what the inference knows.
        search: how hyperparameters are learnt.
        intercept: the variance of a constant that is added to each function and integrated out.
    """

    kernel: Kernel
    inference: str = "laplace"
    link: str | None = None
    search: Search = field(default_factory=lambda: Search(n_restarts=0))
    intercept: float = INTERCEPT

    def fit(self, rows: Rows, context: FitContext) -> ClassModel:
        """Start from the data, climb, condition."""
        data = rows.data
        first = (data.codes == 0).double()
        kernel = start_from_data(self.kernel, data.x, first - first.mean(), variance=LATENT_VARIANCE)
        model = class_model(kernel, data, rows.n_classes, self.inference, self.link, self.intercept)
        return fit_process(model, self.search, Rows(data), context)  # filled rows count as complete

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> ClassModel:
        """One climb from the values that were learnt before, unless these come from far fewer rows."""
        few = isinstance(before, ClassModel) and 2 * len(before.data) < len(rows.data)
        if not isinstance(before, ClassModel) or few or before.n_classes != rows.n_classes:
            return self.fit(rows, context)
        return learnt_again(before, rows.data, self.search, context)
