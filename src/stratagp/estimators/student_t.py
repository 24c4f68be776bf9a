"""Student-t process regression in the manner of scikit-learn."""

from __future__ import annotations

import copy
from typing import Any

import torch
from sklearn.utils import column_or_1d

from stratagp.estimators.base import GPEstimator
from stratagp.estimators.engines import Data, StudentT, learnt_noise
from stratagp.estimators.regression import Regression
from stratagp.estimators.targets import check_targets
from stratagp.models import StudentTProcess
from stratagp.training.start import start_from_data


class StudentTProcessRegressor(Regression, GPEstimator):
    """Regression by a Student-t process: error bars that widen where the data are wilder than the kernel expected.

    It is a Gaussian process whose overall scale is uncertain, in closed form; the predictions are Student-t
    distributions. For large ``dof`` it is :class:`GPRegressor`. All rows share the uncertain scale, so it does not
    protect from single outliers; noise that varies (``GPRegressor(noise="heteroscedastic")``) or weights do.

    Arguments:
        dof: degrees of freedom ν above 2, where learning them starts; small values mean an uncertain scale.
        kernel, mean, hyperparameters, n_restarts, standardise, categorical, encoding, missing, max_iterations,
        device, random_state, verbose: as in :class:`GPRegressor`; hyperparameters are "map" or "ml". Missing inputs are
        filled with their expectation in training, and averaged over in prediction.

    >>> import numpy as np
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> tp = StudentTProcessRegressor(dof=5).fit(X, np.sin(X[:, 0]))
    >>> low, high = tp.predict_interval([[2.5]], level=0.9)
    >>> bool(low < np.sin(2.5) < high)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        dof: Any = 5.0,
        mean: Any = None,
        hyperparameters: Any = "map",
        n_restarts: Any = 1,
        standardise: Any = "targets",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        missing: Any = "raise",
        max_iterations: Any = 200,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.dof = dof
        self.kernel = kernel
        self.mean = mean
        self.hyperparameters = hyperparameters
        self.n_restarts = n_restarts
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.missing = missing
        self.max_iterations = max_iterations
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> StudentTProcessRegressor:
        """Learn from rows ``X`` and one target ``y``."""
        with self._unless_it_fails():
            self._check_options()
            kernel, points = self._read(X)
            y = y if y is None else column_or_1d(y, warn=True)
            targets = check_targets(self, y, len(points)).reshape(-1, 1)
            self.one_target_ = True
            self.scale_ = self._scale_of(targets)
            data = Data(points.values, torch.from_numpy(self.scale_.to_standard(targets)))
            start_from_data(kernel, data.x, data.y[:, 0])
            engine = StudentT(StudentTProcess(kernel, copy.deepcopy(self.mean), learnt_noise(), self.dof), data)
            self._forget()
            self._train(engine)
        return self

    @property
    def dof_(self) -> float:
        """The learnt degrees of freedom of the prior; those of the predictions are larger by the number of rows."""
        return float(self.model_.dof.detach())

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("hyperparameters", ("map", "ml"))
