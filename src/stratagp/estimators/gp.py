"""Gaussian-process regression and classification in the manner of scikit-learn."""

from __future__ import annotations

import copy
import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import nn

from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.changed_rows import forget, update
from stratagp.estimators.classification import Classifier
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.intake import CheckpointLike
from stratagp.estimators.regression import Regressor
from stratagp.estimators.surrogate import partial_dependence, predict_uncertain, sobol_indices, to_botorch
from stratagp.kernels import Kernel, Matern
from stratagp.models.cokriging import CoKrigingModel
from stratagp.models.fitted_classes import ClassModel
from stratagp.models.fitted_process import ExactModel, ProcessModel, SparseModel, VecchiaModel
from stratagp.recipes import choose
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.classes import ClassRecipe, intercept, lines
from stratagp.recipes.cokriging import CoKrigingRecipe
from stratagp.recipes.options import Missing, Whole, WholeOrZero
from stratagp.recipes.robust import HeteroscedasticRecipe, StudentTRecipe
from stratagp.recipes.search import Search
from stratagp.recipes.stochastic import StochasticRecipe
from stratagp.recipes.vecchia_classes import VecchiaClassRecipe

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class GPRegressor(Regressor):
    """Gaussian-process regression: predictions with error bars, from twenty rows to millions.

    Arguments:
        kernel: a kernel; left out, one with a lengthscale for each column, and one for each category: for "exact" and
            "vecchia" the Matérn kernel of smoothness 1/2, 3/2 or 5/2, or the squared exponential, whichever explains
            the rows best; for all else a Matérn-5/2. Values you give are in the units of your columns; those you leave
            out start from the data. Variances are of standardised targets.
        mean: the prior mean of the standardised targets, a :class:`~stratagp.means.Mean` or torch module; zero if left
            out, which after standardising is the average of the targets.
        noise: "learn"; "heteroscedastic" for noise that changes over the inputs, by a second process on its log; a
            known variance in squared units of y (0 interpolates); or known variances, one for each row.
        inference: "exact" (up to some 45,000 rows, whose matrix in single precision must fit into memory; above 5,000
            values are learnt as those of "vecchia"); "vecchia" (each prediction from the ``n_neighbours`` nearest rows,
            values learnt from the conditionals of 4,000 rows); "sparse" (collapsed bound, ``n_inducing`` points);
            "stochastic" (mini-batches); or "auto": exact up to 4,000 rows, Vecchia above. ``inference_`` and
            ``inference_reason_`` tell which and why.
        outputs: of several targets: "independent" with one kernel for all, or "correlated": co-kriging by a linear
            model of coregionalisation, in which each summand of the kernel is a function that the targets share, and
            NaN in y says that a target was not observed in a row.
        hyperparameters: "map" (evidence with weak priors), "ml" (evidence alone), "loo" (leave-one-out density), or
            "bayes" (averaged over ``n_draws`` draws from their posterior by NUTS).
        n_inducing: how many inducing points.
        n_neighbours: how many rows a prediction by "vecchia" comes from. Left out: 200, or 400 where these foretell
            rows that are left out better by 0.01 nats each.
        n_restarts: how many more starts to try: one with little noise, then at random around the first.
        standardise: "targets"; "both" also centres and scales the inputs, for kernels without lengthscales (a kernel's
            values are then in units of standard deviations); "none".
        categorical: "auto" takes columns of text and categories of a data frame; or names or numbers of columns. Dates
            become days since 1970 and, where no kernel is given, the times of the year, the week and the day. A
            category that was not in ``fit`` counts as unlike all others, with a warning.
        encoding: of categories: "one-hot", or "codes" for a kernel on the codes, such as ``k.Coregionalised``.
        missing: inputs that are NaN: "raise", or "impute": filled by a Gaussian over the columns, with the uncertainty
            of the fill carried into training (as noise) and prediction (as spread).
        n_draws: for ``hyperparameters="bayes"``.
        max_iterations: of L-BFGS; 0 keeps the values as they are given.
        max_epochs: how many times mini-batches go over the data, for inference "stochastic": 10 times and 500 steps at
            least, where it is left out.
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

    kernel: Kernel | None = None
    _: KW_ONLY
    mean: nn.Module | None = None
    noise: Literal["learn", "heteroscedastic"] | float | Any = "learn"
    inference: choose.Inference = "auto"
    outputs: Literal["independent", "correlated"] = "independent"
    hyperparameters: Literal["map", "ml", "loo", "bayes"] = "map"
    n_inducing: Whole = 500
    n_neighbours: Whole | None = None
    n_restarts: WholeOrZero = 1
    missing: Missing = "raise"
    n_draws: Whole = 50
    max_iterations: WholeOrZero = 200
    max_epochs: Whole | None = None

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: CheckpointLike = None,
    ) -> Self:
        """Learn from rows ``X`` (an array, a data frame, or a list of objects) and targets ``y``, ``n`` or ``n q``.

        Arguments:
            sample_weight: divides the noise variance of a row: twice the weight, twice as precise; 0 leaves it out.
                Only ratios count: a row of average weight has the learnt noise.
            checkpoint: a folder in which mini-batches (``inference="stochastic"``) leave their state.
        """
        noise = None if isinstance(self.noise, str) else self.noise
        gaps = self.outputs == "correlated"
        self._learn(X, y, checkpoint, sample_weight=sample_weight, known_noise=noise, gaps=gaps)
        self._tell_of_another_way()
        return self

    def _check(self) -> None:
        plain = isinstance(self.noise, str) and self.noise == "learn" and self.mean is None
        alone = plain and self.missing == "raise" and self.inference in ("auto", "exact")
        if self.outputs == "correlated" and not alone:
            raise InputError(
                "outputs='correlated' is exact, with zero mean, complete inputs and learnt noise: leave mean, missing, "
                "noise and inference as they are"
            )
        if isinstance(self.noise, str) and self.noise not in ("learn", "heteroscedastic"):
            raise InputError(f"noise must be 'learn', 'heteroscedastic' or variances ≥ 0, got {self.noise!r}")
        if self._varying_noise and self.hyperparameters in ("loo", "bayes"):
            raise InputError("noise='heteroscedastic' needs hyperparameters='map' or 'ml'")

    @property
    def _varying_noise(self) -> bool:
        return isinstance(self.noise, str) and self.noise == "heteroscedastic"

    def _recipe(self, rows: Rows) -> Recipe:
        only_exact = None
        if self.outputs == "correlated":
            only_exact = "correlated outputs are one exact process"
        elif self._varying_noise:
            only_exact = "noise that varies is integrated over with the exact process"
        over_objects = self.inputs_.objects
        self.inference_, self.inference_reason_ = choose.of_numbers(
            self.inference,
            len(rows.data),
            only_exact,
            over_objects,
            self.hyperparameters,
            1 if over_objects else rows.data.x.shape[1],
        )
        if self.inference == "auto":
            self._say(f"{self.inference_}: {self.inference_reason_}")
        search = Search(self.hyperparameters, self.n_restarts, self.max_iterations, self.n_draws)
        if self.outputs == "correlated":
            own = None if self.kernel is None else self._bound_kernel(self.kernel, self.kernel, rows.data)
            return CoKrigingRecipe(own, search)
        kernel = self._bound_kernel(self.kernel, Matern(nu=2.5, ard=True), rows.data)
        if self._varying_noise:
            return HeteroscedasticRecipe(kernel, self.mean, search)
        given = self.kernel is not None or over_objects
        asked = choose.Asked(kernel, self.mean, self.n_inducing, search, self.max_epochs, given, self.n_neighbours)
        return choose.WAYS[self.inference_](asked)

    def _tell_of_another_way(self) -> None:
        """The exact recipe leaves Vecchia's process where it could not factor the covariance."""
        if self.inference_ == "exact" and isinstance(self.fitted_, VecchiaModel):
            self.inference_, self.inference_reason_ = "vecchia", "the covariance of all rows could not be factored"

    def predict_component(self, X: RowsLike, part: int, return_std: bool = False) -> Any:
        """What one summand of the kernel contributes to the function: a trend, a season, an effect.

        Arguments:
            part: its place in ``kernel_.parts``.

        Returns:
            The expected contribution at each row in the units of the targets, and its standard deviation if asked for.
            The contributions of all parts, and the average of the training targets, add up to the prediction.
        """
        points = self._points(X)
        if not isinstance(self.fitted_, ProcessModel):
            raise InputError("predict_component needs inference='exact' and noise that does not vary: refit with these")
        mean, var = self.fitted_.component(part, points.values)
        total, std = mean * self.scale_.scale, np.sqrt(var) * self.scale_.scale
        return (self._shaped(total), self._shaped(std)) if return_std else self._shaped(total)

    update = update
    forget = forget
    partial_dependence = partial_dependence
    predict_uncertain = predict_uncertain
    sobol_indices = sobol_indices
    to_botorch = to_botorch

    @property
    def evidence_bounds_(self) -> tuple[float, float]:
        """What the log evidence of the exact process with these hyperparameters lies between.

        Far apart, ``n_inducing`` is too small. Where only a lower bound is known, the upper one is infinite.
        """
        check_is_fitted(self, "fitted_")
        fitted = self.fitted_
        if isinstance(fitted, VecchiaModel):
            raise NoAttributeError(
                f"inference={self.inference_!r} has no evidence_bounds_: it estimates the evidence, see "
                "log_marginal_likelihood"
            )
        if not isinstance(fitted, SparseModel):
            value = self.log_marginal_likelihood()
            return value, value if isinstance(fitted, (ExactModel, CoKrigingModel)) else math.inf
        lower, upper = fitted.bounds()
        return lower - self._log_unit(), upper - self._log_unit()


