"""A model of counts that knows their rates."""

from types import SimpleNamespace

import numpy as np
from scipy.stats import poisson
from sklearn.base import BaseEstimator, RegressorMixin

from stratagp.estimators.regression import Regressor


@Regressor.register  # one of ours, as far as others ask
class Rates(RegressorMixin, BaseEstimator):
    """Poisson counts whose rates are the only column, answered about as a likelihood of whole numbers does."""

    def fit(self, X, y=None):
        self.n_features_in_ = 1
        self.fitted_ = SimpleNamespace(discrete=True)
        return self

    def predict(self, X, return_std=False):
        return (X[:, 0], np.sqrt(X[:, 0])) if return_std else X[:, 0]

    def predict_quantiles(self, X, quantiles):
        return np.stack([poisson.ppf(level, X[:, 0]) for level in quantiles], 1)

    def predict_interval(self, X, level):
        return tuple(self.predict_quantiles(X, [0.5 - level / 2, 0.5 + level / 2]).T)

    def cdf(self, X, y):
        return poisson.cdf(y, X[:, 0])
