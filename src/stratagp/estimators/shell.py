"""What every estimator does: read rows, ask a recipe to learn from them, and tell what it learnt."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.data.source import Block
from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.inputs.base import InputOptions, Inputs, Points
from stratagp.estimators.inputs.objects import refuse_mixtures, warn_if_alike
from stratagp.estimators.inputs.table import TableInputs
from stratagp.estimators.inputs.views import AnchoredObjects, ViewInputs
from stratagp.estimators.intake import Intake, Reading, is_source, taken_in
from stratagp.estimators.prediction_files import predict_file
from stratagp.estimators.relevance import relevance
from stratagp.estimators.saving import export_model, first_rows, save_model
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.models.fitted import Fitted
from stratagp.predictive import Classes, Spliced, mixture
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.classes import ClassModel
from stratagp.recipes.options import BatchOptions, check_options
from stratagp.recipes.processes import ProcessModel
from stratagp.recipes.search import learnt, set_learnt, table_in_users_units
from stratagp.training import HyperparameterTable
from stratagp.training.devices import find_device, is_elsewhere, to_processor
from stratagp.training.free import gather, value_and_gradient

log = logging.getLogger("stratagp")

Standardise = Literal["targets", "both", "none"]
CHUNK = 4096  # rows with missing entries that are predicted at once


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator, ABC):
    """A set of options that says which recipe learns, and answers every question through what the recipe returns.

    After ``fit``, ``inputs_`` knows how rows become points, and ``fitted_`` is the model.
    """

    standardise: Standardise = "targets"
    categorical: Any = "auto"
    encoding: Literal["one-hot", "codes"] = "one-hot"
    device: str | torch.device = "cpu"
    random_state: int | np.random.RandomState | None = None
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

    def _reader(self, X: Any) -> Inputs:
        """How rows become points."""
        return TableInputs(self.input_options())

    def _learn(self, X: Any, y: Any, checkpoint: Any = None, **about: Any) -> None:
        """Read rows, learn from them, and keep what was learnt; a fit that fails leaves the estimator as it was."""
        with self._unless_it_fails():
            self._check_all()
            if is_source(X) and not self.reads_files:
                name = type(self).__name__
                raise InputError(
                    f"X must be an array or a data frame, got {type(X).__name__}: {name} learns from rows in memory; "
                    "AutoGPRegressor, AutoGPClassifier and all others that learn by mini-batches read files"
                )
            intake = self._taken_in(X, y, checkpoint)
            context = FitContext(
                intake.seed, find_device(self.device), intake.checkpoint, self._say, bool(self.verbose)
            )
            self._forget()
            self.inputs_ = self._reader(intake.X)
            points = self.inputs_.learn(self, intake.X)
            self._example = first_rows(intake.X, self.inputs_.takes_views)
            rows = self._rows(intake, points, **about)
            self.fitted_ = self._recipe(rows).fit(rows, context)

    @abstractmethod
    def _rows(self, intake: Intake, points: Points) -> Rows:
        """What a recipe learns from: points, and targets as the likelihood sees them."""

    @abstractmethod
    def _encoded_targets(self, y: Any) -> Tensor:
        """Targets as the likelihood sees them, ``n p``."""

    def _likelihood(self, outputs: int) -> Likelihood | None:
        """How targets come from latent functions; None where the recipe knows."""
        return None

    def _made_rows(self, intake: Intake, points: Points, data: Data, likelihood: Likelihood | None, n: int = 0) -> Rows:
        inputs, held = self.inputs_, intake.held
        filled = None
        if points.incomplete is not None:
            filled = torch.from_numpy(points.incomplete), partial(inputs.draws, points)
        return Rows(
            data,
            n,
            likelihood,
            inputs.columns,
            inputs.bind,
            inputs if isinstance(inputs, (ViewInputs, AnchoredObjects)) else None,
            inputs.code_sizes if isinstance(inputs, TableInputs) else None,
            filled,
            intake.stream(self._encoded),
            None if held is None else Data(*self._encoded(held)),
        )

    def _encoded(self, block: Block) -> list[Tensor]:
        """Rows of a file as points and targets."""
        return [self.inputs_.points(self, block.X).values, self._encoded_targets(block.y)]

    def _check_all(self) -> None:
        find_device(self.device)
        check_options(self)
        given = self.get_params(deep=False)
        kernel = given.get("kernel")
        if self.encoding == "codes" and given.get("missing") == "impute":
            raise InputError("encoding='codes' does not go with missing='impute': a code has no average; use 'one-hot'")
        if isinstance(kernel, Kernel):
            refuse_mixtures(kernel, "kernel")
        self._check()

    def input_options(self, n_anchors: int = 0, anchors: str = "random") -> InputOptions:
        """How rows are to be read."""
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
            n_anchors,
            anchors,
        )

    def _bound_kernel(self, kernel: Kernel | None, default: Kernel, data: Data) -> Kernel:
        """A copy of a kernel that knows its columns; objects that it cannot tell apart are warned of."""
        own = self.inputs_.bind(kernel, default)
        if self.inputs_.objects:
            warn_if_alike(own, data.x)
        return own

    def _taken_in(self, X: Any, y: Any, checkpoint: Any) -> Intake:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if not self.reads_files and checkpoint is None:
            return Intake(X, y, seed)
        skipped = ("verbose", "random_state", "device")
        settings = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in skipped}
        fixed = isinstance(self.random_state, Integral)
        about = {"estimator": type(self).__name__, **settings}
        return taken_in(X, y, seed, fixed, checkpoint, about, self._reading(), self._say)

    def _reading(self) -> Reading:
        kernels = self.get_params(deep=False).get("view_kernels")
        texts = frozenset(kernels) if isinstance(kernels, Mapping) else frozenset()
        validation = self.validation if isinstance(self, BatchOptions) else 0.0
        return Reading(self.of_classes, validation, None, texts)

    def _say(self, message: str) -> None:
        log.info(message)
        if self.verbose:
            print(f"stratagp: {message}")

    @contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _forget(self) -> None:
        """Drop what an earlier fit has left and that is computed when asked for."""
        for name in ("hyperparameters_", "relevance_"):
            self.__dict__.pop(name, None)

    def _points(self, X: Any) -> Points:
        check_is_fitted(self, "fitted_")
        return self.inputs_.points(self, X)

    def _predictives(self, points: Points, of: str) -> Iterator[Any]:
        """What is said about some rows after others, in the user's units."""
        if points.incomplete is None:
            for found in self.fitted_.predictives(points.values, of):
                yield self._in_units(found, of)
            return
        for start in range(0, len(points), CHUNK):
            yield self._in_units(self._part(points.rows(start, start + CHUNK), of), of)

    def _part(self, points: Points, of: str) -> Any:
        """What is said about rows; incomplete ones are averaged over what their entries may be."""
        whole: Any = self.fitted_.predictive(points.values, of)
        if points.incomplete is None:
            return whole
        draws = self.inputs_.draws(points)
        parts: list[Any] = [self.fitted_.predictive(rows, of) for rows in draws]
        even = np.full(len(draws), -np.log(len(draws)))
        if not isinstance(whole, Classes):
            return Spliced(whole, mixture(parts, even), points.incomplete)
        probabilities = whole.probabilities.copy()
        probabilities[points.incomplete] = Classes.average(parts, even).probabilities
        return Classes(probabilities)

    def _in_units(self, found: Any, of: str) -> Any:
        """What is said of standardised targets, in the user's units."""
        return found

    def _reduced(self, points: Points, of: str, answer: Callable[[Any, slice], list[np.ndarray]]) -> list[np.ndarray]:
        """Answers about the distribution at each row, some rows at a time: beside them, memory is constant."""
        parts, start = [], 0
        for found in self._predictives(points, of):
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

    def predict_file(self, X: Any, out: Any, level: float = 0.95) -> int:
        """Predict all rows of files, or of a :class:`~stratagp.data.Source`, into a Parquet or CSV file; how many.

        Arguments:
            X: what :func:`~stratagp.data.open_source` takes. Files are read in the order of their names, and
                predictions are in the order of rows. A row with a missing value is refused; of a source with
                ``missing="drop"`` its predictions are empty, and a warning says how many are.
            out: a path that ends with ``.parquet`` or ``.csv``: columns ``mean``, ``std``, ``lower`` and ``upper``, or
                ``class`` and the probability ``p(…)`` of each. It must be none that ``X`` is read from.
            level: the probability of the interval from ``lower`` to ``upper``.
        """
        return predict_file(self, X, out, level)

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
                f"this model has no {name}_: closed forms have result_, training by steps histories_"
            )
        return found

    @property
    def theta_(self) -> np.ndarray:
        """The learnt free coordinates, in the order of ``model_.parameters()``: logs of positive parameters."""
        return gather(learnt(self.model_))

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """The log evidence (or its approximation) of the training targets, in their own units.

        Arguments:
            theta: free coordinates as in ``theta_``; the learnt ones where it is left out.
            eval_gradient: whether to return the gradient with respect to ``theta`` as well.
        """
        check_is_fitted(self, "fitted_")
        fitted, offset = self.fitted_, self._log_unit()
        if theta is not None or eval_gradient:
            if not isinstance(fitted, (ProcessModel, ClassModel)) or fitted.learnt is None:
                raise InputError(
                    "theta and eval_gradient are for closed forms: this model knows its score by samples only"
                )
            fitted = copy.copy(fitted)  # so that the fitted model stays as it is, whatever happens here
            fitted.prior = copy.deepcopy(fitted.prior)
            free = learnt(fitted.module)
            if theta is not None:
                set_learnt(fitted.module, theta)
            if eval_gradient:
                value, gradient = value_and_gradient(fitted.score, free, gather(free))
                return value - offset, gradient
        with torch.no_grad():
            return float(fitted.score()) - offset

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
        fitted = self.fitted_
        objective = None
        if fitted.learnt is not None:
            objective = fitted.learnt.objective(fitted.module, fitted.score)
        kernels = list(self._output_kernels())
        return table_in_users_units(fitted.module, objective, kernels, self._kernel_columns(), *self._scales())

    @cached_property
    def relevance_(self) -> np.ndarray:
        """How much each input drives the prediction: shares that sum to one, in the order of the columns of X.

        The share of an input is half the mean square change of the expected function when the values of that input are
        shuffled among the training rows: its total effect on the variance, with all its interactions (Jansen 1999).
        A column of objects is shuffled as a whole.
        """
        check_is_fitted(self, "fitted_")
        return relevance(self.fitted_, self.inputs_.source, vars(self).get("n_features_in_", 0))

    save = save_model
    export = export_model

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
