"""Any likelihood by reparameterised sampling: noisy, unbiased, and cheap."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, log_average
from stratagp.likelihoods.robust_max import RobustMax
from stratagp.parameters import Parameter
from stratagp.types import Gaussian, Mixture


class Sampled(Likelihood):
    """The likelihood ``given``, with ``E log p(y | f)`` and ``E 1/p(y | f)`` from samples ``f = mean + √var ε``.

    Everything else comes from ``given``. Samples of ``1/p`` have heavy tails, so a single one may dominate an average:
    the largest are capped at the quantile ``1 − 1/√S`` of the ``S`` samples of their row. Capped samples have no
    gradient. They are functions far below their mean, to which the exact expectation is most sensitive, so with few
    samples the objective cares less about the variance and more about the fit.

    Arguments:
        given: the likelihood to sample.
        n_samples: the number of samples for each row, new at each call.
        generator: their source; torch's default if None.
        what: ``"bound"`` samples ``E log p``, and ``E 1/p`` only if it has no closed form;
            ``"reciprocal"`` samples only ``E 1/p``; ``"both"`` samples both.
        gradients: of ``E log p``: ``"pathwise"``, through the samples; or ``"score"``, from values of ``log p`` alone,
            with control variates (Ranganath et al. 2014), which need two samples at least and are much noisier.

    >>> from stratagp.likelihoods import GaussianNoise
    >>> f = Gaussian(torch.zeros(1, 1), torch.ones(1, 1))
    >>> sampled = Sampled(GaussianNoise(1.0), 10_000, torch.Generator().manual_seed(0))
    >>> sampled.expected_log_prob(torch.zeros(1, 1), f).item()  # −½ log 2π − ½ = −1.4189
    -1.4...
    """

    def __init__(
        self,
        given: Likelihood,
        n_samples: int,
        generator: torch.Generator | None = None,
        what: str = "bound",
        gradients: str = "pathwise",
    ) -> None:
        super().__init__()
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1, got {n_samples}")
        if what not in ("bound", "reciprocal", "both"):
            raise InputError(f"what must be 'bound', 'reciprocal' or 'both', got {what!r}")
        if what != "bound" and isinstance(given, RobustMax):
            raise InputError("what must be 'bound' for RobustMax, a step whose reciprocal has no gradient in samples")
        if gradients not in ("pathwise", "score"):
            raise InputError(f"gradients must be 'pathwise' or 'score', got {gradients!r}")
        if gradients == "score" and (n_samples < 2 or what == "reciprocal"):
            raise InputError("gradients='score' are those of a bound by samples, of which control variates need two")
        self.given, self.n_samples, self.generator = given, n_samples, generator
        self.what, self.gradients = what, gradients

    @property
    def unwrapped(self) -> Likelihood:
        """That of ``given``."""
        return self.given.unwrapped

    @property
    def noise_parameter(self) -> Parameter | None:
        """That of ``given``."""
        return self.given.noise_parameter

    def functions(self, outputs: int) -> int:
        """As many as ``given`` needs."""
        return self.given.functions(outputs)

    def start(self, y: Float[Tensor, "n p"]) -> float:
        """That of ``given``."""
        return self.given.start(y)

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """That of ``given``."""
        return self.given.log_prob(y, f)

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """Those of ``given``."""
        return self.given.moments(f)

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n p"]:
        """That of ``given``."""
        return self.given.cdf(y, f)

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """That of ``given``."""
        return self.given.sample(f, generator)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """The average over samples."""
        if self.what == "reciprocal":
            return self.given.expected_log_prob(y, q)
        estimate = self._by_score if self.gradients == "score" else self.given.sampled_log_prob
        return estimate(y, q, self._noise(q))

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """That of ``given``."""
        return self.given.log_predictive(y, q)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """The closed form, or the log of the average over samples, with the largest ones capped."""
        if self.what == "bound" and self.given.closed_reciprocal:
            return self.given.log_reciprocal(y, q)
        logs = -self.given.log_prob(y, q.sample(self._noise(q)))
        if self.n_samples > 1:
            logs = logs.minimum(logs.detach().quantile(1 - 1 / math.sqrt(self.n_samples), 0))
        return log_average(logs, logs.new_full((self.n_samples,), -math.log(self.n_samples)))

    def predict(self, q: Gaussian) -> Gaussian:
        """That of ``given``."""
        return self.given.predict(q)

    def probabilities(self, q: Gaussian) -> Float[Tensor, "*s n c"]:
        """Those of ``given``."""
        return self.given.probabilities(q)

    def latent(self, q: Gaussian) -> Gaussian:
        """Those of ``given``."""
        return self.given.latent(q)

    def quantiles(self, q: Gaussian | Mixture, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """Those of ``given``."""
        return self.given.quantiles(q, levels)

    def _by_score(
        self, y: Float[Tensor, "n p"], q: Gaussian, noise: Float[Tensor, "k *s n q"]
    ) -> Float[Tensor, "*s n"]:
        """The average of ``log p`` over samples, with gradients that use its values alone.

            ∇ E log p = E (log p − a) h,   h = ∇ log N(f; mean, var) = (ε/√var, ½ (ε² − 1)/var),

        where ``a = Σ h² log p / Σ h²`` over the other samples of a row takes away most of the variance, and nothing
        from the expectation, because ``E h = 0``.
        """
        values = self.given.log_prob(y, q.sample(noise).detach())
        logs, spread, found = values.detach().unsqueeze(-1), q.var.detach().sqrt(), values.mean(0)
        for part, score in zip(q, (noise / spread, 0.5 * (noise.square() - 1) / spread.square()), strict=True):
            squares, weighted = score.square(), logs * score.square()
            rest = (squares.sum(0) - squares).clamp_min(torch.finfo(squares.dtype).tiny)
            slope = ((logs - (weighted.sum(0) - weighted) / rest) * score).mean(0)
            found = found + (slope * (part - part.detach())).sum(-1)
        return found

    def _noise(self, q: Gaussian) -> Float[Tensor, "k *s n q"]:
        shape = (self.n_samples, *q.mean.shape)
        return torch.randn(shape, generator=self.generator, dtype=q.mean.dtype).to(q.mean)
