"""The shell of every classifier: classes, their probabilities, and how certain these are."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from stratagp.errors import InputError
from stratagp.estimators.inputs.base import Points, RowsLike
from stratagp.estimators.intake import Intake
from stratagp.estimators.shell import Estimator, Seed
from stratagp.estimators.targets import check_n_samples, check_of, encode_labels
from stratagp.metrics import bhattacharyya_margin
from stratagp.models.fitted_chain import ChainModel
from stratagp.predictive import Classes, Predictive
from stratagp.recipes.base import Data, Rows


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, Estimator, ABC):
    """Answers are probabilities of classes, with the latent functions averaged out."""

    classes_: np.ndarray = field(init=False)
    of_classes: ClassVar[bool] = True

    def _rows(self, intake: Intake, points: Points) -> Rows:
        self.classes_, _ = encode_labels(self, intake.y, len(points))
        likelihood = self._likelihood(len(self.classes_))
        data = Data(points.values, self._encoded_targets(np.asarray(intake.y)))
        return self._made_rows(intake, points, data, likelihood, len(self.classes_))

    def _encoded_targets(self, y: np.ndarray) -> Tensor:
        """The number of each row's class, ``n 1``."""
        return torch.from_numpy(np.searchsorted(self.classes_, column_or_1d(y))).double()[:, None]

    def predict(self, X: RowsLike) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self, "fitted_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``, with the latent functions averaged out.

        Missing entries are averaged over too.
        """
        (found,) = self._reduced(self._points(X), "y", lambda found, _: [found.probabilities])
        return found

    def predict_log_proba(self, X: RowsLike) -> np.ndarray:
        """The log of :meth:`predict_proba`, −∞ where a probability is zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predictive(self, X: RowsLike, of: Literal["y", "f"] = "y") -> Classes | Predictive:
        """The probabilities of all classes; or (``of="f"``) the distribution of the latent functions."""
        check_of(of)
        return self._part(self._points(X), of, self.fitted_)

    def sample_y(self, X: RowsLike, n_samples: int = 1, random_state: Seed = 0) -> np.ndarray:
        """Draws of classes, independent over rows: ``n n_samples``."""
        check_n_samples(n_samples)
        generator = torch.Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
        found = Classes(self.predict_proba(X)).sample(n_samples, generator)
        return self.classes_[found.T]

    def log_density(self, X: RowsLike, y: ArrayLike) -> np.ndarray:
        """``log p(class)`` of each row's true class: its mean with a minus sign is the log loss."""
        found = Classes(self.predict_proba(X))
        labels, codes = encode_labels(self, y, len(found.probabilities), several=False)
        unknown = [label for label in labels.tolist() if label not in self.classes_.tolist()]
        if unknown:
            raise InputError(f"y has the class {unknown[0]!r}, which fit has not seen: {self.classes_.tolist()}")
        return found.log_density(np.searchsorted(self.classes_, labels)[codes])

    def certainty(self, X: RowsLike, of: Literal["scores", "probabilities"] = "scores") -> np.ndarray:
        """How far apart the two most probable classes of each row are: their Bhattacharyya distance.

        Each class has a Gaussian with the mean and variance of its score (its latent function; ``−f`` beside ``f``
        where two classes have one), or of its probability. It is 0 where the two cannot be told apart, and has no upper
        end. Compare rows of one model; values of different models are on different scales.

        Arguments:
            of: "scores" or "probabilities", which models that learn by mini-batches know.
        """
        check_is_fitted(self, "fitted_")
        if of not in ("scores", "probabilities"):
            raise InputError(f"of must be 'scores' or 'probabilities', got {of!r}")
        points, fitted = self._points(X), self.fitted_
        if fitted.observed is not None and fitted.observed.ordered:
            raise InputError("certainty compares scores of classes, but an ordinal likelihood has one for all")
        if of == "probabilities":
            if not isinstance(fitted, ChainModel):
                raise InputError("certainty of probabilities is for models that learn by mini-batches: of='scores'")
            mean, var = fitted.class_moments(points.values)
            return bhattacharyya_margin(mean, mean, var)
        mean, var = self._reduced(points, "f", lambda found, _: [found.mean, found.var])
        if mean.shape[1] == 1:
            mean, var = np.concatenate([-mean, mean], 1), np.concatenate([var, var], 1)
        (probabilities,) = self._reduced(points, "y", lambda found, _: [found.probabilities])
        return bhattacharyya_margin(probabilities, mean, var)

    def _answers(self) -> dict[str, np.ndarray]:
        """What the model says about the example, which it must say again when it was loaded."""
        return {"probabilities": self.predict_proba(self._example)[:, np.arange(len(self.classes_))]}
