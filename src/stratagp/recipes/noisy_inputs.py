"""Sparse processes of columns that were measured with known errors, in closed form.

    b | x ~ N(c + share (x − c), share s²),    y = f(b) + N(0, noise),    f ~ GP(0, k)

The true columns ``bₙ`` of each training row have a belief of their own, ``N(mean, var)``, and the inducing values are
integrated out (Titsias and Lawrence 2010, with this prior in place of the standard normal). A belief that stays at the
prior, as in the noisy-input sparse process, is a bound as well, but doubts every row twice: the function becomes
flatter than one that takes measurements for the truth.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import Kernel
from stratagp.layers import LatentRows, Measured, Stack
from stratagp.models.chain import Chain
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.random_inputs import RandomInputGP, noise_of, posterior_layer
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.batches import clustered_points
from stratagp.recipes.exact import learnt_noise
from stratagp.training.lbfgs import maximise
from stratagp.training.start import start_from_data

_NOISE = 0.01  # of standardised targets at the start: from more, what errors of columns explain is taken for noise
_GAIN = 1e-4  # of the bound, a row, in ten iterations: training ends below it


@dataclass(frozen=True)
class NoisyInputRecipe(Recipe):
    """Learn a process and the true columns of its rows.

    Arguments:
        kernel: bound to its columns, with expectations.
        std: the deviation of the errors of each column.
        normal: whether true values are normal; otherwise all are likely.
        n_inducing: how many inducing points.
        max_iterations: of L-BFGS.
    """

    kernel: Kernel
    std: Float[Tensor, " d"]
    normal: bool = True
    n_inducing: int = 50
    max_iterations: int = 200

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Everything by L-BFGS on the collapsed bound."""
        data = rows.data
        measured = self._measured(rows)
        prior, numbers = measured(data.x), torch.arange(len(data))[:, None]
        kernel = start_from_data(self.kernel, prior.mean, data.y.mean(1))
        z = clustered_points(kernel, prior.mean, self.n_inducing, context.seed)
        true = LatentRows(torch.zeros_like(prior.mean), 1.0, prior)
        gp = RandomInputGP(true, kernel, z, noise=learnt_noise(data.y.shape[1], _NOISE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is how long training lasts
            result = maximise(
                lambda: gp.log_evidence(numbers, data.y) + (gp.log_prior() if gp.has_priors else 0.0),
                gp.parameters(),
                self.max_iterations,
                _GAIN * len(data),
            )
        context.log(f"{result.value:.3f} after {result.evaluations} evaluations: {result.message}")
        with torch.no_grad():
            bound = float(gp.log_evidence(numbers, data.y))
            last = posterior_layer(gp.kernel, gp.z, gp.sums(numbers, data.y), gp.noise)
        layer = Stack(measured, last, propagate="moments", n_nodes=64)
        chain = Chain(layer, noise_of(gp.noise, data.y.shape[1]), torch.float64)
        return ChainModel(chain, data, result=result, attained=bound)

    def _measured(self, rows: Rows) -> Measured:
        """What measurements tell, with the centres and spreads of the training rows."""
        x, std = rows.data.x, self.std
        spread = x.std(0, correction=0)
        doubtful = (std > 0) & ((std >= spread) if self.normal else (spread == 0))
        if bool(doubtful.any()):
            name = rows.columns[int(doubtful.nonzero()[0, 0])]
            raise InputError(
                f"errors of column {name!r} must have a standard deviation below that of its values, which they are a "
                "part of: give a smaller one, in units of the column, or truth='flat' for a column that was set"
            )
        share = 1 - (std / spread).square() if self.normal else torch.ones_like(std)
        share = torch.where(std > 0, share, 1.0)
        return Measured(share * std.square(), x.mean(0), share)
