"""Gaussian-process regression in the manner of scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.assembly import assemble, choose, varying_noise
from stratagp.estimators.base import GPEstimator
from stratagp.estimators.cokriging import CoKriging, check_correlated
from stratagp.estimators.engines import Data, Engine, Exact, Sparse
from stratagp.estimators.inputs import Points
from stratagp.estimators.iterative import Iterative
from stratagp.estimators.regression import Regression
from stratagp.estimators.stochastic import refuse_rows_of_their_own
from stratagp.estimators.surrogate import partial_dependence, predict_uncertain, sobol_indices
from stratagp.estimators.targets import check_noise, check_targets, check_weights
from stratagp.kernels import Kernel

INFERENCES = ("auto", "exact", "sparse", "stochastic", "cg")


class GPRegressor(Regression, GPEstimator):
    """Gaussian-process regression: predictions with error bars, from twenty rows to millions.

    Arguments:
        kernel: a kernel; left out, a Matérn-5/2 with a lengthscale for each column, and one for each category. Values
            you give are in the units of your columns; those you leave out start from the data. Variances are of
            standardised targets.
        mean: the prior mean of the standardised targets, a :class:`~stratagp.means.Mean` or torch module; zero if left
            out, which after standardising is the average of the targets.
        noise: "learn"; "heteroscedastic" for noise that changes over the inputs, by a second process on its log; a
            known variance in squared units of y (0 interpolates); or known variances, one for each row.
        inference: "exact", "sparse" (collapsed bound, ``n_inducing`` points), "stochastic" (mini-batches), "cg" (the
            exact process by conjugate gradients, where its matrices are too large to be factored; ``residual_`` tells
            how far they were solved), or "auto": exact up to 4,000 rows, sparse up to 200,000, stochastic above.
            ``inference_`` and ``inference_reason_`` tell which and why.
        outputs: of several targets: "independent" with one kernel for all, or "correlated": co-kriging by a linear
            model of coregionalisation, in which each summand of the kernel is a function that the targets share, and
            NaN in y says that a target was not observed in a row.
        hyperparameters: "map" (evidence with weak priors), "ml" (evidence alone), "loo" (leave-one-out density), or
            "bayes" (averaged over ``n_draws`` draws from their posterior by NUTS).
        n_inducing: how many inducing points.
        n_restarts: how many more starts to try: one with little noise, then at random around the first.
        standardise: "targets"; "both" also centres and scales the inputs, for kernels without lengthscales (a kernel's
            values are then in units of standard deviations); "none".
        categorical: "auto" takes columns of text and categories of a data frame; or names or numbers of columns. Dates
            become days since 1970.
        encoding: of categories: "one-hot", or "codes" for a kernel on the codes, such as ``k.Coregionalised``.
        missing: inputs that are NaN: "raise", or "impute": filled by a Gaussian over the columns, with the uncertainty
            of the fill carried into training (as noise) and prediction (as spread).
        n_draws: for ``hyperparameters="bayes"``.
        max_iterations: of L-BFGS; 0 keeps the values as they are given.
        max_epochs: how many times mini-batches go over the data, for inference "stochastic", at least 500 steps; and
            steps up the evidence of all rows for "cg", after a start by the exact process of 2,000 of them.
        device: where values are learnt and predictions computed: "cpu", "cuda", "cuda:1" or a ``torch.device``. Start
            values, restarts and the search are the processor's; predictions come back as arrays.
        random_state: seed of restarts, draws and the choice of candidates.
        verbose: print what is done.

    After ``fit``: ``kernel_``, ``hyperparameters_`` (with standard errors), ``relevance_``, ``model_`` (a torch
    module), ``inference_``, ``result_`` (how the optimiser ended).

    >>> import numpy as np
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> gp = GPRegressor().fit(X, 5 + 3 * np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[2.5]], return_std=True)
    >>> round(float(mean[0]), 2)  # 5 + 3 sin 2.5 = 6.795
    6.8
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        mean: Any = None,
        noise: Any = "learn",
        inference: Any = "auto",
        outputs: Any = "independent",
        hyperparameters: Any = "map",
        n_inducing: Any = 500,
        n_restarts: Any = 1,
        standardise: Any = "targets",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        missing: Any = "raise",
        n_draws: Any = 50,
        max_iterations: Any = 200,
        max_epochs: Any = 10,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.inference = inference
        self.outputs = outputs
        self.hyperparameters = hyperparameters
        self.n_inducing = n_inducing
        self.n_restarts = n_restarts
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.missing = missing
        self.n_draws = n_draws
        self.max_iterations = max_iterations
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPRegressor:
        """Learn from rows ``X`` (an array, a data frame, or a list of objects) and targets ``y``, ``n`` or ``n q``.

        ``sample_weight`` divides the noise variance of a row: twice the weight, twice as precise; 0 leaves it out. Only
        ratios count: a row of average weight has the learnt noise.
        """
        with self._unless_it_fails():
            self._check_options()
            kernel, points = self._read(X)
            targets = check_targets(self, y, len(points), gaps=self.outputs == "correlated")
            noise = None if isinstance(self.noise, str) else check_noise(self.noise, len(points))
            weights = check_weights(sample_weight, len(points))
            self.one_target_ = targets.ndim == 1
            targets = targets.reshape(len(targets), -1)
            if weights is not None:
                kept = np.flatnonzero(weights)
                points, targets, weights = points.take(kept), targets[kept], weights[kept]
                noise = None if noise is None else noise[kept]
            self._fit(kernel, points, self._data(points, targets, weights, noise))
        return self

    def _fit(self, kernel: Kernel, points: Points, data: Data) -> None:
        self.inference_, self.inference_reason_ = choose(self, len(data.y), kernel)
        self._say_choice()
        if points.incomplete is not None and varying_noise(self):
            raise InputError("noise='heteroscedastic' takes complete rows in training: fill or drop missing inputs")
        if self.inference_ == "stochastic":
            refuse_rows_of_their_own(data, points.incomplete is not None)
        self._forget()
        self._learn(assemble(self, self.inference_, kernel, data, self.inputs_.columns, self._centres), points)

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("inference", INFERENCES)
        self._restrict("outputs", ("independent", "correlated"))
        if self.outputs == "correlated":
            check_correlated(self)
        if isinstance(self.noise, str) and self.noise not in ("learn", "heteroscedastic"):
            raise InputError(f"noise must be 'learn', 'heteroscedastic' or variances ≥ 0, got {self.noise!r}")
        if varying_noise(self) and self.hyperparameters in ("loo", "bayes"):
            raise InputError("noise='heteroscedastic' needs hyperparameters='map' or 'ml'")

    def _data(self, points: Points, targets: np.ndarray, weights: np.ndarray | None, noise: np.ndarray | None) -> Data:
        """Standardised data and what is known about their noise; weights are relative, one on average."""
        self.scale_ = self._scale_of(targets, weights)
        y = torch.from_numpy(self.scale_.to_standard(targets))
        known = None if noise is None else torch.from_numpy(noise[:, None] / self.scale_.scale**2)
        return Data(
            points.values, y, None if weights is None else torch.from_numpy(weights / weights.mean()), noise=known
        )

    def _learn(self, engine: Engine, points: Points) -> None:
        """Train the engine; once more where the first round tells what noise filled inputs bring."""
        self._train(engine)
        if points.incomplete is not None:
            engine.data.extra = self._spread_of_filled(points, len(engine.data.y))
            self._train(engine)
        self._average(engine, len(engine.data.y))

    def _spread_of_filled(self, points: Points, n: int) -> Tensor:
        """How much the prediction at a training row varies with what its missing entries may be: extra noise."""
        draws = self.inputs_.draws(points)
        mean = self._function(draws.flatten(0, 1)).reshape(len(draws), -1, len(self.scale_.mean))
        extra = torch.zeros(n, dtype=torch.float64)
        extra[torch.from_numpy(points.incomplete)] = torch.from_numpy(mean.var(0).mean(1))
        return extra

    def _answers(self) -> dict[str, np.ndarray]:
        """Of conjugate gradients means alone: deviations would take all rows of the matrix, and all processes."""
        return {"mean": self.predict(self._example)} if isinstance(self.engine_, Iterative) else super()._answers()

    @property
    def residual_(self) -> float:
        """``|y − m − C α| / |y − m|`` of the system that predictions come from, where it is not factored."""
        check_is_fitted(self, "beliefs_")
        if not isinstance(self.engine_, Iterative):
            raise NoAttributeError(f"residual_ is of inference='cg'; {self.inference_!r} solves in closed form")
        return max(belief.posterior.solved_to for belief in self.beliefs_[0])

    partial_dependence = partial_dependence
    predict_uncertain = predict_uncertain
    sobol_indices = sobol_indices

    @property
    def evidence_bounds_(self) -> tuple[float, float]:
        """What the log evidence of the exact process with these hyperparameters lies between.

        Far apart, ``n_inducing`` is too small. Where only a lower bound is known, the upper one is infinite.
        """
        check_is_fitted(self, "beliefs_")
        if isinstance(self.engine_, Iterative):
            raise NoAttributeError(
                "evidence_bounds_ are none of inference='cg', which estimates the evidence: see log_marginal_likelihood"
            )
        if not isinstance(self.engine_, Sparse):
            value = self.log_marginal_likelihood()
            return value, value if isinstance(self.engine_, (Exact, CoKriging)) else math.inf
        lower, upper = self.engine_.bounds()
        return lower - self._log_unit(), upper - self._log_unit()

    def _log_unit(self) -> float:
        if isinstance(self.engine_, CoKriging):
            return float(np.log(self.scale_.scale)[self.engine_.data.x[:, -1].long().cpu().numpy()].sum())
        return super()._log_unit()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
