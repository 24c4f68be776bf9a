"""The Bayesian latent variable model as a transformer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from stratagp.errors import ConvergenceWarning, InputError, NoAttributeError
from stratagp.estimators.saving import export_model, save_model
from stratagp.kernels import RBF, Kernel
from stratagp.models.gplvm import fit_gplvm, gplvm, latent_points
from stratagp.recipes.options import Whole, check_options
from stratagp.training.progress import log
from stratagp.training.start import spreads

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nonlinear principal components with uncertainty (Bayesian GPLVM, Titsias and Lawrence 2010).

    Each row is a noisy function, drawn from a Gaussian process, of a latent point of few dimensions. Dimensions that
    are not needed get long lengthscales.

    Arguments:
        n_components: dimensions of the latent space.
        n_inducing: inducing points of the process.
        kernel: on the latent space; an RBF with a lengthscale for each dimension where it is left out.
        standardise: whether columns are scaled to a variance of one; they are always centred.
        max_iterations: of L-BFGS.
        verbose: print what is done.

    After ``fit``: ``bound_`` is the lower bound on the log evidence of the (standardised) rows, ``relevance_`` the
    inverse lengthscale of each dimension, ``model_`` the torch module.

    >>> import numpy as np
    >>> t = np.linspace(-1, 1, 40)[:, None]
    >>> X = np.hstack([t, t**2, np.sin(3 * t)])
    >>> Z = BayesianGPLVM(n_components=1, n_inducing=10, max_iterations=40).fit_transform(X)
    >>> bool(abs(np.corrcoef(Z[:, 0], t[:, 0])[0, 1]) > 0.95)
    True
    """

    n_components: Whole = 2
    n_inducing: Whole = 30
    kernel: Kernel | None = None
    standardise: bool = True
    max_iterations: Whole = 500
    verbose: bool | int = False

    save = save_model
    export = export_model

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn from rows ``X``."""
        check_options(self)
        values = torch.from_numpy(validate_data(self, X, dtype=np.float64, ensure_min_samples=2, copy=True))
        if self.n_components > min(values.shape):
            raise InputError(
                f"n_components must be at most {min(values.shape)} for X of shape {tuple(values.shape)} (n_samples = "
                f"{len(values)}), got {self.n_components}"
            )
        if bool((values == values[:1]).all()):
            raise InputError("X must have a column that varies, but all rows are the same")
        self.centre_ = values.mean(0)
        self.scale_ = spreads(values) if self.standardise else torch.ones_like(self.centre_)
        rows = (values - self.centre_) / self.scale_
        model = gplvm(rows, self.n_components, self.n_inducing, self.kernel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is how long training lasts
            self.result_ = fit_gplvm(model, rows, self.max_iterations)
        message = f"{self.result_.value:.3f} after {self.result_.evaluations} evaluations: {self.result_.message}"
        log.info(message)
        if self.verbose:
            print(f"stratagp: {message}")
        self.bound_ = self.result_.value
        self.model_ = model.condition(torch.arange(len(rows))[:, None], rows)
        return self

    def fit_transform(self, X: ArrayLike, y: None = None) -> np.ndarray:
        """Learn from rows, and return their expected latent points."""
        return self.fit(X).transform(X)  # given the finished model, as for other rows

    def transform(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The expected latent points of rows, with their standard deviations if asked for."""
        check_is_fitted(self, "model_")
        values = torch.from_numpy(validate_data(self, X, reset=False, dtype=np.float64, copy=True))
        found = latent_points(self.model_, (values - self.centre_) / self.scale_)
        mean = found.mean.detach().numpy()
        return (mean, found.log_scale.detach().exp().numpy()) if return_std else mean

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """The expected rows at latent points."""
        check_is_fitted(self, "model_")
        points = torch.as_tensor(np.asarray(X, dtype=np.float64))
        if points.dim() != 2 or points.shape[1] != self.n_components:
            raise InputError(f"X must be latent points (n, {self.n_components}), got shape {tuple(points.shape)}")
        with torch.no_grad():
            return (self.model_.layer.layers[-1](points).mean * self.scale_ + self.centre_).numpy()

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about a few points, which it must say again when it was loaded.

        Latent points of rows are searched for, and other machines may end a little elsewhere: only their number counts.
        """
        rows = self.inverse_transform(self.latent_.mean[:2].detach())
        return {"rows": rows, "latent shape": np.array(self.transform(rows).shape)}

    @property
    def latent_(self) -> Any:
        """The beliefs about the latent points of the training rows, a layer with ``mean`` and ``log_scale``."""
        check_is_fitted(self, "model_")
        return self.model_.layer.layers[0]

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    @property
    def relevance_(self) -> np.ndarray:
        """One over the lengthscale of each dimension: near zero where it is not needed."""
        check_is_fitted(self, "model_")
        kernel = self.model_.layer.layers[-1].kernel
        if not isinstance(kernel, RBF):
            raise NoAttributeError(f"relevance_ is for an RBF kernel with lengthscales, not for {kernel}")
        lengthscale: Tensor = kernel.lengthscale
        return (1 / lengthscale.detach()).expand(self.n_components).numpy()
