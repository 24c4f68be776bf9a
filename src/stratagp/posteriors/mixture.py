"""Mixtures of Gaussians as posteriors, for beliefs with several modes.

The divergence of a mixture from the prior has no closed form, because its entropy has none. Two lower bounds on the
entropy give upper bounds on the divergence; with ``C_kl = S_k + S_l`` and ``d_kl = m_k − m_l`` over all functions,

    Jensen:          H ≥ −Σₖ πₖ log Σₗ πₗ N(d_kl; 0, C_kl),
    Bhattacharyya:   H ≥ Σₖ πₖ { H(qₖ) − log Σₗ πₗ ∫ √(qₖ qₗ) },

    log ∫ √(qₖ qₗ) = −¼ d_klᵀ C_kl⁻¹ d_kl − ½ log|C_kl / 2| + ¼ log|Sₖ| + ¼ log|Sₗ|.

The first (Gershman et al. 2012, AutoGP) is too low even for a single Gaussian, by ``½ (1 − log 2) = 0.153`` for each
inducing value of each function, while a second mode can gain no more than ``log 2``: use its bound on the evidence only
to compare mixtures of the same size. The second (Kolchinsky and Tracey 2017) is exact both for equal components and for
distant ones, at the same cost.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.linalg import cholesky
from stratagp.posteriors.base import Posterior
from stratagp.posteriors.diagonal import DiagonalGaussian
from stratagp.posteriors.gaussian import FullGaussian
from stratagp.posteriors.sizes import check_sizes
from stratagp.types import Gaussian, Mixture

_BOUNDS = ("jensen", "bhattacharyya")
_APART = 0.1  # initial standard deviation of the means; equal components would stay equal


class MixturePosterior(Posterior):
    """``q(v) = Σₖ πₖ Πⱼ N(meanₖⱼ, Sₖⱼ)``: all functions share a component and are independent within it.

    The components are one posterior ``components`` of ``k q`` functions, the functions of a component side by side; its
    means start at ``N(0, 0.1²)`` (at zero if there is one component), its covariances at the prior. The weights
    are ``softmax(logits)``.

    Arguments:
        m: the number of inducing values.
        q: the number of functions.
        n_components: K.
        full: whether covariances are full matrices rather than diagonal.
        entropy: the bound on the entropy, "bhattacharyya" or (as in AutoGP) "jensen"; a single component needs none.
        generator: the source of the initial means.

    >>> posterior = MixturePosterior(5, n_components=3, generator=torch.Generator().manual_seed(0))
    >>> posterior.marginals(torch.zeros(5, 2), torch.ones(2)).parts.mean.shape
    torch.Size([3, 2, 1])
    >>> MixturePosterior(5, n_components=1).kl().item()
    0.0
    """

    def __init__(
        self,
        m: int,
        q: int = 1,
        n_components: int = 2,
        full: bool = True,
        entropy: str = "bhattacharyya",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes(m, q, n_components)
        if entropy not in _BOUNDS:
            raise InputError(f"entropy must be one of {', '.join(_BOUNDS)}, got {entropy!r}")
        self.entropy = entropy
        self.components = (FullGaussian if full else DiagonalGaussian)(m, n_components * q)
        self.logits = nn.Parameter(torch.zeros(n_components, dtype=torch.float64))
        if n_components > 1:
            with torch.no_grad():
                self.components.mean.copy_(
                    _APART * torch.randn(n_components * q, m, generator=generator, dtype=torch.float64)
                )

    @property
    def shape(self) -> tuple[int, int]:
        """``(q, m)``."""
        functions, m = self.components.shape
        return functions // len(self.logits), m

    @property
    def log_weights(self) -> Float[Tensor, " k"]:
        """``log π``, in float64."""
        return self.logits.double().log_softmax(0)

    def marginals(self, a: Float[Tensor, "*q m n"], kdiag: Float[Tensor, "*q n"]) -> Mixture:
        """The marginals of each component, ``k n q``, and the log weights."""
        own = self.components.marginals(self._each(a, 2), self._each(kdiag, 1))
        parts = (part.unflatten(1, (len(self.logits), -1)).movedim(1, 0) for part in own)
        return Mixture(self.log_weights.to(a), Gaussian(*parts))

    def covariance(self, a: Float[Tensor, "*q m n"], k: Float[Tensor, "*q n n"]) -> Float[Tensor, "q n n"]:
        """``Σₖ πₖ { Covₖ + (μₖ − μ)(μₖ − μ)ᵀ }``: the joint covariance of all rows, for each function."""
        weights = self.log_weights.exp().to(a)
        within = self._apart(self.components.covariance(self._each(a, 2), self._each(k, 2)))
        means = self._apart(self.components.mean.to(a))[..., None, :] @ a
        gaps = (means - torch.tensordot(weights, means, 1)) * weights.sqrt()[:, None, None, None]
        return torch.tensordot(weights, within, 1) + (gaps.mT @ gaps).sum(0)

    def kl(self) -> Float[Tensor, ""]:
        """``−E log p(v) − H``: exact for one component, otherwise an upper bound, from a lower bound on ``H``."""
        if len(self.logits) == 1:
            return self.components.kl()
        squares = self._apart(self.components.mean.double()).square().sum((1, 2)) + self._traces()
        cross = 0.5 * (self.log_weights.exp() @ squares + math.prod(self.shape) * math.log(2 * math.pi))
        return cross - self._entropy()

    def draw(self, generator: torch.Generator | None = None) -> Float[Tensor, "q m"]:
        """A draw from a component chosen at random by weight."""
        weights = self.log_weights.detach().exp().cpu()
        chosen = int(torch.multinomial(weights, 1, generator=generator))
        return self.components.draw(generator).unflatten(0, (len(self.logits), -1))[chosen]

    def _entropy(self) -> Float[Tensor, ""]:
        """The lower bound on the entropy."""
        log_det, distance = self._pairs()
        size, log_weights = math.prod(self.shape), self.log_weights
        if self.entropy == "jensen":
            overlap = -0.5 * (size * math.log(2 * math.pi) + log_det + distance)
            own = torch.zeros_like(log_weights)
        else:
            single = log_det.diagonal() - size * math.log(2)
            halves = 0.25 * (single[:, None] + single)
            overlap = halves - 0.25 * distance - 0.5 * (log_det - size * math.log(2))
            own = 0.5 * (single + size * (1 + math.log(2 * math.pi)))
        return log_weights.exp() @ (own - torch.logsumexp(log_weights + overlap, 1))

    def _pairs(self) -> tuple[Float[Tensor, "k k"], Float[Tensor, "k k"]]:
        """``log|C_kl|`` and ``d_klᵀ C_kl⁻¹ d_kl`` for all pairs of components, summed over functions."""
        means = self._apart(self.components.mean.double())
        if isinstance(self.components, DiagonalGaussian):
            variances = self._apart(self.components.scale.square())
            sums, gaps = variances[:, None] + variances, means[:, None] - means
            return sums.log().sum((2, 3)), (gaps.square() / sums).sum((2, 3))
        scales = self._apart(self.components.scale.double().tril())
        own = scales.diagonal(dim1=-2, dim2=-1).square().log().sum((1, 2)) + means[0].numel() * math.log(2)
        log_det, distance = _pairs_of_matrices(means, scales @ scales.mT)
        return log_det + torch.diag(own), distance

    def _traces(self) -> Float[Tensor, " k"]:
        """``tr Sₖ``, summed over functions."""
        scale = self.components.scale.double()
        full = isinstance(self.components, FullGaussian)
        return self._apart(scale.tril() if full else scale).square().flatten(1).sum(1)

    def _apart(self, values: Float[Tensor, " kq *rest"]) -> Float[Tensor, "k q *rest"]:
        return values.unflatten(0, (len(self.logits), -1))

    def _each(self, values: Float[Tensor, "*shape"], axes: int) -> Float[Tensor, "*more"]:
        """Repeat values for each component if each function has its own; shared values have ``axes`` axes."""
        if values.dim() == axes:
            return values
        return values.expand(len(self.logits), *values.shape).flatten(0, 1)


def _pairs_of_matrices(
    means: Float[Tensor, "k q m"], covariances: Float[Tensor, "k q m m"]
) -> tuple[Float[Tensor, "k k"], Float[Tensor, "k k"]]:
    """``log|C_kl|`` and ``d_klᵀ C_kl⁻¹ d_kl``, summed over functions, from one factor for each pair; zero for k = l."""
    first, second = torch.triu_indices(len(means), len(means), 1, device=means.device)
    factor = cholesky(covariances[first] + covariances[second], "the sum of two components' covariances")
    gaps = torch.linalg.solve_triangular(factor, (means[first] - means[second])[..., None], upper=False)
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum((1, 2))
    table = means.new_zeros(2, len(means), len(means))
    table[:, first, second] = torch.stack([log_det, gaps.square().sum((1, 2, 3))])
    both = table + table.mT
    return both[0], both[1]
