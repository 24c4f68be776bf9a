"""What the estimators of deep feed-forward processes share: options, views, the start, training in closed form."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import one_hot

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batched import Batched, refuse_bad_targets
from stratagp.estimators.engines import Data, learnt_noise
from stratagp.estimators.inputs import Points, name_categories
from stratagp.estimators.variational import AutoGPEngine
from stratagp.estimators.views import ViewInputs
from stratagp.kernels import RBF, Kernel
from stratagp.layers import Layer, Stack
from stratagp.likelihoods import Bernoulli, GaussianNoise, Likelihood, Softmax
from stratagp.means import Constant
from stratagp.models.chain import Chain
from stratagp.models.dfgp import (
    dfgp_chain,
    dfgp_regression,
    hidden_layer,
    linear_targets,
    output_kernel,
    principal_targets,
    widen,
)
from stratagp.objectives import elbo
from stratagp.objectives.curvature import curvature_bound
from stratagp.training.lbfgs import Result, maximise
from stratagp.training.loop import History
from stratagp.types import Gaussian

_MOST_HIDDEN = 8  # processes, where their number is left out
_CLOSED_ROWS = 20_000  # up to which the collapsed bound is taken
_SOFTMAX_SAMPLES = 4  # of its functions, for each sample of hidden values


class DeepProcessEstimator(TransformerMixin, Batched):
    """Hidden processes, an output process that sees them, and a likelihood."""

    least_steps = 500
    _classifier = "DFGPClassifier"
    inputs_: ViewInputs
    histories_: list[History]
    result_: Result

    def __init__(
        self,
        n_hidden: Any = None,
        output_kernel: Any = "ard",
        kernel: Any = None,
        views: Any = None,
        view_kernels: Any = None,
        n_inducing: Any = 50,
        n_layers: Any = 2,
        hidden: Any = "gaussian",
        likelihood: Any = "auto",
        inference: Any = "auto",
        propagate: Any = "auto",
        n_samples: Any = 5,
        max_iterations: Any = 400,
        max_epochs: Any = 100,
        batch_size: Any = 1000,
        rate: Any = 0.02,
        validation: Any = 0.0,
        patience: Any = None,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.n_hidden = n_hidden
        self.output_kernel = output_kernel
        self.kernel = kernel
        self.views = views
        self.view_kernels = view_kernels
        self.n_inducing = n_inducing
        self.n_layers = n_layers
        self.hidden = hidden
        self.likelihood = likelihood
        self.inference = inference
        self.propagate = propagate
        self.n_samples = n_samples
        self.max_iterations = max_iterations
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.rate = rate
        self.validation = validation
        self.patience = patience
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.random_state = random_state
        self.verbose = verbose

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """The latent coordinates of rows, one for each hidden process or view; with standard deviations if asked."""
        belief = self._latent(X)
        mean = belief.mean.double().numpy()
        return (mean, belief.var.double().sqrt().numpy()) if return_std else mean

    def influence(self, X: Any) -> dict[str, float]:
        """The share of each view, or hidden process, in what is predicted for rows; they sum to one.

        It is the mean square change of the expected functions with a latent coordinate set to its average.
        """
        h, last, changes = self._latent(X).mean, self.model_.layer.layers[-1], []
        with torch.no_grad():
            before = last(h).mean
            for r in range(h.shape[1]):
                other = h.clone()
                other[:, r] = h[:, r].mean()
                changes.append(float((last(other).mean - before).square().mean()))
        total = sum(changes) or 1.0
        return {name: change / total for name, change in zip(self._latent_names(), changes, strict=True)}

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("hidden", ("gaussian", "point"))
        self._restrict("inference", ("auto", "collapsed", "batches"))
        self._restrict("propagate", ("auto", "samples", "moments"))
        for name, least in (("n_hidden", 1), ("n_layers", 2), ("n_samples", 1)):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name), least)
        self._check_training()
        if self.inference == "collapsed" and (self.validation or self.propagate == "samples"):
            raise InputError("inference='collapsed' is in closed form: leave out validation, and propagate='samples'")

    def _learn_inputs(self, X: Any) -> tuple[Kernel, Points]:
        kernel = self._default_kernel() if self.kernel is None else copy.deepcopy(self.kernel)
        if not kernel.takes_tensors:
            raise InputError(f"{type(self).__name__} needs a kernel over columns, got one over objects")
        self.inputs_ = ViewInputs(self, kernel, self.views, self.view_kernels)
        return kernel, self.inputs_.learn(self, X)

    def _fit_model(self, kernel: Kernel, points: Points, y: Tensor, likelihood: Likelihood, outputs: int) -> None:
        """Put the layers together where the data start them, and train them."""
        self._forget()
        if self.likelihood == "auto" and isinstance(likelihood, Bernoulli):
            likelihood = Bernoulli("probit")
        generator, x = torch.Generator().manual_seed(self._seed()), points.values
        refuse_bad_targets(likelihood, y, outputs)
        held, kept = self._split(y, generator)
        data, test = Data(x[kept], y[kept]), Data(x[held], y[held])
        below = self._hidden_layers(kernel, data, generator)
        above = output_kernel(self.output_kernel, below(data.x[:1]).mean.shape[1])
        if self._is_collapsed(likelihood, len(data.y)):
            model = self._fit_collapsed(below, above, data, likelihood)
        else:
            model = self._fit_batches(below, above, likelihood, outputs, data, test, generator)
        self.engine_, self.beliefs_ = AutoGPEngine(model, data), [model]

    def _is_collapsed(self, likelihood: Likelihood, rows: int) -> bool:
        possible = isinstance(likelihood, GaussianNoise) and self.propagate != "samples" and not self.validation
        if self.inference == "collapsed" and not possible:
            raise InputError(f"inference='collapsed' is for Gaussian noise, not for {type(likelihood).__name__}")
        return self.inference == "collapsed" or (self.inference == "auto" and possible and rows <= _CLOSED_ROWS)

    def _hidden_layers(self, kernel: Kernel, data: Data, generator: torch.Generator) -> Layer:
        """Layers of hidden processes, each started at linear functions of the rows that it sees."""
        m, views = self.n_inducing, self.inputs_.views
        if views is None:
            if self.view_kernels is not None:
                raise InputError("view_kernels are for views: give views, or kernel for all processes")
            if self.inputs_.encoder is not None:
                name_categories(kernel, self.inputs_.encoder)
            kernels: Any = kernel.bind(self.inputs_.columns)
            width = min(data.x.shape[1], _MOST_HIDDEN) if self.n_hidden is None else self.n_hidden
            targets = principal_targets(data.x, width)
        else:
            kernels = self.inputs_.kernels(kernel, data.x.shape[1])
            y = one_hot(data.y[:, 0].long()).double() if self.of_classes else data.y
            targets = torch.cat([linear_targets(data.x[:, self.inputs_.features(name)], y) for name in views], 1)
        rows = self.inputs_.anchor_rows(data.x) or None
        layers: list[Layer] = [hidden_layer(data.x, targets, kernels, m, generator, rows)]
        for _ in range(self.n_layers - 2):
            with torch.no_grad():
                h = _stacked(layers)(data.x).mean
            layers.append(hidden_layer(h, h, RBF(ard=h.shape[1]), m, generator))
        return _stacked(layers)

    def _fit_collapsed(self, below: Layer, above: Kernel, data: Data, likelihood: Likelihood) -> Chain:
        given = isinstance(self.likelihood, Likelihood)
        noise = likelihood.parameter("noise") if given else learnt_noise(data.y.shape[1])
        model = dfgp_regression(below, above, data.x, data.y, self.n_inducing, noise=noise)
        self._say(f"the collapsed bound of {len(data.y)} rows, by at most {self.max_iterations} iterations of L-BFGS")
        penalty = model.log_prior if model.has_priors else lambda: 0.0

        def score() -> Tensor:
            return model.log_evidence(data.x, data.y) + penalty()

        for phase, share in enumerate(self._shares(self.max_iterations)):
            if phase:
                widen(below)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is how long training lasts
                self.result_ = maximise(score, model.parameters() if share else [], share)
            self._say(f"{self.result_.value:.3f} after {self.result_.evaluations} evaluations: {self.result_.message}")
        self.histories_ = []
        return model.condition(data.x, data.y)

    def _fit_batches(
        self,
        below: Layer,
        above: Kernel,
        likelihood: Likelihood,
        outputs: int,
        data: Data,
        test: Data,
        generator: torch.Generator,
    ) -> Chain:
        gaussian = isinstance(likelihood, GaussianNoise)
        moments = self.propagate == "moments" or (self.propagate == "auto" and gaussian)
        by_curvature = moments and self.of_classes
        model = dfgp_chain(
            below,
            above,
            likelihood,
            data.x,
            outputs,
            self.n_inducing,
            "moments" if moments else "samples",
            self.n_samples,
            _SOFTMAX_SAMPLES if isinstance(likelihood, Softmax) and not by_curvature else None,
            generator,
            torch.float64,
            Constant(start) if (start := likelihood.start(data.y)) else None,
        )
        options, self.histories_ = self._length(len(data.y), self.max_epochs), []
        self._say(f"{options['epochs']} epochs of {len(data.y) // options['batch_size']} steps")
        for phase, share in enumerate(self._shares(options.pop("epochs"))):
            if phase:
                widen(below)
            if not share:
                continue
            history = model.fit(
                data.x,
                data.y,
                curvature_bound if by_curvature else elbo,
                natural=[model.layer.layers[-1].posterior] if moments and gaussian else False,
                penalty=model.log_prior if model.has_priors else None,
                epochs=share,
                rate=self.rate,
                generator=generator,
                score=(lambda: float(model.log_predictive(test.x, test.y).mean())) if len(test.y) else None,
                progress=self.verbose,
                **options,
            )
            self.histories_.append(history)
            if history.cut_short:
                break
        return model

    def _shares(self, total: int) -> list[int]:
        """How long beliefs about hidden values are points, and then Gaussians."""
        return [total] if self.hidden == "point" else [total // 2, total - total // 2]

    def _latent(self, X: Any) -> Gaussian:
        check_is_fitted(self, "beliefs_")
        with torch.no_grad():
            found: Gaussian = _stacked(list(self.model_.layer.layers)[:-1])(self.inputs_.points(self, X).values)
        return found

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the output process, in the space of the latent coordinates."""
        check_is_fitted(self, "engine_")
        last: Kernel = self.model_.layer.layers[-1].kernel
        return last

    def _kernel_columns(self) -> list[str]:
        return []  # kernels of different layers see different columns

    def _latent_names(self) -> list[str]:
        """Names of the latent coordinates: of the views, if these are what the output process sees."""
        if self.inputs_.views is not None and self.n_layers == 2:
            return list(self.inputs_.views)
        return [f"hidden {r}" for r in range(self.model_.layer.layers[-1].z.shape[-1])]


def _stacked(layers: list[Any]) -> Any:
    return layers[0] if len(layers) == 1 else Stack(*layers, propagate="moments")
