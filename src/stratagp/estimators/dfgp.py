"""Deep feed-forward Gaussian processes as estimators."""

from __future__ import annotations

from typing import Any

from stratagp.estimators.base import check_whole_number
from stratagp.estimators.batched import BatchedRegressor
from stratagp.estimators.batched_classifier import BatchedClassifier
from stratagp.estimators.deep_process import DeepProcessEstimator


class DFGPRegressor(BatchedRegressor, DeepProcessEstimator):
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
        n_starts: trainings from different starts, of which the one with the greatest bound is kept; 2 in closed form
            without views and 1 else, where it is left out. ``bounds_`` has the bound of each.
        likelihood: as in :class:`AutoGPRegressor`.
        inference: "collapsed" (closed form, L-BFGS), "batches" (any likelihood, many rows), or "auto": closed form for
            Gaussian noise and up to 20,000 rows with 50 inducing points, fewer with more.
        propagate: what the output process sees of hidden ones in training by batches: their "moments", in closed form
            for Gaussian noise and an approximation otherwise; or "samples". "auto" takes moments for Gaussian noise.
        n_samples: of hidden values of each row, with "samples".
        max_iterations: of L-BFGS, at most; it ends where ten of them gain little. ``result_`` tells how it ended.
        max_epochs, batch_size, rate, validation, patience: of training by batches, as in :class:`AutoGPRegressor`, but
            at least 500 steps. With ``validation``, "auto" trains by batches.
        standardise: "both" inputs and targets, "targets" or "none".
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


class DFGPClassifier(BatchedClassifier, DeepProcessEstimator):
    """Classification by a deep feed-forward Gaussian process; with ``views``, multiple kernel learning.

    Arguments:
        likelihood: "auto" is Bernoulli with a probit for two classes and a softmax for more; others as in
            :class:`AutoGPClassifier`.
        propagate: "samples" (also "auto") trains the variational bound by samples of hidden values; "moments" a bound
            in closed form, which needs their moments alone and is looser.
        others: as in :class:`DFGPRegressor`; training is by batches.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> dfgp = DFGPClassifier(n_hidden=2, n_inducing=10, max_epochs=1, random_state=0)
    >>> dfgp.fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")).predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """


class WishartProcessRegressor(BatchedRegressor, DeepProcessEstimator):
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

    output_kernel = "linear"
    _hidden_option = "dof"
    views = view_kernels = patience = None
    n_layers, n_samples, validation = 2, 5, 0.0
    likelihood = propagate = "auto"

    def __init__(
        self,
        dof: Any = 8,
        kernel: Any = None,
        n_inducing: Any = 50,
        hidden: Any = "gaussian",
        n_starts: Any = None,
        inference: Any = "auto",
        max_iterations: Any = 400,
        max_epochs: Any = 100,
        batch_size: Any = 1000,
        rate: Any = 0.02,
        standardise: Any = "both",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.dof = dof
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.hidden = hidden
        self.n_starts = n_starts
        self.inference = inference
        self.max_iterations = max_iterations
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.rate = rate
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _check_options(self) -> None:
        check_whole_number("dof", self.dof, 1)
        super()._check_options()

    @property
    def n_hidden(self) -> int:
        """The number of hidden processes: ``dof``."""
        return int(self.dof)
