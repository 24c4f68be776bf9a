"""What the estimators of GP-DRF share: a first layer of processes over columns, objects or both."""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.deep_features import DeepFeaturesEstimator
from stratagp.estimators.engines import Data
from stratagp.estimators.inputs import Points, name_categories, seed_of
from stratagp.estimators.variational import clustered_points
from stratagp.estimators.views import ObjectInputs, ViewInputs
from stratagp.kernels import RBF, Kernel
from stratagp.kernels.anchor_choice import WAYS
from stratagp.layers import Inducing, SideBySide
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain
from stratagp.models.gp_drf import gp_drf
from stratagp.models.gp_drf_start import first_layer, last_targets, supervised_targets
from stratagp.training.start import start_from_data


class GPDRFEstimator(DeepFeaturesEstimator):
    """Sparse processes over columns or objects, layers of random features on their values, and a likelihood."""

    _classifier = "GPDRFClassifier"
    _least_layers = 0
    inputs_: ViewInputs

    def __init__(
        self,
        kernel: Any = None,
        n_processes: Any = 8,
        n_inducing: Any = 200,
        anchors: Any = "random",
        views: Any = None,
        view_kernels: Any = None,
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
        self.kernel = kernel
        self.n_processes = n_processes
        self.n_inducing = n_inducing
        self.anchors = anchors
        self.views = views
        self.view_kernels = view_kernels
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

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("anchors", WAYS)
        check_whole_number("n_processes", self.n_processes, 1)
        if self.kernel is not None and not self.kernel.takes_tensors and (self.views or self.view_kernels):
            raise InputError("kernel is over objects, a list of which X must be: leave out views and view_kernels")

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """The kernel of the processes of columns, and the rows as points; objects become rows of similarities."""
        kernel = RBF(ard=True) if self.kernel is None else copy.deepcopy(self.kernel)
        if kernel.takes_tensors:
            self.inputs_ = ViewInputs(seed_of(self), self.views, self.view_kernels, self.anchors)
        else:
            self.inputs_ = ObjectInputs(seed_of(self), None, {"objects": kernel}, self.anchors)
        points = self.inputs_.learn(self, X)
        return kernel if kernel.takes_tensors else RBF(ard=True), points

    def _model(
        self, kernel: Kernel, data: Data, likelihood: Likelihood, outputs: int, generator: torch.Generator
    ) -> Chain:
        functions = likelihood.functions(outputs)
        if not self.n_layers:
            if self.inputs_.views is not None and len(self.inputs_.views) > 1:
                raise InputError("n_layers=0 is one process for each score: several views need n_layers of at least 1")
            wanted = last_targets(likelihood, data.y, functions)
            return gp_drf(self._processes(kernel, data, wanted), outputs, likelihood, 0)
        layer = self._processes(kernel, data, None)
        return gp_drf(layer, outputs, likelihood, generator=generator, **self._feature_options())

    def _processes(self, kernel: Kernel, data: Data, wanted: Tensor | None) -> Inducing | SideBySide:
        """Processes of each view, started at ``wanted`` or at what tells most of the targets."""
        views, columns = self.inputs_.views, data.x.shape[1]
        if views is None:
            if self.inputs_.encoder is not None:
                name_categories(kernel, self.inputs_.encoder)
            return self._of_view(kernel.bind(self.inputs_.columns), data, list(range(columns)), None, wanted)
        own = self.inputs_.kernels(kernel, columns)
        points = self.inputs_.anchor_points(columns)
        seen = [self.inputs_.features(name) for name in views]
        layers = [self._of_view(*parts, wanted) for parts in zip(own, [data] * len(own), seen, points, strict=True)]
        return layers[0] if len(layers) == 1 else SideBySide(*layers)

    def _of_view(
        self,
        kernel: Kernel,
        data: Data,
        seen: list[int],
        anchors: Float[Tensor, "m d"] | None,
        wanted: Tensor | None,
    ) -> Inducing:
        if wanted is None:
            wanted = supervised_targets(self._numbers(data.y), data.x[:, seen], self.n_processes)
        z = anchors
        if z is None:
            start_from_data(kernel, data.x, wanted[:, 0])
            z = clustered_points(kernel, data.x, self.n_inducing, self._seed())
        return first_layer(data.x, wanted, kernel, z, anchors is None)

    @property
    def kernel_(self) -> Any:
        """The kernel of the processes of the first layer, with its learnt values; a list of them, if of views."""
        layer = self.model_.layer.layers[0] if self.n_layers else self.model_.layer
        return [part.kernel for part in layer.layers] if isinstance(layer, SideBySide) else layer.kernel
