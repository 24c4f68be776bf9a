"""Fitted processes whose rows come and go, while the values that they have learnt stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.models.data_checks import refuse_contradictions
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_process import ExactModel, ProcessModel, SparseModel, VecchiaModel
from stratagp.models.observations import Data
from stratagp.models.sparse import SparsePosterior
from stratagp.models.target_posterior import TargetPosterior


def with_rows(model: Fitted, more: Data) -> ProcessModel:
    """The model given more rows too: the same as conditioning on all of them at once."""
    known = _check_able(model, "update")
    more = more.to(known.data.y.device)
    data = known.data.joined(more)
    if data.noise is not None:
        for target, level in zip(data.y.mT, data.noise.mT, strict=True):
            refuse_contradictions(data.x, target, level)
    return _changed(known, more, data, lambda process, *rows: process.condition(*rows))


def without_rows(model: Fitted, gone: Int[Tensor, " r"]) -> ProcessModel:
    """The model without some of its rows, given by their places."""
    known = _check_able(model, "forget")
    gone = gone.to(known.data.y.device)

    def shorter(process: Any, *rows: Any) -> Any:
        return process.without(*rows) if isinstance(process, SparsePosterior) else process.without(gone)

    return _changed(known, known.data.take(gone), known.data.without(gone), shorter)


def _check_able(model: Fitted, asked: str) -> ProcessModel:
    if isinstance(model, (ExactModel, SparseModel, VecchiaModel)):
        return model
    raise InputError(
        f"{asked} needs inference 'exact', 'sparse' or 'vecchia', independent outputs and noise that does not vary: "
        "this model must learn again, which refit does"
    )


def _changed(model: ProcessModel, some: Data, data: Data, change: Callable[..., Any]) -> ProcessModel:
    """The same values on other rows: each posterior changed by some rows, or made anew where rounding forbids that.

    Conditionals are found anew when somebody asks for the score.
    """
    draws: list[list[TargetPosterior]] = []
    for targets in model.draws:
        noise = torch.stack([target.noise for target in targets if target.noise is not None])
        levels, whole = some.row_noise(noise), data.row_noise(noise)
        parts = zip(targets, some.y.mT, levels, data.y.mT, whole, strict=True)
        draws.append([])
        for target, y, level, every, own in parts:
            try:
                process = change(target.process, some.x, y, level)
            except NotPositiveDefiniteError:  # the policy of jitter is about all rows
                process = target.process.prior.condition(data.x, every, own)
            draws[-1].append(replace(target, process=process))
    changed = replace(model, data=data, draws=draws)
    if isinstance(changed, (ExactModel, VecchiaModel)) and changed.sets is not None:
        changed.sets = changed.sets.outdated()
    return changed
