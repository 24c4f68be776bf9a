"""Deep feed-forward Gaussian processes as estimators."""

from __future__ import annotations

from abc import ABC
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.classification import Classifier
from stratagp.estimators.inputs.base import Inputs, RowsLike
from stratagp.estimators.inputs.views import ViewInputs
from stratagp.estimators.regression import Regressor
from stratagp.estimators.shell import Estimator, Standardise
from stratagp.kernels import Kernel
from stratagp.likelihoods import Likelihood
from stratagp.likelihoods.named import likelihood_of_numbers
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.dfgp import DFGPClassOptions, DFGPOptions, DFGPRecipe, stacked
from stratagp.recipes.options import Positive, Whole, WholeOrZero
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian

_LATENT_ROWS = 4096  # at once


@dataclass(eq=False, repr=False, kw_only=True)
class HiddenProcesses(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator, ABC):
    """What estimators with hidden processes share, and tell about these."""

    standardise: Standardise = "both"
    classifier: ClassVar[str] = "DFGPClassifier"
    for_texts: ClassVar[str] = "give X=[texts] and view_kernels=[kernels.Spectrum(3)], for example"

    def _reader(self, X: RowsLike) -> Inputs:
        given = self.get_params(deep=False)
        if given["kernel"] is not None and not given["kernel"].takes_tensors:
            raise InputError(
                f"{type(self).__name__}: kernel is over objects: give it to DFGPRegressor in view_kernels, with X a "
                "list or mapping of views, view_kernels=[kernel] and X=[objects] for one"
            )
        return ViewInputs(self._input_options(), given.get("views"), given.get("view_kernels"))

    def _options(self, rows: Rows) -> DFGPOptions:
        assert isinstance(self, DFGPOptions)
        return self

    def _recipe(self, rows: Rows) -> Recipe:
        recipe = DFGPRecipe(self._options(rows))
        self.inference_, self.inference_reason_ = recipe.inference(rows)
        return recipe

    def transform(self, X: RowsLike, return_std: bool = False) -> Any:
        """The latent coordinates of rows, one for each hidden process or view; with standard deviations if asked."""
        belief = self._latent(X)
        mean = as_numpy(belief.mean)
        return (mean, np.sqrt(as_numpy(belief.var))) if return_std else mean

    def influence(self, X: RowsLike) -> dict[str, float]:
        """The share of each view, or process of the first layer, in what is predicted for rows; they sum to one.

        It is the mean square change of the expected functions with a coordinate of that layer set to its average.
        """
        h, above, changes = self._latent(X, 1).mean, list(self.model_.layer.layers)[1:], []
        with torch.no_grad():
            before = _expected(above, h)
            for r in range(h.shape[1]):
                other = h.clone()
                other[:, r] = h[:, r].mean()
                changes.append(float((_expected(above, other) - before).square().mean()))
        total = sum(changes) or 1.0
        views = self.inputs_.views if isinstance(self.inputs_, ViewInputs) else None
        names = [f"hidden {r}" for r in range(len(changes))] if views is None else list(views)
        return {name: change / total for name, change in zip(names, changes, strict=True)}

    def _latent(self, X: RowsLike, layers: int = -1) -> Gaussian:
        check_is_fitted(self, "fitted_")
        below, x = stacked(list(self.model_.layer.layers)[:layers]), self.inputs_.points(self, X).values
        with torch.no_grad():
            device = next(self.model_.parameters()).device
            parts = [below(rows.to(device)) for rows in x.split(_LATENT_ROWS)]
        return Gaussian(*(torch.cat(part) for part in zip(*parts, strict=True)))

    @property
    def kernel_(self) -> Kernel:
        """The kernel of the output process, in the space of the latent coordinates."""
        last: Kernel = self.model_.layer.layers[-1].kernel
        return last

    @property
    def bounds_(self) -> list[float]:
        """The bound that each start has led to."""
        check_is_fitted(self, "fitted_")
        bounds: list[float] = vars(self)["fitted_"].bounds
        return bounds

    def _kernel_columns(self) -> list[str]:
        return []  # kernels of different layers see different columns

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.layer.layers[-1].z.shape[-1])


