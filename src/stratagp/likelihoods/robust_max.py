"""Several classes: that of the largest function, except for a few wrong labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import log_ndtr

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.softmax import class_codes
from stratagp.parameters import Parameter, bounded
from stratagp.types import Gaussian

_HALF_WIDTH, _NODES = 7.0, 71  # nodes at fifths of a standard deviation


class RobustMax(Likelihood):
    """``p(y | f) = 1 − ε`` for the class with the largest ``f`` and ``ε/(C − 1)`` for each other class.

    A label far from the boundary costs no more than one just across it (Hernández-Lobato et al. 2011). Every integral
    follows from the probability that ``f_y`` is the largest,

        π_y = ∫ N(f; mean_y, var_y) Π_{c≠y} Φ((f − mean_c)/√var_c) df,

    by the trapezoidal rule: to 1e-7 if no other standard deviation is below a fifth of that of ``f_y``.

    Arguments:
        epsilon: the fraction of wrong labels; fixed unless it is a parameter or freed (``free("epsilon")``).

    >>> RobustMax(0.01).predict(Gaussian(torch.tensor([[5.0, 0.0, 0.0]]), torch.ones(1, 3))).mean
    tensor([[0.98..., 0.005..., 0.005...]])
    """

    of_classes = True
    smooth = False

    discrete = True
    closed_reciprocal = True
    epsilon: Any

    def __init__(self, epsilon: float | Parameter = 1e-3) -> None:
        super().__init__()
        if not isinstance(epsilon, Parameter) and not 0 < epsilon < 1:
            raise InputError(f"epsilon, the fraction of wrong labels, must lie between 0 and 1, got {epsilon!r}")
        self.epsilon = bounded(epsilon, 0.0, 1.0, trainable=False)

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``log(1 − ε)`` where ``f_y`` is the largest, ``log ε/(C − 1)`` elsewhere."""
        right, wrong = self._logs(f)
        return torch.where(f.argmax(-1) == class_codes(y, f).squeeze(-1), right, wrong)

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """The probability ``p`` of each class, and ``p (1 − p)``."""
        right, wrong = self._logs(f)
        largest = torch.nn.functional.one_hot(f.argmax(-1), f.shape[-1]).bool()
        p = torch.where(largest, right.exp(), wrong.exp())
        return Gaussian(p, p * (1 - p))

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Labels."""
        chosen = torch.multinomial(self.moments(f).mean.flatten(0, -2), 1, generator=generator)
        return chosen.unflatten(0, f.shape[:-1]).to(f)

    def expected_log_prob(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``π_y log(1 − ε) + (1 − π_y) log ε/(C − 1)``."""
        right, wrong = self._logs(q.mean)
        return wrong + self.probability_of_largest(y, q) * (right - wrong)

    def log_predictive(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log[π_y (1 − ε) + (1 − π_y) ε/(C − 1)]``."""
        right, wrong = self._logs(q.mean)
        p = self.probability_of_largest(y, q)
        return torch.log(p * right.exp() + (1 - p) * wrong.exp())

    def log_reciprocal(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log[π_y/(1 − ε) + (1 − π_y) (C − 1)/ε]``."""
        right, wrong = self._logs(q.mean)
        p = self.probability_of_largest(y, q)
        return torch.log(p * (-right).exp() + (1 - p) * (-wrong).exp())

    def sampled_log_prob(
        self, y: Float[Tensor, "n 1"], q: Gaussian, noise: Float[Tensor, "k *s n q"]
    ) -> Float[Tensor, "*s n"]:
        """Samples only ``f_y`` and is exact in the others: a step function of samples would have no gradient."""
        right, wrong = self._logs(q.mean)
        code = class_codes(y, q.mean)
        own = noise.gather(-1, code.expand(*noise.shape[:-1], 1)).squeeze(-1)
        return wrong + _log_above_others(code, q, own).exp().mean(0) * (right - wrong)

    def predict(self, q: Gaussian) -> Gaussian:
        """The probability ``p`` of each class, and ``p (1 − p)``."""
        right, wrong = self._logs(q.mean)
        codes = [torch.full_like(q.mean[..., :1], c, dtype=torch.long) for c in range(q.mean.shape[-1])]
        largest = torch.stack([_is_largest(code, q) for code in codes], -1)
        p = wrong.exp() + largest * (right.exp() - wrong.exp())
        return Gaussian(p, p * (1 - p))

    def probability_of_largest(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``π_y``, the probability that the function of a row's label is the largest."""
        return _is_largest(class_codes(y, q.mean), q)

    def _logs(self, f: Tensor) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The log probability of the class of the largest function, and of each other."""
        if f.shape[-1] < 2:
            raise InputError("RobustMax needs one latent function for each of at least two classes, got 1")
        epsilon = self.epsilon.to(f)
        return torch.log1p(-epsilon), epsilon.log() - math.log(f.shape[-1] - 1)


def _is_largest(code: Tensor, q: Gaussian) -> Float[Tensor, "*s n"]:
    """``π_c`` of the class with the number ``code`` in each row, by the trapezoidal rule."""
    points = torch.linspace(-_HALF_WIDTH, _HALF_WIDTH, _NODES).to(q.mean)
    density = (-0.5 * points.square()).exp()
    above = _log_above_others(code, q, points.reshape(-1, *[1] * (q.mean.dim() - 1))).exp()
    return torch.tensordot(density / density.sum(), above, 1)


def _log_above_others(code: Tensor, q: Gaussian, own: Tensor) -> Float[Tensor, "k *s n"]:
    """``Σ_{c≠y} log Φ((f_y − mean_c)/√var_c)`` at ``f_y = mean_y + √var_y own``."""
    index = code.expand(*q.mean.shape[:-1], 1)
    spread = q.var.clamp_min(math.sqrt(torch.finfo(q.var.dtype).tiny)).sqrt()
    f = (q.mean.gather(-1, index) + spread.gather(-1, index) * own.unsqueeze(-1)) - q.mean
    return log_ndtr(f / spread).scatter(-1, code.expand(*f.shape[:-1], 1), 0.0).sum(-1)
