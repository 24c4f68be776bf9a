"""What every estimator does alike: start a kernel from the data, learn its values, and report them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.engines import Engine, TrainedBySteps
from stratagp.estimators.hyperparameters import (
    CRITERIA,
    Centres,
    Criterion,
    draw,
    learnt,
    say,
    set_learnt,
    table_in_users_units,
    train,
)
from stratagp.estimators.inputs import Inputs, Points, default_kernel, name_categories, seed_of
from stratagp.estimators.objects import refuse_mixtures, warn_if_alike
from stratagp.estimators.saving import Saved, first_rows
from stratagp.kernels import Kernel, Matern
from stratagp.models.memory import check_memory
from stratagp.training import HyperparameterTable
from stratagp.training.devices import find_device, is_elsewhere, to_processor
from stratagp.training.free import gather, value_and_gradient

_CHOICES = {
    "hyperparameters": CRITERIA,
    "standardise": ("targets", "both", "none"),
    "encoding": ("one-hot", "codes"),
    "missing": ("raise", "impute"),
}
_WHOLE_NUMBERS = {"n_restarts": 0, "max_iterations": 0, "max_epochs": 1, "n_inducing": 1, "n_draws": 1}  # and the least
_RELEVANCE_ROWS, _SHUFFLES = 500, 5


class GPEstimator(Saved, BaseEstimator, ABC):
    """Common parts of the estimators; the constructors of subclasses store the options that are read here."""

    kernel: Any
    hyperparameters: str
    max_epochs: int
    n_draws: int
    device: Any = "cpu"  # also of models in files from before there was a choice
    random_state: Any
    verbose: bool
    beliefs_: list[Any]
    engine_: Engine
    criterion_: Criterion
    inputs_: Inputs
    predict: Callable[..., Any]
    _classifier = "GPClassifier"  # of the same family, which messages name
    _for_texts = "kernel=kernels.Spectrum(3), for example"

    @abstractmethod
    def _function(self, points: Any) -> np.ndarray:
        """The expected latent function at points, ``n q``: what relevance is measured on."""

    def _restrict(self, name: str, choices: tuple[str, ...]) -> None:
        given = getattr(self, name, choices[0])
        if not isinstance(given, str) or given not in choices:
            raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}; got {given!r}")

    def _check_options(self) -> None:
        find_device(self.device)
        for name, choices in _CHOICES.items():
            self._restrict(name, choices)
        if self.encoding == "codes" and self.missing == "impute":
            raise InputError("encoding='codes' does not go with missing='impute': a code has no average; use 'one-hot'")
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise InputError(f"kernel must be a kernel such as kernels.RBF(), or None, got {self.kernel!r}")
        if self.kernel is not None:
            refuse_mixtures(self.kernel, "kernel")
        for name, least in _WHOLE_NUMBERS.items():
            value = self.get_params(deep=False).get(name, least)
            check_whole_number(name, value, least)

    def _read(self, X: Any) -> tuple[Kernel, Points]:
        """Learn the inputs, and keep the first rows as an example."""
        kernel, points = self._learn_inputs(X)
        self._example = first_rows(X, getattr(self.inputs_, "takes_views", False))
        return kernel, points

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about the example, which it must say again when it was loaded."""
        _, std = self.predict(self._example, return_std=True)
        return {"mean": self.predict(self._example), "std": std}  # each by the way that it is computed alone

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """A copy of the kernel that knows its columns, and the rows as points."""
        kernel = self._default_kernel() if self.kernel is None else copy.deepcopy(self.kernel)
        self.inputs_ = Inputs(not kernel.takes_tensors, seed_of(self))
        points = self.inputs_.learn(self, X)
        if self.inputs_.objects:
            warn_if_alike(kernel, points.values)
        if self.inputs_.encoder is not None:
            kernel = default_kernel(self.inputs_.encoder, kernel) if self.kernel is None else kernel
            name_categories(kernel, self.inputs_.encoder)
        if self.inputs_.columns:
            kernel.bind(self.inputs_.columns)
        return kernel, points

    def _default_kernel(self) -> Kernel:
        return Matern(nu=2.5, ard=True)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _say(self, message: str) -> None:
        say(message, self.verbose)

    def _say_choice(self) -> None:
        """Tell which inference was taken and why, unless the user has chosen it."""
        if self.inference == "auto":
            self._say(f"{self.inference_}: {self.inference_reason_}")

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its learnt values; its variances are those of standardised targets."""
        check_is_fitted(self, "engine_")
        return self.engine_.model.kernel

    @property
    def model_(self) -> Any:
        """The model as a torch module."""
        check_is_fitted(self, "engine_")
        return self.engine_.module

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
        check_is_fitted(self, "engine_")
        engine, offset = copy.copy(self.engine_), self._log_unit()
        if theta is None and not eval_gradient:
            with torch.no_grad():
                return float(engine.score()) - offset
        if isinstance(engine, TrainedBySteps):
            raise InputError("theta and eval_gradient are for closed forms: this model knows its score by samples only")
        engine.model = copy.deepcopy(engine.model)  # so that the fitted model stays as it is, whatever happens here
        free = learnt(engine.module)
        if theta is not None:
            set_learnt(engine.module, theta)
        if eval_gradient:
            value, gradient = value_and_gradient(engine.score, free, gather(free))
            return value - offset, gradient
        with torch.no_grad():
            return float(engine.score()) - offset

    def _log_unit(self) -> float:
        """What the log density of standardised targets exceeds that of the targets by."""
        return 0.0

    def _target_scales(self) -> np.ndarray:
        """The units of each target."""
        return np.ones(1)

    def _function_scales(self) -> np.ndarray:
        """The units of each latent function."""
        return self._target_scales()

    def _kernel_columns(self) -> list[str]:
        """Names of the columns that the kernel sees."""
        return self.inputs_.columns

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
        check_is_fitted(self, "engine_")
        criterion = getattr(self, "criterion_", None)  # mini-batches leave none, and so no curvature
        scales = self._target_scales(), self._function_scales()
        kernels = list(self._output_kernels())
        return table_in_users_units(self.model_, criterion, kernels, self._kernel_columns(), *scales)

    def _output_kernels(self) -> Iterable[Kernel]:
        """The kernels of the functions that the likelihood sees, which have their units."""
        return [self.kernel_]

    @cached_property
    def relevance_(self) -> np.ndarray:
        """How much each input drives the prediction: shares that sum to one, in the order of the columns of X.

        The share of an input is half the mean square change of the expected function when the values of that input are
        shuffled among the training rows: its total effect on the variance, with all its interactions (Jansen 1999).
        A column of objects is shuffled as a whole.
        """
        check_is_fitted(self, "engine_")
        source = torch.tensor(self.inputs_.source)
        if not (source >= 0).any():
            raise NoAttributeError("relevance_ ranks columns, but objects and images have none")
        points = self.engine_.points
        points = points[:: max(1, len(points) // _RELEVANCE_ROWS)].cpu()
        effects = [_effect(self._function, points, source == j) for j in range(self.n_features_in_)]
        return np.array(effects) / sum(effects) if sum(effects) > 0 else np.array(effects)

    def __dir__(self) -> Iterable[str]:
        """All names, without a look at their values, some of which are long to compute."""
        return object.__dir__(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "missing", "raise") == "impute"
        return tags

    def _train(self, engine: Engine) -> None:
        """Learn the engine's values by the chosen criterion, and condition on them."""
        self.result_: Any
        device = find_device(self.device)
        if device.type != "cpu" and self.inputs_.objects:
            raise InputError(f"device={str(self.device)!r} is for kernels over columns: objects need device='cpu'")
        engine.to(device)
        criterion = Criterion(self.hyperparameters, engine.module, engine.score, self._centres)
        if isinstance(engine, TrainedBySteps):
            penalty = criterion.log_prior if self.hyperparameters == "map" else None
            self.result_ = engine.train(self.max_epochs, self._seed(), self.verbose, penalty)
        else:
            self.criterion_ = criterion
            self.result_ = train(criterion, self, self._seed())
        self.engine_, self.beliefs_ = engine, [engine.condition()]

    def _average(self, engine: Engine, n: int) -> None:
        """Replace the belief at the best values by beliefs at draws of them, where that was asked for."""
        if self.hyperparameters == "bayes":
            check_memory(n, "averaging over draws", self.n_draws)
            draws = draw(self.criterion_, self.n_draws, self.verbose, self._seed())
            self.beliefs_ = [engine.condition() for _ in draws]

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: the model on the processor, where any machine can read it."""
        state = dict(super().__getstate__())
        return to_processor(state) if "engine_" in state and is_elsewhere(self.engine_.model) else state

    @contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        """A fit that fails leaves the estimator as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _forget(self) -> None:
        """Drop what an earlier fit has left."""
        self._centres: Centres = {}
        for name in ("hyperparameters_", "relevance_", "criterion_", "result_", "bounds_", "histories_"):
            self.__dict__.pop(name, None)


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number of at least ``least``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _effect(function: Callable[[Any], np.ndarray], points: torch.Tensor, columns: torch.Tensor) -> float:
    """``½ E (f(x) − f(x'))²`` where ``x'`` has the given columns of another row, over a few shuffles."""
    expected, total = function(points), 0.0
    for shuffle in range(_SHUFFLES):
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(shuffle))
        other = torch.where(columns, points[order], points)
        total += float(np.mean(np.square(function(other) - expected)))
    return 0.5 * total / _SHUFFLES
