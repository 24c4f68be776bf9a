"""What every estimator does: read rows, ask a recipe to learn from them, and tell what it learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.data.source import Block
from stratagp.data.target_checks import Check
from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.inputs.base import InputOptions, Inputs, Points, RowsLike
from stratagp.estimators.inputs.objects import ObjectInputs, refuse_mixtures, warn_if_alike
from stratagp.estimators.inputs.table import N_DRAWS, TableInputs
from stratagp.estimators.inputs.views import ViewInputs
from stratagp.estimators.intake import CheckpointLike, Intake, Reading, is_source, taken_in
from stratagp.estimators.notebook import fitted_attributes, html_repr, mime_bundle
from stratagp.estimators.prediction_files import predict_file
from stratagp.estimators.refit import EARLIER, learn_from, refit
from stratagp.estimators.saving import export_model, first_rows, save_model
from stratagp.estimators.targets import check_groups
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.likelihoods.named import likelihood_of_classes, likelihood_of_numbers
from stratagp.models.fitted import Fitted
from stratagp.models.hyperparameters import moved_to, table_in_users_units
from stratagp.models.relevance import relevance
from stratagp.predictive import Averaged, Classes, Predictive, Spliced
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.options import BatchOptions, check_options
from stratagp.training import HyperparameterTable
from stratagp.training.devices import find_device, is_elsewhere, to_processor
from stratagp.training.free import gather, learnt, value_and_gradient
from stratagp.training.progress import log

if TYPE_CHECKING:
    from typing_extensions import Self

Standardise = Literal["targets", "both", "none"]
Seed: TypeAlias = int | np.random.RandomState | None
_NO_SETTINGS = ("verbose", "random_state", "device")  # which may differ where a fit goes on
COMPUTED = ("hyperparameters_", "relevance_")  # when first asked for
CHUNK = 4096  # rows, and draws of rows with missing entries, that are predicted at once


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator, ABC):
    """A set of options that says which recipe learns, and answers every question through what the recipe returns.

    After ``fit``, ``inputs_`` knows how rows become points, and ``fitted_`` is the model.
    """

    standardise: Standardise = "targets"
    categorical: Any = "auto"
    encoding: Literal["one-hot", "codes"] = "one-hot"
    device: str | torch.device = "cpu"
    random_state: Seed = None
    verbose: bool | int = False

    inputs_: Inputs = field(init=False)
    fitted_: Fitted = field(init=False)
    of_classes: ClassVar[bool] = False
    reads_files: ClassVar[bool] = False
    classifier: ClassVar[str] = "GPClassifier"
    """The classifier of the same family, which messages name."""

    for_texts: ClassVar[str] = "kernel=kernels.Spectrum(3), for example"
    """What to do with texts, for messages."""

    @abstractmethod
    def _recipe(self, rows: Rows) -> Recipe:
        """How the model is learnt."""

    def _check(self) -> None:
        """Refuse options that do not go together, before any work."""

    def _reader(self, X: RowsLike) -> Inputs:
        """How rows become points."""
        given, options = self.get_params(deep=False), self._input_options()
        kernel = given.get("kernel")
        over_objects = kernel if isinstance(kernel, Kernel) and not kernel.takes_tensors else None
        if "views" in given:
            return ViewInputs(options, given["views"], given["view_kernels"], over_objects)
        if over_objects is None:
            return TableInputs(options)
        return ViewInputs(options, kernel=over_objects) if self.reads_files else ObjectInputs()

    def fit(self, X: RowsLike, y: ArrayLike | None = None, *, checkpoint: CheckpointLike = None) -> Self:
        """Learn from rows ``X`` and their targets or classes ``y``.

        Arguments:
            X: an array or a data frame, images, views or a list of objects, as the model takes them. For models that
                learn by mini-batches also rows that need not fit in memory: a :class:`~stratagp.data.Source`, or a
                path of Parquet or CSV files (:func:`~stratagp.data.open_source`).
            y: ``n`` numbers or labels, or ``n p`` for several targets; of files, the name of a column, or of several.
            checkpoint: a folder for the state of training by steps, every minute; the same call goes on from there.
        """
        return self._learn(X, y, checkpoint)

    def _learn(
        self, X: RowsLike, y: ArrayLike | None, checkpoint: CheckpointLike = None, groups: Any = None, **about: Any
    ) -> Self:
        """Read rows, learn from them, and keep what was learnt; a fit that fails leaves the estimator as it was."""
        earlier, before = self.__dict__.pop(EARLIER, None), dict(vars(self))
        try:
            device = find_device(self.device)
            check_options(self)
            options = self.get_params(deep=False)
            if self.encoding == "codes" and options.get("missing") == "impute":
                raise InputError("encoding='codes' and missing='impute': codes have no average; take 'one-hot'")
            if isinstance(options.get("kernel"), Kernel):
                refuse_mixtures(options["kernel"], "kernel")
            self._check()
            intake = self._taken_in(X, y, checkpoint)
            context = FitContext(intake.seed, device, intake.checkpoint, self._say, bool(self.verbose))
            for name in COMPUTED:
                self.__dict__.pop(name, None)
            self.inputs_ = self._reader(intake.X)
            points = self.inputs_.learn(self, intake.X)
            self._example = first_rows(intake.X, self.inputs_.takes_views)
            rows = self._rows(intake, points, **about)
            rows.data.groups = check_groups(groups, len(points))
            self.fitted_ = learn_from(self._recipe(rows), rows, context, earlier)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    @abstractmethod
    def _rows(self, intake: Intake, points: Points) -> Rows:
        """What a recipe learns from: points, and targets as the likelihood sees them."""

    @abstractmethod
    def _encoded_targets(self, y: np.ndarray) -> Tensor:
        """Targets as the likelihood sees them, ``n p``."""

    def _likelihood(self, outputs: int) -> Likelihood | None:
        """How targets come from latent functions, by its name; None where the recipe knows."""
        if not isinstance(self, BatchOptions):
            return None
        if self.of_classes:
            return likelihood_of_classes(self.likelihood, outputs, self.smooth_only)
        return likelihood_of_numbers(self.likelihood, outputs, self.start_noise)

    def _made_rows(self, intake: Intake, points: Points, data: Data, likelihood: Likelihood | None, n: int = 0) -> Rows:
        inputs = self.inputs_
        filled = stream = held = None
        if points.incomplete is not None:
            filled = torch.from_numpy(points.incomplete), partial(inputs.draws, points)
        if intake.seen is not None:
            stream, block = intake.stream(self._encoded), intake.seen.held.settle()
            held = None if block is None else Data(*self._encoded(block))
        views = inputs if isinstance(inputs, ViewInputs) else None
        return Rows(data, n, likelihood, inputs.columns, inputs.bind, views, inputs.code_sizes, filled, stream, held)

    def _encoded(self, block: Block) -> list[Tensor]:
        """Rows of a file as points and targets."""
        return [self.inputs_.points(self, block.X).values, self._encoded_targets(np.asarray(block.y))]

    def _input_options(self) -> InputOptions:
        given = self.get_params(deep=False)
        return InputOptions(
            type(self).__name__,
            self.categorical,
            self.encoding,
            given.get("missing", "raise"),
            "missing" in given,
            self.standardise == "both",
            self.for_texts,
            "view_kernels" in given,
            int(self.random_state) if isinstance(self.random_state, Integral) else 0,
            given.get("n_inducing", 0),
            given.get("anchors") or "random",
            given.get("texts", ()),
            "days" if given.get("kernel") is not None or given.get("view_kernels") else "parts",
        )

    def _bound_kernel(self, kernel: Kernel | None, default: Kernel, data: Data) -> Kernel:
        """A copy of a kernel that knows its columns; objects that it cannot tell apart are warned of."""
        own = self.inputs_.bind(kernel, default)
        if self.inputs_.objects:
            warn_if_alike(own, data.x)
        return own

    def _taken_in(self, X: RowsLike, y: ArrayLike | None, checkpoint: CheckpointLike) -> Intake:
        if is_source(X) and not self.reads_files:
            raise InputError(
                f"X must be an array or a data frame, got {type(X).__name__}: {type(self).__name__} learns from rows "
                "in memory; AutoGPRegressor, AutoGPClassifier and all others that learn by mini-batches read files"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if not self.reads_files and checkpoint is None:
            return Intake(X, y, seed)
        given = self.get_params(deep=False)
        settings = {name: repr(value) for name, value in given.items() if name not in _NO_SETTINGS}
        kernels = given.get("view_kernels")
        reading = Reading(
            seed,
            isinstance(self.random_state, Integral),
            {"estimator": type(self).__name__, **settings},
            self._say,
            self.of_classes,
            self.validation if isinstance(self, BatchOptions) else 0.0,
            self._target_check(),
            frozenset(kernels) if isinstance(kernels, Mapping) else frozenset(),
        )
        return taken_in(X, y, checkpoint, reading)

    def _target_check(self) -> Check | None:
        """What refuses targets of files that cannot be; None where they may be any."""
        return None

    def _say(self, message: str) -> None:
        log.info(message)
        if self.verbose:
            print(f"stratagp: {message}")

    def _points(self, X: RowsLike) -> Points:
        check_is_fitted(self, "fitted_")
        return self.inputs_.points(self, X)

    def _predictives(self, points: Points, of: str, fitted: Fitted) -> Iterator[Predictive | Classes]:
        """What is said about some rows after others, in the user's units."""
        if points.incomplete is None:
            for found in fitted.predictives(points.values, of):
                yield self._in_units(found, of)
            return
        size = max(1, int(CHUNK / (1 + N_DRAWS * points.incomplete.mean())))
        for start in range(0, len(points), size):
            yield self._in_units(self._part(points.rows(start, start + size), of, fitted), of)

    def _part(self, points: Points, of: str, fitted: Fitted) -> Predictive | Classes:
        """What is said about rows; incomplete ones are averaged over what their entries may be."""
        whole = fitted.predictive(points.values, of)
        if points.incomplete is None:
            return whole
        draws = self.inputs_.draws(points)
        parts = fitted.predictive(draws.flatten(0, 1), of)  # all draws of all rows at once
        if isinstance(whole, Classes) and isinstance(parts, Classes):
            found = whole.probabilities.copy()
            found[points.incomplete] = parts.averaged(len(draws)).probabilities
            return Classes(found)
        assert isinstance(whole, Predictive)
        assert isinstance(parts, Predictive)
        return Spliced(whole, Averaged(parts, len(draws)), points.incomplete)

    def _in_units(self, found: Predictive | Classes, of: str) -> Predictive | Classes:
        """What is said of standardised targets, in the user's units."""
        return found

    def _reduced(
        self, points: Points, of: str, answer: Callable[[Any, slice], list[np.ndarray]], fitted: Fitted | None = None
    ) -> list[np.ndarray]:
        """Answers about the distribution at each row, some rows at a time: beside them, memory is constant."""
        parts, start = [], 0
        for found in self._predictives(points, of, fitted or self.fitted_):
            parts.append(answer(found, slice(start, start + len(found))))
            start += len(found)
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _versions(self, points: Points) -> list[Any]:
        """The rows as they may be: one version, or as many as there are draws of missing entries."""
        if points.incomplete is None:
            return [points.values]
        draws = self.inputs_.draws(points, joint=True)
        versions = points.values.repeat(len(draws), 1, 1)
        versions[:, torch.from_numpy(points.incomplete)] = draws
        return list(versions)

    @property
    def model_(self) -> Any:
        """The model as a torch module."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.module

    @property
    def kernel_(self) -> Any:
        """The kernel with its learnt values; its variances are those of standardised targets."""
        return self.model_.kernel

    @property
    def result_(self) -> Any:
        """How the optimiser ended."""
        return self._outcome("result")

    @property
    def histories_(self) -> Any:
        """How training by steps went, phase by phase."""
        return self._outcome("histories")

    def _outcome(self, name: str) -> Any:
        check_is_fitted(self, "fitted_")
        found = vars(self.fitted_).get(name)
        if found is None:
            raise NoAttributeError(
                f"this model has no {name}_: closed forms have result_, models trained by steps have histories_"
            )
        return found

    @property
    def theta_(self) -> np.ndarray:
        """The learnt free coordinates, in the order of ``model_.parameters()``: logs of positive parameters."""
        return gather(learnt(self.model_))

    def log_marginal_likelihood(self, theta: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        """The log evidence (or its approximation) of the training targets, in their own units.

        Of Vecchia's process it is an estimate. With ``theta`` or a gradient it is the score that values maximise,
        of rows after half of the others, which exceeds the evidence.

        Arguments:
            theta: free coordinates as in ``theta_``; the learnt ones where it is left out.
            eval_gradient: whether to return the gradient with respect to ``theta`` as well.
        """
        check_is_fitted(self, "fitted_")
        fitted, offset = self.fitted_, self._log_unit()
        if theta is not None or eval_gradient:
            fitted = moved_to(fitted, theta)
        if eval_gradient:
            free = learnt(fitted.module)
            value, gradient = value_and_gradient(fitted.score, free, gather(free))
            return value - offset, gradient
        with torch.no_grad():
            return float(fitted.evidence() if theta is None else fitted.score()) - offset

    def _log_unit(self) -> float:
        """What the log density of standardised targets exceeds that of the targets by."""
        return 0.0

    def _scales(self) -> tuple[np.ndarray, np.ndarray]:
        """The units of each target, and of each latent function."""
        return np.ones(1), np.ones(1)

    def _kernel_columns(self) -> list[str]:
        """Names of the columns that the kernel sees; none where kernels of different layers see different ones."""
        return self.inputs_.columns

    def _output_kernels(self) -> Iterable[Kernel]:
        """The kernels of the functions that the likelihood sees, which have their units."""
        return [self.kernel_]

    @cached_property
    def hyperparameters_(self) -> HyperparameterTable:
        """The learnt values with standard errors from the curvature of the score.

        Noise and the variances of summands are in squared units of the target; of deep models those of the last layer
        alone, as hidden functions have no units. Lengthscales are in the units of the columns that the kernel sees:
        those of standardised columns with ``standardise="both"``. Other values are those of standardised targets.

        With p free values it takes 2p evaluations of the score, when first asked for. Models that are trained by
        mini-batches have values alone, and standard errors and intervals are blank (NaN): their steps end near a
        maximum of a score that is known by samples, where a curvature would say little.
        """
        check_is_fitted(self, "fitted_")
        kernels = list(self._output_kernels())
        return table_in_users_units(self.fitted_, kernels, self._kernel_columns(), *self._scales())

    @cached_property
    def relevance_(self) -> np.ndarray:
        """How much each input drives the prediction: shares that sum to one, in the order of the columns of X.

        The share of an input is half the mean square change of the expected function when the values of that input are
        shuffled among the training rows: its total effect on the variance, with all its interactions (Jansen 1999).
        A column of objects is shuffled as a whole.
        """
        check_is_fitted(self, "fitted_")
        return relevance(self.fitted_, self.inputs_.source, vars(self).get("n_features_in_", 0))

    predict_file = predict_file
    refit = refit
    save = save_model
    export = export_model
    _repr_html_inner, _repr_mimebundle_, _get_fitted_attr_html = html_repr, mime_bundle, fitted_attributes

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: the model on the processor, where any machine can read it."""
        state = dict(super().__getstate__())
        return to_processor(state) if "fitted_" in state and is_elsewhere(self.fitted_.module) else state

    def __dir__(self) -> Iterable[str]:
        """All names, without a look at their values, some of which are long to compute."""
        return object.__dir__(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.get_params(deep=False).get("missing") == "impute"
        return tags