@dataclass(eq=False, repr=False)
class StudentTProcessRegressor(Regressor):
    """Regression by a Student-t process: error bars that widen where the data are wilder than the kernel expected.

    It is a Gaussian process whose overall scale is uncertain, in closed form; the predictions are Student-t
    distributions. For large ``dof`` it is :class:`GPRegressor`. All rows share the uncertain scale, so it does not
    protect from single outliers; noise that varies (``GPRegressor(noise="heteroscedastic")``) or weights do.

    Arguments:
        dof: degrees of freedom ν above 2, which stay as given; small values mean an uncertain scale. Left out, they are
            learnt from a start at 5, and stay above 2.5.
        kernel, mean, hyperparameters, n_restarts, standardise, categorical, encoding, missing, max_iterations,
        device, random_state, verbose: as in :class:`GPRegressor`; hyperparameters are "map" or "ml". Missing inputs are
        filled with their expectation in training, and averaged over in prediction.

    >>> import numpy as np
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> tp = StudentTProcessRegressor(dof=5).fit(X, np.sin(X[:, 0]))
    >>> low, high = tp.predict_interval([[2.5]], level=0.9)
    >>> bool(low < np.sin(2.5) < high)
    True
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    dof: float | None = None
    mean: nn.Module | None = None
    hyperparameters: Literal["map", "ml"] = "map"
    n_restarts: WholeOrZero = 1
    missing: Missing = "raise"
    max_iterations: WholeOrZero = 200
    several_targets: ClassVar[bool] = False

    def _recipe(self, rows: Rows) -> Recipe:
        kernel = self._bound_kernel(self.kernel, Matern(nu=2.5, ard=True), rows.data)
        search = Search(self.hyperparameters, self.n_restarts, self.max_iterations)
        return StudentTRecipe(kernel, self.dof, self.mean, search)

    @property
    def dof_(self) -> float:
        """The degrees of freedom of the prior, given or learnt; predictions have as many more as there were rows."""
        return float(self.model_.dof.detach())


@dataclass(eq=False, repr=False)
class GPClassifier(Classifier):
    """Gaussian-process classification: probabilities that know what the data do not say.

    Arguments:
        kernel: a kernel of the latent functions; a Matérn-5/2 with a lengthscale for each column if left out (for
            "vecchia" the smoothness 1/2, 3/2 or 5/2 that explains the rows best). Values you give are in the units of
            your columns; those you leave out start from the data.
        inference: "laplace" (fast; several classes at once by softmax), "ep" (expectation propagation: the best
            probabilities, slower), "variational" (the local bound: the evidence is a true lower bound), "vecchia"
            (expectation propagation where each latent value is conditioned on the ``n_neighbours`` nearest rows),
            "stochastic" (mini-batches with ``n_inducing`` inducing points), or "auto": Laplace up to 3,000 rows (times
            the classes, if more than two), Vecchia above. ``inference_`` and ``inference_reason_`` tell which and why.
            "ep", "variational" and "vecchia" know two classes; more are asked about one against the rest.
        mean: what latent functions return to far from all rows: "base-rate", for classes as frequent as in the rows;
            "linear", with a slope for each column besides, so that trends go on; "zero", for even odds. Closed forms
            integrate constants and slopes out, "vecchia" learns slopes, "stochastic" knows neither. Left out, it is
            "base-rate", but "zero" for "stochastic", and for closed forms with a kernel of yours.
        link: "logit" or "probit"; left out, what the inference knows.
        hyperparameters: "map" (evidence with weak priors), "ml" (evidence alone), or "bayes" (averaged over
            ``n_draws`` draws from their posterior by NUTS).
        n_neighbours: how many rows a prediction by "vecchia" comes from.
        n_inducing, n_restarts, standardise, categorical, encoding, missing, n_draws, max_iterations, max_epochs,
            device, random_state, verbose: as in :class:`GPRegressor`; ``standardise="both"`` scales the inputs. Missing
            inputs are filled with their expectation in training, and averaged over in prediction.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> gp = GPClassifier().fit(X, np.where(X[:, 0] > 0, "high", "low"))
    >>> gp.predict([[-2.0], [2.0]]).tolist()
    ['low', 'high']
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    inference: Literal["auto", "laplace", "ep", "variational", "vecchia", "stochastic"] = "auto"
    mean: Literal["base-rate", "linear", "zero"] | None = None
    link: Literal["logit", "probit"] | None = None
    hyperparameters: Literal["map", "ml", "bayes"] = "map"
    n_inducing: Whole = 200
    n_neighbours: Whole = choose.CLASS_NEIGHBOURS
    n_restarts: WholeOrZero = 0
    missing: Missing = "raise"
    n_draws: Whole = 50
    max_iterations: WholeOrZero = 200
    max_epochs: Whole | None = None

    def _recipe(self, rows: Rows) -> Recipe:
        self.inference_, self.inference_reason_ = choose.of_classes(
            self.inference, len(rows.data), rows.n_classes, self.inputs_.objects, self.hyperparameters
        )
        if self.inference == "auto":
            self._say(f"{self.inference_}: {self.inference_reason_}")
        self._refuse_mean()
        kernel = self._bound_kernel(self.kernel, Matern(nu=2.5, ard=True), rows.data)
        search = Search(self.hyperparameters, self.n_restarts, self.max_iterations, self.n_draws)
        if self.inference_ == "stochastic":
            return StochasticRecipe(kernel, self.n_inducing, None, self.link, search, self.max_epochs)
        if self.inference_ == "vecchia":
            own = None if self.kernel is None else kernel
            return VecchiaClassRecipe(own, self.n_neighbours, self.link, search, self.mean or "base-rate")
        mean = self.mean or ("base-rate" if self.kernel is None else "zero")
        if mean == "linear":
            kernel = kernel + lines(rows.data).bind(rows.columns)
        return ClassRecipe(kernel, self.inference_, self.link, search, intercept(mean, rows.data))

    def _refuse_mean(self) -> None:
        """Refuse a mean that the inference, or the inputs, cannot have."""
        if self.mean not in (None, "zero") and self.inference_ == "stochastic":
            raise InputError(
                f"mean={self.mean!r} needs inference='laplace', 'ep', 'variational' or 'vecchia', got 'stochastic': "
                "ask for one of these, or leave mean out"
            )
        if self.mean == "linear" and self.inputs_.objects:
            raise InputError("mean='linear' has a slope for each column, but X is a list of objects: take 'base-rate'")

    def predict_proba(self, X: RowsLike, method: Literal["quadrature", "kappa"] = "quadrature") -> np.ndarray:
        """The probability of each class, in the order of ``classes_``, with the latent functions averaged out.

        ``method="kappa"`` is cheaper for two classes and the logit link, and within 0.02. Missing entries are averaged
        over too.
        """
        if method not in ("quadrature", "kappa"):
            raise InputError(f"method must be 'quadrature' or 'kappa', got {method!r}")
        points, fitted = self._points(X), self.fitted_
        if isinstance(fitted, ClassModel):
            fitted = copy.copy(fitted)
            fitted.method = method
        (found,) = self._reduced(points, "y", lambda found, _: [found.probabilities], fitted)
        return found
