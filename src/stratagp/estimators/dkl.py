"""Deep kernel learning as estimators: features by a network, Gaussian processes of them, one training for both."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar

from stratagp.estimators.classification import Classifier
from stratagp.estimators.inputs.base import Inputs, RowsLike
from stratagp.estimators.inputs.images import ImageInputs, are_images
from stratagp.estimators.inputs.table import TableInputs
from stratagp.estimators.regression import Regressor
from stratagp.estimators.shell import Estimator, Standardise
from stratagp.kernels import Kernel
from stratagp.layers import Grid
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.dkl import DKLOptions, DKLRecipe


@dataclass(eq=False, repr=False, kw_only=True)
class DeepKernels(Estimator, ABC):
    """What both estimators of deep kernel learning share."""

    standardise: Standardise = "both"
    classifier: ClassVar[str] = "DKLClassifier"
    for_texts: ClassVar[str] = "take GPDRFRegressor or GPDRFClassifier with kernel=kernels.Spectrum(3), for example"

    def _reader(self, X: RowsLike) -> Inputs:
        return ImageInputs(self.standardise == "both") if are_images(X) else TableInputs(self._input_options())

    def _recipe(self, rows: Rows) -> Recipe:
        assert isinstance(self, DKLOptions)
        return DKLRecipe(self)

    def _kernel_columns(self) -> list[str]:
        return [f"feature {i}" for i in range(self.model_.layer.layers[0].outputs)]

    def _output_kernels(self) -> list[Kernel]:
        last = self.model_.layer.layers[-1]
        found: list[Any] = list(last.kernels) if isinstance(last, Grid) else [last.kernel]
        return found

    @property
    def kernel_(self) -> Any:
        """The kernel of the features with its learnt values: one for each axis of the grids, or of all features."""
        kernels = self._output_kernels()
        return kernels if len(kernels) > 1 else kernels[0]


@dataclass(eq=False, repr=False)
class DKLRegressor(DeepKernels, DKLOptions, Regressor):
    """Regression by stochastic variational deep kernel learning (SV-DKL, Wilson et al. 2016), with any likelihood.

    A network gives features; each feature feeds a Gaussian process on a grid of its own, and their values are mixed
    into the scores that the likelihood sees. The network is trained alone first, then everything together through the
    variational bound.

    Arguments:
        network: "auto" (fully connected 128-64-16 for tables, "lenet" for square images of 12 × 12 pixels or more,
            "resnet" for others), a list of widths, the last one the number of features; "lenet" or "resnet" for images;
            or any torch module from rows to features.
        last: "grid" (a process for each feature, on a grid) or "inducing" (a process of all features for each score,
            with inducing points).
        kernel: a kernel of one feature, or of all with "inducing"; features have a standard deviation of one. An RBF
            where it is left out.
        grid_size: points of a grid along each axis; ``grid_size ** axes`` is at most 65,536.
        axes: features that share a grid; more than one makes products, whose covariance has Kronecker factors. They
            start from the network too: exactly for one score, by the leading direction of each grid for several.
        conditional: whether the variance that a grid does not tell of is added, which the paper leaves out.
        n_inducing: inducing points of ``last="inducing"``.
        likelihood: as in :class:`AutoGPRegressor`.
        n_samples: of each row in the bound. None or "auto" uses closed forms and quadrature where there are any.
        pretrain_epochs: epochs of the network alone; 0 trains everything from the start.
        max_epochs: epochs of everything, exactly. Left out, 20, and both steps of training make ``min_steps`` steps at
            least.
        min_steps: see ``max_epochs``.
        batch_size: rows of a step.
        rate: the step of Adam for all but the network.
        network_rate: that for the network.
        fine_tuning: the factor of ``network_rate`` once the network has been trained alone; below one is the paper's
            recipe, and 0 keeps the network as it is then: its DNN+GP.
        weight_decay: how much the weight matrices of the network shrink with each step, as a multiple of its rate.
        dropout: the share of units that ready networks leave out in training.
        batch_norm: whether fully connected networks standardise their units over the batch.
        spectral: whether the layers of a ready network have a norm of one at most, so that features change no faster
            than inputs; there is no batch normalisation then.
        validation: a share of the rows to hold out; each step of training ends in the state with the best log
            predictive density of them, and with no less noise than is best for them: residuals of rows that a network
            has learnt from are too small. With 0 all rows are learnt from, after a first training that holds out a
            tenth to find the noise; classes, and rows of a stream, have no such guard.
        patience: epochs to wait for a better one; at least 100 steps.
        standardise: "both" inputs (images by channel) and targets, "targets" or "none".
        missing: as in :class:`AutoGPRegressor`.
        categorical: as in :class:`GPRegressor`.
        encoding: of categories, "one-hot", or "codes", which the network embeds as vectors that it learns.
        device: as in :class:`AutoGPRegressor`.
        random_state: seed of the network, batches and samples.
        verbose: print what is done, with a progress bar.

    ``X`` is an array or a frame of rows, or an array of images ``n h w`` or ``n c h w``. After ``fit``, ``model_`` is
    the torch module and ``histories_`` tells what training did.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
    >>> dkl = DKLRegressor([32, 4], random_state=0).fit(X, np.sin(3 * X[:, 0]) * X[:, 1])
    >>> bool(dkl.score(X, np.sin(3 * X[:, 0]) * X[:, 1]) > 0.9)
    True
    """


@dataclass(eq=False, repr=False)
class DKLClassifier(DeepKernels, DKLOptions, Classifier):
    """Classification by stochastic variational deep kernel learning: a softmax of mixed Gaussian processes of features.

    Arguments:
        likelihood: as in :class:`AutoGPClassifier`, but for "robust-max": a network cannot learn from its steps.
        n_samples: of each row in the bound; "auto" takes 20 for the softmax, and quadrature for one score.
        others: as in :class:`DKLRegressor`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(400, 2))
    >>> dkl = DKLClassifier([32, 4], random_state=0).fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other"))
    >>> dkl.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """
