"""Deep kernel learning: features by a network, Gaussian processes of them, one training for both."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Features
from stratagp.likelihoods import Likelihood, Mixed
from stratagp.models.chain import Chain
from stratagp.models.feature_networks import count_features, make_network
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.svdkl import inducing_dkl, pretrain, svdkl
from stratagp.parameters import Parameter
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.batches import Batches, outputs_of, refuse_bad_targets, warn_of_rounding
from stratagp.recipes.options import BatchOptions, NotNegative, Positive, Share, Whole, WholeOrZero, at_least
from stratagp.training.lbfgs import maximise
from stratagp.training.loop import History
from stratagp.training.progress import log
from stratagp.types import Gaussian

_GRID_POINTS = 2**16  # of one grid, at most
_SETTLE = 10_000  # rows that moments of features are taken of
_SAMPLES = 20  # of a row in the bound, where scores are correlated and no closed form knows it
_CHUNK = 4096  # held-out rows that the network sees at once
_JUDGES = 10  # held-out rows that a noise can be learnt from
_TRIAL, _MOST = 0.1, 0.25  # shares that a first training holds out where the options hold out none: usual, and most
_NATS = 1e-2  # of all held-out rows: a noise is found once steps gain less
_RESTS = 1e-9  # the factor of the rate of a noise that training does not learn


@dataclass(eq=False, repr=False)
class DKLOptions(BatchOptions):
    """Options of deep kernel learning; :class:`~stratagp.DKLRegressor` tells what they mean."""

    start_noise: ClassVar[float] = 1.0  # a network that knows nothing yet must not be sure
    usual_epochs: ClassVar[int] = 20
    smooth_only: ClassVar[bool] = True

    network: Any = "auto"
    last: Literal["grid", "inducing"] = "grid"
    kernel: Kernel | None = None
    _: KW_ONLY
    grid_size: Annotated[int, at_least(6)] = 64
    axes: Whole = 1
    conditional: bool = False
    n_inducing: Whole = 200
    n_samples: Whole | Literal["auto"] | None = "auto"
    pretrain_epochs: WholeOrZero = 10
    batch_size: Annotated[int, at_least(2)] = 256
    rate: Positive = 0.01
    network_rate: Positive = 0.01
    fine_tuning: NotNegative = 1.0
    weight_decay: NotNegative = 0.1
    dropout: Share = 0.0
    batch_norm: bool = True
    spectral: bool = False
    validation: Share = 0.1

    def _check(self) -> None:
        """Refuse options that do not go together."""
        super()._check()
        if self.last == "grid" and int(self.grid_size) ** int(self.axes) > _GRID_POINTS:
            raise InputError(
                f"grid_size ** axes must be at most {_GRID_POINTS}, the points of one grid, got grid_size="
                f"{self.grid_size} and axes={self.axes}: take fewer of either, or last='inducing'"
            )
        if not self.fine_tuning and not self.pretrain_epochs:
            raise InputError(
                "fine_tuning=0 keeps the network as it was trained alone: give pretrain_epochs of 1 or more"
            )
        if isinstance(self.network, nn.Module) and (self.spectral or self.dropout):
            raise InputError(
                "dropout and spectral are for the networks of this library: add them to your own module instead"
            )


@dataclass(frozen=True)
class DKLRecipe(Recipe):
    """Learn a network alone first, then the network and processes of its features together.

    The noise comes from held-out rows: on those that a network has learnt from, residuals are too small.

    Arguments:
        noise: of the targets, where it is known from a training that held rows out.
    """

    options: DKLOptions
    noise: Tensor | None = None

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Put the model together, and train it in two steps."""
        assert rows.likelihood is not None
        noise, share = rows.likelihood.noise_parameter, max(_TRIAL, _JUDGES / len(rows.data))
        learnt = noise is not None and noise.trainable
        if self.options.validation or not learnt or rows.stream is not None or share > _MOST:
            return self._fit(rows, context)
        trial = self._with(validation=share)._fit(rows, context, is_trial=True)
        if any(history.cut_short for history in trial.histories):
            return trial
        known = trial.chain.noise_parameter
        assert known is not None
        return self._with(known.natural.detach())._fit(rows, context)

    def _with(self, noise: Tensor | None = None, **changed: Any) -> DKLRecipe:
        options = copy.copy(self.options)
        vars(options).update(changed)
        return DKLRecipe(options, noise)

    def _fit(self, rows: Rows, context: FitContext, is_trial: bool = False) -> ChainModel:
        options, likelihood, data = self.options, rows.likelihood, rows.data
        assert likelihood is not None
        likelihood = copy.deepcopy(likelihood)
        if data.x.dim() == 2:
            warn_of_rounding(data.x, rows.columns, "standardise='both'")
        generator, outputs = context.generator(), outputs_of(rows, likelihood)
        refuse_bad_targets(likelihood, data.y, outputs)
        rows = replace(rows, data=replace(data, x=data.x.float()))
        batches = Batches.of(rows, options, context, generator)
        self._refuse_few(batches, len(data))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)  # start values and dropout of the network
            if self.noise is not None and likelihood.noise_parameter is not None:
                likelihood.noise_parameter.assign(self.noise)
            training = _Training(options, batches, self._features(rows), generator, self.noise is not None)
            head = Mixed(likelihood, likelihood.functions(outputs), training.features.outputs, generator)
            head.set(offset=likelihood.start(data.y))
            histories = [training.network_alone(head)] if options.pretrain_epochs else []
            chain = self._chain(training.features.cpu(), head.cpu(), batches.data.x, generator).to(context.device)
            if histories and histories[0].cut_short:
                log.warning(
                    "training of the network alone ended early (%s): the processes of its features are not trained",
                    histories[0].ending,
                )
            else:
                histories.append(training.all_together(chain, quiet=is_trial))
        if data.x.dim() == 2:
            _predict_in_double(chain, training.features, batches.data.x[:2].to(context.device))
        return ChainModel(chain, batches.data, histories)

    def _refuse_few(self, batches: Batches, n: int) -> None:
        if len(batches.data) > 1:
            return
        held = len(batches.test)
        taken = f", of which validation={self.options.validation} holds out {held}" if held else ""
        raise InputError(
            f"deep kernel learning needs at least two rows to train on, got n_samples = {n}{taken}: give more rows"
            f"{', or validation=0.0' if n > 1 else ''}"
        )

    def _features(self, rows: Rows) -> Features:
        options, x = self.options, rows.data.x
        made = make_network(options.network, x, rows.code_sizes, options.dropout, options.batch_norm, options.spectral)
        network = made.float().eval()
        count = count_features(network, x[:2])
        if options.last == "grid" and count % options.axes:
            raise InputError(f"axes must divide the {count} features of the network, got {options.axes}")
        return Features(network, count)

    def _chain(self, features: Features, head: Mixed, x: Tensor, generator: torch.Generator) -> Chain:
        options = self.options
        kernel = copy.deepcopy(options.kernel) or RBF(ard=options.last == "inducing")
        samples = options.n_samples
        if samples == "auto":
            samples = _SAMPLES if head.given.several_scores else None
        if options.last == "inducing":
            return inducing_dkl(features, head, x, kernel, options.n_inducing, samples, generator)
        if samples is None and options.n_samples == "auto" and not head.by_marginals():
            samples = _SAMPLES
        return svdkl(
            features,
            head,
            kernel,
            options.grid_size,
            options.axes,
            bool(options.conditional),
            samples,
            generator=generator,
        )


