"""What the estimators of deep kernel learning share: options, the network, training in two steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batch_options import check_batch_options
from stratagp.estimators.batched import Batched
from stratagp.estimators.engines import Data
from stratagp.estimators.feature_networks import count_features, make_network
from stratagp.estimators.held_out import warn_of_rounding
from stratagp.estimators.images import ImageInputs, are_images, check_axes
from stratagp.estimators.inputs import Inputs, Points, seed_of
from stratagp.estimators.likelihood_checks import refuse_bad_targets
from stratagp.estimators.variational import AutoGPEngine
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Features
from stratagp.likelihoods import Likelihood, Mixed
from stratagp.models.chain import Chain
from stratagp.models.svdkl import inducing_dkl, pretrain, svdkl
from stratagp.training.devices import as_numpy, find_device
from stratagp.training.loop import History
from stratagp.training.progress import log

_GRID_POINTS = 2**16  # of one grid, at most
_SETTLE = 10_000  # rows that moments of features are taken of
_SAMPLES = 20  # of a row in the bound, where scores are correlated and no closed form knows it
_CHUNK = 4096  # held-out rows that the network sees at once


class DKLEstimator(Batched):
    """A network, Gaussian processes of its features and a likelihood, trained together."""

    least_steps = 500
    start_noise = 1.0  # a network that knows nothing yet must not be sure
    smooth_alone = True
    _classifier = "DKLClassifier"
    _for_texts = "take GPDRFRegressor or GPDRFClassifier with kernel=kernels.Spectrum(3), for example"

    def __init__(
        self,
        network: Any = "auto",
        last: Any = "grid",
        kernel: Any = None,
        grid_size: Any = 64,
        axes: Any = 1,
        conditional: Any = False,
        n_inducing: Any = 200,
        likelihood: Any = "auto",
        n_samples: Any = "auto",
        pretrain_epochs: Any = 10,
        max_epochs: Any = 20,
        batch_size: Any = 256,
        rate: Any = 0.01,
        network_rate: Any = 0.01,
        fine_tuning: Any = 1.0,
        weight_decay: Any = 0.1,
        dropout: Any = 0.0,
        batch_norm: Any = True,
        spectral: Any = False,
        validation: Any = 0.1,
        patience: Any = None,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.network = network
        self.last = last
        self.kernel = kernel
        self.grid_size = grid_size
        self.axes = axes
        self.conditional = conditional
        self.n_inducing = n_inducing
        self.likelihood = likelihood
        self.n_samples = n_samples
        self.pretrain_epochs = pretrain_epochs
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.rate = rate
        self.network_rate = network_rate
        self.fine_tuning = fine_tuning
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.spectral = spectral
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
        self._restrict("last", ("grid", "inducing"))
        for name, least in (("grid_size", 6), ("axes", 1), ("pretrain_epochs", 0), ("batch_size", 2)):
            check_whole_number(name, getattr(self, name), least)
        if self.last == "grid" and int(self.grid_size) ** int(self.axes) > _GRID_POINTS:
            raise InputError(
                f"grid_size ** axes must be at most {_GRID_POINTS}, the points of one grid, got grid_size="
                f"{self.grid_size} and axes={self.axes}: take fewer of either, or last='inducing'"
            )
        check_batch_options(self)
        if not isinstance(self.weight_decay, Real) or not 0 <= float(self.weight_decay) < math.inf:
            raise InputError(f"weight_decay must be a number that is not negative, got {self.weight_decay!r}")
        if isinstance(self.network, nn.Module) and (self.spectral or self.dropout):
            raise InputError("dropout and spectral are for ready networks: build them into your own module")

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """The kernel of features, and the rows as points; images keep their shape."""
        check_axes(X)
        self.inputs_: Any = ImageInputs() if are_images(X) else Inputs(seed=seed_of(self))
        points = self.inputs_.learn(self, X)
        return copy.deepcopy(self.kernel) or self._default_kernel(), points

    def _default_kernel(self) -> Kernel:
        return RBF(ard=self.last == "inducing")

    def _fit_model(self, kernel: Kernel, points: Points, y: Tensor, likelihood: Likelihood, outputs: int) -> None:
        """Put the model together, and train it: the network alone first, then everything."""
        self._forget()
        if points.values.dim() == 2:
            warn_of_rounding(points.values, self.inputs_.columns, "standardise='both'")
        seed, x = self._seed(), points.values.float()
        generator = torch.Generator().manual_seed(seed)
        refuse_bad_targets(likelihood, y, outputs)
        train, test = self._shares(x, y, generator)
        if len(train.y) < 2:
            taken = f", of which validation={self.validation} holds out {len(test.y)}" if len(test.y) else ""
            raise InputError(
                f"{type(self).__name__} needs at least two rows to train on, got n_samples = {len(y)}{taken}: give "
                f"more rows{', or validation=0.0' if len(y) > 1 else ''}"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # start values and dropout of the network
            features = self._features(x)
            head = Mixed(likelihood, likelihood.functions(outputs), features.outputs, generator)
            head.set(offset=likelihood.start(y))
            histories = [self._pretrain(features, head, train, test, generator)] if self.pretrain_epochs else []
            model = self._model(kernel, features.cpu(), head.cpu(), train.x, generator)
            self.engine_, self.beliefs_ = AutoGPEngine(self._moved(model), train), [model]
            if histories and histories[0].cut_short:
                log.warning(
                    "training of the network alone ended early (%s): the processes of its features are not trained",
                    histories[0].ending,
                )
            else:
                histories.append(self._train_all(model, features, train, test, generator))
            self.histories_ = histories
        if train.x.dim() == 2:
            _predict_in_double(model, features, train.x[:2].to(find_device(self.device)))

    def _features(self, x: Tensor) -> Features:
        options = {"dropout": self.dropout, "batch_norm": self.batch_norm, "spectral": self.spectral}
        network = make_network(self.network, x, self.inputs_.encoder, **options).float().eval()
        count = count_features(network, x[:2])
        if self.last == "grid" and count % self.axes:
            raise InputError(f"axes must divide the {count} features of the network, got {self.axes}")
        return Features(network, count)

    def _pretrain(self, features: Features, head: Mixed, train: Data, test: Data, generator: Any) -> History:
        """The network alone; ends in the state with the best density of the held-out rows."""
        device = find_device(self.device)
        features.to(device), head.to(device)

        def score() -> float:
            features.eval()
            with torch.no_grad():
                pairs = zip(test.x.to(device).split(_CHUNK), test.y.to(device).split(_CHUNK), strict=True)
                fits = [head.log_prob(y, features(x).double()).sum() for x, y in pairs]
            features.train()
            return float(sum(fits)) / len(test.y)

        length = self._length(train, self.pretrain_epochs, "the network alone, ")
        options = {**length, **self._options(features, train, test, score, generator)}
        rates = [(head.parameters(), self.rate / self.network_rate)]
        history = pretrain(features, head, *self._rows(train), rate=self.network_rate, rates=rates, **options)
        self._settle(features, train)
        return history

    def _train_all(self, model: Chain, features: Features, train: Data, test: Data, generator: Any) -> History:
        """All together; the steps of the network are multiplied by ``fine_tuning`` where it was trained before."""

        def score() -> float:
            return self._validation_score(test.x, test.y)

        length = self._length(train, self.max_epochs, "all together, ")
        options = {**length, **self._options(features, train, test, score, generator)}
        factor = self.network_rate / self.rate * (self.fine_tuning if self.pretrain_epochs else 1.0)
        rates = [(features.network.parameters(), factor)]
        penalty = model.log_prior if model.has_priors else None
        history = model.fit(*self._rows(train), natural=False, penalty=penalty, rate=self.rate, rates=rates, **options)
        self._settle(features, train)
        return history

    def _options(
        self, features: Features, train: Data, test: Data, score: Callable[[], float], generator: Any
    ) -> dict[str, Any]:
        """What both steps of training share."""

        def settled() -> float:
            self._settle(features, train)
            return score()

        matrices = [p for p in features.network.parameters() if p.dim() > 1]
        return {
            "generator": generator,
            "decays": [(matrices, float(self.weight_decay))],
            "score": settled if len(test.y) else None,
            "progress": self.verbose,
        }

    def _settle(self, features: Features, train: Data) -> None:
        """Take the moments of features anew, from rows all over the data."""
        rows = train.x[:: max(1, len(train.x) // _SETTLE)]
        features.settle(rows.to(find_device(self.device)))

    def _model(self, kernel: Kernel, features: Features, head: Mixed, x: Tensor, generator: Any) -> Chain:
        samples = self._samples(head.given)
        if self.last == "inducing":
            return inducing_dkl(features, head, x, kernel, self.n_inducing, samples, generator)
        if samples is None and self.n_samples == "auto" and not head.by_marginals():
            samples = _SAMPLES
        if self.axes > 1:  # the network was trained by scores of all features: products mix fewer functions, anew
            mixed = Mixed(head.given, len(head.offset), features.outputs // self.axes, generator)
            head = mixed.set(offset=head.offset)
        conditional = bool(self.conditional)
        return svdkl(features, head, kernel, self.grid_size, self.axes, conditional, samples, generator=generator)

    def _function(self, points: Any) -> np.ndarray:
        found, observed = self.engine_.model.marginals(points).mean, self.engine_.model.observed
        return as_numpy(observed.scores(found) if isinstance(observed, Mixed) else found)

    def _kernel_columns(self) -> list[str]:
        return [f"feature {i}" for i in range(self.engine_.model.layer.layers[0].outputs)]

    def _output_kernels(self) -> list[Kernel]:
        last = self.model_.layer.layers[-1]
        return [last.kernel] if self.last == "inducing" else list(last.kernels)

    @property
    def kernel_(self) -> Any:
        """The kernel of the features with its learnt values: one for each axis of the grids, or of all features."""
        last = self.model_.layer.layers[-1]
        return last.kernel if self.last == "inducing" else last.kernels if self.axes > 1 else last.kernels[0]


def _predict_in_double(model: Chain, features: Features, rows: Tensor) -> None:
    """Predictions in double precision, which do not depend on the rows asked for together, where the network can."""
    features.double()
    try:
        with torch.no_grad():
            features(rows.double())
    except RuntimeError:
        features.float()
    else:
        model.dtype = torch.float64
