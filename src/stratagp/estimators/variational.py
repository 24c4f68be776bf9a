"""What the estimators of AutoGP share: options, inducing points, training by phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.estimators.batch_options import check_batch_options
from stratagp.estimators.batched import Batched
from stratagp.estimators.engines import Data
from stratagp.estimators.held_out import warn_of_rounding
from stratagp.estimators.inputs import Points, seed_of
from stratagp.estimators.likelihood_checks import refuse_bad_targets
from stratagp.estimators.stochastic import MiniBatches
from stratagp.estimators.views import ObjectInputs
from stratagp.kernels import Kernel, Stationary
from stratagp.likelihoods import Likelihood
from stratagp.means import Constant
from stratagp.models.autogp import LOO_PARAMETERS, OBJECTIVES, autogp, fit_phases, phases
from stratagp.models.stochastic import StochasticGP
from stratagp.training.inducing import kmeans_points
from stratagp.training.loop import History
from stratagp.training.start import spreads, start_from_data

_LOO_SAMPLES = 10  # of each row, where nothing else is sampled
_ROWS = 2000  # rows that a start value of the latent functions is taken from
_PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


class AutoGPEngine(MiniBatches):
    """An AutoGP on its data."""

    data: Data

    @property
    def targets(self) -> Float[Tensor, "n q"]:
        """The targets as the likelihood sees them."""
        return self.data.y

    def condition(self) -> StochasticGP:
        """The model itself, which holds its posterior."""
        return self.model


class VariationalEstimator(Batched):
    """An estimator whose model is trained by mini-batches in phases."""

    _classifier = "AutoGPClassifier"

    def __init__(
        self,
        kernel: Any = None,
        n_inducing: Any = 200,
        n_components: Any = 1,
        covariance: Any = "full",
        likelihood: Any = "auto",
        objective: Any = "elbo",
        loo_parameters: Any = "hyper",
        loo_estimate: Any = "closed",
        phase_epochs: Any = None,
        n_samples: Any = "auto",
        shared: Any = False,
        batch_size: Any = 1000,
        max_epochs: Any = 30,
        rate: Any = 0.02,
        validation: Any = 0.0,
        patience: Any = None,
        precision: Any = "float32",
        standardise: Any = "targets",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.n_components = n_components
        self.covariance = covariance
        self.likelihood = likelihood
        self.objective = objective
        self.loo_parameters = loo_parameters
        self.loo_estimate = loo_estimate
        self.phase_epochs = phase_epochs
        self.n_samples = n_samples
        self.shared = shared
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.rate = rate
        self.validation = validation
        self.patience = patience
        self.precision = precision
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("objective", tuple(OBJECTIVES))
        self._restrict("loo_parameters", LOO_PARAMETERS)
        self._restrict("loo_estimate", ("closed", "sampled"))
        self._restrict("covariance", ("full", "diagonal"))
        self._restrict("precision", tuple(_PRECISIONS))
        check_batch_options(self)

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """A kernel that knows its columns, and the rows as points; objects become rows of similarities to anchors."""
        if self.kernel is None or self.kernel.takes_tensors:
            return super()._learn_inputs(X)
        self.inputs_ = ObjectInputs(seed_of(self), None, {"objects": self.kernel})
        points = self.inputs_.learn(self, X)
        return self.inputs_.kernels(self.kernel, points.values.shape[1])[0], points

    def _fit_model(
        self, kernel: Kernel, points: Points, y: Float[Tensor, "n p"], likelihood: Likelihood, outputs: int
    ) -> None:
        """Put the model together from start values of the data, and train it."""
        self._forget()
        z = self.inputs_.anchor_rows() if isinstance(self.inputs_, ObjectInputs) else None
        objects = z is not None
        if self.precision == "float32" and not objects:
            warn_of_rounding(points.values, self.inputs_.columns, "standardise='both', or precision='float64'")
        generator, x = torch.Generator().manual_seed(self._seed()), points.values
        start_from_data(kernel, x if z is None else z, self._start_targets(y), self._latent_variance())
        refuse_bad_targets(likelihood, y, outputs)
        start = likelihood.start(y[torch.randperm(len(y), generator=generator)[:_ROWS]])
        z = clustered_points(kernel, x, self.n_inducing, self._seed()) if z is None else z
        n_samples, sampled = self._samples(likelihood), self.objective == "loo" and self.loo_estimate == "sampled"
        gp = autogp(
            kernel,
            z,
            likelihood,
            outputs,
            self.n_components,
            self.covariance == "full",
            self.shared,
            Constant(start) if start else None,
            n_samples or (_LOO_SAMPLES if sampled else None),
            generator,
            _PRECISIONS[self.precision],
            not objects,
            sampled="bound" if not sampled else "both" if n_samples else "reciprocal",
        )
        data, test = self._shares(x, y, generator)
        self.engine_ = AutoGPEngine(self._moved(gp), data)
        score = (lambda: self._validation_score(test.x, test.y)) if len(test.y) else None
        self.histories_ = self._train_phases(gp, data, score, generator)
        gp.dtype = torch.float64  # a prediction must not depend on the rows that are asked for with it
        self.beliefs_ = [gp]

    def _train_phases(
        self, gp: StochasticGP, data: Data, score: Callable[[], float] | None, generator: torch.Generator
    ) -> list[History]:
        options = self._length(data, self.max_epochs)
        plan = phases(self.objective, options.pop("epochs"), self.loo_parameters, self.phase_epochs)
        for phase in plan:
            self._say(
                f"{phase.objective} for {phase.epochs} epoch{'s' * (phase.epochs != 1)}, moving {phase.parameters}"
            )
        return fit_phases(
            gp,
            *self._rows(data),
            plan,
            rate=self.rate,
            generator=generator,
            score=score,
            progress=self.verbose,
            **options,
        )


def clustered_points(kernel: Kernel, x: Float[Tensor, "n d"], m: int, seed: int) -> Float[Tensor, "m2 d"]:
    """Centres of clusters, in units of the kernel's lengthscales if it has them, else of the spreads of columns."""
    own = isinstance(kernel, Stationary) and kernel.functions is None
    lengthscale = kernel.lengthscale.detach() if own else spreads(x)
    scale = lengthscale.expand(x.shape[1])
    return kmeans_points(x / scale, m, seed) * scale
