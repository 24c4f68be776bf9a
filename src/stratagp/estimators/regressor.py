"""Gaussian-process regression in the manner of scikit-learn."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.data import TargetScale
from stratagp.errors import InputError
from stratagp.estimators.base import GPEstimator
from stratagp.estimators.cokriging import CoKriging, check_correlated, co_kriging
from stratagp.estimators.engines import Data, Engine, Exact, Heteroscedastic, Sparse, learnt_noise, some_rows
from stratagp.estimators.hyperparameters import Criterion, draw, train
from stratagp.estimators.inputs import Points
from stratagp.estimators.regression import Regression
from stratagp.estimators.stochastic import MiniBatches, StochasticRegression, refuse_rows_of_their_own
from stratagp.estimators.surrogate import partial_dependence, predict_uncertain, sobol_indices
from stratagp.estimators.targets import check_noise, check_targets, check_weights
from stratagp.kernels import RBF, Kernel
from stratagp.likelihoods import GaussianNoise
from stratagp.models import ExactGP, HeteroscedasticGP, SparseGP, StochasticGP
from stratagp.parameters import positive, real
from stratagp.training.inducing import greedy_points
from stratagp.training.start import start_from_data

EXACT_ROWS = 4000  # up to which "auto" is exact: some minutes on two cores
SPARSE_ROWS = 200_000  # up to which "auto" takes the collapsed bound
INFERENCES = ("auto", "exact", "sparse", "stochastic")
_SMALL = 1000  # rows of the exact process from whose values sparse inference starts
_CANDIDATES = 10_000  # rows that compete for inducing points


class GPRegressor(Regression, GPEstimator):
    """Gaussian-process regression: predictions with error bars, from twenty rows to millions.

    Arguments:
        kernel: a kernel; a Matérn-5/2 with a lengthscale for each column if left out. Values you give are in the units
            of your columns; those you leave out start from the data. Variances are of standardised targets.
        mean: the prior mean of the standardised targets, a :class:`~stratagp.means.Mean` or torch module; zero if left
            out, which after standardising is the average of the targets.
        noise: "learn"; "heteroscedastic" for noise that changes over the inputs, by a second process on its log; a
            known variance in squared units of y (0 interpolates); or known variances, one for each row.
        inference: "exact", "sparse" (collapsed bound, ``n_inducing`` points), "stochastic" (mini-batches), or "auto":
            exact up to 4,000 rows, sparse up to 200,000, stochastic above. ``inference_`` and ``inference_reason_``
            tell which and why.
        outputs: of several targets: "independent" with one kernel for all, or "correlated": co-kriging by a linear
            model of coregionalisation, in which each summand of the kernel is a function that the targets share, and
            NaN in y says that a target was not observed in a row.
        hyperparameters: "map" (evidence with weak priors), "ml" (evidence alone), "loo" (leave-one-out density), or
            "bayes" (averaged over ``n_draws`` draws from their posterior by NUTS).
        n_inducing: how many inducing points.
        n_restarts: how many more starts to try, at random around the first.
        standardise: "targets"; "both" also centres and scales the inputs, for kernels without lengthscales (a kernel's
            values are then in units of standard deviations); "none".
        categorical: "auto" takes columns of text and categories of a data frame; or names or numbers of columns.
        encoding: of categories: "one-hot", or "codes" for a kernel on the codes, such as ``k.Coregionalised``.
        missing: inputs that are NaN: "raise", or "impute": filled by a Gaussian over the columns, with the uncertainty
            of the fill carried into training (as noise) and prediction (as spread).
        n_draws: for ``hyperparameters="bayes"``.
        max_iterations: of L-BFGS; 0 keeps the values as they are given.
        max_epochs: how many times mini-batches go over the data, for inference "stochastic"; at least 500 steps.
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
        n_restarts: Any = 0,
        standardise: Any = "targets",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        missing: Any = "raise",
        n_draws: Any = 50,
        max_iterations: Any = 200,
        max_epochs: Any = 10,
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
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPRegressor:
        """Learn from rows ``X`` (an array, a data frame, or a list of objects) and targets ``y``, ``n`` or ``n q``.

        ``sample_weight`` divides the noise variance of a row: 2 says that it is twice as precise, 0 leaves it out.
        """
        self._check_options()
        kernel, points = self._learn_inputs(X)
        targets = check_targets(self, y, len(points), gaps=self.outputs == "correlated")
        self.one_target_ = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        weights = check_weights(sample_weight, len(points))
        if weights is not None:
            kept = np.flatnonzero(weights)
            points, targets, weights = points.take(kept), targets[kept], weights[kept]
        data = self._data(points, targets, weights)
        self.inference_, self.inference_reason_ = self._choose(len(data.y), kernel)
        self._say(f"{self.inference_}: {self.inference_reason_}")
        if self.inference_ == "stochastic":
            refuse_rows_of_their_own(data, points.incomplete is not None)
        self._forget()
        self._learn(self._engine(kernel, data), points)
        return self

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("inference", INFERENCES)
        self._restrict("outputs", ("independent", "correlated"))
        if self.outputs == "correlated":
            check_correlated(self)
        if isinstance(self.noise, str) and self.noise not in ("learn", "heteroscedastic"):
            raise InputError(f"noise must be 'learn', 'heteroscedastic' or variances ≥ 0, got {self.noise!r}")
        if self.inference == "sparse" and self.hyperparameters == "loo":
            raise InputError("hyperparameters='loo' needs inference='exact': the bound has no leave-one-out form")
        if self.inference == "stochastic" and self.hyperparameters not in ("map", "ml"):
            raise InputError("inference='stochastic' maximises the bound: hyperparameters must be 'map' or 'ml'")
        if self._varying_noise():
            if self.inference not in ("auto", "exact"):
                raise InputError("noise='heteroscedastic' needs inference='exact' or 'auto'")
            if self.hyperparameters in ("loo", "bayes"):
                raise InputError("noise='heteroscedastic' needs hyperparameters='map' or 'ml'")

    def _varying_noise(self) -> bool:
        return isinstance(self.noise, str) and self.noise == "heteroscedastic"

    def _data(self, points: Points, targets: np.ndarray, weights: np.ndarray | None) -> Data:
        """Standardised data and what is known about their noise."""
        n = len(targets)
        known = None if isinstance(self.noise, str) else check_noise(self.noise, n)
        scale = self.standardise != "none"
        self.scale_ = (
            TargetScale.of(targets, weights)
            if scale
            else TargetScale(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        )
        y = torch.from_numpy(self.scale_.to_standard(targets))
        noise = None if known is None else torch.from_numpy(known / float(np.mean(self.scale_.scale**2)))
        return Data(points.values, y, None if weights is None else torch.from_numpy(weights), noise=noise)

    def _choose(self, n: int, kernel: Kernel) -> tuple[str, str]:
        """The way of inference, and why."""
        if self.outputs == "correlated":
            return "exact", "correlated outputs are one exact process"
        if self._varying_noise():
            return "exact", "noise that varies is integrated over with the exact process"
        if not kernel.takes_tensors:
            return "exact", "kernels over objects have no inducing points"
        if self.inference != "auto":
            return self.inference, "as asked for"
        if n <= EXACT_ROWS:
            return "exact", f"{n} rows are at most {EXACT_ROWS}"
        points = f"with {self.n_inducing} inducing points"
        if n <= SPARSE_ROWS:
            return "sparse", f"{n} rows are more than {EXACT_ROWS}: collapsed bound {points}"
        return "stochastic", f"{n} rows are more than {SPARSE_ROWS}: mini-batches {points}"

    def _engine(self, kernel: Kernel, data: Data) -> Engine:
        if self.outputs == "correlated":
            return co_kriging(None if self.kernel is None else kernel, self.inputs_.columns, data)
        start_from_data(kernel, data.x, data.y.mean(1))
        mean = copy.deepcopy(self.mean)
        if self._varying_noise():
            return self._heteroscedastic(kernel, mean, data)
        noise: Any = learnt_noise()
        if data.noise is not None:
            noise = 0 if not data.noise.any() else positive(float(data.noise.mean()), trainable=False, name="noise")
        if self.inference_ == "exact":
            return Exact(ExactGP(kernel, mean, noise), data)
        if data.noise is not None and not bool((data.noise > 0).all()):
            raise InputError(f"inference={self.inference_!r} needs noise above 0; without noise use inference='exact'")
        self._start_small(ExactGP(kernel, mean, noise), data)
        points = self._inducing(kernel, data)
        if self.inference_ == "sparse":
            return Sparse(SparseGP(kernel, real(points, trainable=False, name="z"), mean, noise), data)
        likelihood = GaussianNoise(noise)
        model = StochasticGP(kernel, points, likelihood, mean, data.y.shape[1], torch.float64)
        return StochasticRegression(model, data)

    def _heteroscedastic(self, kernel: Kernel, mean: Any, data: Data) -> Engine:
        if data.y.shape[1] > 1 or data.weights is not None:
            raise InputError("noise='heteroscedastic' takes one target, and no sample weights")
        noise_kernel = None
        if kernel.takes_tensors:
            noise_kernel = start_from_data(RBF(ard=data.x.shape[1]), data.x, data.y[:, 0])
        return Heteroscedastic(HeteroscedasticGP(kernel, noise_kernel, mean, learnt_noise()), data)

    def _start_small(self, model: ExactGP, data: Data) -> None:
        """Bring kernel and noise near their best values by the exact process on some of the rows."""
        chosen = some_rows(len(data.y), _SMALL, self._seed())
        small = Exact(model, data.rows(chosen))
        train(Criterion("map", small.module, small.score), self, self._seed())

    def _inducing(self, kernel: Kernel, data: Data) -> Tensor:
        """The rows about which the others say least, under the kernel as it is."""
        candidates = data.x[some_rows(len(data.y), _CANDIDATES, self._seed())]
        return greedy_points(kernel, candidates, self.n_inducing)[0]

    def _learn(self, engine: Engine, points: Points) -> None:
        """Train the engine; once more where the first round tells what noise filled inputs bring."""
        self._train(engine)
        if points.incomplete is not None:
            engine.data.extra = self._spread_of_filled(points, len(engine.data.y))
            self._train(engine)
        if self.hyperparameters == "bayes":
            self.beliefs_ = [
                engine.condition() for _ in draw(self.criterion_, self.n_draws, self.verbose, self._seed())
            ]

    def _train(self, engine: Engine) -> None:
        self.result_: Any
        if isinstance(engine, MiniBatches):
            self.result_ = engine.train(self.max_epochs, self._seed(), self.verbose)
            self.engine_, self.beliefs_ = engine, [engine.condition()]
            return
        self.criterion_ = Criterion(self.hyperparameters, engine.module, engine.score)
        self.result_ = train(self.criterion_, self, self._seed())
        self.engine_ = engine
        self.beliefs_ = [engine.condition()]

    def _spread_of_filled(self, points: Points, n: int) -> Tensor:
        """How much the prediction at a training row varies with what its missing entries may be: extra noise."""
        draws = self.inputs_.draws(points)
        mean = self._function(draws.flatten(0, 1)).reshape(len(draws), -1, len(self.scale_.mean))
        extra = torch.zeros(n, dtype=torch.float64)
        extra[torch.from_numpy(points.incomplete)] = torch.from_numpy(mean.var(0).mean(1))
        return extra

    partial_dependence = partial_dependence
    predict_uncertain = predict_uncertain
    sobol_indices = sobol_indices

    @property
    def evidence_bounds_(self) -> tuple[float, float]:
        """What the log evidence of the exact process with these hyperparameters lies between, for sparse inference.

        Far apart, ``n_inducing`` is too small.
        """
        check_is_fitted(self, "beliefs_")
        if not isinstance(self.engine_, Sparse):
            value = self.log_marginal_likelihood()
            return value, value
        lower, upper = self.engine_.bounds()
        return lower - self._log_unit(), upper - self._log_unit()

    def _log_unit(self) -> float:
        if isinstance(self.engine_, CoKriging):
            return float(np.log(self.scale_.scale)[self.engine_.data.x[:, -1].long().numpy()].sum())
        return float(len(self.engine_.data.y) * np.log(self.scale_.scale).sum())

    def _target_scales(self) -> np.ndarray:
        return self.scale_.scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