@dataclass(frozen=True)
class _Training:
    """The two steps of training, which end in the state with the best density of the held-out rows."""

    options: DKLOptions
    batches: Batches
    features: Features
    generator: torch.Generator
    knows_noise: bool = False

    def network_alone(self, head: Mixed) -> History:
        """The network, through linear scores of its features."""
        options, features, test = self.options, self.features, self.batches.test
        device = self.batches.context.device
        features.to(device), head.to(device)

        def score() -> float:
            features.eval()
            with torch.no_grad():
                h = torch.cat([features(x) for x in test.x.to(device).split(_CHUNK)]).double()
            features.train()
            y = test.y.to(device)
            return self._score(head, lambda: head.log_prob(y, h))

        asked = options.pretrain_epochs if options.max_epochs is not None else None
        length = self.batches.length("the network alone, ", asked, options.pretrain_epochs)
        resting = self._resting(head)
        others = [p for p in head.parameters() if all(p is not own for own in resting)]
        rates = [(others, options.rate / options.network_rate), (resting, _RESTS)]
        x, y = self.batches.source
        common = {**length, **self._common(score)}
        history = pretrain(features, head, x, y, rate=options.network_rate, rates=rates, **common)
        self.settle()
        return history

    def all_together(self, chain: Chain, quiet: bool = False) -> History:
        """Everything; the network takes ``fine_tuning`` times its steps where it was trained before, at 0 none."""
        options, network, test = self.options, self.features.network, self.batches.test
        found: list[float] = []

        def score() -> float:
            if self._noise(chain.likelihood) is None:
                found.append(float(chain.log_predictive(test.x, test.y).double().mean()))
            else:
                belief = chain.marginals(test.x)
                belief, y = Gaussian(belief.mean.double(), belief.var.double()), test.y.to(belief.mean.device)
                found.append(self._score(chain.observed, lambda: chain.observed.log_predictive(y, belief)))
            return found[-1]

        length = self.batches.length("all together, ")
        factor = options.network_rate / options.rate * (options.fine_tuning if options.pretrain_epochs else 1.0)
        x, y = self.batches.source
        with nullcontext() if factor else self.features.as_they_are():
            history = chain.fit(
                x,
                y,
                natural=False,
                penalty=chain.log_prior if chain.has_priors else None,
                rate=options.rate,
                rates=[(network.parameters(), factor or 1.0), (self._resting(chain.likelihood), _RESTS)],
                **{**length, **self._common(score)},
            )
        self.settle()
        if not quiet and options.pretrain_epochs and len(found) > 1 and max(found[1:]) <= found[0]:
            warnings.warn(
                "training of network and processes together predicted the held-out rows worse than the network alone, "
                "which is kept: hold out more rows (validation=0.2), take fewer or smaller layers (network=[32, 8]), "
                "or GPRegressor and GPClassifier where rows are few",
                ConvergenceWarning,
                stacklevel=6,
            )
        return history

    def _resting(self, likelihood: Likelihood) -> list[nn.Parameter]:
        """The noise, if it was learnt before."""
        noise = likelihood.noise_parameter
        return list(noise.parameters()) if self.knows_noise and noise is not None else []

    def _noise(self, likelihood: Likelihood) -> Parameter | None:
        """The noise, if rows that training does not see have a say in it."""
        noise = likelihood.noise_parameter
        return noise if noise is not None and noise.trainable and len(self.batches.test) >= _JUDGES else None

    def _score(self, likelihood: Likelihood, log_density: Callable[[], Tensor]) -> float:
        """The mean log density of the held-out rows, with no less noise than is best for them."""
        noise = self._noise(likelihood)
        if noise is not None:
            before = noise.natural.detach().clone()
            with torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a flat top is near enough
                maximise(
                    lambda: log_density().sum() + likelihood.log_prior(), list(noise.parameters()), tolerance=_NATS
                )
            noise.assign(torch.maximum(before, noise.natural.detach()))
        with torch.no_grad():
            return float(log_density().mean())

    def _common(self, score: Callable[[], float]) -> dict[str, Any]:
        """What both steps share."""

        def settled() -> float:
            self.settle()
            return score()

        matrices = [p for p in self.features.network.parameters() if p.dim() > 1]
        return {
            "decays": [(matrices, self.options.weight_decay)],
            "generator": self.generator,
            "score": settled if len(self.batches.test) else None,
        }

    def settle(self) -> None:
        """Take the moments of features anew, from rows all over the data."""
        x = self.batches.data.x
        self.features.settle(x[:: max(1, len(x) // _SETTLE)].to(self.batches.context.device))


def _predict_in_double(chain: Chain, features: Features, rows: Tensor) -> None:
    """Predictions in double precision, which do not depend on the rows asked for together, where the network can."""
    features.double()
    try:
        with torch.no_grad():
            features(rows.double())
    except RuntimeError:
        features.float()
    else:
        chain.dtype = torch.float64
