"""Classification by estimators that learn by mini-batches, through any likelihood of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from stratagp import likelihoods as lik
from stratagp.errors import InputError
from stratagp.estimators import named_likelihoods as named
from stratagp.estimators.batched import Batched
from stratagp.estimators.streaming import Given
from stratagp.estimators.targets import encode_labels
from stratagp.likelihoods import Likelihood
from stratagp.linalg.quasi_random import quasi_normal
from stratagp.metrics import bhattacharyya_margin
from stratagp.models.chain import Chain
from stratagp.training.devices import as_numpy
from stratagp.types import Gaussian

_CLASS_SAMPLES = 20  # of a softmax, in the bound
_LATENT = 4.0  # the variance of latent functions of classes at the start
_NODES = 256  # at which moments of probabilities are taken


class BatchedClassifier(ClassifierMixin, Batched):
    """Classification by any likelihood of classes."""

    of_classes = True

    def _fit(self, rows: Given) -> None:
        kernel, points = self._read(rows.X)
        self.classes_, _ = encode_labels(self, rows.y, len(points))
        likelihood = named.of_classes(self.likelihood, len(self.classes_), self.smooth_alone)
        outputs = 1 if isinstance(likelihood, (lik.Bernoulli, lik.Ordinal)) else len(self.classes_)
        self._fit_model(kernel, points, self._encoded_targets(rows.y), likelihood, outputs)

    def _encoded_targets(self, y: Any) -> Tensor:
        """The number of each row's class, ``n 1``."""
        return torch.from_numpy(np.searchsorted(self.classes_, column_or_1d(y))).double()[:, None]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self, "beliefs_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``, with the latent functions averaged out."""
        check_is_fitted(self, "beliefs_")
        return self._probabilities(self.inputs_.points(self, X).values)

    def _answers(self) -> dict[str, np.ndarray]:
        return {"probabilities": self.predict_proba(self._example)[:, np.arange(len(self.classes_))]}

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The log of :meth:`predict_proba`, −∞ where a probability is zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def certainty(self, X: Any, of: str = "scores") -> np.ndarray:
        """How far apart the two most probable classes of each row are: their Bhattacharyya distance.

        Each class has a Gaussian with the mean and variance of its score (its latent function; ``−f`` beside ``f``
        where two classes have one), or of its probability. It is 0 where the two cannot be told apart, and has no upper
        end. Compare rows of one model; values of different models are on different scales.

        Arguments:
            of: "scores" or "probabilities".
        """
        check_is_fitted(self, "beliefs_")
        if of not in ("scores", "probabilities"):
            raise InputError(f"of must be 'scores' or 'probabilities', got {of!r}")
        gp = self.engine_.model
        if isinstance(gp.observed.given if isinstance(gp.observed, lik.Mixed) else gp.observed, lik.Ordinal):
            raise InputError("certainty compares scores of classes, but an ordinal likelihood has one for all")
        x = self.inputs_.points(self, X).values
        mean, var = (as_numpy(part) for part in class_moments(gp, x, of == "probabilities"))
        return bhattacharyya_margin(self._probabilities(x), mean, var)

    def _probabilities(self, x: Tensor) -> np.ndarray:
        gp = self.engine_.model
        observed, mixes = gp.observed, isinstance(gp.observed, lik.Mixed)
        if isinstance(observed.given if mixes else observed, lik.Ordinal):
            with torch.no_grad():
                belief = gp.marginals(x)
                found = (
                    observed.given.probabilities(observed.belief(belief)) if mixes else observed.probabilities(belief)
                )
                return as_numpy(found)
        found = as_numpy(gp.predict(x).mean)
        found = np.concatenate([1 - found, found], 1) if found.shape[1] == 1 else found
        return found / found.sum(1, keepdims=True)

    def _samples(self, likelihood: Likelihood) -> int | None:
        if self.n_samples == "auto":
            return _CLASS_SAMPLES if isinstance(likelihood, lik.Softmax) else None
        return self.n_samples

    def _start_targets(self, y: Tensor) -> Tensor:
        first = (y[:, 0] == 0).double()
        return first - first.mean()

    def _latent_variance(self) -> float:
        return _LATENT


def class_moments(gp: Chain, x: Tensor, of_probabilities: bool) -> Gaussian:
    """Mean and variance of the score, or of the probability, of each class at rows ``x``: each ``n c``."""
    with torch.no_grad():
        belief = gp.marginals(x)
        if of_probabilities:
            nodes = quasi_normal(_NODES, belief.mean.shape[1]).to(belief.mean)[:, None]
            drawn = gp.observed.moments(belief.sample(nodes)).mean
            drawn = torch.cat([1 - drawn, drawn], -1) if drawn.shape[-1] == 1 else drawn
            return Gaussian(drawn.mean(0), drawn.var(0))
        belief = gp.observed.belief(belief) if isinstance(gp.observed, lik.Mixed) else belief
        if belief.mean.shape[1] > 1:
            return belief
        return Gaussian(torch.cat([-belief.mean, belief.mean], 1), belief.var.expand(-1, 2))