@dataclass(eq=False, repr=False)
class DFGPRegressor(HiddenProcesses, DFGPOptions, Regressor):
    """Regression by a deep feed-forward Gaussian process (DFGP, Kandemir and Hamprecht 2015), with any likelihood.

    Hidden processes map rows to latent coordinates, and one more process maps these to the targets. With Gaussian noise
    all expectations are in closed form, and one bound on the evidence trains everything by L-BFGS.

    Arguments:
        n_hidden: hidden processes of each layer, as many as columns but at most 8 where it is left out. With views
            there is one for each.
        output_kernel: of the output process, on the latent coordinates: "ard" (an RBF with a lengthscale for each),
            "rbf", "metric" (an RBF with a full metric that is learnt), "linear" (a Wishart-process prior for the
            covariance), "rbf + linear"; or a kernel with expectations.
        kernel: of the hidden processes, which each get a copy; an RBF with a lengthscale for each column by default.
        views: groups of columns for multiple kernel learning, each seen by a hidden process of its own: a list of
            slices, names or lists of columns, or a mapping of names to them. ``X`` may also be a list or a mapping of
            arrays, one for each view; or lists of objects (texts, sequences) for views with a kernel over objects.
            Cross-validation needs one table, with ``views`` as groups of its columns.
        view_kernels: kernels of views, where they differ, in their order or by name; on columns of the view by number.
            In a data frame without ``views`` the names are those of columns, each a view of its own, and all other
            columns are together the view "columns".
        n_inducing: inducing points of each process.
        n_layers: of processes, the output included; further hidden layers are as wide as the first, with RBF kernels.
            Moments of more than two layers are an approximation.
        hidden: the belief about hidden inducing values: "gaussian", which makes the objective a bound on the evidence
            (with two layers, or samples), or "point", as in the paper.
        hidden_points: whether the inducing points of hidden processes are "learnt", from random rows on, or stay there,
            "fixed", as in the paper.
        hidden_start: what hidden processes start at by least squares: principal "components" of the rows (of a view,
            its linear fit to the targets); or the "targets" themselves, as in the paper: their principal components,
            each for several processes.
        n_starts: trainings from different starts, of which the one with the greatest bound is kept; 2 in closed form
            without views and 1 else, where it is left out. ``bounds_`` has the bound of each.
        likelihood: as in :class:`AutoGPRegressor`.
        inference: "collapsed" (closed form, L-BFGS), "batches" (any likelihood, many rows), or "auto": closed form for
            Gaussian noise and up to 20,000 rows with 50 inducing points, fewer with more.
        propagate: what the output process sees of hidden ones in training by batches: their "moments", in closed form
            for Gaussian noise and an approximation otherwise; or "samples". "auto" takes moments for Gaussian noise.
        n_samples: of hidden values of each row, with "samples".
        prediction_samples: fixed samples of hidden values that densities, quantiles and probabilities average over.
        max_iterations: of L-BFGS, at most; it ends where ten of them gain little. ``result_`` tells how it ended.
        max_epochs, min_steps, batch_size, rate, validation, patience: of training by batches, as in
            :class:`AutoGPRegressor`, but 100 epochs and 500 steps at least where ``max_epochs`` is left out. With
            ``validation``, "auto" trains by batches.
        standardise: "both" inputs and targets, "targets" or "none".
        missing: as in :class:`AutoGPRegressor`.
        categorical, encoding, random_state, verbose: as in :class:`GPRegressor`.
        device: as in :class:`AutoGPRegressor`.

    After ``fit``, ``model_`` is the torch module and ``inference_`` tells how it was trained; ``transform`` gives the
    latent coordinates that the output process sees, and ``influence`` the share of each view. Predictive densities and
    quantiles average over the latent coordinates; they are not Gaussian.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> dfgp = DFGPRegressor(n_hidden=2, n_inducing=10, max_iterations=50, random_state=0)
    >>> y = np.tanh(5 * X[:, 0]) * X[:, 1]
    >>> bool(dfgp.fit(X, y).score(X, y) > 0.9)
    True
    """


@dataclass(eq=False, repr=False)
class DFGPClassifier(HiddenProcesses, DFGPClassOptions, Classifier):
    """Classification by a deep feed-forward Gaussian process; with ``views``, multiple kernel learning.

    Arguments:
        likelihood: "auto" is Bernoulli with a probit for two classes and a softmax for more; others as in
            :class:`AutoGPClassifier`.
        propagate: "samples" (also "auto") trains the variational bound by samples of hidden values; "moments" a bound
            in closed form, which needs their moments alone and is looser.
        beta: β of the paper's bound, with "moments": the precision of the noise before the probit; 0 is the tightest.
        others: as in :class:`DFGPRegressor`; training is by batches.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> dfgp = DFGPClassifier(n_hidden=2, n_inducing=10, random_state=0)
    >>> dfgp.fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")).predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """


@dataclass(eq=False, repr=False)
class WishartProcessRegressor(HiddenProcesses, Regressor):
    """Regression by a Gaussian process whose covariance has a Wishart process as its prior.

    ``f = Σ_r w_r b_r`` with hidden processes ``b_r`` and weights ``w_r ~ N(0, v_r)``, both unknown. Where all ``v_r``
    are ``1/ν``, the covariance of ``f`` given the hidden processes is ``B Bᵀ/ν``, a draw of the Wishart process with
    ``ν`` degrees of freedom (:class:`stratagp.models.WishartProcess`); here they are learnt. It is
    :class:`DFGPRegressor` with a linear output kernel.

    Arguments:
        dof: ν, the number of hidden processes.
        others: as in :class:`DFGPRegressor`.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 80)[:, None]
    >>> wp = WishartProcessRegressor(dof=3, n_inducing=10, max_iterations=50, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(wp.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    dof: Whole = 8
    kernel: Kernel | None = None
    n_inducing: Whole = 50
    _: KW_ONLY
    hidden: Literal["gaussian", "point"] = "gaussian"
    n_starts: Whole | None = None
    inference: Literal["auto", "collapsed", "batches"] = "auto"
    max_iterations: WholeOrZero = 400
    max_epochs: Whole | None = None
    min_steps: Whole = 500
    batch_size: Whole = 1000
    rate: Positive = 0.02
    for_texts: ClassVar[str] = "take DFGPRegressor with X=[texts] and view_kernels=[kernels.Spectrum(3)], for example"
    reads_files: ClassVar[bool] = True

    def _options(self, rows: Rows) -> DFGPOptions:
        views = None if rows.views is None else rows.views.views
        if views is not None and len(views) != self.dof:
            raise InputError(f"dof is for one table: each of {len(views)} views has one process")
        shared = {own.name: vars(self)[own.name] for own in fields(DFGPOptions) if own.name in vars(self)}
        return DFGPOptions(self.dof, "linear", **shared)

    def _likelihood(self, outputs: int) -> Likelihood:
        return likelihood_of_numbers("auto", outputs, DFGPOptions.start_noise)


def _expected(layers: list[Any], h: Tensor) -> Tensor:
    """The expected functions, by the expected values of each layer."""
    for layer in layers:
        h = layer(h).mean
    return h
