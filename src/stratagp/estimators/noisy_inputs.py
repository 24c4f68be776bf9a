"""Regression on columns that were measured with known errors."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from stratagp.data.tables import is_frame
from stratagp.errors import InputError
from stratagp.estimators.regression import Regressor
from stratagp.estimators.surrogate import input_spreads
from stratagp.kernels import RBF, Kernel
from stratagp.models.chain import Chain
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.random_inputs import layers_of
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.noisy_inputs import NoisyInputRecipe
from stratagp.recipes.options import Whole, WholeOrZero

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class NoisyInputRegressor(Regressor):
    """Regression on columns that were measured with known errors: what the function of the true columns is.

    Errors of columns flatten the function that any other regression finds, and where it is steep they are noise of the
    target. Here each training row has a belief about its true columns. Predictions are for rows measured like the
    training rows; :meth:`with_known_inputs` asks about others, whose columns are known.

    Arguments:
        input_std: standard deviations of the errors, in the units of the columns: a number for all, one for each, or a
            mapping from names of columns (those left out are known). Categories are known.
        kernel: with expectations (RBF, Linear, Constant, their sums and products); an RBF with a lengthscale for each
            column by default.
        truth: what true values are like before they are measured: "normal", with the mean of the column and its
            variance less that of the errors; or "flat", where any value is as likely, which also suits columns that
            were set while true values scattered around them.
        n_inducing: inducing points; a step takes O(n m²) for each column.
        max_iterations: of L-BFGS; it ends where ten of them gain little.
        standardise, categorical, encoding, random_state, verbose: as in :class:`GPRegressor`.
        device: where predictions are computed, as in :class:`GPRegressor`.

    The error of a column must be known: a bound gains nothing by finding it.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> true = random.normal(size=(500, 1))
    >>> X, y = true + 0.5 * random.normal(size=(500, 1)), true[:, 0]
    >>> gp = NoisyInputRegressor(0.5, n_inducing=5).fit(X, y)
    >>> gp.with_known_inputs().predict([[1.0]]).round(1), gp.predict([[1.0]]).round(1)  # 1, and 1/(1 + 0.25)
    (array([1.]), array([0.8]))
    """

    input_std: Any
    kernel: Kernel | None = None
    _: KW_ONLY
    truth: Literal["normal", "flat"] = "normal"
    n_inducing: Whole = 50
    max_iterations: WholeOrZero = 200

    def _recipe(self, rows: Rows) -> Recipe:
        if self.inputs_.objects:
            raise InputError("errors of measurement are for columns of numbers: take GPRegressor for objects")
        kernel, std = self._bound_kernel(self.kernel, RBF(ard=True), rows.data), self._input_std()
        return NoisyInputRecipe(kernel, std, self.truth == "normal", self.n_inducing, self.max_iterations)

    def _input_std(self) -> Float[Tensor, " d"]:
        given, encoder = self.input_std, self.inputs_.encoder
        if hasattr(given, "to_dict") and not is_frame(given):  # a series: its index names columns
            given = given.to_dict()
        if np.ndim(given) == 0 and not isinstance(given, Mapping):
            known = np.zeros(self.n_features_in_) if encoder is None else np.array(encoder.is_categorical)
            given = np.where(known, 0.0, given)
        return input_spreads(self, given, 1, "input_std")[0]

    def with_known_inputs(self) -> Self:
        """This model, to be asked about rows whose columns are known without error."""
        check_is_fitted(self, "fitted_")
        found, fitted = copy.copy(self), self.fitted_
        assert isinstance(fitted, ChainModel)
        before = fitted.chain
        chain = Chain(layers_of(before.layer)[-1], before.likelihood, before.dtype)
        found.fitted_ = replace(fitted, chain=chain)
        return found

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its learnt values, of the true columns."""
        last: Any = layers_of(self.model_.layer)[-1]
        found: Kernel = last.kernel
        return found
