"""Processes whose noise varies, from the residuals of rows that were left out: at the cost of a few plain fits."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import RBF
from stratagp.means import Constant
from stratagp.models import ExactGP
from stratagp.models.exact_posterior import ExactPosterior
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_process import ProcessModel, VaryingNoiseModel, VecchiaModel
from stratagp.models.heteroscedastic import HeteroscedasticPosterior
from stratagp.models.observations import Data, some_rows
from stratagp.models.target_posterior import TargetPosterior
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.processes import learnt_again
from stratagp.recipes.search import Search

_ROWS = 1500  # whose residuals tell how the noise varies
_LEAST = 0.01  # of a squared standardised residual, whose log would say more than it knows
_CENTRE, _VARIANCE = -1.111, 3.207  # of the log of a squared normal number that is at least that
_ROUNDS = 2
_RANGE = 12.0  # logs that noise may span


@dataclass(frozen=True)
class VaryingNoiseRecipe(Recipe):
    """Learn a process, then in turn how its noise varies and the process again, each row with its noise.

    ``tᵢ = log σᵢ² + log(rᵢ²/vᵢ) + 1.11`` is what the residual ``rᵢ`` of a row that was left out, with variance ``vᵢ``
    under the noise ``σᵢ²`` of the last round, says about its log noise: a process is learnt from these (Kersting et al.
    2007, with leave-one-out residuals in place of samples).

    Arguments:
        function: how the process is learnt: a recipe of an exact process, or of Vecchia's.
        search: how the values of the noise process are learnt.
    """

    function: Recipe
    search: Search = field(default_factory=lambda: Search(n_restarts=0))

    def fit(self, rows: Rows, context: FitContext) -> VaryingNoiseModel:
        """A plain fit, and rounds of noise and function."""
        data = rows.data
        if data.y.shape[1] > 1 or data.weights is not None or data.noise is not None:
            raise InputError("noise that varies is learnt for one target, without weights or known noise")
        plain = self.function.fit(replace(rows, filled=None), context)
        assert isinstance(plain, ProcessModel)
        return self._rounds(plain, data, context)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> VaryingNoiseModel:
        """Rounds that begin with the values that were learnt before."""
        if not isinstance(before, VaryingNoiseModel) or before.function_model is None:
            return self.fit(rows, context)
        plain = self.function.again(before.function_model, replace(rows, filled=None), context)
        assert isinstance(plain, ProcessModel)
        if isinstance(plain, VecchiaModel) and isinstance(before.function_model, VecchiaModel):
            return _with_same_noise(plain, before.draws[0][0].process.log_variance)
        return self._rounds(plain, rows.data, context)

    def _rounds(self, model: ProcessModel, data: Data, context: FitContext) -> VaryingNoiseModel:
        log_noise = model.prior.noise.detach().log().expand(len(data))
        for round_ in range(_ROUNDS):
            noise = self._noise_process(model, log_noise, context)
            relative = noise.mean(data.x).clamp(-_RANGE / 2, _RANGE / 2)
            weighted = _weighted(data, relative)
            if isinstance(model, VecchiaModel) and round_ + 1 < _ROUNDS:  # of many rows a climb takes long
                model = replace(model, data=weighted)
                model.draws = [model.condition()]
            else:
                model = self._learnt_again(model, weighted, context)
            log_noise = model.prior.noise.detach().log() + relative
        level = float(model.prior.noise.detach().log())
        around = ExactGP(copy.deepcopy(noise.prior.kernel), Constant(level))
        return _with_noise(model, around.condition(noise.x, level + noise.residual, noise.noise))

    def _learnt_again(self, model: ProcessModel, weighted: Data, context: FitContext) -> ProcessModel:
        """The model with values that suit the noise of each row; conditionals must say so that no climb has seen."""
        again = learnt_again(model, weighted, self.search, context, same_rows=True)
        if isinstance(model, VecchiaModel) and isinstance(again, VecchiaModel):
            same = replace(model, data=weighted)
            if same.judged() > again.judged():
                same.draws = [same.condition()]
                return same
        return again

    def _noise_process(
        self, model: ProcessModel, log_noise: Float[Tensor, " n"], context: FitContext
    ) -> ExactPosterior:
        """A process of the log noise, less its average, from what rows that are left out say about it."""
        chosen = some_rows(len(model.data), _ROWS, context.seed)
        found = model.left_out(chosen)
        squares = (model.data.y[chosen, 0] - found.mean[:, 0]).square() / found.var[:, 0]
        said = log_noise[chosen] + squares.clamp_min(_LEAST).log() - _CENTRE
        x, known = model.data.x[chosen], torch.full((len(chosen), 1), _VARIANCE, dtype=said.dtype)
        centred = Data(x, (said - said.mean())[:, None], noise=known)
        fitted = ExactRecipe(RBF(ard=x.shape[1]), search=self.search).fit(Rows(centred), replace(context, log=_silent))
        process: ExactPosterior = fitted.draws[0][0].process
        return process


def _weighted(data: Data, relative: Float[Tensor, " n"]) -> Data:
    """Rows weighted by the log of their noise beside the average."""
    return replace(data, weights=(-relative.clamp(-_RANGE / 2, _RANGE / 2)).exp())


def _with_same_noise(plain: VecchiaModel, log_noise: ExactPosterior) -> VaryingNoiseModel:
    """The function with more rows as neighbours, and what was known of the noise."""
    data = plain.data
    relative = log_noise.mean(data.x) - plain.prior.noise.detach().log()
    model = replace(plain, data=_weighted(data, relative))
    model.draws = [model.condition()]
    return _with_noise(model, log_noise)


def _with_noise(model: ProcessModel, log_noise: ExactPosterior) -> VaryingNoiseModel:
    """The learnt function, and its noise around the level that was learnt with it."""
    both = HeteroscedasticPosterior(model.draws[0][0].process, log_noise)
    draws = [[TargetPosterior(both, None)]]
    return VaryingNoiseModel(model.prior, model.data, draws, model.learnt, model.result, model)


def _silent(message: str) -> None:
    """Small fits say nothing."""
