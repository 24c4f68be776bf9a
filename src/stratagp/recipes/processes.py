"""How models in closed form are learnt: climb, condition, average over draws."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.models.fitted import Learnt
from stratagp.models.fitted_classes import ClassModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.models.memory import check_memory
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.search import Known, Search, climb, draw
from stratagp.types import PointRows

Closed = TypeVar("Closed", bound=ProcessModel | ClassModel)


def fit_process(
    model: Closed,
    search: Search,
    rows: Rows,
    context: FitContext,
    known: Known | None = None,
    most: int | None = None,
) -> Closed:
    """Learn the values of a model in closed form, and condition it on the data; ``known`` is what climbs know of it.

    Where inputs were filled, a first round tells how much the prediction at a row varies with what its missing entries
    may be; a second one has that as noise of these rows. Values come from at most ``most`` of the rows.
    """
    known = known or Known()
    check_device(model.data.x, context)
    model.to(context.device)
    for round_ in range(1 if rows.filled is None else 2):
        if round_ and isinstance(model, ProcessModel):
            model.data = replace(model.data, extra=spread_of_filled(model, rows))
        criterion = climb(model, search, context, known, most)
        model.draws = [model.condition()]
    model.learnt = Learnt(search.criterion, criterion.named_centres())
    if search.criterion == "bayes":
        check_memory(len(model.data), "averaging over draws", search.n_draws)
        model.draws = [model.condition() for _ in draw(criterion, search.n_draws, context)]
    return model


def learnt_again(model: Closed, data: Data, search: Search, context: FitContext, same_rows: bool = False) -> Closed:
    """A model of the same kind, learnt from other rows or weights: one climb from the values that it has.

    Arguments:
        same_rows: whether only weights differ, so that what is known about the rows stays known.
    """
    assert model.learnt is not None
    again = copy.copy(model if same_rows else cast("Closed", model.on(data)))
    again.data, again.prior = data, copy.deepcopy(model.prior)
    known = Known(model.learnt.centres_of(again.module), rows=len(data))
    return fit_process(again, search, Rows(data), context, known)


def check_device(x: PointRows, context: FitContext) -> None:
    """Refuse objects on any device but the CPU, and a checkpoint where nothing is trained by steps."""
    if context.checkpoint is not None:
        raise InputError("checkpoint is for training by mini-batches, which closed forms do without: leave it out")
    if context.device.type != "cpu" and not isinstance(x, Tensor):
        raise InputError(f"device={str(context.device)!r} is for kernels over columns: objects need device='cpu'")


def spread_of_filled(model: ProcessModel, rows: Rows) -> Float[Tensor, " n"]:
    """How much the prediction at each training row varies with what its missing entries may be: extra noise."""
    assert rows.filled is not None
    where, draws = rows.filled[0], rows.filled[1]()
    mean = model.rough().function(draws.flatten(0, 1)).reshape(len(draws), -1, rows.data.y.shape[1])
    extra = torch.zeros(len(rows.data), dtype=torch.float64)
    extra[where] = torch.from_numpy(mean.var(0).mean(1))
    return extra.to(model.data.y.device)
