"""A likelihood of linear combinations of latent functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.likelihoods.gaussian import GaussianNoise
from stratagp.likelihoods.separate import Separate
from stratagp.parameters import real
from stratagp.types import Gaussian, Mixture


class Mixed(Likelihood):
    """``p(y | A f + b)`` for ``J`` functions ``f`` and a likelihood of ``C`` scores, with learnt ``A`` and ``b``.

    Scores of one row are correlated. A likelihood of one score, or of a separate one for each output, sees only their
    variances ``A² v`` and keeps its closed forms; others, such as the softmax, are averaged over nodes or samples of
    the functions.

    Arguments:
        given: the likelihood of the scores.
        scores: C, how many scores it takes.
        functions: J, how many functions are mixed.
        generator: where the start of ``A`` comes from, of entries with variance ``1/J``; where C = J it starts at one.

    >>> from stratagp.likelihoods import Softmax
    >>> mixed = Mixed(Softmax(), scores=3, functions=5)
    >>> mixed.predict(Gaussian(torch.zeros(2, 5), torch.ones(2, 5))).mean.shape
    torch.Size([2, 3])
    """

    def __init__(
        self, given: Likelihood, scores: int, functions: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if scores < 1 or functions < 1:
            raise InputError(f"scores and functions must be at least 1, got {scores} and {functions}")
        start = torch.randn(scores, functions, generator=generator, dtype=torch.float64) / math.sqrt(functions)
        self.given = given
        self.weight = real(torch.eye(scores, dtype=torch.float64) if scores == functions else start, name="weight")
        self.offset = real(torch.zeros(scores, dtype=torch.float64), name="offset")

    def functions(self, outputs: int) -> int:
        """J, whatever the observations."""
        return self.weight.shape[1]

    def scores(self, f: Float[Tensor, "*s n j"]) -> Float[Tensor, "*s n c"]:
        """``A f + b``."""
        return f @ self.weight.to(f).mT + self.offset.to(f)

    def belief(self, q: Gaussian) -> Gaussian:
        """Mean and variance of each score."""
        return Gaussian(self.scores(q.mean), q.var @ self.weight.to(q.var).square().mT)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n j"]) -> Float[Tensor, "*s n"]:
        """That of ``given`` for the scores."""
        return self.given.log_prob(y, self.scores(f))

    def moments(self, f: Float[Tensor, "*s n j"]) -> Gaussian:
        """Those of ``given`` for the scores."""
        return self.given.moments(self.scores(f))

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n j"]) -> Float[Tensor, "*s n p"]:
        """That of ``given`` for the scores."""
        return self.given.cdf(y, self.scores(f))

    def sample(self, f: Float[Tensor, "*s n j"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """Observations of ``given`` for the scores."""
        return self.given.sample(self.scores(f), generator)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``E log p(y | A f + b)``, by the marginals of the scores where they suffice."""
        if self.by_marginals():
            return self.given.expected_log_prob(y, self.belief(q))
        return super().expected_log_prob(y, q)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(y | A f + b)``; of several separate outputs, the sum of their own."""
        return self.given.log_predictive(y, self.belief(q)) if self.by_marginals() else super().log_predictive(y, q)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E 1/p(y | A f + b)``."""
        return self.given.log_reciprocal(y, self.belief(q)) if self.by_marginals() else super().log_reciprocal(y, q)

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of observations."""
        return self.given.predict(self.belief(q)) if self.by_marginals() else super().predict(q)

    def quantiles(self, q: Gaussian | Mixture, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """Those of ``given`` under the belief about the scores."""
        if not self.by_marginals():
            return super().quantiles(q, levels)
        mixed = self.belief(q) if isinstance(q, Gaussian) else Mixture(q.log_weights, self.belief(q.parts))
        return self.given.quantiles(mixed, levels)

    def by_marginals(self) -> bool:
        """Whether the marginals of the scores are all that the likelihood needs."""
        return self.weight.shape[0] == 1 or isinstance(self.given, (Separate, GaussianNoise))
