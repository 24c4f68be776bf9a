"""A likelihood of linear combinations of latent functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, log_average, on_a_line
from stratagp.likelihoods.function_per_output import FunctionPerOutput
from stratagp.likelihoods.gaussian import GaussianNoise
from stratagp.likelihoods.quadrature import SOBOL_NODES, central_nodes, normal_nodes
from stratagp.likelihoods.robust_max import RobustMax
from stratagp.likelihoods.softmax import Softmax, class_codes
from stratagp.linalg.cholesky import cholesky
from stratagp.parameters import Parameter, real
from stratagp.types import Gaussian, Mixture

_ROUNDINGS = 64.0  # relative jitter of covariances, and least error of levels, in roundings
_LEVEL_ERROR = 1e-8  # of quantiles, relative to the level or to one minus it
_LARGEST_SHARE = 0.99  # largest ratio of latent variance to noise along any direction, in leave-one-out densities
_STEPS = 60  # at most, to bracket a quantile and then to find it
_CHUNK = 2**17  # scores at nodes held at once for quantiles: few enough for a processor's cache


class Mixed(Likelihood):
    """``p(y | A f + b)`` for ``J`` functions ``f`` and a likelihood of ``C`` scores, with learnt ``A`` and ``b``.

    Scores of one row are correlated, with covariance ``A diag(v) Aᵀ``. A likelihood of one score keeps its closed
    forms. So does one with a separate score for each output, as far as only marginals matter: ``E log p`` and
    predictions. Gaussian noise has a joint density of all outputs; everything else, such as the softmax, is averaged
    over nodes of the functions or of the scores, whichever are fewer.

    Arguments:
        given: the likelihood of the scores; not RobustMax, a step function without a gradient at samples or nodes.
        scores: C, the number of scores that it takes.
        functions: J, the number of functions to mix.
        generator: the source of the initial ``A``, with entries of variance ``1/J``; if C = J it starts at one.

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
        if any(isinstance(part, RobustMax) for part in given.modules()):
            raise InputError(
                "given must have a density that is smooth in its scores, but that of RobustMax is a step, from which "
                "mixed functions cannot learn: use Softmax"
            )
        start = torch.randn(scores, functions, generator=generator, dtype=torch.float64) / math.sqrt(functions)
        self.given, self._size = given, (scores, functions)
        self.weight = real(torch.eye(scores, dtype=torch.float64) if scores == functions else start, name="weight")
        self.offset = real(torch.zeros(scores, dtype=torch.float64), name="offset")
        self.closed_reciprocal = isinstance(given, GaussianNoise) or (scores == 1 and given.closed_reciprocal)

    @property
    def unwrapped(self) -> Likelihood:
        """That of ``given``."""
        return self.given.unwrapped

    @property
    def noise_parameter(self) -> Parameter | None:
        """That of ``given``."""
        return self.given.noise_parameter

    def functions(self, outputs: int) -> int:
        """J, for any observations."""
        return self._size[1]

    def scores(self, f: Float[Tensor, "*s n j"]) -> Float[Tensor, "*s n c"]:
        """``A f + b``."""
        return f @ self.weight.to(f).mT + self.offset.to(f)

    def belief(self, q: Gaussian) -> Gaussian:
        """Mean and variance of each score."""
        return Gaussian(self.scores(q.mean), q.var @ self.weight.to(q.var).square().mT)

    def covariance(self, q: Gaussian) -> Float[Tensor, "*s n c c"]:
        """``A diag(v) Aᵀ``, the covariance of the scores of each row."""
        weight = self.weight.to(q.mean)
        pairs = (weight.unsqueeze(0) * weight.unsqueeze(1)).flatten(0, 1)  # A_ij A_kj, one product for all rows
        return (q.var.to(weight) @ pairs.mT).unflatten(-1, (len(weight), len(weight)))

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
        """``E log p(y | A f + b)``, by the marginals of the scores if they suffice."""
        if self.by_marginals():
            return self.given.expected_log_prob(y, self.belief(q))
        scores, log_weights = self._at_nodes(q)
        return torch.tensordot(log_weights.exp(), self.given.log_prob(y, scores), 1)

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E p(y | A f + b)``, jointly for all outputs of a row; ``log N(y; A m + b, A diag(v) Aᵀ + noise)``."""
        if self._size[0] == 1:
            return self.given.log_predictive(y, self.belief(q))
        if isinstance(self.given, GaussianNoise):
            mean = self.scores(q.mean)
            noise = self.given.noise.to(mean).expand(mean.shape[-1])
            return _log_normal(y.to(mean) - mean, self.covariance(q) + noise.diag())
        scores, log_weights = self._at_nodes(q, narrow=not self.given.discrete)
        return log_average(self.given.log_prob(y, scores), log_weights)

    def log_reciprocal(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E 1/p(y | A f + b)``, jointly for all outputs of a row."""
        if self._size[0] == 1:
            return self.given.log_reciprocal(y, self.belief(q))
        if isinstance(self.given, GaussianNoise):
            mean = self.scores(q.mean)
            return _log_reciprocal_normal(y.to(mean) - mean, self.covariance(q), self.given.noise.to(mean))
        scores, log_weights = self._at_nodes(q, nodes=central_nodes)
        return log_average(-self.given.log_prob(y, scores), log_weights)

    def sampled_log_prob(
        self, y: Float[Tensor, "n p"], q: Gaussian, noise: Float[Tensor, "k *s n j"]
    ) -> Float[Tensor, "*s n"]:
        """The average of ``log p(y | A f + b)`` over samples, of the scores themselves if marginals suffice.

        For a softmax everything linear around the mean ``m`` of the scores is exact: with ``p = softmax(m)``,

            E log p(y | s) = m_y − Σ_c p_c m_c + E Σ_c p_c log p(c | s),

        where only the last term is sampled. Sampling all of ``log Σ exp s`` would add the noise of scores that
        move together, which cancels from ``log p``, and would be worse than plain samples if ``p_y`` is near one.
        """
        scores, functions = self._size
        if self.by_marginals() and scores <= functions:
            return self.given.sampled_log_prob(y, self.belief(q), noise[..., :scores])
        if not isinstance(self.given, Softmax):
            return super().sampled_log_prob(y, q, noise)
        f, weight = q.var.sqrt() * noise, self.weight.to(q.mean)
        offset = self.offset.to(weight).unsqueeze(-1)
        m = torch.addmm(offset, weight, q.mean.flatten(0, -2).mT).unflatten(-1, q.mean.shape[:-1])
        s = m.unsqueeze(1) + (weight @ f.flatten(0, -2).mT).unflatten(-1, f.shape[:-1])  # scores first: sums are fast
        own = m.gather(0, class_codes(y, m.movedim(0, -1)).squeeze(-1).expand(1, *m.shape[1:])).squeeze(0)
        return own + (m.softmax(0) * (s.log_softmax(0).mean(1) - m)).sum(0)

    def predict(self, q: Gaussian) -> Gaussian:
        """Mean and variance of observations."""
        if self.by_marginals():
            return self.given.predict(self.belief(q))
        scores, log_weights = self._at_nodes(q)
        weights, given = log_weights.exp(), self.given.moments(scores)
        mean = torch.tensordot(weights, given.mean, 1)
        return Gaussian(mean, torch.tensordot(weights, given.var + (given.mean - mean).square(), 1))

    def probabilities(self, q: Gaussian) -> Float[Tensor, "*s n c"]:
        """Those of ``given`` for one score, otherwise the softmax at nodes of correlated scores."""
        return self.given.probabilities(self.belief(q)) if self._size[0] == 1 else super().probabilities(q)

    def latent(self, q: Gaussian) -> Gaussian:
        """Mean and variance of each score."""
        return self.belief(q)

    def predictive_cdf(self, y: Float[Tensor, "*s n p"], q: Gaussian) -> Float[Tensor, "*s n p"]:
        """``E P(Y ≤ y | A f + b)``, for each output."""
        return self.given.predictive_cdf(y, self.belief(q)) if self.by_marginals() else self._cdf_under(q)(y)

    def quantiles(self, q: Gaussian | Mixture, levels: Sequence[float]) -> Float[Tensor, "l n p"]:
        """Those of ``given`` under the belief about the scores; nodes are computed once for each chunk of rows."""
        log_weights, parts = q if isinstance(q, Mixture) else (q.mean.new_zeros(1), Gaussian(q.mean[None], q.var[None]))
        if self.by_marginals():
            return self.given.quantiles(Mixture(log_weights, self.belief(parts)), levels)
        if not all(0 < level < 1 for level in levels):
            raise InputError(f"levels must lie between 0 and 1, such as [0.1, 0.9], got {list(levels)}")
        rows = max(1, _CHUNK // (SOBOL_NODES * len(log_weights) * self._size[0]))
        pairs = zip(parts.mean.split(rows, -2), parts.var.split(rows, -2), strict=True)
        return torch.cat([self._quantiles(log_weights, Gaussian(*pair), levels) for pair in pairs], -2)

    def by_marginals(self) -> bool:
        """Whether ``E log p`` and the prediction of each output need only the marginals of the scores."""
        return self._size[0] == 1 or isinstance(self.given, (FunctionPerOutput, GaussianNoise))

    def _quantiles(
        self, log_weights: Float[Tensor, " m"], parts: Gaussian, levels: Sequence[float]
    ) -> Float[Tensor, "l n p"]:
        """Where ``Σ_m π_m E_m P(Y ≤ y | A f + b) = level``, for parts ``m n j``."""
        cdf, weights = self._cdf_under(parts), log_weights.exp().to(parts.mean)
        start = Mixture(log_weights, self.predict(parts)).moments()

        def below(y: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
            return torch.tensordot(weights, cdf(y.expand(len(weights), *y.shape)), 1)

        return torch.stack([_crossing(below, start, level, self.given.discrete) for level in levels])

    def _cdf_under(self, q: Gaussian) -> Callable[[Tensor], Tensor]:
        """:meth:`predictive_cdf` as a function of ``y``, with the scores at the nodes computed once."""
        scores, log_weights = self._at_nodes(q, narrow=True)
        weights = log_weights.exp()
        return lambda y: torch.tensordot(weights, self.given.cdf(y.expand(len(weights), *y.shape), scores), 1)

    def _at_nodes(
        self, q: Gaussian, narrow: bool = False, nodes: Callable[..., tuple[Tensor, Tensor]] = normal_nodes
    ) -> tuple[Float[Tensor, "k *s n c"], Float[Tensor, " k"]]:
        """Scores ``A m + b + R ε`` at nodes ``ε``, and their log weights; ``R`` as in :meth:`_root`.

        For ``narrow`` integrands (densities and steps) there are many different points along each score: a product of
        a few nodes along each axis would miss what lies between them.
        """
        root = self._root(q)
        dim = root.shape[-1]
        if narrow and dim == 1:
            points, log_weights = on_a_line(Gaussian(root.new_zeros(1, 1), root.new_ones(1, 1)))
        else:
            points, log_weights = nodes(max(dim, 3) if narrow else dim, root)
        shifts = torch.tensordot(points.flatten(1)[:, :dim], root, ([1], [root.dim() - 1]))
        return self.scores(q.mean) + shifts, log_weights

    def _root(self, q: Gaussian) -> Float[Tensor, "*s n c r"]:
        """``R`` with ``R Rᵀ = A diag(v) Aᵀ`` and as few columns as possible.

        ``A diag(√v)`` with J columns, or if C < J the Cholesky factor with C columns, with a jitter because scores may
        be dependent and of any scale.
        """
        scores, functions = self._size
        if scores >= functions:
            return self.weight.to(q.mean) * q.var.to(q.mean).sqrt().unsqueeze(-2)
        return cholesky(self.regular_covariance(q), "the covariance of mixed scores")

    def regular_covariance(self, q: Gaussian) -> Float[Tensor, "*s n c c"]:
        """:meth:`covariance` with a jitter of some roundings of each score's own variance."""
        covariance, limits = self.covariance(q), torch.finfo(q.mean.dtype)
        jitter = _ROUNDINGS * limits.eps * covariance.diagonal(dim1=-2, dim2=-1) + math.sqrt(limits.tiny)
        return covariance + torch.diag_embed(jitter)


def _log_normal(residual: Float[Tensor, "*s n c"], covariance: Float[Tensor, "*s n c c"]) -> Float[Tensor, "*s n"]:
    """``log N(residual; 0, covariance)`` of each row."""
    root = cholesky(covariance, "the covariance of mixed outputs")
    white = torch.linalg.solve_triangular(root, residual.unsqueeze(-1), upper=False).squeeze(-1)
    logs = root.diagonal(dim1=-2, dim2=-1).log() + 0.5 * math.log(2 * math.pi)
    return -(0.5 * white.square() + logs).sum(-1)


def _log_reciprocal_normal(
    residual: Float[Tensor, "*s n c"], covariance: Float[Tensor, "*s n c c"], noise: Float[Tensor, "..."]
) -> Float[Tensor, "*s n"]:
    """``log E 1/N(y; s, diag(noise))`` for scores ``s`` of the given covariance, ``residual`` from ``y``.

    With ``S`` the covariance and ``d`` the residual in units of the noise's standard deviations it is

        ½ Σ_c log 2π noise_c − ½ log|I − S| + ½ dᵀ (I − S)⁻¹ d,

    which exists if all eigenvalues of ``S`` are below 1; they are capped at 0.99, beyond which they have no gradient.
    """
    deviation = noise.sqrt().expand(residual.shape[-1])
    share = covariance / (deviation.unsqueeze(-1) * deviation)
    with torch.no_grad():
        values, vectors = torch.linalg.eigh(share)
        left = (vectors * (1 - values.clamp_max(_LARGEST_SHARE)).unsqueeze(-2)) @ vectors.mT
        free = (vectors * (values <= _LARGEST_SHARE).to(values).unsqueeze(-2)) @ vectors.mT
    left = left - free @ (share - share.detach()) @ free
    root = cholesky(left, "what leave-one-out densities leave of the noise")
    white = torch.linalg.solve_triangular(root, (residual / deviation).unsqueeze(-1), upper=False).squeeze(-1)
    logs = deviation.log() - root.diagonal(dim1=-2, dim2=-1).log() + 0.5 * math.log(2 * math.pi)
    return (0.5 * white.square() + logs).sum(-1)


def _crossing(below: Callable[[Tensor], Tensor], start: Gaussian, level: float, whole: bool) -> Float[Tensor, "n p"]:
    """Where increasing functions cross ``level``: doubling brackets until they contain it, then false position.

    The value at an end that stays is reduced by the rule of Anderson and Björck, and every fourth step halves the
    bracket: some fifteen evaluations instead of fifty. ``whole`` numbers step, so their brackets are always halved.
    """
    width = start.var.sqrt().clamp_min(torch.finfo(start.var.dtype).tiny)
    low, high = start.mean - width, start.mean + width
    under, over = below(low) - level, below(high) - level
    for _ in range(_STEPS):
        if bool(((under < 0) & (over >= 0)).all()):
            break
        width = 2 * width
        low, high = torch.where(under < 0, low, low - width), torch.where(over < 0, high + width, high)
        under, over = below(low) - level, below(high) - level
    near = max(_LEVEL_ERROR * min(level, 1 - level), _ROUNDINGS * torch.finfo(low.dtype).eps)
    half, last = torch.full_like(low, 0.5), torch.zeros_like(low)  # the end that the last step moved: −1 low, 1 high
    for step in range(_STEPS):
        middle = torch.lerp(low, high, half if whole or step % 4 == 3 else under / (under - over))
        value = below(middle) - level
        if not whole and bool((value.abs() < near).all()):
            break
        right = value < 0
        side, cut = torch.where(right, -1.0, 1.0), 1 - value / torch.where(right, under, over)
        cut = torch.where(last == side, torch.where(cut > 0, cut, half), 1.0)
        under, over = torch.where(right, value, cut * under), torch.where(right, cut * over, value)
        low, high = torch.where(right, middle, low), torch.where(right, high, middle)
        last = side
    return high.floor() if whole else middle
