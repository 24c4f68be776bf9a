"""Classes by closed forms: Laplace's method, expectation propagation, the local variational bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from stratagp.kernels import Kernel
from stratagp.models.fitted import Learnt
from stratagp.models.fitted_classes import ClassModel, class_model
from stratagp.models.memory import check_memory
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.processes import check_device
from stratagp.recipes.search import Search, climb, draw
from stratagp.training.start import start_from_data

LATENT_VARIANCE = 4.0  # of latent functions at the start: probabilities from 0.1 to 0.9


@dataclass(frozen=True)
class ClassRecipe(Recipe):
    """Learn classes by a closed form.

    Arguments:
        kernel: of the latent functions, bound to its columns.
        inference: "laplace", "ep" or "variational".
        link: "logit" or "probit"; left out, what the inference knows.
        search: how hyperparameters are learnt.
    """

    kernel: Kernel
    inference: str = "laplace"
    link: str | None = None
    search: Search = field(default_factory=lambda: Search(n_restarts=0))

    def fit(self, rows: Rows, context: FitContext) -> ClassModel:
        """Start from the data, climb, condition."""
        data, search = rows.data, self.search
        check_device(data.x, context)
        first = (data.codes == 0).double()
        start_from_data(self.kernel, data.x, first - first.mean(), variance=LATENT_VARIANCE)
        model = class_model(self.kernel, data, rows.n_classes, self.inference, self.link)
        model.prior, model.data = model.prior.to(context.device), data.to(context.device)
        criterion = climb(model, search, context, {})
        model.learnt = Learnt(search.criterion, criterion.named_centres())
        if search.criterion == "bayes":
            check_memory(len(data), "averaging over draws", search.n_draws)
            model.draws = [model.condition() for _ in draw(criterion, search.n_draws, context)]
        else:
            model.draws = [model.condition()]
        return model
