"""Gaussian-process classification in the manner of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError
from stratagp.estimators.assembly import inducing_points
from stratagp.estimators.base import GPEstimator
from stratagp.estimators.class_engines import Binary, ClassBelief, Labelled, OneAgainstRest, Softmax
from stratagp.estimators.engines import Engine, some_rows
from stratagp.estimators.hyperparameters import Criterion, train
from stratagp.estimators.inputs import Points
from stratagp.estimators.stochastic import StochasticClasses
from stratagp.estimators.targets import encode_labels
from stratagp.kernels import Kernel
from stratagp.likelihoods import Bernoulli, Sampled
from stratagp.likelihoods import Softmax as SoftmaxLikelihood
from stratagp.models import GPClassification, MulticlassLaplace, StochasticGP
from stratagp.training.devices import as_numpy
from stratagp.training.start import start_from_data

LAPLACE_ROWS = 3000  # rows (times classes, if more than two) up to which "auto" takes Laplace
INFERENCES = ("auto", "laplace", "ep", "variational", "stochastic")
_SMALL = 1000  # rows, over the number of classes, from which Laplace learns where mini-batches start
_SAMPLES = 16  # of the latent functions of several classes, a step
_LATENT = 4.0  # the variance of latent functions at the start: probabilities from 0.1 to 0.9
_CHUNK = 4096  # rows that are predicted at once


class GPClassifier(ClassifierMixin, GPEstimator):
    """Gaussian-process classification: probabilities that know what the data do not say.

    Arguments:
        kernel: a kernel of the latent functions; a Matérn-5/2 with a lengthscale for each column if left out. Values
            you give are in the units of your columns; those you leave out start from the data.
        inference: "laplace" (fast; several classes at once by softmax), "ep" (expectation propagation: the best
            probabilities, slower), "variational" (the local bound: the evidence is a true lower bound), "stochastic"
            (mini-batches with ``n_inducing`` inducing points), or "auto": Laplace up to 3,000 rows (times the classes,
            if more than two), stochastic above. ``inference_`` and ``inference_reason_`` tell which and why.
            Expectation propagation and the local bound know two classes; more are asked about one against the rest.
        link: "logit" or "probit"; left out, what the inference knows.
        hyperparameters: "map" (evidence with weak priors), "ml" (evidence alone), or "bayes" (averaged over
            ``n_draws`` draws from their posterior by NUTS).
        n_inducing, n_restarts, standardise, categorical, encoding, missing, n_draws, max_iterations, max_epochs,
            device, random_state, verbose: as in :class:`GPRegressor`; ``standardise="both"`` scales the inputs. Missing
            inputs are filled with their expectation in training, and averaged over in prediction.

    >>> import numpy as np
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> gp = GPClassifier().fit(X, np.where(X[:, 0] > 0, "high", "low"))
    >>> gp.predict([[-2.0], [2.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        inference: Any = "auto",
        link: Any = None,
        hyperparameters: Any = "map",
        n_inducing: Any = 200,
        n_restarts: Any = 0,
        standardise: Any = "targets",
        categorical: Any = "auto",
        encoding: Any = "one-hot",
        missing: Any = "raise",
        n_draws: Any = 50,
        max_iterations: Any = 200,
        max_epochs: Any = 10,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.link = link
        self.hyperparameters = hyperparameters
        self.n_inducing = n_inducing
        self.n_restarts = n_restarts
        self.standardise = standardise
        self.categorical = categorical
        self.encoding = encoding
        self.missing = missing
        self.n_draws = n_draws
        self.max_iterations = max_iterations
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> GPClassifier:
        """Learn from rows ``X`` (an array, a data frame, or a list of objects) and their classes ``y``."""
        with self._unless_it_fails():
            self._check_options()
            kernel, points = self._read(X)
            self.classes_, codes = encode_labels(self, y, len(points))
            data = Labelled(points.values, torch.from_numpy(codes), len(self.classes_))
            self.inference_, self.inference_reason_ = self._choose(data, kernel)
            self._say_choice()
            self._forget()
            centred = (data.t == 0).double()
            start_from_data(kernel, data.x, centred - centred.mean(), variance=_LATENT)
            engine = self._engine(kernel, data)
            self._train(engine)
            self._average(engine, len(data.t))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self, "beliefs_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Any, method: str = "quadrature") -> np.ndarray:
        """The probability of each class, in the order of ``classes_``, with the latent functions averaged out.

        ``method="kappa"`` is cheaper for two classes and the logit link, and within 0.02. Missing entries are averaged
        over too.
        """
        if method not in ("quadrature", "kappa"):
            raise InputError(f"method must be 'quadrature' or 'kappa', got {method!r}")
        check_is_fitted(self, "beliefs_")
        points = self.inputs_.points(self, X)
        found = [self._probabilities(points.rows(i, i + _CHUNK), method) for i in range(0, len(points), _CHUNK)]
        return np.concatenate(found)

    def _answers(self) -> dict[str, np.ndarray]:
        return {"probabilities": self.predict_proba(self._example)[:, np.arange(len(self.classes_))]}

    def _probabilities(self, points: Points, method: str) -> np.ndarray:
        found = averaged(self.beliefs_, points.values, method)
        if points.incomplete is not None:
            draws = self.inputs_.draws(points)
            found[points.incomplete] = np.mean([averaged(self.beliefs_, rows, method) for rows in draws], axis=0)
        return found

    def _function(self, points: Any) -> np.ndarray:
        return as_numpy(torch.stack([belief.latent(points) for belief in self.beliefs_]).mean(0))

    def _check_options(self) -> None:
        super()._check_options()
        self._restrict("inference", INFERENCES)
        self._restrict("hyperparameters", ("map", "ml", "bayes"))

    def _choose(self, data: Labelled, kernel: Kernel) -> tuple[str, str]:
        if self.inference not in ("auto", "stochastic"):
            return self.inference, "as asked for"
        size = len(data.t) * (data.n_classes if data.n_classes > 2 else 1)
        if self.inference == "auto" and size <= LAPLACE_ROWS:
            return "laplace", f"{size} latent values are at most {LAPLACE_ROWS}"
        if self.inference == "auto" and not kernel.takes_tensors:
            return "laplace", "kernels over objects have no inducing points"
        if not kernel.takes_tensors:
            raise InputError("inference='stochastic' needs a kernel over columns: objects have no inducing points")
        if self.hyperparameters == "bayes":
            raise InputError("hyperparameters='bayes' needs closed forms: ask for inference='laplace', or fewer rows")
        if self.inference == "stochastic":
            return "stochastic", "as asked for"
        return "stochastic", f"{size} latent values are more than {LAPLACE_ROWS}"

    def _engine(self, kernel: Kernel, data: Labelled) -> Engine:
        if self.inference_ == "stochastic":
            return StochasticClasses(self._stochastic(kernel, data), data)
        return self._closed_form(kernel, data)

    def _closed_form(self, kernel: Kernel, data: Labelled) -> Engine:
        several = data.n_classes > 2
        inference = "laplace" if self.inference_ == "stochastic" else self.inference_
        if several and inference == "laplace" and self.link in (None, "logit"):
            return Softmax(MulticlassLaplace(kernel, data.n_classes), data)
        model = GPClassification(kernel, inference, self.link)
        return OneAgainstRest(model, data) if several else Binary(model, data)

    def _stochastic(self, kernel: Kernel, data: Labelled) -> StochasticGP:
        """Inducing points and start values under the kernel that Laplace learns from some of the rows."""
        seed = self._seed()
        few = some_rows(len(data.t), _SMALL // data.n_classes, seed)
        small = Labelled(data.x[few], data.t[few], data.n_classes)
        if len(small.t.unique()) == data.n_classes:
            engine = self._closed_form(kernel, small)
            train(Criterion("map", engine.module, engine.score, self._centres), self, seed)
        points = inducing_points(kernel, data.x, self.n_inducing, seed)
        if data.n_classes == 2:
            return StochasticGP(kernel, points, Bernoulli(self.link or "logit"), dtype=torch.float64)
        likelihood = Sampled(SoftmaxLikelihood(), _SAMPLES, torch.Generator().manual_seed(seed))
        return StochasticGP(kernel, points, likelihood, functions=data.n_classes, dtype=torch.float64)


def averaged(beliefs: list[ClassBelief], x: Any, method: str) -> np.ndarray:
    """Probabilities, averaged over draws of the hyperparameters."""
    return as_numpy(torch.stack([belief.probabilities(x, method) for belief in beliefs]).mean(0))
