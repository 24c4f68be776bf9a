"""Deep random features, alone and on Gaussian processes of columns or objects, as estimators."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stratagp.estimators.classification import Classifier
from stratagp.estimators.regression import Regressor
from stratagp.estimators.shell import Estimator, Standardise
from stratagp.kernels import Kernel
from stratagp.layers import SideBySide, Stack
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.drf import DRFRecipe, FeatureOptions, GPDRFOptions

_FOR_TEXTS = "take GPDRFRegressor or GPDRFClassifier with kernel=kernels.Spectrum(3), for example"


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureLayers(Estimator, ABC):
    """What estimators with layers of random features share."""

    standardise: Standardise = "both"

    def _recipe(self, rows: Rows) -> Recipe:
        assert isinstance(self, FeatureOptions)
        return DRFRecipe(self)

    def _kernel_columns(self) -> list[str]:
        return []  # kernels of different layers see different columns

    def _output_kernels(self) -> list[Kernel]:
        layer: Any = self.model_.layer
        return _kernels_of(layer.layers[-1] if isinstance(layer, Stack) else layer)

    @property
    def kernel_(self) -> Any:
        """The kernel of the first layer, with its learnt values; a list, if its views or functions have their own."""
        layer: Any = self.model_.layer
        kernels = _kernels_of(layer.layers[0] if isinstance(layer, Stack) else layer)
        return kernels if len(kernels) > 1 else kernels[0]


def _kernels_of(layer: Any) -> list[Any]:
    return [part.kernel for part in layer.layers] if isinstance(layer, SideBySide) else [layer.kernel]


@dataclass(eq=False, repr=False)
class DRFRegressor(FeatureLayers, FeatureOptions, Regressor):
    """Regression by a deep Gaussian process of random features (DRF, Cutajar et al. 2017), with any likelihood.

    Each layer is a Bayesian linear model on random features of the layer before, so that a step costs no more than one
    of a small network.

    Arguments:
        layer_kernel: of all layers, "rbf" or "arc-cosine" (degree 1, with a bias), with a lengthscale for each column;
            or a kernel: RBF, Matern with a fixed ``nu``, ArcCosine of depth 1.
        n_layers: how many layers of random features, the last one included.
        width: functions of each layer but the last.
        n_features: frequencies of each layer.
        frequencies: "prior-fixed" (drawn once; lengthscales stretch them), "var-fixed" (learnt, with a belief about
            each, by one draw of it: no bound, and few rows are learnt by heart) or "var-resampled" (learnt, drawn anew
            at each step); "auto" takes the first where 100 epochs are fewer than ``min_steps``, else the second.
        draws: of frequencies, "independent", "orthogonal" or "quasi" (quasi-random).
        feed_forward: whether layers after the first see the columns too.
        own_priors: whether each function of a layer has lengthscales and frequencies of its own instead of its layer's:
            as many times the work as a layer has functions.
        l2: a penalty on all parameters, ``½ l2 |θ|²`` for each row, of their free coordinates; 5e-4 in the paper of
            GP-DRF, where divergences from the priors do the same work already.
        likelihood: as in :class:`AutoGPRegressor`.
        n_samples: of hidden values of each row, in training.
        prediction_samples: fixed samples of hidden values, and of frequencies that are resampled, that predictions
            average over. Left out, 64, and 256 with "var-resampled".
        frequencies_after, hyperparameters_after: the share of the training before learnt frequencies, and parameters of
            kernels and likelihood, move.
        max_epochs: how often to go over the data, exactly. Left out, 100 times; where that makes fewer than
            ``min_steps`` steps, that many, again and again until they gain less than 0.01 nats a row, eight times at
            most, with a ``ConvergenceWarning`` if they still gain more. "var-fixed" trains once, as it has no end.
        min_steps: see ``max_epochs``.
        batch_size: rows of a step.
        rate: the step of Adam.
        validation: a share of the rows to hold out; training ends in the state with their best log predictive density.
        patience: epochs to wait for a better one; at least 100 steps.
        standardise: "both" inputs and targets, "targets" or "none".
        missing: as in :class:`AutoGPRegressor`.
        categorical, encoding, random_state, verbose: as in :class:`GPRegressor`.
        device: as in :class:`AutoGPRegressor`.

    After ``fit``, ``model_`` is the torch module, ``histories_`` tells how training went, phase by phase, and
    ``hyperparameters_`` has the learnt values, without standard errors.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(200, 1))
    >>> drf = DRFRegressor(width=2, n_features=30, max_epochs=500, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> bool(drf.score(X, np.sin(3 * X[:, 0])) > 0.95)
    True
    """

    layer_kernel: Literal["rbf", "arc-cosine"] | Kernel = "rbf"
    classifier: ClassVar[str] = "DRFClassifier"
    for_texts: ClassVar[str] = _FOR_TEXTS


@dataclass(eq=False, repr=False)
class DRFClassifier(FeatureLayers, FeatureOptions, Classifier):
    """Classification by a deep Gaussian process of random features.

    Arguments:
        likelihood: as in :class:`AutoGPClassifier`, but for "robust-max".
        others: as in :class:`DRFRegressor`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> drf = DRFClassifier(width=2, n_features=30, max_epochs=500, random_state=0)
    >>> drf.fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")).predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """

    layer_kernel: Literal["rbf", "arc-cosine"] | Kernel = "rbf"
    for_texts: ClassVar[str] = _FOR_TEXTS


@dataclass(eq=False, repr=False)
class GPDRFRegressor(FeatureLayers, GPDRFOptions, Regressor):
    """Regression by Gaussian processes over columns or objects with deep random features on top (GP-DRF).

    The first layer are sparse processes with any kernel: of strings, graphs or anything else with a similarity, as
    well as of columns. Layers of random features map their values to the targets (Laradji et al. 2019). Up to a few
    thousand objects start with :class:`GPRegressor` and the same kernel, which is exact and much faster, and compare.

    Arguments:
        kernel: of the processes of the first layer; an RBF with a lengthscale for each column where it is left out.
            With a kernel over objects (``kernels.Double(1, 5)``), ``X`` is a list of these.
        n_processes: of the first layer; of each view, if there are several.
        n_inducing: inducing points of each; of objects as many of the training rows. The first option to raise: a
            process cannot tell more apart than its inducing objects do.
        anchors: which objects these are: "random" (where it is left out), "medoids" of clusters, or "greedy", far from
            one another. Inducing points of columns are centres of clusters instead.
        views, view_kernels: several groups of columns, arrays or lists of objects, each with processes of its own, as
            in :class:`DFGPRegressor`. In a data frame, ``view_kernels={"text": kernels.Spectrum(3)}`` names a column of
            objects, or of numbers or categories, that is a view of its own. The other columns are together one more
            view, which the name "columns" gives a kernel: ``{"text": kernels.Spectrum(3), "columns": kernels.RBF()}``.
        layer_kernel, n_layers, width, n_features, frequencies, draws, own_priors: of random features, as in
            :class:`DRFRegressor`;
            with ``n_layers=0`` the model is the sparse process itself, a process for each score whatever
            ``n_processes`` says, and without hidden values to sample.
        feed_forward: whether layers of random features after the first see the processes of the first layer too.
        others: as in :class:`DRFRegressor`.

    Similarities of objects are computed once; training then goes at the speed of matrices. After ``fit``, ``model_``,
    ``histories_`` and ``hyperparameters_`` are as in :class:`DRFRegressor`, and ``kernel_`` is that of the first layer.

    >>> import numpy as np
    >>> from stratagp import kernels as k
    >>> rng = np.random.default_rng(0)
    >>> words = ["".join(rng.choice(list("ab"), size=rng.integers(5, 15))) for _ in range(100)]
    >>> share = [word.count("aa") / len(word) for word in words]
    >>> gp = GPDRFRegressor(k.Spectrum(2), n_processes=2, n_inducing=30, n_layers=1, max_epochs=500, random_state=0)
    >>> bool(gp.fit(words, share).score(words, share) > 0.8)
    True
    """

    classifier: ClassVar[str] = "GPDRFClassifier"


@dataclass(eq=False, repr=False)
class GPDRFClassifier(FeatureLayers, GPDRFOptions, Classifier):
    """Classification of rows, sequences, graphs or other objects by Gaussian processes and deep random features.

    Up to a few thousand objects start with :class:`GPClassifier` and the same kernel, which is exact and much faster.
    ``certainty`` tells rows apart that might be of either of two classes: 0 where they cannot be told.

    Arguments:
        likelihood: as in :class:`AutoGPClassifier`, but for "robust-max".
        others: as in :class:`GPDRFRegressor`.

    >>> import numpy as np
    >>> from stratagp import kernels as k
    >>> rng = np.random.default_rng(0)
    >>> words = ["".join(rng.choice(list(letters), size=8)) for letters in ("abc", "bcd") * 40]
    >>> gp = GPDRFClassifier(k.Spectrum(1), n_processes=2, n_inducing=20, n_layers=1, max_epochs=500, random_state=0)
    >>> gp.fit(words, ["first", "second"] * 40).predict(["abcabca", "bcdd"])
    array(['first', 'second'], dtype='<U6')
    """
