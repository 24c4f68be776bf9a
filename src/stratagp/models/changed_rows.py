"""Fitted processes whose rows come and go, while the values that they have learnt stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.models.data_checks import refuse_contradictions
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_process import ExactModel, ProcessModel, SparseModel, TargetPosterior, VecchiaModel
from stratagp.models.observations import Data
from stratagp.models.sparse import SparsePosterior


def with_rows(model: Fitted, more: Data) -> ProcessModel:
    """The model given more rows too: the same as conditioning on all of them at once."""
    known = _check_able(model, "update")
    more = more.to(known.data.y.device)
    data = known.data.joined(more)
    if data.noise is not None:
        for target, level in zip(data.y.mT, data.noise.mT, strict=True):
            refuse_contradictions(data.x, target, level)
    draws = []
    for targets in known.draws:
        levels, whole = more.row_noise(_noise(targets)), data.row_noise(_noise(targets))
        parts = zip(targets, more.y.mT, levels, data.y.mT, whole, strict=True)
        draws.append([replace(each, process=_longer(each.process, more.x, data.x, *rest)) for each, *rest in parts])
    return _changed(known, data, draws)


def without_rows(model: Fitted, gone: Int[Tensor, " r"]) -> ProcessModel:
    """The model without some of its rows, given by their places."""
    known = _check_able(model, "forget")
    gone = gone.to(known.data.y.device)
    some = known.data.take(gone)
    draws = []
    for targets in known.draws:
        parts = zip(targets, some.y.mT, some.row_noise(_noise(targets)), strict=True)
        draws.append([replace(each, process=_shorter(each.process, gone, some.x, *rest)) for each, *rest in parts])
    return _changed(known, known.data.without(gone), draws)


def _check_able(model: Fitted, asked: str) -> ProcessModel:
    if isinstance(model, (ExactModel, SparseModel, VecchiaModel)):
        return model
    raise InputError(
        f"{asked} needs inference 'exact', 'sparse' or 'vecchia', independent outputs and noise that does not vary: "
        "this model must learn again, which refit does"
    )


def _changed(model: ProcessModel, data: Data, draws: list[list[TargetPosterior]]) -> ProcessModel:
    """The same values on other rows; conditionals are found anew when somebody asks for the score."""
    changed = replace(model, data=data, draws=draws)
    if isinstance(changed, (ExactModel, VecchiaModel)) and changed.sets is not None:
        changed.sets = changed.sets.outdated()
    return changed


def _noise(targets: list[TargetPosterior]) -> Tensor:
    """The noise of each target."""
    return torch.stack([target.noise for target in targets if target.noise is not None])


def _longer(process: Any, x: Any, every: Any, y: Tensor, level: Tensor | None, all_y: Tensor, levels: Any) -> Any:
    """A posterior with more rows, from the existing factor unless rounding forbids it."""
    try:
        return process.condition(x, y, level)
    except NotPositiveDefiniteError:  # the policy of jitter is about all rows
        return process.prior.condition(every, all_y, levels)


def _shorter(process: Any, gone: Tensor, x: Any, y: Tensor, level: Tensor | None) -> Any:
    return process.without(x, y, level) if isinstance(process, SparsePosterior) else process.without(gone)
