"""AutoGP: sparse variational processes with any likelihood, trained in phases by mini-batches."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import torch

from stratagp.errors import InputError
from stratagp.kernels import RBF, Kernel
from stratagp.likelihoods import Likelihood
from stratagp.means import Constant
from stratagp.models.autogp import autogp, fit_phases, phases
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.stochastic import StochasticGP
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.batches import (
    Batches,
    clustered_points,
    outputs_of,
    refuse_bad_targets,
    warn_of_rounding,
)
from stratagp.recipes.classes import LATENT_VARIANCE
from stratagp.recipes.options import BatchOptions, Whole
from stratagp.training.start import start_from_data

_LOO_SAMPLES = 10  # of each row, where nothing else is sampled
_CLASS_SAMPLES = 20  # of a softmax, in the bound
_ROWS = 2000  # rows that a start value of the latent functions is taken from
_PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(eq=False, repr=False)
class AutoGPOptions(BatchOptions):
    """Options of AutoGP; :class:`~stratagp.AutoGPRegressor` tells what they mean."""

    usual_epochs: ClassVar[int] = 30

    kernel: Kernel | None = None
    n_inducing: Whole = 200
    n_components: Whole = 1
    covariance: Literal["full", "diagonal"] = "full"
    _: KW_ONLY
    objective: Literal["elbo", "loo", "ppgpr"] = "elbo"
    loo_parameters: Literal["hyper", "all"] = "hyper"
    loo_estimate: Literal["closed", "sampled"] = "sampled"
    phase_epochs: Whole | None = None
    n_samples: Whole | Literal["auto"] | None = "auto"
    gradients: Literal["pathwise", "score"] = "pathwise"
    entropy: Literal["bhattacharyya", "jensen"] = "bhattacharyya"
    optimiser: Literal["adam", "rmsprop"] = "adam"
    shared: bool = False
    min_steps: Whole = 1000
    precision: Literal["float32", "float64"] = "float32"

    def _check(self) -> None:
        super()._check()
        if self.entropy == "jensen" and self.n_components == 1:
            raise InputError("entropy='jensen' bounds that of a mixture: give n_components of at least 2, or leave it")
        sampled = self.objective == "elbo" and not isinstance(self.n_samples, str) and (self.n_samples or 0) > 1
        if self.gradients == "score" and not sampled:
            raise InputError(
                "gradients='score' come from samples of the bound: give objective='elbo' and n_samples of at least 2, "
                "such as 100"
            )


@dataclass(frozen=True)
class AutoGPRecipe(Recipe):
    """Learn an AutoGP."""

    options: AutoGPOptions

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Put the model together from start values of the data, and train it phase by phase."""
        options, data, likelihood = self.options, rows.data, rows.likelihood
        assert likelihood is not None
        generator = context.generator()
        anchors = None if rows.views is None else rows.views.anchor_points(data.x.shape[1])[0]
        if anchors is None:
            kernel = rows.bind(options.kernel, RBF(ard=True))
            if options.precision == "float32":
                warn_of_rounding(data.x, rows.columns, "standardise='both', or precision='float64'")
        else:
            assert rows.views is not None
            assert options.kernel is not None
            kernel = rows.views.kernels(options.kernel, data.x.shape[1])[0]
        targets, variance = data.y[:, 0], 1.0
        if rows.n_classes:
            first = (data.y[:, 0] == 0).double()
            targets, variance = first - first.mean(), LATENT_VARIANCE
        kernel = start_from_data(kernel, data.x if anchors is None else anchors, targets, variance)
        refuse_bad_targets(likelihood, data.y, outputs_of(rows, likelihood))
        level = likelihood.start(data.y[torch.randperm(len(data), generator=generator)[:_ROWS]])
        z = clustered_points(kernel, data.x, options.n_inducing, context.seed) if anchors is None else anchors
        chain = self._chain(kernel, z, likelihood, outputs_of(rows, likelihood), level, generator, anchors is None)
        batches = Batches.of(rows, options, context, generator)
        model = ChainModel(chain.to(context.device), batches.data)
        length = batches.length()
        plan = phases(options.objective, length.pop("epochs"), options.loo_parameters, options.phase_epochs)
        for phase in plan:
            count = f"{phase.epochs} epoch{'s' * (phase.epochs != 1)}"
            context.log(f"{phase.objective} for {count}, moving {phase.parameters}")
        model.histories = fit_phases(
            chain,
            *batches.source,
            plan,
            optimiser=options.optimiser,
            rate=options.rate,
            generator=generator,
            score=batches.score(chain),
            **length,
        )
        chain.dtype = torch.float64  # a prediction must not depend on the rows that are asked for with it
        return model

    def _chain(
        self,
        kernel: Kernel,
        z: torch.Tensor,
        likelihood: Likelihood,
        outputs: int,
        level: float,
        generator: torch.Generator,
        learn_points: bool,
    ) -> StochasticGP:
        options = self.options
        n_samples = options.n_samples
        if n_samples == "auto":
            n_samples = _CLASS_SAMPLES if likelihood.several_scores else None
        sampled = options.objective == "loo" and options.loo_estimate == "sampled" and likelihood.unwrapped.smooth
        both = n_samples is not None and likelihood.several_scores
        return autogp(
            kernel,
            z,
            likelihood,
            outputs,
            options.n_components,
            options.covariance == "full",
            options.shared,
            Constant(level) if level else None,
            n_samples or (_LOO_SAMPLES if sampled else None),
            generator,
            _PRECISIONS[options.precision],
            learn_points,
            sampled="bound" if not sampled else "both" if both else "reciprocal",
            entropy=options.entropy,
            gradients=options.gradients,
        )
