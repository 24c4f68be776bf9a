"""What the estimators of deep kernel learning share: options, the network, training in two steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp import networks
from stratagp.errors import InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batched import Batched
from stratagp.estimators.engines import Data
from stratagp.estimators.held_out import warn_of_rounding
from stratagp.estimators.images import ImageInputs, are_images
from stratagp.estimators.inputs import Inputs, Points
from stratagp.estimators.variational import AutoGPEngine
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Features
from stratagp.likelihoods import Likelihood, Mixed
from stratagp.models.chain import Chain
from stratagp.models.svdkl import inducing_dkl, pretrain, svdkl
from stratagp.training.loop import History

_TABLES, _IMAGES = (128, 64, 16), 16  # widths of the default network of tables, and features of those of images
_NAMED = ("auto", "lenet", "resnet")
_LENET = 12  # pixels of a side, at least
_SETTLE = 10_000  # rows that moments of features are taken of
_SAMPLES = 20  # of a row in the bound, where scores are correlated and no closed form knows it
_CHUNK = 4096  # held-out rows that the network sees at once


class DKLEstimator(Batched):
    """A network, Gaussian processes of its features and a likelihood, trained together."""

    missing = "raise"
    least_steps = 500
    start_noise = 1.0  # a network that knows nothing yet must not be sure

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
        network_rate: Any = 0.001,
        fine_tuning: Any = 0.1,
        weight_decay: Any = 0.1,
        dropout: Any = 0.0,
        batch_norm: Any = True,
        spectral: Any = False,
        validation: Any = 0.1,
        patience: Any = None,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
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
        self.random_state = random_state
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("last", ("grid", "inducing"))
        for name, least in (("grid_size", 6), ("axes", 1), ("pretrain_epochs", 0), ("batch_size", 2)):
            check_whole_number(name, getattr(self, name), least)
        self._check_training()
        if not isinstance(self.weight_decay, Real) or not 0 <= float(self.weight_decay) < math.inf:
            raise InputError(f"weight_decay must be a number that is not negative, got {self.weight_decay!r}")
        if isinstance(self.network, nn.Module) and (self.spectral or self.dropout):
            raise InputError("dropout and spectral are for ready networks: build them into your own module")

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        """The kernel of features, and the rows as points; images keep their shape."""
        self.inputs_: Any = ImageInputs() if are_images(X) else Inputs(self, RBF())
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
        with torch.no_grad():
            likelihood.log_prob(y, torch.zeros(len(y), likelihood.functions(outputs)).double())  # refuses bad targets
        held, kept = self._split(y, generator)
        if len(kept) < 2:
            raise InputError(f"{type(self).__name__} needs at least two rows to train on, got n_samples = {len(y)}")
        train, test = Data(x[kept], y[kept]), Data(x[held], y[held])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # start values and dropout of the network
            features = self._features(x)
            head = Mixed(likelihood, likelihood.functions(outputs), features.outputs, generator)
            head.set(offset=likelihood.start(y))
            histories = [self._pretrain(features, head, train, test, generator)] if self.pretrain_epochs else []
            model = self._model(kernel, features, head, train.x, generator)
            self.engine_, self.beliefs_ = AutoGPEngine(model, train), [model]
            if not (histories and histories[0].cut_short):
                histories.append(self._train_all(model, features, train, test, generator))
            self.histories_ = histories
        if train.x.dim() == 2:
            _predict_in_double(model, features, train.x[:2])

    def _features(self, x: Tensor) -> Features:
        network = self._network(x).float().eval()
        try:
            with torch.no_grad():
                found = network(x[:2])
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"network must take rows of shape {tuple(x.shape[1:])}, but fails: {error}") from error
        if not isinstance(found, Tensor) or found.dim() != 2:
            raise InputError(f"network must give features (n, q) for rows {tuple(x[:2].shape)}")
        if self.last == "grid" and found.shape[1] % self.axes:
            raise InputError(f"axes must divide the {found.shape[1]} features of the network, got {self.axes}")
        return Features(network, found.shape[1])

    def _network(self, x: Tensor) -> nn.Module:
        """The given module, or one made for the rows."""
        given, inputs = self.network, math.prod(x.shape[1:])
        if isinstance(given, nn.Module):
            return copy.deepcopy(given)
        if isinstance(given, str) and given in _NAMED and (x.dim() == 4 or given == "auto"):
            if x.dim() == 4:
                return self._image_network(given, x)
            given = _TABLES
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InputError(
                f"network must be 'auto', 'lenet' or 'resnet' (of images), a list of widths or a torch module, got "
                f"{given!r}"
            )
        options = {"dropout": self.dropout, "batch_norm": self.batch_norm, "spectral": self.spectral}
        if x.dim() == 4:
            return nn.Sequential(nn.Flatten(), networks.fully_connected(inputs, list(given), **options))
        encoder = self.inputs_.encoder
        if encoder is None or encoder.encoding != "codes":
            return networks.fully_connected(inputs, list(given), **options)
        embedded = networks.Embedded(inputs, encoder.sizes)
        return nn.Sequential(embedded, networks.fully_connected(embedded.outputs, list(given), **options))

    def _image_network(self, name: str, x: Float[Tensor, "n c h w"]) -> nn.Module:
        channels, height, width = x.shape[1:]
        if name == "resnet" or (name == "auto" and (height != width or height < _LENET)):
            return networks.resnet(channels, _IMAGES, dropout=self.dropout, spectral=self.spectral)
        if height != width:
            raise InputError(f"network='lenet' is for square images, got {height} × {width}: take 'resnet'")
        return networks.lenet(channels, _IMAGES, height, self.dropout, self.spectral)

    def _pretrain(self, features: Features, head: Mixed, train: Data, test: Data, generator: Any) -> History:
        """The network alone; ends in the state with the best density of the held-out rows."""

        def score() -> float:
            features.eval()
            with torch.no_grad():
                pairs = zip(test.x.split(_CHUNK), test.y.split(_CHUNK), strict=True)
                fits = [head.log_prob(y, features(x).double()).sum() for x, y in pairs]
            features.train()
            return float(sum(fits)) / len(test.y)

        self._say(f"the network alone for {self.pretrain_epochs} epochs or more")
        options = self._options(features, train, test, self.pretrain_epochs, score, generator)
        rates = [(head.parameters(), self.rate / self.network_rate)]
        history = pretrain(features, head, train.x, train.y, rate=self.network_rate, rates=rates, **options)
        features.settle(_some(train.x))
        return history

    def _train_all(self, model: Chain, features: Features, train: Data, test: Data, generator: Any) -> History:
        """All together, the network with smaller steps where it was trained before."""

        def score() -> float:
            return self._validation_score(test.x, test.y)

        self._say(f"all together for {self.max_epochs} epochs or more")
        options = self._options(features, train, test, self.max_epochs, score, generator)
        factor = self.network_rate / self.rate * (self.fine_tuning if self.pretrain_epochs else 1.0)
        rates = [(features.network.parameters(), factor)]
        penalty = model.log_prior if model.has_priors else None
        history = model.fit(train.x, train.y, natural=False, penalty=penalty, rate=self.rate, rates=rates, **options)
        features.settle(_some(train.x))
        return history

    def _options(
        self, features: Features, train: Data, test: Data, epochs: int, score: Callable[[], float], generator: Any
    ) -> dict[str, Any]:
        """What both steps of training share."""

        def settled() -> float:
            features.settle(_some(train.x))
            return score()

        matrices = [p for p in features.network.parameters() if p.dim() > 1]
        return {
            **self._length(len(train.y), epochs),
            "generator": generator,
            "decays": [(matrices, float(self.weight_decay))],
            "score": settled if len(test.y) else None,
            "progress": self.verbose,
        }

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
        return (observed.scores(found) if isinstance(observed, Mixed) else found).detach().double().numpy()

    def _kernel_columns(self) -> list[str]:
        return [f"feature {i}" for i in range(self.engine_.model.layer.layers[0].outputs)]

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


def _some(x: Tensor) -> Tensor:
    """Rows from all over the data, enough for their moments."""
    return x[:: max(1, len(x) // _SETTLE)]
