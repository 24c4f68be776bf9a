"""What the estimators of deep random features share: options, the start, training."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batch_options import check_batch_options
from stratagp.estimators.batched import Batched
from stratagp.estimators.engines import Data, some_rows
from stratagp.estimators.inputs import Inputs, Points, seed_of
from stratagp.estimators.likelihood_checks import refuse_bad_targets
from stratagp.estimators.variational import AutoGPEngine
from stratagp.kernels import RBF, Kernel
from stratagp.kernels.frequencies import DRAWS
from stratagp.layers.random_features import FREQUENCIES
from stratagp.likelihoods import Likelihood, Sampled, Softmax
from stratagp.models.chain import Chain
from stratagp.models.gp_drf import KERNELS, drf, fit_drf
from stratagp.models.gp_drf_start import last_targets, start_features

_START_ROWS = 10_000  # that a start is made from
_SOFTMAX_SAMPLES = 2  # of its functions, for each sample of hidden values
_SINGLE_SAMPLES = 20  # of its functions, at least, where there are no hidden values


class DeepFeaturesEstimator(Batched):
    """Layers of random features and a likelihood, trained by samples of hidden values."""

    n_layers: int
    layer_kernel: Any
    feed_forward: Any
    frequencies_after: float
    hyperparameters_after: float
    rate: float
    least_steps = 500
    _least_layers = 1

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("frequencies", FREQUENCIES)
        self._restrict("draws", DRAWS)
        for name, least in (("n_layers", self._least_layers), ("width", 1), ("n_features", 1), ("n_samples", 1)):
            check_whole_number(name, getattr(self, name), least)
        named = isinstance(self.layer_kernel, str) and self.layer_kernel in KERNELS
        if not named and not isinstance(self.layer_kernel, Kernel):
            raise InputError(
                f"layer_kernel must be one of {', '.join(KERNELS)}, or a kernel such as kernels.Matern(nu=1.5), got "
                f"{self.layer_kernel!r}"
            )
        for name in ("frequencies_after", "hyperparameters_after"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) <= 1:
                raise InputError(f"{name} must be a share of the training, from 0 to 1, got {value!r}")
        if not isinstance(self.feed_forward, (bool, np.bool_)):
            raise InputError(f"feed_forward must be True or False, got {self.feed_forward!r}")
        check_batch_options(self)

    @abstractmethod
    def _model(
        self, kernel: Kernel, data: Data, likelihood: Likelihood, outputs: int, generator: torch.Generator
    ) -> Chain:
        """The model where training starts, from some rows."""

    def _feature_options(self) -> dict[str, Any]:
        """Options of the layers of random features, as :func:`~stratagp.models.gp_drf.drf` takes them."""
        names = ("width", "n_features", "frequencies", "draws", "feed_forward", "n_samples")
        return {
            "layers": self.n_layers,
            "kernel": self.layer_kernel,
            **{name: getattr(self, name) for name in names},
        }

    def _fit_model(self, kernel: Kernel, points: Points, y: Tensor, likelihood: Likelihood, outputs: int) -> None:
        """Put the model together, start it by least squares, and train it."""
        self._forget()
        generator, x = torch.Generator().manual_seed(self._seed()), points.values
        refuse_bad_targets(likelihood, y, outputs)
        data, test = self._shares(x, y, generator)
        chosen = some_rows(len(data.y), _START_ROWS, self._seed())
        some = Data(data.x[chosen], data.y[chosen])
        model = self._model(kernel, some, likelihood, outputs, generator)
        if self.n_layers:
            start_features(model, some.x, last_targets(likelihood, some.y, likelihood.functions(outputs)))
        if isinstance(likelihood, Softmax):
            samples = _SOFTMAX_SAMPLES if self.n_layers else max(_SINGLE_SAMPLES, self.n_samples)
            model.likelihood = Sampled(likelihood, samples, generator)
        self.engine_, self.beliefs_ = AutoGPEngine(self._moved(model), data), [model]
        self.histories_ = self._train_model(model, data, test, generator)
        model.dtype = torch.float64  # a prediction must not depend on the rows that are asked for with it

    def _train_model(self, model: Chain, data: Data, test: Data, generator: torch.Generator) -> Any:
        return fit_drf(
            model,
            *self._rows(data),
            frequencies_after=self.frequencies_after,
            hyperparameters_after=self.hyperparameters_after,
            rate=self.rate,
            generator=generator,
            penalty=model.log_prior if model.has_priors else None,
            score=(lambda: self._validation_score(test.x, test.y)) if len(test.y) else None,
            progress=self.verbose,
            **self._length(data, self.max_epochs),
        )

    def _kernel_columns(self) -> list[str]:
        return []  # kernels of different layers see different columns

    def _output_kernels(self) -> list[Kernel]:
        layer = self.model_.layer
        return [layer.layers[-1].kernel if self.n_layers else layer.kernel]


class DRFEstimator(DeepFeaturesEstimator):
    """Layers of random features of the columns."""

    _classifier = "DRFClassifier"
    _for_texts = "take GPDRFRegressor or GPDRFClassifier with kernel=kernels.Spectrum(3), for example"
    kernel = None  # of processes, of which there are none

    def __init__(
        self,
        layer_kernel: Any = "rbf",
        n_layers: Any = 2,
        width: Any = 8,
        n_features: Any = 100,
        frequencies: Any = "var-fixed",
        draws: Any = "orthogonal",
        feed_forward: Any = True,
        likelihood: Any = "auto",
        n_samples: Any = 5,
        frequencies_after: Any = 0.0,
        hyperparameters_after: Any = 0.0,
        max_epochs: Any = 100,
        batch_size: Any = 256,
        rate: Any = 0.01,
        validation: Any = 0.0,
        patience: Any = None,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.layer_kernel = layer_kernel
        self.n_layers = n_layers
        self.width = width
        self.n_features = n_features
        self.frequencies = frequencies
        self.draws = draws
        self.feed_forward = feed_forward
        self.likelihood = likelihood
        self.n_samples = n_samples
        self.frequencies_after = frequencies_after
        self.hyperparameters_after = hyperparameters_after
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.rate = rate
        self.validation = validation
        self.patience = patience
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """Rows as points; the kernel of processes is not used."""
        self.inputs_ = Inputs(seed=seed_of(self))
        return RBF(), self.inputs_.learn(self, X)

    def _model(
        self, kernel: Kernel, data: Data, likelihood: Likelihood, outputs: int, generator: torch.Generator
    ) -> Chain:
        return drf(data.x.shape[1], outputs, likelihood, generator=generator, **self._feature_options())

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the first layer, with its learnt values."""
        return self.model_.layer.layers[0].kernel
