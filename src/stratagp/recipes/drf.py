"""Deep random features, alone (DRF) and on processes of columns or objects (GP-DRF)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Inducing, SideBySide, Stack
from stratagp.likelihoods import Likelihood, Sampled
from stratagp.models.chain import Chain
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.gp_drf import KERNELS, drf, fit_drf, gp_drf
from stratagp.models.gp_drf_start import first_layer, last_targets, start_features, supervised_targets
from stratagp.recipes.base import Data, FitContext, Recipe, Rows
from stratagp.recipes.batches import Batches, as_numbers, clustered_points, outputs_of, refuse_bad_targets
from stratagp.recipes.options import BatchOptions, NotNegative, Positive, ShareOfAll, Whole, WholeOrZero
from stratagp.training.loop import History
from stratagp.training.start import start_from_data

_START_ROWS = 10_000  # that a start is made from
_SOFTMAX_SAMPLES = 2  # of its functions, for each sample of hidden values
_ROUNDS, _GAIN = 8, 0.01  # of training few rows, at most; the nats a row below which a round is the last
_SINGLE_SAMPLES = 20  # of its functions, at least, where there are no hidden values


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureOptions(BatchOptions):
    """Options of layers of random features; :class:`~stratagp.DRFRegressor` tells what they mean."""

    smooth_only: ClassVar[bool] = True

    layer_kernel: Literal["rbf", "arc-cosine"] | Kernel = "rbf"
    n_layers: Whole = 2
    width: Whole = 8
    n_features: Whole = 100
    frequencies: Literal["auto", "prior-fixed", "var-fixed", "var-resampled"] = "auto"
    draws: Literal["independent", "orthogonal", "quasi"] = "orthogonal"
    feed_forward: bool = True
    own_priors: bool = False
    l2: NotNegative = 0.0
    n_samples: Whole = 5
    prediction_samples: Whole | None = None
    frequencies_after: ShareOfAll = 0.0
    hyperparameters_after: ShareOfAll = 0.0
    batch_size: Whole = 256
    rate: Positive = 0.01

    @property
    def n_nodes(self) -> int:
        """Samples that predictions average over: frequencies have many dimensions, hidden values few."""
        return self.prediction_samples or (256 if self.frequencies == "var-resampled" else 64)

    def frequencies_for(self, few: bool) -> str:
        """Those asked for; else fixed ones for few rows, which learnt ones of one draw would know by heart."""
        chosen = "prior-fixed" if few else "var-fixed"
        return chosen if self.frequencies == "auto" else self.frequencies

    def layers(self, few: bool) -> dict[str, Any]:
        """Arguments of :func:`~stratagp.models.gp_drf.drf` and :func:`~stratagp.models.gp_drf.gp_drf`."""
        return {
            "layers": self.n_layers,
            "kernel": self.layer_kernel,
            "width": self.width,
            "n_features": self.n_features,
            "frequencies": self.frequencies_for(few),
            "draws": self.draws,
            "feed_forward": self.feed_forward,
            "n_samples": self.n_samples,
            "own_priors": self.own_priors,
        }

    def _check(self) -> None:
        """Refuse options that do not go together."""
        super()._check()
        named = isinstance(self.layer_kernel, str) and self.layer_kernel in KERNELS
        if not named and not isinstance(self.layer_kernel, Kernel):
            raise InputError(
                f"layer_kernel must be one of {', '.join(KERNELS)}, or a kernel such as kernels.Matern(nu=1.5), got "
                f"{self.layer_kernel!r}"
            )


@dataclass(eq=False, repr=False)
class GPDRFOptions(FeatureOptions):
    """Options of GP-DRF; :class:`~stratagp.GPDRFRegressor` tells what they mean."""

    kernel: Kernel | None = None
    n_processes: Whole = 8
    n_inducing: Whole = 200
    _: KW_ONLY
    n_layers: WholeOrZero = 2
    anchors: Literal["random", "medoids", "greedy"] | None = None
    views: Any = None
    view_kernels: Any = None

    def _check(self) -> None:
        super()._check()
        if self.own_priors and not self.n_layers:
            raise InputError(
                "own_priors is for layers of random features, and n_layers=0 has none: leave one of them out"
            )
        if self.kernel is not None and not self.kernel.takes_tensors and (self.views or self.view_kernels):
            raise InputError("kernel is over objects, so X must be a list of objects: leave out views and view_kernels")


@dataclass(frozen=True)
class DRFRecipe(Recipe):
    """Learn layers of random features, on the columns or on a first layer of processes.

    Arguments:
        options: of the layers; those of GP-DRF add a first layer of processes.
    """

    options: FeatureOptions

    def fit(self, rows: Rows, context: FitContext) -> ChainModel:
        """Put the model together, start it by least squares, and train it."""
        options, likelihood = self.options, rows.likelihood
        assert likelihood is not None
        generator, outputs = context.generator(), outputs_of(rows, likelihood)
        refuse_bad_targets(likelihood, rows.data.y, outputs)
        batches = Batches.of(rows, options, context, generator)
        some = batches.data.some(_START_ROWS, context.seed)
        chain = self._chain(rows, some, likelihood, outputs, context, generator, batches.are_few)
        if options.n_layers:
            start_features(chain, some.x, last_targets(likelihood, some.y, likelihood.functions(outputs)))
        if likelihood.several_scores:
            samples = _SOFTMAX_SAMPLES if options.n_layers else max(_SINGLE_SAMPLES, options.n_samples)
            chain.likelihood = Sampled(likelihood, samples, generator)
        if isinstance(chain.layer, Stack):
            chain.layer.n_nodes = options.n_nodes
        model = ChainModel(chain.to(context.device), batches.data)
        common: dict[str, Any] = {
            "rate": options.rate,
            "generator": generator,
            "penalty": self._penalty(chain, batches.total),
            "score": batches.score(chain),
        }
        if options.l2:
            common["natural"] = False  # natural gradients know the bound alone
        model.histories = self._trained(chain, batches, common)
        chain.dtype = torch.float64  # a prediction must not depend on the rows that are asked for with it
        return model

    def _penalty(self, chain: Chain, rows: int) -> Callable[[], Tensor] | None:
        """Log priors, less ``½ l2`` for each row times the squares of all free coordinates that move."""
        if not self.options.l2:
            return chain.log_prior if chain.has_priors else None
        factor = 0.5 * self.options.l2 * rows

        def penalty() -> Tensor:
            squares = [p.double().square().sum() for p in chain.parameters() if p.requires_grad]
            return chain.log_prior() - factor * torch.stack(squares).sum()

        return penalty

    def _trained(self, chain: Chain, batches: Batches, common: dict[str, Any]) -> list[History]:
        """Train once; where rows are few and the objective is a bound, in rounds, until one of them gains little.

        With frequencies of one draw that are learnt it is none: it rises without end while a model learns few rows by
        heart.
        """
        options = self.options
        shares: dict[str, Any] = {
            "frequencies_after": options.frequencies_after,
            "hyperparameters_after": options.hyperparameters_after,
        }
        x, y = batches.source
        histories = fit_drf(chain, x, y, **shares, **common, **batches.length())
        no_bound = options.n_layers and options.frequencies_for(batches.are_few) == "var-fixed"
        if options.max_epochs is not None or not batches.are_few or no_bound:
            return histories
        later: dict[str, Any] = {name: float(share == 1) for name, share in shares.items()}
        gain = 0.0
        for number in range(2, _ROUNDS + 1):
            if histories[-1].ending != "finished":
                return histories
            before = _level(histories[-1])
            histories += fit_drf(chain, x, y, **later, **common, **batches.length(f"round {number}, "))
            gain = (_level(histories[-1]) - before) / len(batches.data)
            if gain < _GAIN:
                return histories
        warnings.warn(
            f"training ended before it converged: the last {histories[-1].steps} of {sum(h.steps for h in histories)} "
            f"steps gained {gain:.2g} nats a row: raise min_steps (now {options.min_steps}) or rate (now "
            f"{options.rate:g})",
            ConvergenceWarning,
            stacklevel=6,
        )
        return histories

    def _chain(
        self,
        rows: Rows,
        data: Data,
        likelihood: Likelihood,
        outputs: int,
        context: FitContext,
        generator: torch.Generator,
        few: bool,
    ) -> Chain:
        """The model where training starts, from some rows."""
        options = self.options
        if not isinstance(options, GPDRFOptions):
            return drf(data.x.shape[1], outputs, likelihood, generator=generator, **options.layers(few))
        if options.n_layers:
            layer = self._processes(options, rows, data, None, context)
            return gp_drf(layer, outputs, likelihood, generator=generator, **options.layers(few))
        if rows.views is not None and rows.views.views is not None and len(rows.views.views) > 1:
            raise InputError("n_layers=0 is one process for each score: several views need n_layers of at least 1")
        wanted = last_targets(likelihood, data.y, likelihood.functions(outputs))
        return gp_drf(self._processes(options, rows, data, wanted, context), outputs, likelihood, 0)

    def _processes(
        self, options: GPDRFOptions, rows: Rows, data: Data, wanted: Tensor | None, context: FitContext
    ) -> Inducing | SideBySide:
        """Processes of each view, started at ``wanted`` or at what tells most of the targets."""
        columns = data.x.shape[1]
        own = options.kernel if options.kernel is not None and options.kernel.takes_tensors else RBF(ard=True)
        if rows.views is None or rows.views.views is None:
            kernels, seen = [rows.bind(own, own)], [list(range(columns))]
            anchors: list[Tensor | None] = [None]
        else:
            kernels, anchors = rows.views.kernels(own, columns), rows.views.anchor_points(columns)
            seen = [rows.views.features(name) for name in rows.views.views]
        if options.anchors is not None and all(z is None for z in anchors):
            raise InputError(
                "anchors chooses among objects, but inducing points of columns are centres of clusters: leave it out"
            )
        layers = []
        for kernel, places, z in zip(kernels, seen, anchors, strict=True):
            targets = wanted
            if targets is None:
                y = as_numbers(data.y, rows.n_classes)
                targets = supervised_targets(y, data.x[:, places], options.n_processes)
            learn_points = z is None
            if z is None:
                kernel = start_from_data(kernel, data.x, targets[:, 0])
                z = clustered_points(kernel, data.x, options.n_inducing, context.seed)
            layers.append(first_layer(data.x, targets, kernel, z, learn_points))
        return layers[0] if len(layers) == 1 else SideBySide(*layers)


def _level(history: History) -> float:
    """The mean objective of the last tenth of a training."""
    last = history.values[-max(1, len(history.values) // 10) :]
    return sum(last) / len(last)
