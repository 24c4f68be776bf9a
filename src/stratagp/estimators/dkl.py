"""Deep kernel learning as estimators: features by a network, Gaussian processes of them, one training for both."""

from __future__ import annotations

from stratagp.estimators.batched import BatchedRegressor
from stratagp.estimators.batched_classifier import BatchedClassifier
from stratagp.estimators.deep_kernel import DKLEstimator


class DKLRegressor(BatchedRegressor, DKLEstimator):
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
        axes: features that share a grid; more than one makes products, whose covariance has Kronecker factors.
        conditional: whether the variance that a grid does not tell of is added, which the paper leaves out.
        n_inducing: inducing points of ``last="inducing"``.
        likelihood: as in :class:`AutoGPRegressor`.
        n_samples: of each row in the bound. None or "auto" uses closed forms and quadrature where there are any.
        pretrain_epochs: epochs of the network alone; 0 trains everything from the start.
        max_epochs: epochs of everything. Both make at least 500 steps.
        batch_size: rows of a step.
        rate: the step of Adam for all but the network.
        network_rate: that for the network.
        fine_tuning: the factor of ``network_rate`` once the network has been trained alone; below one is the paper's
            recipe.
        weight_decay: how much the weight matrices of the network shrink with each step, as a multiple of its rate.
        dropout: the share of units that ready networks leave out in training.
        batch_norm: whether fully connected networks standardise their units over the batch.
        spectral: whether the layers of a ready network have a norm of one at most, so that features change no faster
            than inputs; there is no batch normalisation then.
        validation: a share of the rows to hold out; each step of training ends in the state with the best log
            predictive density of them. Without them a deep kernel overfits, and is sure of what it does not know.
        patience: epochs to wait for a better one; at least 100 steps.
        standardise: "both" inputs (images by channel) and targets, "targets" or "none".
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


class DKLClassifier(BatchedClassifier, DKLEstimator):
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
