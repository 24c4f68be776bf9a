"""AutoGP as estimators: any likelihood, mixtures as posteriors, millions of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stratagp.estimators.classification import Classifier
from stratagp.estimators.regression import Regressor
from stratagp.recipes.autogp import AutoGPOptions, AutoGPRecipe
from stratagp.recipes.base import Recipe, Rows


@dataclass(eq=False, repr=False)
class AutoGPRegressor(AutoGPOptions, Regressor):
    """Sparse variational Gaussian-process regression with any likelihood, by mini-batches.

    Arguments:
        kernel: a kernel that each latent function gets a copy of; an RBF with a lengthscale for each column where it is
            left out. ``k.ArcCosine(degree=1, depth=3)`` is a deep one.
        n_inducing: how many inducing points each function has; they start at centres of clusters and are learnt.
        n_components: Gaussians in the posterior; more than one can hold several modes.
        covariance: of each of them, "full" or "diagonal".
        likelihood: how targets come from the functions: "gaussian" (also "auto"), "student-t", "laplace",
            "heteroscedastic", "gprn" (a regression network for several targets), "poisson", "negative-binomial", each
            of these two with "zero-inflated-" or "hurdle-" before it, "gamma", "exponential", "beta", "weibull",
            "log-normal"; or a :class:`~stratagp.likelihoods.Likelihood`, whose values are those of standardised targets
            where it can be scaled (the first five). Counts may have a second column, the exposure (predictions are for
            an exposure of one); times one that tells whether the event was observed (1) or not yet (0).
        objective: "elbo" (the variational bound), "loo" (the leave-one-out density, after the bound) or "ppgpr" (the
            predictive density with the divergence as a regulariser).
        loo_parameters: what the leave-one-out density moves: "hyper", that is kernels, likelihood and inducing points,
            in turns with the bound (Algorithm 1 of Krauth et al. 2016); or "all", which fits better where there are
            many rows for each inducing point, and overfits few: hold rows out by ``validation`` then.
        loo_estimate: "sampled", the leave-one-out density from ``n_samples`` of each row (10 where that is no number),
            the unlikeliest cut off, which fears variance less and fits closer; or "closed", in closed form where there
            is one (Gaussian and Laplace noise, logit, softmax; always for robust-max).
        phase_epochs: the length of the bound's phase before "loo", and of each turn; a quarter of all by default.
        n_samples: replaces closed forms and quadrature by that many samples of each row; None or "auto" does not. Of
            "loo" by samples only leave-one-out is replaced, and the bound of a softmax.
        gradients: of a bound by ``n_samples``: "pathwise", or "score", from values of the likelihood alone, with
            control variates (the black-box estimator that the paper compares with), which needs many more samples.
        entropy: the lower bound on that of a mixture, "bhattacharyya" or the paper's, "jensen", which is lower.
        optimiser: "adam", or the paper's, "rmsprop" (with a ``rate`` of 0.003 there).
        shared: whether all functions share one kernel and one set of inducing points.
        batch_size: rows of a step.
        max_epochs: how often to go over the data, exactly. Left out, 30 times, and ``min_steps`` steps at least.
        min_steps: see ``max_epochs``.
        rate: of the optimiser.
        validation: a share of the rows to hold out; each phase of training ends in the state that predicts them best.
        patience: epochs to wait for a better one before a phase is ended; at least 100 steps.
        precision: of training, "float32" or "float64"; predictions are in the latter.
        standardise: "targets" (for likelihoods that can be scaled), "both" also centres and scales inputs, "none".
        missing: inputs that are NaN: "raise", or "impute": filled with their expectation in training, and averaged over
            in prediction.
        categorical, encoding: as in :class:`GPRegressor`.
        device: where the model is trained and predicts, "cpu", "cuda", "cuda:1" or a ``torch.device``; what is asked of
            it comes back as arrays. Copies, pickles and saved models are on the processor.
        random_state: seed of inducing points, batches and samples.
        verbose: print what is done, with a progress bar.

    After ``fit``, ``model_`` is the torch module, ``histories_`` tells what each phase of training did.

    >>> import numpy as np
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> counts = np.random.default_rng(0).poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> gp = AutoGPRegressor(n_inducing=10, likelihood="poisson", random_state=0).fit(X, counts)
    >>> bool(abs(gp.predict([[1.57]])[0] - np.exp(2)) < 1.5)
    True
    """

    classifier: ClassVar[str] = "AutoGPClassifier"

    def _recipe(self, rows: Rows) -> Recipe:
        return AutoGPRecipe(self)


@dataclass(eq=False, repr=False)
class AutoGPClassifier(AutoGPOptions, Classifier):
    """Sparse variational Gaussian-process classification by mini-batches, with a latent function for each class.

    Arguments:
        likelihood: "auto" (a logit of one function for two classes, a softmax for more), "softmax", "bernoulli",
            "robust-max", or one of these (or an ``Ordinal``) of :mod:`stratagp.likelihoods`.
        n_samples: of each row in the bound; "auto" takes 20 for the softmax, and quadrature otherwise, as None does.
        others: as in :class:`AutoGPRegressor`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> gp = AutoGPClassifier(n_inducing=20, random_state=0).fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other"))
    >>> gp.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    """

    def _recipe(self, rows: Rows) -> Recipe:
        return AutoGPRecipe(self)
